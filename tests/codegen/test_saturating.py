"""Functions that end at 1: every place of their tables, and their ends."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tazza.codegen.kernel import unavailable
from tests.codegen.test_function import array, compute

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

WANTED = {"erf": np.vectorize(math.erf, otypes=[float]), "tanh": np.tanh}


@pytest.mark.parametrize("name", WANTED)
def test_all_places(name: str) -> None:
    x = np.concatenate([np.linspace(-10, 10, 40_001), np.geomspace(1e-30, 1, 997)]).astype(np.float32)
    found, wanted = compute(f"{name}(a0)", x), WANTED[name](x.astype(np.float64))
    np.testing.assert_allclose(found, wanted, rtol=3e-7, atol=0)
    assert np.abs(found).max() == 1


@pytest.mark.parametrize("name", WANTED)
def test_ends(name: str) -> None:
    given = array(9.1, 1e30, math.inf, -math.inf, math.nan, 0.0, -0.0)
    found = compute(f"{name}(a0)", given)
    np.testing.assert_array_equal(found, array(1, 1, 1, -1, math.nan, 0, 0))
    np.testing.assert_array_equal(np.signbit(found[-2:]), [False, True])
