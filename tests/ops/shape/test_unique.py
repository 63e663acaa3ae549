"""Unique, Find and FindDuplicateElements: what is different, and where it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, ShapeError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]


def by_element(X: Array) -> tuple[Array, Array]:
    """Return the different elements and the place of each."""
    found = sorted(set(X.tolist()))
    return np.array(found, X.dtype), np.array([found.index(x) for x in X.tolist()], np.int32)


GIVEN = np.array([5, -1, 5, 2**40, -1])
CASES = [
    Case("Unique", [GIVEN], by_element, outputs=2),
    Case("Unique", [GIVEN], by_element(GIVEN)[:1], outputs=1, id="without places"),
    Case("Unique", [np.array([7, 7, 3], np.int32)], by_element, outputs=2, id="int32"),
    Case("Unique", [GIVEN[:0]], by_element, outputs=2, id="nothing"),
    Case("Find", [GIVEN, np.array([[5, 7], [-1, 2**40]])], np.array([[2, -1], [4, 3]])),
    Case("Find", [GIVEN.reshape(5, 1), np.array(7)], np.array(9), {"missing_value": 9}, id="rank 0"),
    Case("Find", [GIVEN[:0], GIVEN], np.full(5, -1), id="in nothing"),
    Case("FindDuplicateElements", [GIVEN], np.array([2, 4])),
    Case("FindDuplicateElements", [np.array([np.nan, 0, np.nan, -0.0], "f")], np.array([3]), gradient=False, id="NaN"),
    Case("FindDuplicateElements", [np.array([b"b", b"a", b"b"], object)], np.array([2]), gradient=False, id="text"),
    Case("FindDuplicateElements", [GIVEN[:0]], np.zeros(0, np.int64), id="nothing"),
]


@on_all_engines(CASES)
def test_unique(case: Case, engine: str) -> None:
    check_op(case, engine)


@pytest.mark.parametrize("dtype", ["i", "l"])
@pytest.mark.parametrize("apart", [1, 3, 5000, 10**8])
def test_many_elements_near_each_other_and_far_apart(apart: int, dtype: str) -> None:
    X = (np.random.default_rng(apart).integers(-apart, apart, 3001) - apart).astype(dtype)
    found = [run_op("Unique", X, engine=engine, outputs=2) for engine in ("native", "reference")]
    for ours, expected in zip(*found, strict=True):
        np.testing.assert_array_equal(ours, expected)


def test_refused() -> None:
    with pytest.raises(ShapeError, match="X"):
        run_op("Unique", GIVEN.reshape(1, 5))
    with pytest.raises(DTypeError, match="float32"):
        run_op("Unique", np.ones(3, np.float32))
    with pytest.raises(ShapeError, match="X"):
        run_op("FindDuplicateElements", GIVEN.reshape(1, 5))
