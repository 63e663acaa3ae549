"""What int8 operators share: the quantization that their arguments give, and rounding to it.

A number x is scale * (q - zero point), with q of 8 bits. Letters: s and z for scale and zero point of a blob.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from tazza.errors import NumericError
from tazza.operator import ArgSpec, Array, OpView, arg, forbidden
from tazza.tensor import DataType, PerChannel, PerTensor, TensorSpec

UINT8 = frozenset({DataType.UINT8})
INT32 = frozenset({DataType.INT32})


def scale_args(scale: float = 1.0) -> tuple[ArgSpec, ArgSpec]:
    """Return the arguments that say what the result means; `scale` is that of a net that does not."""
    return (
        arg("Y_scale", float, scale, doc="scale of the result"),
        arg("Y_zero_point", int, 0, doc="integer of the result that stands for 0"),
    )


SCALE_ARGS = scale_args()
CALIBRATION = "int8 nets are made of trained ones; train the float32 net"
NO_GRADIENT = forbidden(CALIBRATION)


def given_quantization(op: OpView) -> PerTensor:
    """Return what the arguments say of the result."""
    return PerTensor(op.Y_scale, op.Y_zero_point)


def quantization_like(op: OpView, X: TensorSpec) -> PerTensor:
    """Return what the arguments say of the result, or where they say nothing what X has."""
    said = op.given("Y_scale") or op.given("Y_zero_point")
    return given_quantization(op) if said else cast("PerTensor", X.quantization)


def multipliers(X: PerTensor, W: PerTensor | PerChannel, Y: PerTensor) -> Array:
    """Return s_X s_W / s_Y, one for each output channel where W has scales for them."""
    weights = np.array(W.scale if isinstance(W, PerTensor) else W.scales, np.float32)
    return np.asarray(np.float32(X.scale) * weights / np.float32(Y.scale), np.float32)


def requantize(sums: Array, multiplier: np.float32 | Array, Y: PerTensor, *, relu: bool = False) -> Array:
    """Return round(sums * multiplier) + z_Y as bytes, from z_Y on where negative numbers become 0."""
    found = np.rint(sums.astype(np.float32) * multiplier).astype(np.float64) + Y.zero_point
    return np.clip(found, max(Y.zero_point, 0) if relu else 0, 255).astype(np.uint8)


def shifted(X: Array, meaning: PerTensor | PerChannel) -> Array:
    """Return q - zero point in float64, where sums of products of bytes are exact."""
    if isinstance(meaning, PerTensor):
        return X.astype(np.float64) - meaning.zero_point
    return X.astype(np.float64) - meaning.shaped(X.ndim)[1]


def converted(X: Array, before: PerTensor, after: PerTensor) -> Array:
    """Return bytes, or biases of int32, of one meaning as those of another."""
    if before == after:
        return X
    if X.dtype == np.int32:
        return after.integers(before.real(X), DataType.INT32)
    return requantize(before.real(X), np.float32(1) / np.float32(after.scale), after)


def reaching(op: OpView, letter: str, numbers: Array, *, symmetric: bool = False) -> PerTensor:
    """Return the scale and zero point of bytes that reach from the least number to the largest, and hold 0 exactly.

    `symmetric`: numbers of either sign have steps of one length on both sides of the byte 128. Where all are 0 a step
    is 0.1.

    Raises:
        NumericError: a number is not finite.

    Source: Jacob and others 2018, arXiv 1712.05877, section 3, equation 13.
    """
    low, high = float(numbers.min(initial=0)), float(numbers.max(initial=0))
    if not np.isfinite([low, high]).all():
        raise op.error(NumericError, f"{letter} reaches from {low} to {high}", "bytes stand for finite numbers")
    both = symmetric and low < 0 < high
    if both:
        step = max(low / -128, high / 127)
        low, high = -128 * step, 127 * step
    with np.errstate(divide="ignore", over="ignore"):
        scale = np.float32((high - low) / 255)
        if np.isinf(1 / scale):
            scale = np.float32(0.1)
    return PerTensor(float(scale), 128 if both else int(np.clip(np.rint(-low / float(scale)), 0, 255)))
