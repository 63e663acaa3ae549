"""What the gradients of If, Switch, While and Do have in common: nets of gradient operators inside of an operator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tazza.errors import GradientError
from tazza.operator import Gradient, GradientRequest, RowSlices, make_argument, touched_by
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


def gradient_operator(forward: OperatorDef, nets: Mapping[str, NetDef | Sequence[NetDef]]) -> OperatorDef:
    """Return the gradient operator of one with nets: the same, with others nets, and no inputs and outputs yet."""
    made = OperatorDef()
    made.CopyFrom(forward)
    del made.input[:], made.output[:], made.control_input[:], made.arg[:]
    if forward.name:
        made.name = f"{forward.name}_grad"
    made.arg.extend(make_argument(name, value) for name, value in nets.items())
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


class Alternatives(NamedTuple):
    """The backward passes of nets of which one ran.

    Args:
        copies: what runs before, whichever it was.
        nets: one for each; all of them leave the gradients of the inputs that any of them gives.
        reads: what they read of the workspace.
        writes: what they write, less what is theirs alone.
    """

    copies: list[OperatorDef]
    nets: list[NetDef]
    reads: list[str]
    writes: list[str]


def backward_of_either(g: GradientRequest, forward: Sequence[NetDef]) -> Alternatives | None:
    """Declare the gradients of the inputs of an operator that runs one of several nets; None where there are none.

    A net that does not reach a blob leaves zeros, or what was given for a blob that it does not touch.
    """
    definition = g.definition
    copies, given = given_gradients(g, len(definition.output))
    backs = [g.backward(net, dict(given)) for net in forward]
    if not any(back.ops for back in backs):
        return None
    nets = [gradient_net(net, back.ops) for net, back in zip(forward, backs, strict=True)]
    reads, writes = names_of(nets)
    for index, name in enumerate(definition.input):
        found = [dense(g, name, back.given.get(name)) for back in backs]
        chosen = _name_of(name, found, given.get(name))
        if chosen is None:
            continue
        for net, gradient in zip(nets, found, strict=True):
            if gradient is None:
                net.op.append(zeros_like(g.like(index), chosen))
            elif gradient != chosen:
                net.op.append(copied(gradient, chosen))
        if chosen not in writes and any(chosen in one.output for net in nets for one in net.op):
            writes.append(chosen)
        g.pass_to(index, chosen)
    return Alternatives(copies, nets, reads, writes)


def operator_of_either(
    g: GradientRequest, found: Alternatives, nets: Mapping[str, NetDef | Sequence[NetDef]]
) -> list[OperatorDef]:
    """Return the gradient of an operator that runs one of several nets, which its first input chooses.

    Raises:
        GradientError: the nets overwrite that input, so that nothing tells any more which of them ran.
    """
    made = gradient_operator(g.definition, nets)
    chooses = g.I(0)
    made.input.extend((chooses, *(name for name in found.reads if name != chooses)))
    made.output.extend(found.writes)
    return [*found.copies, made]


def _name_of(blob: str, found: list[str | None], given: str | None) -> str | None:
    """Return under which name the gradient of an input stands after either net; None where it has none.

    That which a net makes, else the given one where no net touches the blob; else a new one for what a net overwrites.
    """
    made = [name for name in found if name is not None and name != given]
    if made:
        return made[0]
    if given is None or all(name is None for name in found):
        return None
    return given if None not in found else f"_{blob}_grad_before"
