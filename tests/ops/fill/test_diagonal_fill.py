"""DiagonalFill: as NumPy fills a diagonal, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, ShapeError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]


def filled(shape: tuple[int, ...], value: Any, dtype: Any) -> Array:
    """Return zeros with a value along the diagonal, as NumPy has it."""
    found: Array = np.zeros(shape, dtype)
    if found.size:
        np.fill_diagonal(found, value, wrap=True)
    return found


CASES = [
    Case("DiagonalFill", [], filled((3, 4), 2, np.int64), {"shape": [3, 4], "value": 2}),
    Case("DiagonalFill", [], filled((9, 3), 1.5, "f"), {"shape": [9, 3], "value": 1.5}, id="again below"),
    Case("DiagonalFill", [], filled((3, 3, 3), 1.5, "f"), {"shape": [3, 3, 3], "value": 1.5}, id="rank 3"),
    Case("DiagonalFill", [], filled((0, 2), 1.5, "f"), {"shape": [0, 2], "value": 1.5}, id="empty"),
    Case("DiagonalFill", [np.ones((2, 5))], filled((2, 5), 1, np.bool_), {"value": 1, "dtype": 5}, id="bool, like X"),
    Case(
        "DiagonalFill", [np.array([2, 2])], filled((2, 2), 3.0, "d"), {"value": 3.0, "dtype": 13, "input_as_shape": 1}
    ),
    Case("DiagonalFill", [], np.zeros((2, 2), "f"), {"shape": [2, 2]}, id="0"),
]


@on_all_engines(CASES)
def test_diagonal_fill(case: Case, engine: str) -> None:
    check_op(case, engine)


@pytest.mark.parametrize("shape", [[3], [2, 3, 2], []])
def test_shapes_without_a_diagonal_are_refused(shape: list[int]) -> None:
    with pytest.raises(ShapeError, match="Y has the shape"):
        run_op("DiagonalFill", shape=shape, value=1.0)


def test_values_of_another_type_are_refused() -> None:
    with pytest.raises(ArgumentError, match="value"):
        run_op("DiagonalFill", shape=[2, 2], value=2, dtype=1)
    with pytest.raises(ArgumentError, match="300"):
        run_op("DiagonalFill", shape=[2, 2], value=300, dtype=6)
