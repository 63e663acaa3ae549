"""How long oneDNN takes, roughly, for what other engines compute as well: by the model of the machine.

Shares are parts of the rate at which cores compute. An estimate asks oneDNN for nothing: primitives are made
when the offer is taken.
"""

from __future__ import annotations

import math

from tazza.operator import OpView
from tazza.ops.nn.window import Window
from tazza.runtime.machine import machine
from tazza.runtime.threads import thread_count
from tazza.tensor import TensorSpec

FORWARD_SHARE, WEIGHTS_SHARE, PRODUCT_SHARE = 0.95, 0.55, 0.9
"""What convolutions reach, the gradients of their filters, and products of matrices."""
FEW_CHANNELS, FEW_SHARE, FEW_WEIGHTS_SHARE = 8, 0.39, 0.47
"""With so few channels of X most lanes of a vector stay empty."""
PASSES = {"SpatialBN": 4, "SpatialBNGradient": 6}
"""How often batch normalization that trains goes over X: twice for its statistics, and once to read and to write."""
WEIGHT_PASSES = 1.5
"""How often a product of few rows goes over its weights, which it reads into another order first."""


def conv_flops(W: TensorSpec, Y: TensorSpec) -> int:
    """Return 2 * N * M * P * C/G * K."""
    return 2 * Y.size * math.prod(W.shape[1:])


def _few(op: OpView, W: TensorSpec) -> bool:
    return W.shape[-1 if op.order.upper() == "NHWC" else 1] <= FEW_CHANNELS


def _compute_ns(flops: float, share: float) -> float:
    return flops / (machine().flops_per_ns * share * thread_count())


def conv_ns(op: OpView, specs: dict[str, TensorSpec]) -> float:
    """Bringing in the filters, and the products."""
    W = specs["W"]
    share = FEW_SHARE if _few(op, W) else FORWARD_SHARE
    return W.nbytes / machine().memory_bytes_per_ns + _compute_ns(conv_flops(W, specs["Y"]), share)


def conv_gradient_ns(op: OpView, specs: dict[str, TensorSpec]) -> float:
    """The products of dW, and those of dX where that is asked for."""
    W, dX = specs["W"], specs.get("dX")
    share = FEW_WEIGHTS_SHARE if _few(op, W) else WEIGHTS_SHARE
    weights_ns = _compute_ns(conv_flops(W, specs["dY"]), share)
    if dX is None:
        return weights_ns
    # Each pixel of dX is a sum over a whole window of dY, also where that lies in the pads; a stride leaves some out.
    window = Window.of(op)
    products = dX.size * W.shape[0] // op.group * math.prod(window.kernel) // math.prod(window.stride)
    return weights_ns + W.nbytes / machine().memory_bytes_per_ns + _compute_ns(2 * products, FORWARD_SHARE)


def product_ns(op: OpView, specs: dict[str, TensorSpec]) -> float:
    """The weights, and the products."""
    del op
    W = specs["W"]
    rows = specs["Y"].size / specs["b"].size
    return WEIGHT_PASSES * W.nbytes / machine().memory_bytes_per_ns + _compute_ns(2 * rows * W.size, PRODUCT_SHARE)


def batch_norm_ns(op: OpView, specs: dict[str, TensorSpec]) -> float:
    """All passes over X."""
    return PASSES[op.type] * specs["X"].nbytes / machine().memory_bytes_per_ns
