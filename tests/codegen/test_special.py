"""Exponentials by a GPU's powers of two, run on the CPU with those of libm in their place."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.codegen.kernel import unavailable
from tazza.codegen.special import fits
from tazza.codegen.term import Lines
from tazza.codegen.vector import Vector
from tazza.tensor import DataType
from tazza.tensor.expression import Expression
from tests.codegen.test_grid_math import SPECIAL
from tests.codegen.test_nvptx import THREADS, run
from tests.grid_kernels import elementwise

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))


def test_exponentials_in_float32_by_powers_of_two() -> None:
    """Denormal, infinite and NaN results among them."""
    x = np.concatenate([SPECIAL, np.linspace(-104, 89, 20001), [88.72, -87.4, -103.9, 200, -200]]).astype(np.float32)
    result = np.empty_like(x)
    kernel = elementwise(Expression.parse("exp(x)"), ("x",), THREADS)
    assert "llvm.nvvm.ex2.approx.f" in kernel.text("kernel")
    run(kernel, -(-x.size // THREADS), [x.ctypes.data, result.ctypes.data, x.size])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(result, np.exp(x.astype(np.float64)).astype(np.float32), rtol=2.4e-7, atol=2e-45)


def test_it_is_for_numbers_of_threads() -> None:
    others = Vector(Lines(grid=True), 4), Vector(Lines(grid=True), 1, DataType.DOUBLE), Vector(Lines(), 1)
    assert fits(Vector(Lines(grid=True), 1).constant(0))
    assert not any(fits(v.constant(0)) for v in others)
