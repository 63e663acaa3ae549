"""Nets that come from files and are run when a model is loaded: what they may do, and which blobs they make."""

from __future__ import annotations

import itertools

from tazza.errors import FormatError, OutOfMemoryError
from tazza.operator import KERNELS, find_argument, find_schema
from tazza.proto import NetDef, OperatorDef
from tazza.runtime.memory import available_bytes
from tazza.tensor import TensorSpec
from tazza.workspace import Workspace


def run_init_net(net: NetDef, workspace: Workspace, *, source: str, reader: str | None = None) -> None:
    """Run a net that makes parameters, after a look at each of its operators.

    Only operators that compute tensors may run, and `Load` from the blob `reader`, which reads the very file that is
    being loaded. So loading writes no file and reads no other.

    Args:
        net: what the file says.
        workspace: where the blobs go.
        source: the file, for messages.
        reader: name of the blob that holds the file's own reader.

    Raises:
        FormatError: an operator would do something else; nothing has run then.
        UnknownOperatorError: an operator that tazza does not know.
        OutOfMemoryError: its fills make more than the machine's memory holds; nothing has run then.
    """
    for position, op in enumerate(net.op):
        if not _only_computes(op) and not _loads_from(op, reader):
            raise FormatError(
                f"{source}: operator {position} of net {net.name!r} is {op.type}, which does more than compute tensors",
                hint="run such a net yourself: Workspace().run_net_once(net)",
            )
    _check_size(net, source)
    workspace.run_net_once(net)


def _check_size(net: NetDef, source: str) -> None:
    """Refuse a net that fills more memory than there is: a file of a few bytes can ask for any shape."""
    limit = available_bytes()
    wanted = 0
    for op in net.op:
        if not op.input:
            schema = find_schema(op.type)
            specs = schema.infer_specs(schema.view(op), []).specs
            wanted += sum(
                s.nbytes for s in specs if isinstance(s, TensorSpec) and s.dims is not None and None not in s.dims
            )
    if limit is not None and wanted > limit:
        raise OutOfMemoryError(
            f"{source}: net {net.name!r} fills {wanted} bytes, and {limit} are available to this process",
            hint="check the shapes in the file, or give the process more memory",
        )


def _only_computes(op: OperatorDef) -> bool:
    find_schema(op.type)
    kernel = KERNELS.get((op.type, "cpu", "reference"))
    return kernel is not None and kernel.host is None


def _loads_from(op: OperatorDef, reader: str | None) -> bool:
    paths = [find_argument(op, name) for name in ("db", "dbs")]
    return op.type == "Load" and reader is not None and list(op.input) == [reader] and paths == [None, None]


def placeholders(init_net: NetDef, predict_net: NetDef) -> set[str]:
    """Return the blobs that an init net makes only so that they exist: those that the caller feeds.

    Exporters write them last, as fills with a single 0, and the predict net lists them first. Both must hold, since a
    parameter may be a single 0 as well.
    """
    zeros: set[str] = set()
    for op in reversed(init_net.op):
        values = find_argument(op, "values")
        if op.input or values is None or list(values.floats) != [0.0]:
            break
        zeros.update(op.output)
    return set(itertools.takewhile(zeros.__contains__, predict_net.external_input))
