"""Sines, cosines and tangents of angles of all sizes: each way to reduce them, and the signs."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.codegen.circle import LARGEST_ANGLE, SMALL_ANGLE
from tazza.codegen.kernel import unavailable
from tests.codegen.test_function import compute

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))


@pytest.mark.parametrize(
    "most", [1.0, 10.0, SMALL_ANGLE, 1.01 * SMALL_ANGLE, LARGEST_ANGLE, 1.01 * LARGEST_ANGLE, 3e38]
)
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_angles_up_to(most: float, name: str) -> None:
    """Those near the end and those near multiples of pi / 2 too, where next to nothing is left."""
    turns = np.round(np.linspace(-most, most, 3001) / (np.pi / 2)) * (np.pi / 2)
    x = np.concatenate([np.linspace(-most, most, 3001), turns]).astype(np.float32)
    wanted = getattr(np, name)(x.astype(np.longdouble if most < SMALL_ANGLE else np.float64))
    ulps = np.abs(compute(f"{name}(a0)", x) - wanted) / np.spacing(np.abs(wanted.astype(np.float32)))
    assert float(ulps.max()) < 2.5
