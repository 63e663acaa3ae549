"""Nets that come from files and are run when a model is loaded: what they may do."""

from __future__ import annotations

from tazza.errors import OutOfMemoryError
from tazza.operator import Effects, check_trust, find_argument, find_schema
from tazza.operator.trust import LOADED
from tazza.ops.data.checkpoint import LOAD
from tazza.proto import NetDef, OperatorDef
from tazza.runtime.memory import available_bytes
from tazza.tensor import TensorSpec
from tazza.workspace import Workspace


def run_init_net(
    net: NetDef, workspace: Workspace, *, source: str, reader: str | None = None, trust: bool = False
) -> None:
    """Run a net that makes parameters, after a look at each of its operators.

    Only operators that compute tensors and draw numbers may run, and `Load` from the blob `reader`, which reads the
    very file that is being loaded. So loading writes no file and reads no other.

    Args:
        net: what the file says.
        workspace: where the blobs go.
        source: the file, for messages.
        reader: name of the blob that holds the file's own reader.
        trust: let it do what it likes.

    Raises:
        TrustError: an operator would do something else; nothing has run then.
        UnknownOperatorError: an operator that tazza does not know.
        OutOfMemoryError: its fills make more than the machine's memory holds; nothing has run then.
    """
    check_trust(_without_own_loads(net, reader), Effects.IO if trust else LOADED, source=source)
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


def _without_own_loads(net: NetDef, reader: str | None) -> NetDef:
    """Return a net without what reads the model's own file; nobody may have put another reader in its place."""
    if reader is None or any(reader in op.output for op in net.op):
        return net
    made = NetDef(name=net.name)
    replaced = False
    for op in net.op:
        if replaced or not _loads_from(op, reader):
            made.op.append(op)
        # Of a record that is called as the reader, `load_all` would make another one.
        load_all = find_argument(op, "load_all")
        replaced = replaced or (load_all is not None and bool(load_all.i))
    return made


def _loads_from(op: OperatorDef, reader: str) -> bool:
    paths = [find_argument(op, name) for name in ("db", "dbs")]
    return op.type == LOAD.type and list(op.input) == [reader] and paths == [None, None]
