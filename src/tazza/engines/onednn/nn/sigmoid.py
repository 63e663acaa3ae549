"""Sigmoid, Swish and their gradients; any layout that all operands share."""

from __future__ import annotations

from tazza.engines.onednn.eltwise import eltwise, eltwise_gradient, eltwise_ns
from tazza.engines.onednn.prepare import Answer, onednn
from tazza.operator import OpView
from tazza.ops.nn.sigmoid import SIGMOID, SIGMOID_GRADIENT, SWISH, SWISH_GRADIENT
from tazza.tensor import TensorSpec


@onednn(SIGMOID, empty="zero", batch_invariant=True, estimate_ns=eltwise_ns)
def sigmoid(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y = 1 / (1 + exp(-X))."""
    return eltwise(op, specs, "eltwise_logistic")


@onednn(SIGMOID_GRADIENT, empty="zero", batch_invariant=True, estimate_ns=eltwise_ns)
def sigmoid_gradient(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Compute dX = dY * Y * (1 - Y)."""
    return eltwise_gradient(op, specs, "eltwise_logistic_use_dst_for_bwd")


@onednn(SWISH, empty="zero", batch_invariant=True, estimate_ns=eltwise_ns)
def swish(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y = X * sigmoid(X)."""
    return eltwise(op, specs, "eltwise_swish", 1.0)


@onednn(SWISH_GRADIENT, empty="zero", batch_invariant=True, estimate_ns=eltwise_ns)
def swish_gradient(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Compute dX from X and dY."""
    return eltwise_gradient(op, specs, "eltwise_swish", 1.0)
