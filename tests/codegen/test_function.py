"""Vector functions: largest errors against float64, and special values."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.codegen import kernel
from tazza.codegen.kernel import unavailable
from tazza.codegen.term import Term
from tazza.engines.native.pointwise import kernel_address
from tazza.operator import Expression
from tazza.runtime.native_code import Processor, processor
from tazza.tensor import DataType

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

Array = NDArray[Any]


def array(*values: float) -> Array:
    """Return float32 numbers."""
    return np.array(values, np.float32)


def compute(text: str, *operands: Array) -> Array:
    """Run a formula over a0, a1 ... as one row."""
    dtype = DataType.of(operands[0])
    result = np.empty_like(operands[0])
    address = kernel_address([Expression.parse(text)], [(dtype, True)] * len(operands), [dtype])
    block = np.array([1, 1, result.size, 0, *(x.ctypes.data for x in (*operands, result))], np.int64)
    assert ctypes.CFUNCTYPE(*[ctypes.c_int64] * 5)(address)(block.ctypes.data, 0, 0, 0) == 0
    return result


def sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))


def erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[float])(x)


BOUNDS: dict[str, tuple[Callable[[Array], Array], float]] = {
    "exp": (np.exp, 1.5),
    "log": (np.log, 1.5),
    "log1p": (np.log1p, 1.5),
    "erf": (erf, 2),
    "expm1": (np.expm1, 2),
    "sin": (np.sin, 2),
    "cos": (np.cos, 2),
    "tan": (np.tan, 2.5),
    "asin": (np.arcsin, 2.5),
    "acos": (np.arccos, 2),
    "atan": (np.arctan, 2.5),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 2),
    "sqrt": (np.sqrt, 0.51),
    "cbrt": (np.cbrt, 0.51),
    "sigmoid": (sigmoid, 3),
    "tanh": (np.tanh, 3.5),
}
"""Function -> what it is in float64, and the largest error allowed in ulp."""

SPECIAL = (
    *(0, -0.0, 1, -1, math.inf, -math.inf, math.nan, 1e-45, -1e-45, 1e-39, -1e-39),
    *(88.7, 89, -103, -104, -200, 3e38, -3e38, 1e5, 1e9, 2e12, -1e20),
)


@functools.cache
def arguments() -> Array:
    """Numbers near 0, over all magnitudes, and special ones."""
    random = np.random.default_rng(7)
    scales = np.exp(random.uniform(-100, 88, 20_011)) * random.choice([-1, 1], 20_011)
    return np.concatenate([random.standard_normal(20_011) * 10, scales, SPECIAL]).astype(np.float32)


@pytest.mark.parametrize("vector_bytes", [64, 16])
@pytest.mark.parametrize("name", BOUNDS)
def test_error(name: str, vector_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As wide as the processor's vectors, and as narrow as those that have no instructions for exponents."""
    if vector_bytes < processor().vector_bytes:
        monkeypatch.setattr(kernel, "processor", lambda: Processor(processor().name, ""))
    function, bound = BOUNDS[name]
    x = arguments()
    found = compute(f"{name}(a0)", x)
    with np.errstate(all="ignore"):
        exact = function(x.astype(np.float64))
        wanted = exact.astype(np.float32)
    if name == "sigmoid":  # denormal results are flushed
        tiny = np.abs(wanted) < 2.0**-125
        assert np.all(np.abs(found[tiny]) < 2.0**-125)
        x, found, exact, wanted = x[~tiny], found[~tiny], exact[~tiny], wanted[~tiny]
    finite = np.isfinite(wanted)
    np.testing.assert_array_equal(found[~finite], wanted[~finite])
    ulps = np.abs(found[finite] - exact[finite]) / np.spacing(np.abs(wanted[finite])).astype(np.float64)
    worst = ulps.argmax()
    assert ulps[worst] <= bound, f"{ulps[worst]:.2f} ulp at {x[finite][worst]}"


@pytest.mark.parametrize("text", ["floor(a0)", "ceil(a0)", "round(a0)", "sign(a0)", "abs(a0)", "relu(a0)", "-a0"])
def test_exact_functions(text: str) -> None:
    x = np.concatenate([arguments(), array(0.5, 1.5, 2.5, -0.5, -1.5)])
    np.testing.assert_array_equal(compute(text, x), Expression.parse(text).evaluate({"a0": x}))


@pytest.mark.parametrize(
    "text", ["min(a0, a1)", "max(a0, a1)", "max(0.5, a0)", "min(a0, 0.5)", "a0 < a1", "a0 != a1", "where(a0, a1, 2)"]
)
def test_nan_on_either_side(text: str) -> None:
    values = array(-1, 0, 0.25, 3, math.nan, math.inf, -math.inf)
    a, b = (np.ascontiguousarray(x).reshape(-1) for x in np.meshgrid(values, values))
    np.testing.assert_array_equal(compute(text, a, b), Expression.parse(text).evaluate({"a0": a, "a1": b}))


@pytest.mark.parametrize("exponent", [-1, 0, 1, 2, 3, "0.5", "-2.5", "a1"])
def test_powers(exponent: Term) -> None:
    base = array(0, 0.5, 1, 2, 3.7, -2, 1e-20, math.inf, math.nan)
    other = array(0.5, -0.5, 7, -3, 2.2, 3, 0.3, -1, 0)
    text = f"pow(a0, {exponent})"
    with np.errstate(all="ignore"):
        exact = Expression.parse(text).evaluate({"a0": base.astype(float), "a1": other.astype(float)})
        wanted = exact.astype(np.float32)
    np.testing.assert_allclose(compute(text, base, other), wanted, rtol=3e-7)


@pytest.mark.parametrize("name", [name for name in BOUNDS if name not in ("rsqrt", "asin", "acos")])
def test_float64(name: str) -> None:
    x = np.linspace(0.01, 5, 37)
    np.testing.assert_allclose(compute(f"{name}(a0)", x), BOUNDS[name][0](x), rtol=1e-15, atol=0)


def test_truths_are_numbers_in_a_formula() -> None:
    x = array(math.nan, math.inf, -math.inf, -0.0, 2)
    found = compute("isnan(a0) + 2 * isinf(a0) + 4 * isfinite(a0) + 8 * signbit(a0)", x)
    assert (found == array(1, 2, 10, 12, 4)).all()
    found = compute("logical_and(a0 > 0, a0 < 3) + 2 * logical_not(a0) + 4 * logical_xor(a0, a0 > 1)", x)
    assert (found == array(4, 0, 4, 2, 1)).all()
