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
    assert {"exp", "log", "pow"} < set(FUNCTIONS)
