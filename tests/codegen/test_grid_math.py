"""Functions of libm for GPUs, run on the CPU beside libm's own."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tazza.codegen.grid_math import FUNCTIONS, defined
from tazza.codegen.kernel import unavailable
from tazza.errors import UnsupportedError
from tazza.tensor.expression import Expression
from tests.codegen.test_nvptx import THREADS, run
from tests.grid_kernels import elementwise

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -3.0, 3.5, math.inf, -math.inf, math.nan, 1e-42, 1e30]


def test_powers_have_the_values_of_libm() -> None:
    x, y = (one.ravel().astype(np.float32) for one in np.meshgrid(SPECIAL, SPECIAL))
    result = np.empty_like(x)
    kernel = elementwise(Expression.parse("pow(x, y)"), ("x", "y"), THREADS)
    run(kernel, -(-x.size // THREADS), [*(one.ctypes.data for one in (x, y, result)), x.size])
    with np.errstate(all="ignore"):
        wanted = np.power(x, y)
    np.testing.assert_array_equal(np.isnan(result), np.isnan(wanted))
    numbers = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(result[numbers]), np.signbit(wanted[numbers]))
    np.testing.assert_allclose(result, wanted, rtol=2e-7)


@pytest.mark.parametrize("name", ["exp", "log"])
def test_in_float64(name: str) -> None:
    random = np.random.default_rng(5)
    x = np.concatenate(
        [SPECIAL, 300 * random.standard_normal(500), 10.0 ** random.uniform(-320, 300, 500), [709.7, -745]]
    )
    result = np.empty_like(x)
    kernel = elementwise(Expression.parse(f"{name}(x)"), ("x",), THREADS, bits=64)
    run(kernel, -(-x.size // THREADS), [x.ctypes.data, result.ctypes.data, x.size])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(result, getattr(np, name)(x), rtol=4e-16, atol=5e-324)


def test_exponentials_in_float32_by_powers_of_two() -> None:
    """Denormal, infinite and NaN results among them."""
    x = np.concatenate([SPECIAL, np.linspace(-104, 89, 20001), [88.72, -87.4, -103.9, 200, -200]]).astype(np.float32)
    result = np.empty_like(x)
    kernel = elementwise(Expression.parse("exp(x)"), ("x",), THREADS)
    assert "llvm.nvvm.ex2.approx.f" in kernel.text("kernel")
    run(kernel, -(-x.size // THREADS), [x.ctypes.data, result.ctypes.data, x.size])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(result, np.exp(x.astype(np.float64)).astype(np.float32), rtol=2.4e-7, atol=2e-45)


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


def test_the_logarithm_of_what_is_near_one() -> None:
    x = np.array([*SPECIAL, 1e-300, 1e-17, -1e-10, 3e-9, -0.9999, 1e15])
    result = np.empty_like(x)
    kernel = elementwise(Expression.parse("log1p(x)"), ("x",), THREADS, bits=64)
    run(kernel, -(-x.size // THREADS), [x.ctypes.data, result.ctypes.data, x.size])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(result, np.log1p(x), rtol=6e-16)


def test_declarations_of_what_is_written_become_definitions() -> None:
    kept = "declare float @llvm.fabs.f32(float)"
    *declared, body = defined([kept, "declare float @powf(float, float)"])
    assert kept in declared
    assert all(line.startswith("declare ") and "@llvm." in line for line in declared)
    assert body.startswith("define internal float @powf(float %x0, float %x1)")
    with pytest.raises(UnsupportedError, match="tgammaf is not written for a GPU"):
        defined(["declare float @tgammaf(float)"])
    assert set(FUNCTIONS) == {"exp", "log", "log1p", "pow", "sin", "cos", "tan"}
