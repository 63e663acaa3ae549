"""Branches and loops of nets: each net within runs in a scope of blobs of its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from caffe2.python import core
from tazza.proto import NetDef


class Bound(NamedTuple):
    """A net of one `Do`, which runs another in a scope; what it reads, and what it writes."""

    net: NetDef
    inputs: list[str]
    outputs: list[str]


def get_external_blob_names(net: Any, lexical_scope: Iterable[Any]) -> tuple[list[str], list[str]]:
    """Return what a net reads from outside, and what it writes of the blobs that are visible there.

    Raises:
        AssertionError: it reads one that is not.
    """
    visible = set(map(str, lexical_scope))
    proto = net.Proto()
    reads = list(dict.fromkeys(proto.external_input))
    assert set(reads) <= visible, f"the net {net.Name()} reads {sorted(set(reads) - visible)}, which is not visible"
    writes = dict.fromkeys(name for op in proto.op for name in op.output if name in visible)
    return reads, list(writes)


def _bound(name: str, net: Any, scope: Any, visible: Iterable[Any], copied: bool = False) -> Bound:
    """Return a net that runs another in a scope, bound to the blobs that are visible."""
    reads, writes = get_external_blob_names(net, visible)
    names = list(dict.fromkeys([*reads, *writes]))
    inputs, outputs = [*reads, str(scope)], [*writes, str(scope)]
    outside = [*reads, *writes]
    made = core.Net(f"do_{name}")
    arguments: dict[str, Any] = {"net": net.Proto(), "inner_blobs": names}
    arguments["outer_blobs_idx"] = [outside.index(name) for name in names]
    if copied:
        arguments["copy_external_blobs"] = True
    proto = NetDef(name=made.Name())
    proto.op.append(core.CreateOperator("Do", inputs, outputs, **arguments))
    proto.external_input.extend(inputs)
    proto.external_output.extend(outputs)
    return Bound(proto, inputs, outputs)


def _add(net: Any, op_type: str, condition: Any, nets: dict[str, Bound]) -> None:
    inputs = [str(condition), *dict.fromkeys(name for one in nets.values() for name in one.inputs)]
    outputs = dict.fromkeys(name for one in nets.values() for name in one.outputs)
    arguments = {key: one.net for key, one in nets.items()}
    references = [[core.BlobReference(name) for name in names] for names in (inputs, outputs)]
    made = getattr(net, op_type)(*references, **arguments)
    net.AddExternalOutput(*(made if isinstance(made, tuple) else (made,)))


def _scope(net: Any, name: str) -> Any:
    return net.CreateScope([], net.NextName(name))


def add_if_op(if_net: Any, cond_blob: Any, lexical_scope: Iterable[Any], then_net: Any, else_net: Any = None) -> None:
    """Add an `If` that runs one of two nets; they may write the blobs of `lexical_scope`."""
    visible = [*lexical_scope]
    given = {"then": then_net} | ({} if else_net is None else {"else": else_net})
    scopes = {key: _scope(if_net, f"workspace_if_{key}") for key in given}
    nets = {f"{key}_net": _bound(f"{key}_net", net, scopes[key], visible) for key, net in given.items()}
    _add(if_net, "If", cond_blob, nets)


def add_while_op(
    while_net: Any, cond_blob: Any, lexical_scope: Iterable[Any], loop_body_net: Any, condition_body_net: Any = None
) -> None:
    """Add a `While` that runs a net as long as a blob holds true; another may compute it anew before each run."""
    visible = [*lexical_scope]
    if condition_body_net is not None:
        while_net.ConstantFill([], cond_blob, dtype=core.DataType.BOOL, value=False)
    body = _scope(while_net, "workspace_loop_body")
    nets = {"loop_net": ("loop_body_net", loop_body_net, body, visible, True)}
    if condition_body_net is not None:
        scope = _scope(while_net, "workspace_loop_cond")
        nets["cond_net"] = ("loop_condition_net", condition_body_net, scope, [*visible, cond_blob], False)
    _add(while_net, "While", cond_blob, {key: _bound(*given) for key, given in nets.items()})
