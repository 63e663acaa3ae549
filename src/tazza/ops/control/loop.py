"""A net again and again: While. Both nets run in the workspace of the operator.

Blobs:  condition (one bool), X (anything that the nets read) -> Y (anything that they write), as those of `If`.
"""

from __future__ import annotations

from tazza.errors import GradientError
from tazza.operator import (
    Effects,
    GradientRequest,
    Operator,
    OpView,
    OwnedNets,
    Role,
    Touched,
    anything,
    arg,
    blob,
    host_kernel,
    one_value,
    schema,
    touched_by,
)
from tazza.operator.touches import in_turn
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

WHILE = schema(
    "While",
    """Runs `loop_net` as long as the condition holds; `cond_net` runs before each look at it.""",
    inputs=[
        blob("condition", DataType.BOOL, doc="of one element"),
        blob("X", type_name="*", optional=True, variadic=True, role=Role.DATA),
    ],
    outputs=[blob("Y", type_name="*", optional=True, variadic=True)],
    args=[
        arg("loop_net", NetDef, doc="the body"),
        arg("cond_net", NetDef, None, doc="writes the condition; without it the body has to"),
    ],
    in_place=anything(),
    effects=Effects.WORKSPACE,
    lists_anything=True,
    source="Caffe2",
)
COND_NET = "gradient_loop_cond_net"
"""The net that asks whether there are rounds left whose gradient is yet to come."""


@WHILE.touches
def while_touches(op: OpView) -> Touched:
    before = Touched() if op.cond_net is None else touched_by(op.cond_net)
    body = touched_by(op.loop_net)
    return in_turn([before, body.then(before).perhaps()])


def while_gradient(g: GradientRequest) -> list[OperatorDef]:
    """Emit a While of the backward pass of one round, which runs as long as there are scopes of rounds.

    The gradient of what a round hands to the next one goes from round to round under one name. That of what all rounds
    read is the sum over them; a blob of its own takes it, zeros at first.

    Raises:
        GradientError: the body is not one `Do` that keeps a scope for each round.
    """
    op, definition = g.op, g.definition
    body = _body(op)
    copies, given = given_gradients(g, len(definition.output))
    back = g.backward(op.loop_net, dict(given))
    if not back.ops:
        return []
    scope, asked = body.output[-1], f"{COND_NET}/cond"
    first, again = [_has_scope(scope, asked)], [_has_scope(scope, asked)]
    round_ops = [*back.ops]
    handed_on = touched_by(op.loop_net).writes
    for index, name in enumerate(definition.input):
        gradient = dense(g, name, back.given.get(name))
        if gradient is None and name in given:  # a round overwrites it, so that those before it have no part in it
            gradient = given[name]
            round_ops.append(zeros_like(g.like(index), gradient))
        if gradient is None:
            continue
        if name in given and gradient != given[name]:
            first.append(copied(given[name], gradient))
            again.append(copied(gradient, given[name]))
        elif name not in handed_on:
            total = f"_{gradient}_of_all_rounds"
            first.append(zeros_like(g.like(index), total))
            round_ops.append(OperatorDef(type="Sum", input=[total, gradient], output=[total]))
            gradient = total
        g.pass_to(index, gradient)
    nets = {"loop_net": gradient_net(op.loop_net, round_ops), "cond_net": NetDef(name=COND_NET, op=again)}
    made = gradient_operator(definition, nets)
    reads, writes = names_of([nets["loop_net"]])
    made.input.extend((asked, *(name for name in reads if name != asked)))
    made.output.extend(writes)
    return [*copies, *first, made]


WHILE.gradient(while_gradient, copy_arguments=False)


def _body(op: OpView) -> OperatorDef:
    ops = op.loop_net.op
    if len(ops) != 1 or ops[0].type != "Do":
        raise GradientError(
            f"While: its body is {', '.join(one.type for one in ops)}, a gradient needs one Do",
            hint="put the body into a Do, whose scopes keep what each round made",
        )
    if any(argument.name == "reuse_workspace" and argument.i for argument in ops[0].arg):
        raise GradientError("While: its Do runs all rounds in one scope, so that nothing is left for the gradient")
    return ops[0]


def _has_scope(scope: str, asked: str) -> OperatorDef:
    return OperatorDef(type="HasScope", input=[scope], output=[asked])


@host_kernel(WHILE)
class While:
    """Has both nets, made with the operator."""

    def __init__(self, operator: Operator) -> None:
        self.nets = OwnedNets(operator)
        op = operator.op
        self._check = operator.check
        self._body = self.nets.make(op.loop_net)
        self._before = None if op.cond_net is None else self.nets.make(op.cond_net)

    def run(self, op: OpView, condition: Blob) -> None:
        while True:
            self._check()
            if self._before is not None:
                self._before.run()
            if not one_value(op, "condition", condition):
                return
            self._body.run()
