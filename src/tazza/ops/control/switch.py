"""One of many nets: Switch. They run in the workspace of the operator, so that what they write is there afterwards.

Blobs:  index (one integer), X (anything that the nets read) -> Y (anything that they write), as those of `If`.
"""

from __future__ import annotations

from tazza.errors import ArgumentError, BoundsError
from tazza.operator import (
    INDEX,
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
from tazza.ops.control.nested_gradient import backward_of_either, operator_of_either
from tazza.proto import NetDef, OperatorDef
from tazza.tensor import Blob

SWITCH = schema(
    "Switch",
    """Runs net number `index` of `branches`, counted from 0; `default_net` where there is none of that number.

    Without `default_net` an index out of range is refused. A negative one is out of range.""",
    inputs=[
        blob("index", INDEX, role=Role.INDEX, doc="of one element"),
        blob("X", type_name="*", optional=True, variadic=True, role=Role.DATA),
    ],
    outputs=[blob("Y", type_name="*", optional=True, variadic=True)],
    args=[
        arg("branches", list[NetDef], doc="of which one runs"),
        arg("default_net", NetDef, None, doc="runs where the index is out of range"),
    ],
    in_place=anything(),
    effects=Effects.WORKSPACE,
    lists_anything=True,
    source="tazza: If with more than two nets",
    example="""
        >>> branches = [net("out0 = Scale(in1; scale=2.0)"), net("out0 = Relu(in1)")]
        >>> run("Switch", np.array(1), [-1.0, 2.0], outputs=1, branches=branches)
        array([0., 2.], dtype=float32)
    """,
)


@SWITCH.validate
def switch_validate(op: OpView) -> None:
    if not op.branches:
        raise op.error(
            ArgumentError, "it has 0 branches, it must have at least 1", hint="give `branches` a list of nets"
        )


def chosen(op: OpView, index: Blob) -> int:
    """Return which of the branches runs: their number where it is `default_net`.

    Raises:
        ShapeError, DTypeError: as `one_value`.
        BoundsError: the index is out of range, and there is no `default_net`.
    """
    value, count = int(one_value(op, "index", index)), len(op.branches)
    if 0 <= value < count:
        return value
    if op.default_net is None:
        raise op.error(
            BoundsError,
            f"the index {index.name!r} is {value}, it must be in [0, {count}): there are {count} branches",
            hint="give a `default_net`, which runs for every other index",
        )
    return count


def nets_of(op: OpView) -> list[NetDef]:
    """Return the branches, and behind them the default where there is one."""
    return [*op.branches] if op.default_net is None else [*op.branches, op.default_net]


def switch_gradient(g: GradientRequest) -> list[OperatorDef]:
    """Emit a Switch of the backward passes, each of which leaves the gradients of all that any of them gives."""
    found = backward_of_either(g, nets_of(g.op))
    if found is None:
        return []
    count = len(g.op.branches)
    nets: dict[str, NetDef | list[NetDef]] = {"branches": found.nets[:count]}
    if g.op.default_net is not None:
        nets["default_net"] = found.nets[count]
    return operator_of_either(g, found, nets)


SWITCH.runs_one_of("branches", "default_net", refused_without=["default_net"])
SWITCH.gradient(switch_gradient, copy_arguments=False)


@host_kernel(SWITCH)
class Switch:
    """Has all nets, made with the operator."""

    def __init__(self, operator: Operator) -> None:
        self.nets = OwnedNets(operator)
        self._made = [self.nets.make(net) for net in nets_of(operator.op)]

    def run(self, op: OpView, index: Blob) -> None:
        self._made[chosen(op, index)].run()
