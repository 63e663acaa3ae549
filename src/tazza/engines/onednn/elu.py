"""Exponential linear units: Elu and its gradient; any layout that all operands share."""

from __future__ import annotations

from tazza.engines.onednn.eltwise import eltwise, eltwise_gradient
from tazza.engines.onednn.prepare import Answer, onednn
from tazza.operator import OpView, Unsupported
from tazza.ops.elu import ELU, ELU_GRADIENT
from tazza.tensor import TensorSpec


@onednn(ELU, empty="zero")
def elu(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y = X where X >= 0, else alpha * (exp(X) - 1)."""
    return eltwise(op, specs, "eltwise_elu", float(op.alpha))


@onednn(ELU_GRADIENT, empty="zero")
def elu_gradient(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Compute dX = dY where Y >= 0, else dY * (Y + alpha)."""
    if op.alpha != 1:
        return Unsupported(f"alpha = {op.alpha}: oneDNN takes the slope below 0 at Y = 0")
    return eltwise_gradient(op, specs, "eltwise_elu_use_dst_for_bwd", 1.0)
