"""Powers: half a unit in the last place over all magnitudes, and what libm gives elsewhere."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tazza.codegen.kernel import unavailable
from tests.codegen.test_function import array, compute

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))


def test_error() -> None:
    random = np.random.default_rng(3)
    x = np.exp(random.uniform(-100, 88, 50_021)).astype(np.float32)
    y = (random.standard_normal(x.size) * np.exp(random.uniform(-5, 3, x.size))).astype(np.float32)
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.float64), y.astype(np.float64))
        wanted = exact.astype(np.float32)
    found = compute("pow(a0, a1)", x, y)
    usual = np.isfinite(wanted) & (np.abs(wanted) > 2.0**-126)
    ulps = np.abs(found[usual] - exact[usual]) / np.spacing(wanted[usual])
    assert ulps.max() <= 0.51
    np.testing.assert_allclose(found[~usual], wanted[~usual], atol=2.0**-126)


def test_what_is_not_positive_or_not_finite() -> None:
    values = array(0, -0.0, 1, -1, 2, -3, 0.5, -0.5, math.inf, -math.inf, math.nan, 1e-45, 3e38, 7, 1e10)
    x, y = (np.ascontiguousarray(one).reshape(-1) for one in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        wanted = np.power(x.astype(np.float64), y.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(compute("pow(a0, a1)", x, y), wanted, rtol=2e-7, atol=2.0**-126)
