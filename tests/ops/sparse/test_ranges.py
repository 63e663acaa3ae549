"""GatherRanges and GatherRangesToDense: by slices; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, NumericError, ShapeError, TazzaError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

X = np.array([1.5, -2, 3, 4.25, 5, -6, 7, 8], np.float32)
RANGES = np.array([[[0, 1], [2, 2], [7, 1]], [[4, 3], [-9, 0], [0, 2]]], np.int32)
FIXED = np.array([[[0, 1], [2, 3]], [[4, 1], [9, 2]], [[6, 1], [1, 3]], [[2, 0], [5, 3]], [[3, 1], [0, 0]]])
KEYS = np.array([4, 9, 1, 7, 7, 8, 3, 5])


def gathered(x: Array, ranges: Array) -> tuple[Array, Array]:
    """Return slices, one behind the other."""
    rows = [[x[start : start + size] for start, size in row if size] for row in ranges.tolist()]
    flat = [one for row in rows for one in row]
    return np.concatenate([x[:0], *flat]), np.array([sum(map(len, row)) for row in rows])


def dense(*sizes: int) -> Any:
    """Return slices of these lengths as rows, ordered by keys."""

    def made(x: Array, ranges: Array, keys: Array | None = None) -> tuple[Array, ...]:
        found = tuple(np.full((len(ranges), size), b"" if x.dtype == object else 0, x.dtype) for size in sizes)
        for n, row in enumerate(ranges.tolist()):
            for rows, (start, size) in zip(found, row, strict=True):
                if size == rows.shape[1]:
                    own = list(range(start, start + size))
                    rows[n] = x[own if keys is None else sorted(own, key=lambda i: keys[i])]
        return found

    return made


SIZES: dict[str, Any] = {"lengths": [1, 3]}
TEXT = np.array([b"a", b"bc", b"", b"d", b"e", b"f", b"g", b"h"], object)
CASES = [
    Case("GatherRanges", [X, RANGES], gathered),
    Case("GatherRanges", [TEXT, RANGES.astype(np.int64)], gathered, id="text"),
    Case("GatherRanges", [X, RANGES[:0]], gathered, id="none"),
    Case("GatherRanges", [X[:0], 0 * RANGES], gathered, id="empty ranges of nothing"),
    Case("GatherRangesToDense", [X, FIXED], dense(1, 3), SIZES, 2),
    Case("GatherRangesToDense", [X, FIXED.astype(np.int32), KEYS], dense(1, 3), SIZES, 2, id="by keys"),
    Case("GatherRangesToDense", [TEXT, FIXED], dense(1, 3), SIZES, 2, id="text"),
    Case("GatherRangesToDense", [X, FIXED[:0]], dense(1, 3), SIZES, 2, id="none"),
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


def shares(**arguments: Any) -> dict[str, Any]:
    """Return arguments that count the samples that there are."""
    return {**SIZES, "outputs": 2, "min_observation": 1, **arguments}


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[TazzaError], str]] = [
    ("GatherRanges", [X, [[[0, 1], [7, 2]]]], {}, NumericError, r"ranges\[0, 1\] is \[7, 2\], and X has 8 elements"),
    ("GatherRanges", [X, [[[0, 1]], [[-1, 2]]]], {}, NumericError, r"ranges\[1, 0\] is \[-1, 2\]"),
    ("GatherRanges", [X, [[[3, -1]]]], {}, NumericError, r"ranges\[0, 0\] is \[3, -1\]"),
    ("GatherRanges", [X, RANGES[:, :0]], {}, ShapeError, "F = 0 ranges"),
    ("GatherRanges", [X, RANGES[0]], {}, ShapeError, "ranges"),
    ("GatherRangesToDense", [X, [[[4, 5]]]], {"lengths": [5]}, NumericError, r"ranges\[0, 0\] is \[4, 5\]"),
    ("GatherRangesToDense", [X, FIXED, KEYS[:6]], {**SIZES, "outputs": 2}, NumericError, r"\[6, 1\], and key has 6"),
    ("GatherRangesToDense", [X, FIXED, KEYS.astype("i")], {**SIZES, "outputs": 2}, DTypeError, "key is int32"),
    ("GatherRangesToDense", [X, FIXED], SIZES, ArgumentError, "there are 1 outputs, and lengths names 2"),
    ("GatherRangesToDense", [X, FIXED], {"lengths": [1, 0], "outputs": 2}, ArgumentError, r"lengths\[1\] is 0"),
    ("GatherRangesToDense", [X, FIXED], {"lengths": [], "outputs": 1}, ArgumentError, "'lengths' is empty"),
    (
        "GatherRangesToDense",
        [X, FIXED],
        {"lengths": [1] * 3, "outputs": 3},
        ShapeError,
        "F = 2 ranges, lengths names 3",
    ),
    (
        "GatherRangesToDense",
        [X, FIXED],
        shares(max_mismatched_ratio=0.125),
        NumericError,
        "1 of 5 ranges 1 have another number of elements, of 5 a share of 0.125",
    ),
    (
        "GatherRangesToDense",
        [X, FIXED],
        shares(max_mismatched_ratio=1.0, max_empty_ratio=0.125),
        NumericError,
        "1 of 5 ranges 0 have no elements",
    ),
]


@pytest.mark.parametrize(("type", "inputs", "arguments", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], arguments: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **arguments)
