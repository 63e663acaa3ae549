"""LearningRate: policies that are one formula of the iteration, in float64; the others are left to Python."""

from __future__ import annotations

from tazza.codegen.block import BlockLaunch
from tazza.codegen.fields import Fields
from tazza.codegen.function import Emission
from tazza.codegen.loop import when
from tazza.codegen.term import Lines
from tazza.codegen.vector import Vector
from tazza.engines.native import SOURCES, native
from tazza.errors import NumericError
from tazza.operator import Expression, Launch, Operands, OpView, Unsupported
from tazza.ops.optimizer.learning_rate import LEARNING_RATE, POLICIES
from tazza.tensor import DataType

BLOCK = Fields("threads", addresses="t:i64 lr")


@native(LEARNING_RATE)
def prepare_learning_rate(op: OpView) -> Launch:
    """Compile LearningRate."""
    policy = POLICIES[op.policy]
    if policy.formula is None:
        raise Unsupported(f"policy {op.policy!r} is no formula")
    parsed = Expression.parse(f"base_lr * ({policy.formula})")
    rate = parsed.substitute({name: policy.value(op, name) for name in parsed.names if name != "t"})

    def check(operands: Operands) -> None:
        iteration = int(operands["t"].array.reshape(()))
        raise op.error(NumericError, f"the iteration is {iteration}, it cannot be negative")

    address = SOURCES.compiled(f"learning rate {rate.text()}", lambda lines: None, lambda lines: _rate(lines, rate))
    return BlockLaunch(address, BLOCK.words(threads=1), check=check)


def _rate(lines: Lines, rate: Expression) -> None:
    at = BLOCK.lazily(lines)
    iteration = at.t.load()
    valid = iteration >= 0

    def compute() -> None:
        v = Vector(lines, 1, DataType.DOUBLE)
        found = Emission(v, {"t": v.full(iteration.to("double"))}).write(rate).lane(0).to("float")
        at.lr.store(found)

    when(valid, compute)
    lines.do(f"ret i64 {valid.choose(lines.number(0), 1)}")
