"""Exact products on planes: which side goes into the lanes, and what is left to others."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.array.quantized import INTEGER_PRODUCTS, QTensor, integer_matmul
from tazza.array.quantized.factor import Factor
from tazza.array.quantized.product import ProductTask
from tazza.codegen.kernel import unavailable
from tazza.engines.native.bit_plane import lanes
from tazza.tensor.offer import Unsupported

REASON = unavailable()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))


@pytest.mark.slow
@pytest.mark.parametrize(("m", "n"), [(40, 1), (1, 40), (33, lanes() - 1), (2, 3)])
def test_few_columns_change_sides(m: int, n: int) -> None:
    generator = np.random.default_rng(m)
    x, y = generator.integers(-7, 8, (m, 77)), generator.integers(0, 4, (n, 77))
    a, b = QTensor.of_integers(x, 3, signed=True), QTensor.of_integers(y, 2, signed=False)
    found = integer_matmul(a, b, transpose_b=True, engine="native").plain()
    np.testing.assert_array_equal(found, x @ y.T)
    assert found.flags.c_contiguous


def test_more_bits_take_longer() -> None:
    def estimate(bits: int) -> float:
        q = Factor(QTensor.of_integers(np.ones((64, 512), np.int8), bits, signed=False))
        estimate_ns = INTEGER_PRODUCTS.choose(ProductTask(q, q), "native").offer.estimate_ns
        assert estimate_ns is not None
        return estimate_ns

    assert estimate(1) < estimate(2) < estimate(8)


def test_bytes_are_left_to_others() -> None:
    x = Factor(np.ones((2, 3), np.int8))
    assert INTEGER_PRODUCTS.ask("native", ProductTask(x, x)) == Unsupported("neither factor is planes of bits")
