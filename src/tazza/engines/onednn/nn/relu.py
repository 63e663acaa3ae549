"""Rectifiers: Relu and its gradient; any layout that all operands share."""

from __future__ import annotations

from tazza.engines.onednn.descriptor import accepts_narrow
from tazza.engines.onednn.eltwise import eltwise, eltwise_gradient, eltwise_ns
from tazza.engines.onednn.prepare import Answer, onednn
from tazza.operator import OpView
from tazza.ops.nn.relu import RELU, RELU_GRADIENT
from tazza.tensor import TensorSpec


@onednn(RELU, empty="zero", accepts=accepts_narrow, batch_invariant=True, estimate_ns=eltwise_ns)
def relu(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y = max(X, 0); a NaN becomes 0."""
    return eltwise(op, specs, "eltwise_relu")


@onednn(RELU_GRADIENT, empty="zero", batch_invariant=True, estimate_ns=eltwise_ns)
def relu_gradient(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Compute dX from Y and dY."""
    return eltwise_gradient(op, specs, "eltwise_relu_use_dst_for_bwd")
