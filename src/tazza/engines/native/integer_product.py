"""Exact products on planes of bits, by the kernels of bit_plane.py: fills `INTEGER_PRODUCTS` of the tensor floor."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from tazza.array.quantized.factor import Factor
from tazza.array.quantized.product import INTEGER_PRODUCTS, IntegerProduct, ProductTask
from tazza.codegen.kernel import unavailable
from tazza.engines.native.bit_plane import AVX512_WORDS, BLOCK, RUNS, ProductForm, lanes, product_kernel
from tazza.runtime.native import call_native
from tazza.runtime.threads import thread_count
from tazza.tensor.dtype import DataType
from tazza.tensor.offer import Offer, Unsupported

INPUT_NS, TWO_INPUT_LOGIC_NS, TILE_NS = 0.7, 2.2, 14.0
"""What one thread takes for a vector of ANDed words, with logic of three inputs and without, and for a tile (V elements
of C) besides, roughly."""
PACKING_NS = 1.0
"""For an element of a factor that is no QTensor, which is packed every time."""
THREAD_NS = 10_000


@INTEGER_PRODUCTS.solving("native", help="AND and counts of bits on packed planes, compiled")
def bit_plane_product(task: ProductTask) -> Offer[IntegerProduct]:
    """AND, carry-save adders, and a count of bits at the end."""
    if not (task.a.is_packed or task.b.is_packed):
        raise Unsupported("neither factor is planes of bits")
    reason = unavailable()
    if reason is not None:
        raise Unsupported(reason)
    return Offer(functools.partial(compute, task), estimate_ns=_estimate_ns(task))


def _estimate_ns(task: ProductTask) -> float:
    """Return words times pairs of planes, and what a tile costs besides."""
    a, b = _sides(task)
    plain = sum(one.rows * one.depth for one in (a, b) if not one.is_packed)
    work = _work_ns(a, b)
    return 60_000 + work / _threads(work) + plain * PACKING_NS


def compute(task: ProductTask) -> npt.NDArray[Any]:
    """Run the kernel; the factor with more rows has them in the lanes."""
    a, b = _sides(task)
    width = lanes()
    left, right = a.packed(width), b.packed(width)
    run = next((one for one in RUNS if left.word_count <= one), RUNS[-1])
    wide = task.dtype is DataType.INT64
    form = ProductForm(left.planes, right.planes, left.signed, right.signed, run, wide)
    result = np.empty((a.rows, b.rows), task.dtype.numpy)
    threads = _threads(_work_ns(a, b))
    addresses = {"A": left.words.address, "B": right.words.address, "C": result.ctypes.data}
    block = np.array(BLOCK.words(threads=threads, M=a.rows, N=b.rows, W=left.word_count, **addresses), np.int64)
    call_native(product_kernel(form), block.ctypes.data, threads=threads)
    return result if a is task.a else np.ascontiguousarray(result.T)


def _sides(task: ProductTask) -> tuple[Factor, Factor]:
    """Return the factor whose words are spread, and that of the lanes, which are not to be left empty."""
    return (task.b, task.a) if task.b.rows < lanes() and task.b.rows < task.a.rows else (task.a, task.b)


def _work_ns(a: Factor, b: Factor) -> float:
    tiles = a.rows * -(-b.rows // lanes())
    words = -(-a.depth // 64)
    input_ns = INPUT_NS if lanes() == AVX512_WORDS else TWO_INPUT_LOGIC_NS
    return tiles * (TILE_NS + words * a.planes * b.planes * input_ns)


def _threads(work_ns: float) -> int:
    return max(1, min(thread_count(), int(work_ns / THREAD_NS)))
