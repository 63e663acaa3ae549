"""Products of 8-bit integers: oneDNN's matmul u8 x s8 -> s32 and s8 x s8 -> s32, exact where the processor allows.

Letters: C = A B^T as in array/quantized/product.py. oneDNN wants signed weights. Where B is unsigned, B - 128 (the
highest bit flipped) takes its place, and 128 times the sums of the rows of A are added to C.

Without instructions that sum four products in 32 bits (VNNI), oneDNN sums two in 16 bits, which saturate: then this
engine takes only factors that are small enough. Source: oneDNN, "Nuances of int8 computations".
"""

from __future__ import annotations

import functools
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tazza.array.quantized.factor import Factor
from tazza.array.quantized.product import INTEGER_PRODUCTS, IntegerProduct, ProductTask
from tazza.engines.onednn.descriptor import Descriptor
from tazza.engines.onednn.launch import Direct
from tazza.engines.onednn.library import Unimplemented, unavailable
from tazza.engines.onednn.primitive import Attributes, describe
from tazza.errors import UnsupportedError
from tazza.runtime.cache import remembered
from tazza.runtime.native_code import processor
from tazza.runtime.threads import thread_count
from tazza.tensor import DataType
from tazza.tensor.offer import Offer, Unsupported

Array: TypeAlias = npt.NDArray[Any]

VNNI = "avx512_vnni"
"""Processors that have such sums in narrower vectors only count as without: oneDNN 3.2 has no product for them."""
MOST_16_BITS = 2**15 - 1
SHIFT = 128
PRODUCT_NS, UNPACKING_NS, CALL_NS = 0.0065, 0.15, 150_000
"""What a product takes on one thread, an element that is unpacked, and the call, roughly."""


@INTEGER_PRODUCTS.solving("onednn", help="oneDNN's matmul of bytes")
def byte_product(task: ProductTask) -> Offer[IntegerProduct]:
    """Integers as bytes; planes of bits are unpacked first."""
    reason = _refusal(task)
    if reason is not None:
        raise Unsupported(reason)
    return Offer(functools.partial(compute, task), estimate_ns=_estimate_ns(task))


def _refusal(task: ProductTask) -> str | None:
    """Return what does not fit, or why there is no library."""
    if task.dtype is not DataType.INT32:
        return f"sums may reach {task.bound}, and it sums in int32"
    for name, factor in (("a", task.a), ("b", task.b)):
        low, high = factor.limits
        if low < -128 or high > (127 if low < 0 else 255):
            return f"{name} has integers from {low} to {high}, which are no bytes"
    reason = unavailable()
    return _inexact(task) if reason is None else reason


def _inexact(task: ProductTask) -> str | None:
    if processor().has(VNNI):
        return None
    # oneDNN makes a signed A unsigned by adding 128; an unsigned B is shifted here.
    largest_a = 255 if task.a.signed else task.a.largest
    largest_b = SHIFT if task.b.largest >= SHIFT else task.b.largest
    pair = 2 * largest_a * largest_b
    return f"this processor sums pairs in 16 bits, and {pair} > {MOST_16_BITS}" if pair > MOST_16_BITS else None


def _estimate_ns(task: ProductTask) -> float:
    """Return the time of the product, of unpacking and of the call."""
    threads = thread_count()
    m, n, k = task.sizes
    moved = 0.05 * (m + n) * k + 0.5 * m * n
    shift = m * k * 0.5 if task.b.limits[1] >= SHIFT else 0.0
    return CALL_NS + (task.products * PRODUCT_NS + moved + task.unpacking_ns(UNPACKING_NS)) / threads + shift


def compute(task: ProductTask) -> Array:
    """Run the primitive."""
    A, B = _bytes(task.a), _bytes(task.b)
    C = np.empty((task.a.rows, task.b.rows), np.int32)
    if B.dtype == np.int8:
        _multiply(task, A, B, C)
        return C
    _multiply(task, A, (B ^ np.uint8(SHIFT)).view(np.int8), C)
    sums = A.sum(axis=0 if task.a.transposed else 1, dtype=np.int32)
    return np.add(C, np.int32(SHIFT) * sums[:, None], out=C)


def _bytes(factor: Factor) -> Array:
    """Return the integers as they lie in the source, row-major: uint8 only where they do not fit into int8."""
    x = factor.source if isinstance(factor.source, np.ndarray) else factor.source.integer_array()
    return np.ascontiguousarray(x).view(np.int8 if factor.limits[1] < SHIFT else np.uint8)


def _multiply(task: ProductTask, A: Array, B: Array, C: Array) -> None:
    found = _describe(task.sizes, DataType.of(A), task.a.transposed, not task.b.transposed, thread_count())
    found.run(A.ctypes.data, B.ctypes.data, C.ctypes.data)


@remembered("integer products", entries=256)
def _describe(sizes: tuple[int, int, int], dtype: DataType, swapped_a: bool, swapped_b: bool, threads: int) -> Direct:
    """Return what multiplies (M, K) by (K, N), where a swapped side lies as its transpose."""
    del threads  # of the process: those of the primitive follow from it
    m, n, k = sizes
    a, b = _matrix((m, k), dtype, swapped_a), _matrix((k, n), DataType.INT8, swapped_b)
    target = Descriptor.of((m, n), DataType.INT32)
    try:
        found = describe("matmul", a, b, None, target, attributes=Attributes(), flops=2 * m * n * k)
    except Unimplemented as error:
        hint = "ask for another engine"
        raise UnsupportedError(f"oneDNN cannot multiply {a} by {b}: {error.message}", hint=hint) from error
    return Direct(found, "src", "weights", "dst")


def _matrix(dims: tuple[int, int], dtype: DataType, swapped: bool) -> Descriptor:
    return Descriptor.of(dims[::-1], dtype).permute((1, 0)) if swapped else Descriptor.of(dims, dtype)
