"""Powers: Sqrt, Sqr; any layout that all operands share. Its Cube is that of any power, slower than two products."""

from __future__ import annotations

from tazza.engines.onednn.eltwise import eltwise, eltwise_ns
from tazza.engines.onednn.prepare import Answer, onednn
from tazza.operator import OpView
from tazza.ops.math.exponential import powers
from tazza.tensor import TensorSpec


@onednn(powers["Sqrt"], empty="zero", batch_invariant=True, estimate_ns=eltwise_ns)
def sqrt(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """The square root."""
    return eltwise(op, specs, "eltwise_sqrt")


@onednn(powers["Sqr"], empty="zero", batch_invariant=True, estimate_ns=eltwise_ns)
def sqr(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y = X * X."""
    return eltwise(op, specs, "eltwise_square")
