"""Nets that come from files and are run when a model is loaded: what they may do."""

from __future__ import annotations

from tazza.errors import OutOfMemoryError, TazzaError
from tazza.graph.inference import infer_operator
from tazza.operator import SCHEMAS, Spec, check_trust, find_argument
from tazza.operator.trust import LOADED
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
        OutOfMemoryError: its blobs are larger than the memory that is available; nothing has run then.
    """
    check_trust(_without_own_loads(net, reader), LOADED, source=source, trust=trust)
    _check_size(net, source)
    workspace.run_net_once(net)


def _check_size(net: NetDef, source: str) -> None:
    """Refuse a net whose blobs hold more memory than there is: a file of a few bytes can ask for any shape.

    Counted is what follows from the net without running it. Sizes that follow from values are refused one by one, when
    they are allocated.
    """
    limit = available_bytes()
    if limit is None:
        return
    specs: dict[str, Spec | None] = {}
    wanted = 0
    for op in net.op:
        try:
            made = infer_operator(op, specs, only_declared=True)
        except TazzaError:
            return  # the run tells what is wrong, and gets no further
        for name, spec in zip(op.output, made.outputs, strict=True):
            wanted += _nbytes(spec) - _nbytes(specs.get(name))
            specs[name] = spec
        if wanted > limit:
            break
    if wanted > limit:
        raise OutOfMemoryError(
            f"{source}: net {net.name!r} makes {wanted} bytes of blobs, and {limit} are available to this process",
            hint="check the shapes in the file, or give the process more memory",
        )


def _nbytes(spec: Spec | None) -> int:
    return spec.nbytes if isinstance(spec, TensorSpec) and spec.shape_known else 0


def _without_own_loads(net: NetDef, reader: str | None) -> NetDef:
    """Return a net without what reads the model's own file; nobody may have put another reader in its place."""
    if reader is None or any(reader in op.output for op in net.op):
        return net
    made = NetDef(name=net.name)
    replaced = False
    for op in net.op:
        if replaced or not _reads_only(op, reader):
            made.op.append(op)
        # Of a record that is called as the reader, `load_all` would make another one.
        load_all = find_argument(op, "load_all")
        replaced = replaced or (load_all is not None and bool(load_all.i))
    return made


def _reads_only(op: OperatorDef, reader: str) -> bool:
    """Whether all that an operator takes is that reader, and it declares to read outside through that alone."""
    schema = SCHEMAS.get(op.type)
    return schema is not None and list(op.input) == [reader] and schema.readers_of(schema.typed_view(op)) == (reader,)
