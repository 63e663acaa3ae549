"""One of two nets: If. Both run in the workspace of the operator, so that what they write is there afterwards.

Blobs:  condition (one bool), X (anything that the nets read) -> Y (anything that they write). X and Y need not be
complete: what the nets touch counts, named or not.
"""

from __future__ import annotations

from tazza.operator import (
    Effects,
    GradientRequest,
    Operator,
    OpView,
    OwnedNets,
    Role,
    anything,
    arg,
    blob,
    host_kernel,
    one_value,
    schema,
)
from tazza.ops.control.nested_gradient import backward_of_either, gradient_net, operator_of_either
from tazza.proto import NetDef, OperatorDef
from tazza.tensor import Blob, DataType

IF = schema(
    "If",
    "Runs `then_net` where the condition holds, else `else_net`, or nothing where there is none.",
    inputs=[
        blob("condition", DataType.BOOL, doc="of one element"),
        blob("X", type_name="*", optional=True, variadic=True, role=Role.DATA),
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
    example="""
        >>> run("If", np.array(True), 3.0, outputs=1, then_net=net("out0 = Scale(in1; scale=2.0)"))
        array(6., dtype=float32)
    """,
)


def branches(op: OpView) -> list[NetDef]:
    """Return one net, or two."""
    return [op.then_net] if op.else_net is None else [op.then_net, op.else_net]


def if_gradient(g: GradientRequest) -> list[OperatorDef]:
    """Emit an If of the backward passes of both nets, each of which leaves the gradients of all that either gives."""
    then = g.op.then_net
    forward = branches(g.op)
    found = backward_of_either(g, forward if len(forward) == 2 else [then, NetDef()])
    if found is None:
        return []
    nets = found.nets
    if g.op.else_net is None:
        nets[1] = gradient_net(then, nets[1].op)
        nets[1].name = f"{nets[0].name}_auto_else_zero_blobs_" if then.name else ""
    nets = nets if g.op.else_net is not None or nets[1].op else nets[:1]
    return operator_of_either(g, found, dict(zip(("then_net", "else_net"), nets, strict=False)))


IF.runs_one_of("then_net", "else_net")
IF.gradient(if_gradient, copy_arguments=False)


@host_kernel(IF)
class If:
    """Has both nets, made with the operator."""

    def __init__(self, operator: Operator) -> None:
        self.nets = OwnedNets(operator)
        op = operator.op
        self._then = self.nets.make(op.then_net)
        self._else = None if op.else_net is None else self.nets.make(op.else_net)

    def run(self, op: OpView, condition: Blob) -> None:
        net = self._then if one_value(op, "condition", condition) else self._else
        if net is not None:
            net.run()
