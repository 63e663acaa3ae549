"""Segments of rows, whole: by lists of rows; turned around twice; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, NumericError, ShapeError, TazzaError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

X = np.random.default_rng(1).standard_normal((6, 2, 3)).astype(np.float32)
LENGTHS = np.array([2, 0, 3, 1], np.int32)
STEPS = np.random.default_rng(2).standard_normal((5, 3, 2)).astype(np.float32)
ENDS = np.array([2, 5, 0])
TEXT = np.array([b"a", b"b", b"", b"d", b"e", b"f"], object)


def pieces(rows: Array, lengths: Array) -> list[list[Array]]:
    """Return the rows of each segment."""
    left = list(rows)
    return [[left.pop(0) for _ in range(count)] for count in lengths]


def picked(rows: Array, lengths: Array, indices: Array) -> Array:
    """Return the rows of some segments."""
    segments = pieces(rows, lengths)
    found: list[Array] = []
    for n in map(int, indices):
        found.extend(segments[n])
    return np.array(found, rows.dtype).reshape(-1, *rows.shape[1:])


def filled(target: int, value: float) -> Any:
    """Return segments, each with so many rows."""

    def made(rows: Array, lengths: Array) -> Array:
        row = np.full(rows.shape[1:], value, rows.dtype)
        return np.array([one for own in pieces(rows, lengths) for one in [*own, *[row] * (target - len(own))]])

    return made


def turned(steps: Array, lengths: Array) -> Array:
    """Turn each segment around."""
    found = steps.copy()
    for n, count in enumerate(lengths):
        found[:count, n] = found[:count, n][::-1]
    return found


def tiled(rows: Array, lengths: Array) -> Array:
    """Repeat each row."""
    found = [row for row, count in zip(rows, lengths, strict=True) for _ in range(count)]
    return np.array(found, rows.dtype).reshape(-1, *rows.shape[1:])


def without(rows: Array, indices: Array) -> Array:
    """Take rows out."""
    return np.delete(rows, indices.astype(int), axis=0)


CASES = [
    Case("LengthsGather", [X, LENGTHS, np.array([2, 0, 2, 1])], picked),
    Case("LengthsGather", [TEXT, LENGTHS, np.array([3, 0], np.int32)], picked, id="text"),
    Case("LengthsGather", [X, LENGTHS, np.zeros(0, np.int32)], X[:0], id="none"),
    Case("LengthsPad", [X, LENGTHS], filled(3, -1), {"target_length": 3}),
    Case("LengthsPad", [X, LENGTHS], filled(4, 0.5), {"target_length": 4, "padding_value": 0.5}, id="a value"),
    Case(
        "LengthsPad", [np.arange(6), LENGTHS], filled(3, -2), {"target_length": 3, "padding_value": -2.75}, id="whole"
    ),
    Case("LengthsPad", [X[:0], 0 * LENGTHS], np.full((8, 2, 3), -1), {"target_length": 2}, id="empty segments"),
    Case("LengthsTile", [X[:4], LENGTHS], tiled),
    Case("LengthsTile", [TEXT[:4], LENGTHS], tiled, id="text", gradient=False),
    Case("LengthsTile", [X[:0], LENGTHS[:0]], X[:0], id="none", gradient=False),
    Case("ReversePackedSegs", [STEPS, ENDS], turned),
    Case("ReversePackedSegs", [STEPS > 0, ENDS.astype(np.int32)], turned, id="truth", gradient=False),
    Case("RemoveDataBlocks", [X, np.array([4, 0, 4])], without),
    Case("RemoveDataBlocks", [TEXT, np.array([1], np.int32)], without, id="text"),
    Case("RemoveDataBlocks", [X, np.zeros(0)], X, id="none"),
    Case("RemoveDataBlocks", [X, np.arange(6)], X[:0], id="all"),
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


LEFT = "the 3 lengths add up to 5, and there are 6 rows of X"
REFUSED: list[tuple[str, list[Any], dict[str, Any], type[TazzaError], str]] = [
    ("LengthsGather", [X, LENGTHS, [0, 4]], {}, NumericError, r"indices\[1\] is 4, not in \[0, 4\)"),
    ("LengthsGather", [X, LENGTHS, [-1]], {}, NumericError, r"indices\[0\] is -1"),
    ("LengthsGather", [X, LENGTHS[:3], [0]], {}, NumericError, LEFT),
    ("LengthsPad", [X, LENGTHS[:3]], {"target_length": 3}, NumericError, LEFT),
    ("LengthsPad", [X, LENGTHS], {"target_length": 2}, NumericError, r"lengths\[2\] is 3, not in \[0, 3\)"),
    ("LengthsPad", [X, LENGTHS], {"target_length": 0}, TazzaError, "target_length"),
    ("LengthsPad", [X, LENGTHS], {}, TazzaError, "target_length"),
    ("LengthsPad", [X.astype(np.float16), LENGTHS], {"target_length": 3}, DTypeError, "X is float16"),
    ("LengthsTile", [X[:2], [1, -1]], {}, NumericError, r"lengths\[1\] is -1"),
    ("LengthsTile", [X, LENGTHS], {}, ShapeError, "lengths"),
    ("ReversePackedSegs", [STEPS, [2, 6, 0]], {}, NumericError, r"lengths\[1\] is 6, not in \[0, 6\)"),
    ("ReversePackedSegs", [STEPS, [2, 5, -1]], {}, NumericError, r"lengths\[2\] is -1"),
    ("ReversePackedSegs", [STEPS, [2, 5]], {}, ShapeError, "lengths"),
    ("ReversePackedSegs", [STEPS[:, :, 0], ENDS], {}, ShapeError, "X"),
    ("RemoveDataBlocks", [X, [1, 6]], {}, NumericError, r"indices\[1\] is 6, not in \[0, 6\)"),
    ("RemoveDataBlocks", [X, [-1]], {}, NumericError, r"indices\[0\] is -1"),
    ("RemoveDataBlocks", [X, np.ones(1)], {}, DTypeError, "indices is float64"),
]


@pytest.mark.parametrize(("type", "inputs", "arguments", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], arguments: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **arguments)


def test_turned_around_twice() -> None:
    back = run_op("ReversePackedSegs", run_op("ReversePackedSegs", STEPS, ENDS), ENDS)
    np.testing.assert_array_equal(back, STEPS)
