"""Rows before and behind segments: by lists of rows; there and back; what is refused."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, GradientError, NumericError, SchemaError, ShapeError, TazzaError
from tazza.operator import find_schema, gradient_for_op, operator_def, run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

X = np.random.default_rng(1).standard_normal((6, 2, 3)).astype(np.float32)
LENGTHS = np.array([2, 0, 3, 1], np.int32)
FIRST, LAST = np.array([[1, 2, 3], [4, 5, 6]], np.float32), np.array([[-1, -2, -3], [-4, -5, -6]], np.float32)
WIDE: dict[str, Any] = {"padding_width": 2, "end_padding_width": 1}


def pieces(rows: Array, lengths: Any) -> list[list[Array]]:
    """Return the rows of each segment."""
    marks = np.cumsum([0, *lengths]).tolist()
    return [list(rows[begin:end]) for begin, end in pairwise(marks)]


def padded(s: int, e: int) -> Any:
    """Return what AddPadding gives, from lists of rows."""

    def made(x: Array, lengths: Array, first: Array | None = None, last: Array | None = None) -> tuple[Array, Array]:
        begin = np.zeros_like(x[0]) if first is None else first.reshape(x[0].shape)
        end = begin if last is None else last.reshape(x[0].shape)
        found = [[*[begin] * s, *own, *[end] * e] for own in pieces(x, lengths.reshape(-1))]
        return np.array([row for own in found for row in own]), np.array([len(own) for own in found])

    return made


def stripped(s: int, e: int) -> Any:
    """Return what RemovePadding gives, from lists of rows."""

    def made(x: Array, lengths: Array) -> tuple[Array, Array]:
        found = [own[s : len(own) - e] for own in pieces(x, lengths.reshape(-1))]
        return np.array([row for own in found for row in own]), np.array([len(own) for own in found])

    return made


LONG, COUNTS = np.concatenate([X, 2 * X]), np.array([3, 5, 4], np.int32)
MARGINS = [(own[:2], own[-1:]) for own in pieces(LONG, COUNTS)]
BEFORE = sum(row for begin, _ in MARGINS for row in begin)
BEHIND = sum(row for _, end in MARGINS for row in end)
NONE = np.zeros(0, np.int32)
CASES = [
    Case("AddPadding", [X, LENGTHS], padded(1, 1), outputs=2),
    Case("AddPadding", [X, LENGTHS, FIRST], padded(2, 1), WIDE, 2, id="rows before"),
    Case("AddPadding", [X, LENGTHS, FIRST, LAST], padded(2, 1), WIDE, 2, id="rows before and behind"),
    Case("AddPadding", [X, LENGTHS, FIRST, LAST.reshape(6)], padded(2, 1), WIDE, 2, id="a flat row", gradient=False),
    Case("AddPadding", [X, LENGTHS.reshape(2, 2)], padded(2, 2), {"padding_width": 2}, 2, id="lengths as a matrix"),
    Case("AddPadding", [X], padded(1, 1)(X, np.array([6]))[:1], outputs=1, id="all rows"),
    Case("AddPadding", [X], padded(0, 3)(X, np.array([6])), {"padding_width": 0, "end_padding_width": 3}, 2),
    Case("AddPadding", [X[:0], NONE], (X[:0], NONE), outputs=2, id="no segments", gradient=False),
    Case("AddPadding", [np.arange(6) > 2, LENGTHS], padded(1, 1), outputs=2, id="truth", gradient=False),
    Case("RemovePadding", [LONG, COUNTS], stripped(2, 1), WIDE, 2),
    Case("RemovePadding", [LONG], LONG[1:-1], outputs=1, id="all rows"),
    Case("RemovePadding", [np.arange(12), COUNTS], stripped(1, 1), outputs=2, id="whole numbers", gradient=False),
    Case("RemovePadding", [X[:0], NONE], (X[:0], NONE), outputs=2, id="no segments", gradient=False),
    Case("GatherPadding", [LONG, COUNTS], (BEFORE, BEHIND), WIDE, 2),
    Case("GatherPadding", [LONG, COUNTS], BEFORE + BEHIND, WIDE, 1, id="both in one"),
    Case("GatherPadding", [LONG, COUNTS], (0 * BEFORE, 0 * BEFORE), {"padding_width": 0}, 2, id="no padding"),
    Case("GatherPadding", [np.arange(8), COUNTS[:1]], (np.array(0), np.array(2)), outputs=2, id="rows are left"),
    Case("GatherPadding", [X[:0], NONE], np.zeros((2, 3)), outputs=1, id="no segments"),
    Case("PadEmptySamples", [LENGTHS], np.array([2, 1, 3, 1], "i"), outputs=1),
    Case(
        "PadEmptySamples",
        [LENGTHS, X, np.arange(1, 7)],
        (np.array([2, 1, 3, 1], "i"), np.insert(X, 2, 0, axis=0), np.array([1, 2, 0, 3, 4, 5, 6])),
        outputs=3,
        id="two",
    ),
    Case(
        "PadEmptySamples",
        [np.array([0, 1], "i"), np.array([b"a"], object)],
        (np.ones(2, "i"), np.array([b"", b"a"], object)),
        outputs=2,
        id="text",
    ),
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[TazzaError], str]] = [
    ("AddPadding", [X, LENGTHS[:3]], {}, NumericError, "the 3 lengths add up to 5, and there are 6 rows of X"),
    ("AddPadding", [X, [7, -1]], {}, NumericError, r"lengths\[1\] is -1"),
    ("AddPadding", [X, LENGTHS], {"padding_width": -1}, TazzaError, "padding_width"),
    ("AddPadding", [X, LENGTHS, FIRST[0]], {}, ShapeError, "first has 3 elements, a row of X has 6"),
    ("AddPadding", [X, LENGTHS, FIRST, LAST[0]], {}, ShapeError, "last has 3 elements"),
    ("AddPadding", [X.astype(np.float16)], {}, DTypeError, "X is float16"),
    ("RemovePadding", [X, [1, 5]], {}, NumericError, "segment 0 has 1 rows, 1 of padding before it and 1 behind it"),
    ("RemovePadding", [X[:1]], {}, ShapeError, "X has 1 rows, and 2 of padding for each of 1 segments"),
    ("RemovePadding", [X, [2, 5]], {}, NumericError, r"lengths\[1\] = 5 ends at 7"),
    ("GatherPadding", [X, LENGTHS], {}, NumericError, "segment 1 has 0 rows"),
    ("GatherPadding", [X, [7]], {}, NumericError, r"lengths\[0\] = 7 ends at 7"),
    ("GatherPadding", [X > 0, [6]], {}, DTypeError, "X is bool"),
    ("PadEmptySamples", [LENGTHS, X[:5]], {"outputs": 2}, NumericError, "6, and there are 5 rows of X0"),
    ("PadEmptySamples", [LENGTHS, X], {"outputs": 1}, SchemaError, "0 Y for 1 X"),
    ("PadEmptySamples", [LENGTHS, np.float32(1)], {"outputs": 2}, ShapeError, "X0 has the shape"),
]


@pytest.mark.parametrize(("type", "inputs", "arguments", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], arguments: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **arguments)


@pytest.mark.parametrize("seed", range(6))
def test_what_is_added_can_be_removed(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 4, rng.integers(1, 6)).astype(np.int32)
    x = rng.standard_normal((lengths.sum(), 3)).astype(np.float32)
    widths = dict(zip(("padding_width", "end_padding_width"), rng.integers(0, 3, 2).tolist(), strict=True))
    Y, longer = run_op("AddPadding", x, lengths, outputs=2, **widths)
    for got, wanted in zip(run_op("RemovePadding", Y, longer, outputs=2, **widths), (x, lengths), strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("type", ["AddPadding", "RemovePadding"])
def test_the_gradient_needs_the_new_lengths(type: str) -> None:
    op = find_schema(type).view(operator_def(type, ["x", "lengths"], ["y"]))
    with pytest.raises(GradientError, match="needs its second output"):
        gradient_for_op(op, ["dy"])


def test_rows_of_padding_have_a_gradient() -> None:
    op = find_schema("AddPadding").view(operator_def("AddPadding", ["x", "l", "f", "b"], ["y", "m"], padding_width=2))
    made, found = gradient_for_op(op, ["dy", None])
    assert [(one.type, list(one.input), list(one.output)) for one in made] == [
        ("RemovePadding", ["dy", "m"], ["x_grad"]),
        ("GatherPadding", ["dy", "m"], ["f_grad", "b_grad"]),
    ]
    assert found == ["x_grad", None, "f_grad", "b_grad"]
