"""Functions for GPUs that follow from exponentials and logarithms, run on the CPU beside NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.codegen.kernel import unavailable
from tazza.tensor.expression import Expression
from tests.codegen.test_grid_math import SPECIAL
from tests.codegen.test_nvptx import THREADS, run
from tests.grid_kernels import elementwise

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

NUMPY = {"acosh": "arccosh", "asinh": "arcsinh", "atanh": "arctanh"}
NAMES = ("expm1", "tanh", "sinh", "cosh", "asinh", "acosh", "atanh", "log2", "log10", "exp2")


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("name", NAMES)
def test_over_all_magnitudes(name: str, bits: int) -> None:
    random = np.random.default_rng(3)
    sizes = 10.0 ** random.uniform(-30, 30 if bits == 32 else 300, 300)
    x = np.concatenate([SPECIAL, sizes, -sizes, random.uniform(-1, 3, 100), random.uniform(-800, 800, 300)])
    x = x.astype(f"float{bits}")
    result = np.empty_like(x)
    kernel = elementwise(Expression.parse(f"{name}(x)"), ("x",), THREADS, bits=bits)
    run(kernel, -(-x.size // THREADS), [x.ctypes.data, result.ctypes.data, x.size])
    with np.errstate(all="ignore"):
        wanted = getattr(np, NUMPY.get(name, name))(x.astype(np.float64)).astype(x.dtype)
    ulp = np.finfo(x.dtype).eps
    np.testing.assert_allclose(result, wanted, rtol=4 * ulp, atol=2 * np.finfo(x.dtype).smallest_subnormal)


def test_hypot() -> None:
    x, y = (one.ravel() for one in np.meshgrid([*SPECIAL, 1e200, 3e-200], [*SPECIAL, 1e200, 3e-200]))
    result = np.empty_like(x)
    kernel = elementwise(Expression.parse("hypot(x, y)"), ("x", "y"), THREADS, bits=64)
    run(kernel, -(-x.size // THREADS), [*(one.ctypes.data for one in (x, y, result)), x.size])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(result, np.hypot(x, y), rtol=1e-15)
