"""Gather, BatchGather and its gradient: against one element after the other; and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import NumericError, ShapeError
from tazza.operator import RowSlices, find_schema, gradient_for_op, operator_def, run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]


def values(*shape: int) -> Array:
    """Return float32 numbers, the same in every run."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def moves(data: tuple[int, ...], indices: Array, axis: int, *, outer: bool) -> Iterator[tuple[Any, Any]]:
    """Yield for each element that is gathered its place in DATA, and its place in OUTPUT."""
    own = indices.shape[axis:] if outer else indices.shape
    for place in np.ndindex(*data[:axis], *own, *data[axis + 1 :]):
        a, i, b = place[:axis], place[axis : axis + len(own)], place[axis + len(own) :]
        yield (*a, int(indices[(*a, *i) if outer else i]), *b), place


def gathered(axis: int, *, outer: bool = False) -> Any:
    def one_by_one(DATA: Array, INDICES: Array) -> list[Array]:
        own = INDICES.shape[axis:] if outer else INDICES.shape
        OUTPUT = np.zeros((*DATA.shape[:axis], *own, *DATA.shape[axis + 1 :]), DATA.dtype)
        for source, place in moves(DATA.shape, INDICES, axis, outer=outer):
            OUTPUT[place] = DATA[source]
        return [OUTPUT]

    return one_by_one


def returned(axis: int, *, outer: bool = False) -> Any:
    def one_by_one(DATA: Array, INDICES: Array, dOUTPUT: Array) -> list[Array]:
        dDATA = np.zeros(DATA.shape, DATA.dtype)
        for source, place in moves(DATA.shape, INDICES, axis, outer=outer):
            dDATA[source] += dOUTPUT[place]
        return [dDATA]

    return one_by_one


DATA = values(5, 3, 2)
ROWS = np.array([4, 0, 4, 2])
MATRIX = np.array([[1, 2, 1], [0, 0, 2]], np.int32)
OUTER = np.array([[0, 2], [1, 1], [2, 0], [0, 0], [1, 2]])
MATCHED: dict[str, Any] = {"match_outer": True}

MANY = values(70, 3)
CASES = [
    Case("Gather", [DATA, ROWS], gathered(0)),
    Case("Gather", [DATA, MATRIX], gathered(0), id="indices of rank 2, int32"),
    Case("Gather", [DATA, np.array(3)], gathered(0), id="one index"),
    Case("Gather", [np.arange(6), ROWS], np.arange(6)[ROWS], id="int64", gradient=False),
    Case("Gather", [DATA, np.array([-1, -5, 0])], DATA[[4, 0, 0]], id="from behind"),
    Case("Gather", [DATA, MATRIX], gathered(1), {"axis": 1}, id="axis 1"),
    Case("Gather", [DATA, np.array([1, 0, 1])], gathered(2), {"axis": -1}, id="the last axis"),
    Case("Gather", [DATA, OUTER], gathered(1, outer=True), {"axis": 1, **MATCHED}, id="own indices"),
    Case("BatchGather", [DATA, MATRIX], gathered(1)),
    Case("BatchGather", [DATA, OUTER], gathered(1, outer=True), MATCHED, id="own indices"),
    Case("BatchGather", [MANY, MATRIX], MANY[:, MATRIX], id="many parts of one element"),
    Case("BatchGather", [MANY, np.tile(OUTER, (14, 1))], np.take_along_axis(MANY, np.tile(OUTER, (14, 1)), 1), MATCHED),
    Case("BatchGather", [np.arange(210, dtype="h").reshape(70, 3), [2]], np.arange(2, 210, 3)[:, None], gradient=False),
    Case("BatchGatherGradient", [DATA, MATRIX, values(5, 2, 3, 2)], returned(1)),
    Case("BatchGatherGradient", [DATA, np.array([1, 1, 0]), values(5, 3, 3)], returned(2), {"axis": 2}, id="axis 2"),
    Case("BatchGatherGradient", [DATA, OUTER, values(5, 2, 2)], returned(1, outer=True), MATCHED, id="own indices"),
]


@on_all_engines(CASES)
def test_gather(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_texts_are_gathered() -> None:
    words = np.array([b"a", b"bc", b""], object)
    assert run_op("Gather", words, np.array([1, 1, 2])).tolist() == [b"bc", b"bc", b""]


def test_nothing_is_taken_from_nothing_however_often() -> None:
    """As genuine Caffe2."""
    assert run_op("Gather", DATA[:0], np.array([0, 7])).shape == (0, 3, 2)
    assert run_op("BatchGather", DATA[:0], np.array([0, 1])).shape == (0, 2, 2)


def test_the_gradient_along_the_first_axis_is_one_of_rows() -> None:
    op = find_schema("Gather").view(operator_def("Gather", ["d", "i"], ["o"]))
    assert gradient_for_op(op, ["do"]) == ([], [RowSlices("i", "do"), None])


def test_the_gradient_along_the_first_axis_is_dense_where_that_is_asked_for() -> None:
    """As Caffe2 emits it: the shape of DATA says how many rows there are."""
    op = find_schema("Gather").view(operator_def("Gather", ["d", "i"], ["o"], dense_gradient=1))
    (made,), names = gradient_for_op(op, ["o_grad"])
    assert (made.type, list(made.input), list(made.output)) == ("SparseToDense", ["i", "o_grad", "d"], ["d_grad"])
    assert names == ["d_grad", None]


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[Exception], str]] = [
    ("Gather", [DATA, np.array([0, 5])], {}, NumericError, "INDICES[1] is 5, not in [-5, 5)"),
    ("Gather", [DATA, np.array([-1])], {"axis": 1}, NumericError, "INDICES[0] is -1, not in [0, 3)"),
    ("BatchGather", [DATA, np.array([3])], {}, NumericError, "INDICES[0] is 3, not in [0, 3)"),
    ("BatchGather", [values(4), np.array([0])], {}, ShapeError, "axis = 1, DATA has 1 dimensions"),
    ("BatchGather", [DATA, OUTER[:2]], MATCHED, ShapeError, "INDICES has the shape (2, 2), DATA (5, 3, 2)"),
    ("BatchGatherGradient", [DATA, ROWS, values(5, 2, 2)], {}, ShapeError, "dOUTPUT has the shape (5, 2, 2)"),
]


@pytest.mark.parametrize(("type", "inputs", "arguments", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], arguments: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        run_op(type, *inputs, **arguments)
    assert text in str(caught.value)
