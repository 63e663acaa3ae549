"""LengthsTopK: by sorted lists; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, NumericError, ShapeError, TazzaError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

X = np.array([3, 1, 2, 5, 4, 6, -7], np.float32)
TIES = np.array([1, 1, 2, 5, 2, 5, -7, 9], np.float32)
LENGTHS = np.array([2, 0, 4, 1], np.int32)
PLACES = np.array([[1, 0, -1], [-1, -1, -1], [3, 0, 2], [0, -1, -1]], np.int32)
SLOPES = np.arange(12, dtype=np.float32).reshape(4, 3) + 1


def largest(k: int) -> Any:
    """Sort pairs of an element and its place."""

    def made(x: Array, lengths: Array) -> tuple[Array, Array]:
        left, values, places = x.reshape(-1).tolist(), list[Any](), list[Any]()
        for count in lengths:
            own = sorted((-left.pop(0), i) for i in range(count))[:k]
            values.append([-v for v, _ in own] + [0] * (k - len(own)))
            places.append([i for _, i in own] + [-1] * (k - len(own)))
        shape = len(lengths), k
        return np.array(values, np.float32).reshape(shape), np.array(places, np.int32).reshape(shape)

    return made


def back(lengths: Array, places: Array, slopes: Array) -> Array:
    """Put each slope at its place."""
    found = [np.zeros(count, np.float32) for count in lengths]
    for row, at, slope in zip(found, places, slopes, strict=True):
        for i, value in zip(at, slope, strict=True):
            if i >= 0:
                row[i] = value
    return np.concatenate([np.zeros(0, np.float32), *found])


CASES = [
    Case("LengthsTopK", [X, LENGTHS], largest(2), {"k": 2}),
    Case("LengthsTopK", [TIES[:, None], LENGTHS], largest(5), {"k": 5}, id="ties, and one is left", gradient=False),
    Case("LengthsTopK", [X[:0], LENGTHS[:0]], largest(3), {"k": 3}, id="none"),
    Case("LengthsTopKGradient", [LENGTHS, PLACES, SLOPES], back, {"k": 3}),
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


THREE: dict[str, Any] = {"k": 3}
REFUSED: list[tuple[str, list[Any], dict[str, Any], type[TazzaError], str]] = [
    ("LengthsTopK", [X, LENGTHS], {}, TazzaError, "'?k'?"),
    ("LengthsTopK", [X, LENGTHS], {"k": 0}, TazzaError, "k"),
    ("LengthsTopK", [X, [4, 4]], THREE, NumericError, r"lengths\[1\] = 4 ends at 8, and there are 7 elements of X"),
    ("LengthsTopK", [X, [8, -1]], THREE, NumericError, r"lengths\[1\] is -1"),
    ("LengthsTopK", [X.astype(np.float64), LENGTHS], THREE, DTypeError, "X is float64"),
    ("LengthsTopKGradient", [LENGTHS, PLACES + 1, SLOPES], THREE, NumericError, r"P\[0, 0\] is 2, and segment 0 has 2"),
    ("LengthsTopKGradient", [LENGTHS, PLACES - 1, SLOPES], THREE, NumericError, r"P\[0, 2\] is -2"),
    ("LengthsTopKGradient", [[2, -1, 4, 1], PLACES, SLOPES], THREE, NumericError, r"lengths\[1\] is -1"),
    ("LengthsTopKGradient", [LENGTHS, PLACES[:3], SLOPES], THREE, ShapeError, r"P has the shape \(3, 3\)"),
]


@pytest.mark.parametrize(("type", "inputs", "arguments", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], arguments: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **arguments)
