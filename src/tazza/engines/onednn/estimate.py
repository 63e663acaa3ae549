"""How long oneDNN takes, roughly, for what other engines compute as well: by the model of the machine.

Shares are parts of the rate at which cores compute. An estimate asks oneDNN for nothing: primitives are made
when the offer is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tazza.engines.onednn.narrow import has_tiles, multiplies
from tazza.operator import OpView
from tazza.ops.nn.window import Window
from tazza.runtime.fpmath import FPMATH
from tazza.runtime.machine import machine
from tazza.runtime.threads import thread_count
from tazza.tensor import TensorSpec

FORWARD_SHARE, WEIGHTS_SHARE, PRODUCT_SHARE = 0.95, 0.55, 0.9
"""What convolutions reach, the gradients of their filters, and products of matrices."""
FEW_CHANNELS, FEW_SHARE, FEW_WEIGHTS_SHARE, FEW_DATA_SHARE = 8, 0.39, 0.47, 0.05
"""With so few channels of X most lanes of a vector stay empty."""
NARROW_GAIN, TILE_GAIN, NARROW_BLOCK = 2.6, 8.0, 32
"""What bfloat16 gains, in vectors and in tiles, for whole blocks of so many channels: products, and half the bytes."""
WEIGHT_PASSES = 1.5
"""How often a product of few rows goes over its weights, which it reads into another order first."""

SINGLE_SHARE = 0.6
"""Part of the rate of the cache at which rows are read that have one output, by one thread."""


def passes_ns(count: float, *specs: TensorSpec) -> float:
    """Return how long so many plain passes over blobs take."""
    return count * sum(spec.nbytes for spec in specs) / machine().memory_bytes_per_ns


def passes(count: float, *letters: str) -> Callable[[OpView, dict[str, TensorSpec]], float]:
    """Return the estimate of so many plain passes over the blobs of these letters, or over all."""
    return lambda op, specs: passes_ns(count, *(specs[letter] for letter in (letters if letters else specs)))


def conv_flops(W: TensorSpec, Y: TensorSpec) -> int:
    """Return 2 * N * M * P * C/G * K."""
    return 2 * Y.size * math.prod(W.shape[1:])


def _channels(op: OpView, W: TensorSpec) -> int:
    return W.shape[-1 if op.order.upper() == "NHWC" else 1]


def _few(op: OpView, W: TensorSpec) -> bool:
    return _channels(op, W) <= FEW_CHANNELS


def _compute_ns(flops: float, share: float) -> float:
    return flops / (machine().flops_per_ns * share * thread_count())


def _narrow_gain(*channels: int) -> float:
    """Return how many times as fast products of so many channels, in and out, are where bfloat16 may be computed in."""
    if not multiplies(FPMATH.value):
        return 1.0
    full = math.prod(count / (-(-count // NARROW_BLOCK) * NARROW_BLOCK) for count in channels)
    return (TILE_GAIN if has_tiles() else NARROW_GAIN) * full


def conv_ns(op: OpView, specs: dict[str, TensorSpec]) -> float:
    """Bringing in the filters, and the products, which overlap."""
    W = specs["W"]
    share = _few_share(op, W) if _few(op, W) else FORWARD_SHARE * _narrow_gain(_channels(op, W), W.shape[0])
    return math.hypot(passes_ns(1, W), _compute_ns(conv_flops(W, specs["Y"]), share))


def _few_share(op: OpView, W: TensorSpec) -> float:
    """What convolutions of few channels reach; narrow ones have a row of the window for a block of channels."""
    if not multiplies(FPMATH.value):
        return FEW_SHARE
    return FORWARD_SHARE * _narrow_gain(_channels(op, W) * Window.of(op).kernel[-1], W.shape[0])


def conv_gradient_ns(op: OpView, specs: dict[str, TensorSpec]) -> float:
    """The products of dW, and those of dX where that is asked for."""
    W, dX = specs["W"], specs.get("dX")
    share = FEW_WEIGHTS_SHARE if _few(op, W) else WEIGHTS_SHARE
    gain = 1.0 if _few(op, W) else _narrow_gain(_channels(op, W), W.shape[0])
    weights_ns = _compute_ns(conv_flops(W, specs["dY"]), share * gain)
    if dX is None:
        return weights_ns
    # Each pixel of dX is a sum over a whole window of dY, also where that lies in the pads; a stride leaves some out.
    window = Window.of(op)
    products = dX.size * W.shape[0] // op.group * math.prod(window.kernel) // math.prod(window.stride)
    share = FEW_DATA_SHARE if _few(op, W) else FORWARD_SHARE
    return weights_ns + passes_ns(1, W) + _compute_ns(2 * products, share * gain)


def product_ns(op: OpView, specs: dict[str, TensorSpec]) -> float:
    """The weights, and the products."""
    del op
    W = specs["W"]
    rows = specs["Y"].size / specs["b"].size
    gain = _narrow_gain()
    memory_ns = passes_ns(WEIGHT_PASSES, W) / min(gain, 2.0)  # half the bytes, at the most
    if specs["b"].size == 1:
        return memory_ns + rows * W.nbytes / (SINGLE_SHARE * machine().cache_bytes_per_ns)
    return memory_ns + _compute_ns(2 * rows * W.size, PRODUCT_SHARE * gain)


def product_gradient_ns(op: OpView, specs: dict[str, TensorSpec]) -> float:
    """The products of dW, and those of dX where that is asked for."""
    del op
    W, rows = specs["W"], specs["dY"].size / max(specs["db"].size, 1)
    memory_ns = passes_ns(1, W)
    products = 2 if "dX" in specs else 1
    return products * (memory_ns + _compute_ns(2 * rows * W.size, PRODUCT_SHARE * _narrow_gain()))
