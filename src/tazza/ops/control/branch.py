"""One of two nets: If. Both run in the workspace of the operator, so that what they write is there afterwards.

Blobs:  condition (one bool), X (anything that the nets read) -> Y (anything that they write). X and Y need not be
complete: what the nets touch counts, named or not.
"""

from __future__ import annotations

from tazza.errors import DTypeError, ShapeError
from tazza.operator import (
    Cost,
    Effects,
    GradientRequest,
    Operator,
    OpView,
    OwnedNets,
    Touched,
    anything,
    arg,
    blob,
    host_kernel,
    schema,
    touched_by,
)
from tazza.operator.gradient import Derivative
from tazza.ops.control.nested_gradient import (
    copied,
    dense,
    given_gradients,
    gradient_net,
    gradient_operator,
    names_of,
    zeros_like,
)
from tazza.proto import NetDef, OperatorDef
from tazza.tensor import Blob, DataType

IF = schema(
    "If",
    "Runs `then_net` where the condition holds, else `else_net`, or nothing where there is none.",
    inputs=[
        blob("condition", DataType.BOOL, doc="of one element"),
        blob("X", type_name="*", optional=True, variadic=True),
    ],
    outputs=[blob("Y", type_name="*", optional=True, variadic=True)],
    args=[
        arg("then_net", NetDef, doc="runs where the condition holds"),
        arg("else_net", NetDef, None, doc="runs where it does not"),
    ],
    in_place=anything(),
    effects=Effects.WORKSPACE,
    lists_anything=True,
    source="Caffe2",
)


def holds(op: OpView, condition: Blob) -> bool:
    """Return the value of a condition.

    Raises:
        ShapeError: it has not one element.
        DTypeError: it is not bool.
    """
    tensor = condition.tensor()
    if tensor.size != 1:
        raise op.error(ShapeError, f"the condition {condition.name!r} has {tensor.size} elements, it must have 1")
    if tensor.dtype is not DataType.BOOL:
        raise op.error(DTypeError, f"the condition {condition.name!r} is {tensor.dtype.label}, it must be bool")
    return bool(tensor.plain().reshape(()))


def branches(op: OpView) -> list[NetDef]:
    """Return one net, or two."""
    return [op.then_net] if op.else_net is None else [op.then_net, op.else_net]


@IF.touches
def if_touches(op: OpView) -> Touched:
    other = Touched() if op.else_net is None else touched_by(op.else_net)
    return touched_by(op.then_net).or_else(other)


@IF.cost
def if_cost(op: OpView, **blobs: object) -> Cost:
    """Nothing: what costs are the operators of its nets."""
    del op, blobs
    return Cost()


def if_gradient(g: GradientRequest) -> list[OperatorDef]:
    """Emit an If of the backward passes of both nets, each of which leaves the gradients of all that either gives.

    A net that does not reach a blob leaves zeros, or what was given for a blob that it does not touch.
    """
    op, definition = g.op, g.definition
    copies, given = given_gradients(g, len(definition.output))
    backs = [g.backward(net, dict(given)) for net in branches(op)]
    if not any(back.ops for back in backs):
        return []
    nets = [gradient_net(net, back.ops) for net, back in zip(branches(op), backs, strict=True)]
    reads, writes = names_of(nets)
    if len(nets) == 1:
        backs.append(Derivative((), dict(given)))
        nets.append(gradient_net(op.then_net, ()))
        nets[1].name = f"{nets[0].name}_auto_else_zero_blobs_" if op.then_net.name else ""
    for index, name in enumerate(definition.input):
        found = [dense(g, name, back.given.get(name)) for back in backs]
        chosen = _name_of(name, found, given.get(name))
        if chosen is None:
            continue
        for net, gradient in zip(nets, found, strict=True):
            if gradient is None:
                net.op.append(zeros_like(name, chosen))
            elif gradient != chosen:
                net.op.append(copied(gradient, chosen))
        if chosen not in writes and any(chosen in one.output for net in nets for one in net.op):
            writes.append(chosen)
        g.pass_to(index, chosen)
    nets = nets if op.else_net is not None or nets[1].op else nets[:1]
    made = gradient_operator(definition, dict(zip(("then_net", "else_net"), nets, strict=False)))
    condition = definition.input[0]
    made.input.extend((condition, *(name for name in reads if name != condition)))
    made.output.extend(writes)
    return [*copies, made]


IF.gradient(if_gradient, copy_arguments=False)


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


@host_kernel(IF)
class If:
    """Has both nets, made with the operator."""

    def __init__(self, operator: Operator) -> None:
        self.nets = OwnedNets(operator)
        op = operator.op
        self._then = self.nets.make(op.then_net)
        self._else = None if op.else_net is None else self.nets.make(op.else_net)

    def run(self, op: OpView, condition: Blob) -> None:
        net = self._then if holds(op, condition) else self._else
        if net is not None:
            net.run()
