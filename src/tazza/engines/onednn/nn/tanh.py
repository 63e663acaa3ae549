"""Tanh and its gradient; any layout that all operands share."""

from __future__ import annotations

from tazza.engines.onednn.eltwise import eltwise, eltwise_gradient, eltwise_ns
from tazza.engines.onednn.prepare import Answer, onednn
from tazza.operator import OpView
from tazza.ops.nn.tanh import TANH, TANH_GRADIENT
from tazza.tensor import TensorSpec


@onednn(TANH, empty="zero", batch_invariant=True, estimate_ns=eltwise_ns)
def tanh(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """The hyperbolic tangent."""
    return eltwise(op, specs, "eltwise_tanh")


@onednn(TANH_GRADIENT, empty="zero", batch_invariant=True, estimate_ns=eltwise_ns)
def tanh_gradient(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Compute dX = dY * (1 - Y * Y)."""
    return eltwise_gradient(op, specs, "eltwise_tanh_use_dst_for_bwd")
