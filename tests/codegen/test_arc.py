"""Arc functions: borders of their ranges, signs, and what is beyond -1 and 1."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tazza.codegen.arc import FAR, NEAR
from tazza.codegen.kernel import unavailable
from tests.codegen.test_function import array, compute

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

EDGES = array(0, -0.0, 0.5, -0.5, 1, -1, NEAR, FAR, -NEAR, -FAR, 1.5, -1.5, math.inf, -math.inf, math.nan, 1e-45)


@pytest.mark.parametrize(("name", "function"), [("asin", np.arcsin), ("acos", np.arccos), ("atan", np.arctan)])
def test_borders(name: str, function: np.ufunc) -> None:
    x = np.concatenate([EDGES, np.nextafter(EDGES, np.float32(0)), np.nextafter(EDGES, np.float32(2))])
    with np.errstate(all="ignore"):
        wanted = function(x.astype(np.float64)).astype(np.float32)
    found = compute(f"{name}(a0)", x)
    np.testing.assert_allclose(found, wanted, rtol=3e-7, atol=1e-44)
    np.testing.assert_array_equal(np.signbit(found[:2]), np.signbit(wanted[:2]))
