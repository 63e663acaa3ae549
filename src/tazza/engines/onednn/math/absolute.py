"""Abs, Negative, Reciprocal; any layout that all operands share."""

from __future__ import annotations

from tazza.engines.onednn.eltwise import eltwise, eltwise_ns
from tazza.engines.onednn.prepare import Answer, onednn
from tazza.operator import OpView
from tazza.ops.math.absolute import ABS, NEGATIVE, RECIPROCAL
from tazza.tensor import TensorSpec


@onednn(ABS, empty="zero", batch_invariant=True, estimate_ns=eltwise_ns)
def absolute(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y = |X|."""
    return eltwise(op, specs, "eltwise_abs")


# No estimate: a compiled one would leave denormals as they are, which what computes counts as 0.
@onednn(NEGATIVE, empty="zero", batch_invariant=True)
def negative(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y = -X."""
    return eltwise(op, specs, "eltwise_linear", -1.0)


@onednn(RECIPROCAL, empty="zero", batch_invariant=True, estimate_ns=eltwise_ns)
def reciprocal(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y = 1 / X."""
    return eltwise(op, specs, "eltwise_pow", 1.0, -1.0)
