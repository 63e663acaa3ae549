"""Int8Quantize and Int8Dequantize, vectors of numbers at a time.

A quotient by the scale becomes a product with its inverse. That is off by three rounding errors at the most, so it
rounds to the same whole number unless it lies near the middle between two: vectors with such an element are divided.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import cast

import numpy as np

from tazza.codegen.block import BlockLaunch
from tazza.codegen.fields import Fields
from tazza.codegen.function import ROUND_32
from tazza.codegen.kernel import lane_count, threads_of
from tazza.codegen.loop import each_vector, share
from tazza.codegen.term import Lines, Term
from tazza.codegen.vector import Vector
from tazza.engines.native import SOURCES, native
from tazza.operator import Launch, Unsupported
from tazza.operator.kernel import Offered
from tazza.ops.quantized.int8_quantize import INT8_DEQUANTIZE, INT8_QUANTIZE
from tazza.runtime.machine import machine
from tazza.tensor import DataType, PerTensor, TensorSpec
from tazza.tensor.offer import Offer

FLOAT = DataType.FLOAT
BLOCK = Fields("threads size point", doubles="scale inverse least greatest middle", addresses="X Y")
"""Least and greatest step, and how near the middle a quotient is divided."""
BACK = Fields("threads size point", doubles="scale", addresses="X Y")
MOST = 2**20
"""Larger zero points are refused: steps so far from 0 are not rounded as smaller ones are, by a sum."""
ERROR = 2.0**-22
"""Of a product with the inverse, relative to the quotient, rounded as that is: 1.5 * 2^-23 at the most."""
LEAST = 4 * np.finfo(np.float32).tiny
"""Scales from which on denormal numbers are less than half a step."""
UNIT = 64
FLOPS = 4


@native(INT8_QUANTIZE, batch_invariant=True)
def prepare_int8_quantize(X: TensorSpec, Y: TensorSpec) -> Offered:
    """Compile Y = round(X / s) + z."""
    meaning = cast("PerTensor", Y.quantization)
    if X.dtype is not FLOAT or Y.dtype is not DataType.UINT8:
        raise Unsupported(f"it makes bytes of float32, not {Y.dtype.label} of {X.dtype.label}")
    if abs(meaning.zero_point) > MOST:
        raise Unsupported(f"the zero point is {meaning.zero_point}: numbers of float32 are rounded nearer to 0")
    if np.float32(meaning.scale) < LEAST:
        raise Unsupported(f"the scale is {meaning.scale}: steps are denormal, which count as 0 in compiled code")
    return _offer(X, Y, lambda: _quantizing(X.size, meaning))


def _quantizing(size: int, meaning: PerTensor) -> BlockLaunch:
    scale = np.float32(meaning.scale)
    inverse = np.float32(1) / scale
    by_product = bool(inverse >= LEAST)
    # A little beyond what bytes have: still rounded to their bounds, and not near the middle.
    least, greatest = -meaning.zero_point - 0.25, 255.25 - meaning.zero_point
    middle = 0.5 - ERROR * max(abs(least), abs(greatest))
    address = SOURCES.compiled(f"quantize{' by product' if by_product else ''}", partial(_write, by_product=by_product))
    words = BLOCK.words(
        **{"threads": threads_of(size, FLOPS, 5), "size": size, "point": meaning.zero_point},
        **{"scale": float(scale), "inverse": float(inverse), "least": least, "greatest": greatest, "middle": middle},
    )
    return BlockLaunch(address, words)


def _write(lines: Lines, *, by_product: bool) -> None:
    """Steps within those that bytes have, rounded in the low bits of a sum, counted from the zero point; NaN is 0."""
    v, octets, whole = (Vector(lines, lane_count(), kind) for kind in (FLOAT, DataType.UINT8, DataType.INT32))
    at = BLOCK.lazily(lines)
    source, target = at.X, at.Y
    scale, inverse, least, greatest, middle = map(v.full, (at.scale, at.inverse, at.least, at.greatest, at.middle))
    large = v.constant(ROUND_32)
    point = whole.full(at.point) - large.as_bits()

    def within(steps: Term) -> Term:
        return steps.at_least(least).at_most(greatest)

    def some(i: Term, mask: Term | None) -> None:
        x = v.load(source, i, mask)

        def divided() -> Term:
            return within(x.is_number().choose(x, 0.0) / scale) + large

        if by_product:
            steps = within(x * inverse)
            rounded = steps + large
            off = (steps - (rounded - large)).intrinsic("fabs")
            rounded = off.compare("ugt", middle).rarely(divided, rounded)
        else:
            rounded = divided()
        octets.store(whole.converted(rounded.as_bits() + point, DataType.UINT8), target, i, mask)

    each_vector(v, *share(lines, at.size, UNIT), some)


@native(INT8_DEQUANTIZE, batch_invariant=True)
def prepare_int8_dequantize(X: TensorSpec, Y: TensorSpec) -> Offered:
    """Compile Y = s (X - z)."""
    meaning = X.quantization
    if not isinstance(meaning, PerTensor):
        raise Unsupported("X has several scales")

    def make() -> Launch:
        address = SOURCES.compiled(f"dequantize {X.dtype.label}", partial(_write_back, dtype=X.dtype))
        threads, scale = threads_of(X.size, FLOPS, 4 + X.dtype.itemsize), float(np.float32(meaning.scale))
        return BlockLaunch(address, BACK.words(threads=threads, size=X.size, point=meaning.zero_point, scale=scale))

    return _offer(X, Y, make)


def _write_back(lines: Lines, *, dtype: DataType) -> None:
    """Whole numbers less the zero point, which wrap around as those of 32 bits do, times the scale."""
    v, octets, whole = (Vector(lines, lane_count(), kind) for kind in (FLOAT, dtype, DataType.INT32))
    at = BACK.lazily(lines)
    source, target, point = at.X, at.Y, whole.full(at.point)
    scale = v.full(at.scale)

    def some(i: Term, mask: Term | None) -> None:
        q = octets.converted(octets.load(source, i, mask), DataType.INT32)
        v.store(whole.converted(q - point, FLOAT) * scale, target, i, mask)

    each_vector(v, *share(lines, at.size, UNIT), some)


def _offer(x: TensorSpec, y: TensorSpec, make: Callable[[], Launch]) -> Offered:
    """Return the offer of a pass over both."""
    return Offer(make, estimate_ns=math.fsum(one.nbytes for one in (x, y)) / machine().memory_bytes_per_ns)
