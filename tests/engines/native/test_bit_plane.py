"""Kernels on planes of bits: every form against integers, with counters that are full and runs that end anywhere."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.array.quantized import QTensor
from tazza.array.quantized.factor import Factor
from tazza.codegen.kernel import unavailable
from tazza.engines.native.bit_plane import BLOCK, RUNS, ProductForm, lanes, product_kernel
from tazza.runtime.native import call_native

REASON = unavailable()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))


def multiply(x: np.ndarray, y: np.ndarray, form: ProductForm, threads: int) -> np.ndarray:
    a, b = (
        Factor(QTensor.of_integers(numbers, planes - signed, signed=signed)).packed(lanes())
        for numbers, planes, signed in ((x, form.planes_a, form.signed_a), (y, form.planes_b, form.signed_b))
    )
    C = np.full((len(x), len(y)), -9, np.int64 if form.wide else np.int32)
    addresses = {"A": a.words.address, "B": b.words.address, "C": C.ctypes.data}
    block = np.array(BLOCK.words(threads=threads, M=len(x), N=len(y), W=a.word_count, **addresses), np.int64)
    assert call_native(product_kernel(form), block.ctypes.data) == 0
    return C


@pytest.mark.parametrize(
    ("form", "sizes", "threads"),
    [
        (ProductForm(1, 1, False, False, RUNS[0], False), (2, 9, 64 * 37 + 5), 1),
        (ProductForm(1, 1, False, False, RUNS[1], False), (1, 3, 64 * 513), 2),
        (ProductForm(4, 4, False, False, RUNS[0], False), (3, 17, 64 * 16), 2),
        (ProductForm(5, 3, True, False, RUNS[0], True), (19, 2, 64 * 19 + 1), 3),
        (ProductForm(2, 4, True, True, RUNS[1], False), (2, 11, 64 * 300 + 63), 1),
    ],
    ids=str,
)
def test_products(form: ProductForm, sizes: tuple[int, int, int], threads: int) -> None:
    m, n, k = sizes
    tops = [
        (1 << planes - signed) - 1
        for planes, signed in ((form.planes_a, form.signed_a), (form.planes_b, form.signed_b))
    ]
    generator = np.random.default_rng(k)
    x = generator.integers(-tops[0] if form.signed_a else 0, tops[0] + 1, (m, k))
    y = generator.integers(-tops[1] if form.signed_b else 0, tops[1] + 1, (n, k))
    np.testing.assert_array_equal(multiply(x, y, form, threads), x @ y.T)
    # All bits set: every counter takes as much as it must hold.
    full = np.full((m, k), tops[0]), np.full((n, k), -tops[1] if form.signed_b else tops[1])
    np.testing.assert_array_equal(multiply(*full, form, threads), full[0] @ full[1].T)


def test_counters_are_wide_enough() -> None:
    assert ProductForm(4, 4, False, False, 16, False).levels == (16 * 15 * 15).bit_length()
    assert ProductForm(1, 1, False, False, 16, False).levels == 5


def test_complemented_pairs_are_taken_off() -> None:
    form = ProductForm(2, 3, True, True, 16, False)
    pairs = [(i, j) for i in range(2) for j in range(3) if form.negative(i, j)]
    assert pairs == [(0, 2), (1, 0), (1, 1)]
    assert form.constant == 64 * (4 + 2 + 4)
