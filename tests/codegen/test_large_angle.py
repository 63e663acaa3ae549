"""Sines, cosines and tangents for GPUs, run on the CPU beside libm's: all magnitudes, and what is nearly a multiple."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tazza.codegen.kernel import unavailable
from tazza.tensor.expression import Expression
from tests.codegen.test_grid_math import SPECIAL
from tests.codegen.test_nvptx import THREADS, run
from tests.grid_kernels import elementwise

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))


@pytest.mark.parametrize(("name", "ulps"), [("sin", 1), ("cos", 1), ("tan", 2.5)])
def test_angles_of_any_size(name: str, ulps: float) -> None:
    """Over all magnitudes, about where another way begins, and for multiples of pi / 2 that are nearly numbers."""
    random = np.random.default_rng(7)
    sizes = np.concatenate([10.0 ** random.uniform(-310, 308, 2000), np.ldexp(1.0, np.arange(-60, 1024))])
    near = [2.0, np.nextafter(2.0, 0), *(np.arange(1, 200) * (math.pi / 2))]
    x = np.concatenate([SPECIAL, sizes, -sizes, near, random.integers(1, 2**52, 500) * (math.pi / 2)])
    result = np.empty_like(x)
    kernel = elementwise(Expression.parse(f"{name}(x)"), ("x",), THREADS, bits=64)
    run(kernel, -(-x.size // THREADS), [x.ctypes.data, result.ctypes.data, x.size])
    finite = np.isfinite(x)
    wanted = np.array([getattr(math, name)(one) for one in x[finite].tolist()])
    assert np.isnan(result[~finite]).all()
    assert np.all(np.abs(result[finite] - wanted) <= ulps * np.spacing(np.abs(wanted)))
    np.testing.assert_array_equal(np.signbit(result[finite]), np.signbit(wanted))


def test_the_angle_that_is_nearest_to_a_multiple() -> None:
    """Of all float64 numbers; the value is that of Muller, Elementary Functions, section 11.3, to all its digits."""
    x, result = np.array([6381956970095103 * 2.0**797]), np.empty(1)
    run(elementwise(Expression.parse("cos(x)"), ("x",), THREADS, bits=64), 1, [x.ctypes.data, result.ctypes.data, 1])
    assert result[0] == -4.68716592425462761112e-19


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_angles_in_float32(name: str) -> None:
    x = np.ldexp(np.float32(1.7), np.arange(-140, 127)).astype(np.float32)
    result = np.empty_like(x)
    run(elementwise(Expression.parse(f"{name}(x)"), ("x",), THREADS), 34, [x.ctypes.data, result.ctypes.data, x.size])
    wanted = getattr(np, name)(x.astype(np.float64))
    assert np.all(np.abs(result - wanted) <= 2.5 * np.spacing(np.abs(wanted.astype(np.float32))))
