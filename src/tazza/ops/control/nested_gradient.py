"""What the gradients of If, While and Do have in common: nets of gradient operators inside of an operator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tazza.errors import GradientError
from tazza.operator import Gradient, GradientRequest, RowSlices, touched_by
from tazza.proto import NetDef, OperatorDef


def given_gradients(g: GradientRequest, count: int) -> tuple[list[OperatorDef], dict[str, str]]:
    """Return the gradients of the first `count` outputs, by output; what copies those that stand for several.

    A net is told one name for each gradient, so one that `Sum` or `Copy` passed to two outputs becomes two blobs.
    """
    copies: list[OperatorDef] = []
    given: dict[str, str] = {}
    for index in range(count):
        if g.output_gradients[index] is None:
            continue
        output, gradient = g.O(index), g.GO(index)
        if gradient in given.values():
            copies.append(OperatorDef(type="Copy", input=[gradient], output=[f"{output}_{gradient}_DEDUP"]))
            gradient = copies[-1].output[0]
        given[output] = gradient
    return copies, given


def gradient_net(forward: NetDef, ops: Iterable[OperatorDef]) -> NetDef:
    """Return the net of the gradient operators of a net: of its type, called after it."""
    made = NetDef()
    made.CopyFrom(forward)
    del made.op[:], made.external_input[:], made.external_output[:]
    if forward.name:
        made.name = f"{forward.name}_grad"
    made.op.extend(ops)
    return made


def gradient_operator(forward: OperatorDef, nets: Mapping[str, NetDef]) -> OperatorDef:
    """Return the gradient operator of one with nets: the same, with others nets, and no inputs and outputs yet."""
    made = OperatorDef()
    made.CopyFrom(forward)
    del made.input[:], made.output[:], made.control_input[:], made.arg[:]
    if forward.name:
        made.name = f"{forward.name}_grad"
    for name, net in nets.items():
        made.arg.add(name=name).n.CopyFrom(net)
    made.is_gradient_op = True
    return made


def dense(g: GradientRequest, blob: str, gradient: Gradient) -> str | None:
    """Return the gradient of a blob.

    Raises:
        GradientError: it is one of rows, which nets within operators do not give yet.
    """
    if isinstance(gradient, RowSlices):
        raise GradientError(
            f"{g.definition.type}: the gradient of {blob!r} is sparse, which nets within operators do not give yet",
            hint="read the table outside of the net",
        )
    return gradient


def zeros_like(blob: str, name: str) -> OperatorDef:
    """Return what makes the gradient of a blob on which nothing depends."""
    made = OperatorDef(type="ConstantFill", input=[blob], output=[name])
    made.arg.add(name="value").f = 0.0
    return made


def copied(source: str, target: str) -> OperatorDef:
    """Return what copies a gradient."""
    return OperatorDef(type="Copy", input=[source], output=[target])


def names_of(nets: Iterable[NetDef]) -> tuple[list[str], list[str]]:
    """Return what alternative nets read of the workspace, and what they write."""
    touched = [touched_by(net) for net in nets]
    reads = dict.fromkeys(name for each in touched for name in each.reads)
    return list(reads), list(dict.fromkeys(name for each in touched for name in each.writes))
