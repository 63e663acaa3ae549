"""SparseToDense, SparseToDenseMask and EnsureDense: by loops over ids; what is refused, what gradients are emitted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, NumericError, SchemaError, ShapeError, TazzaError
from tazza.operator import RowSlices, find_schema, gradient_for_op, operator_def, run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

X = np.random.default_rng(1).standard_normal((6, 3, 2)).astype(np.float32)
AT = np.array([2, 0, 4, 2, 2, 0])
IDS = np.array([7, 3, 9, 7, -1, 7], np.int32)
LENGTHS = np.array([2, 0, 3, 1], np.int32)
DEFAULT = np.array([[0.5, -1], [2, 3], [-4, 5]], np.float32)
MASK: dict[str, Any] = {"mask": [7, 2**40, 3]}


def summed(rows: int) -> Any:
    """Return sums of rows by a product with a matrix of ones and zeros."""

    def dense(indices: Array, values: Array, *_: Array) -> Array:
        marks = np.equal.outer(np.arange(rows), indices).astype(values.dtype)
        return np.tensordot(marks, values, 1)

    return dense


def masked(ids: Array, values: Array, default: Array, lengths: Array | None = None) -> tuple[Array, Array]:
    """Look up each wanted id in each segment."""
    ends = [len(ids)] if lengths is None else np.cumsum(lengths).tolist()
    Y, present = list[Any](), list[Any]()
    for begin, end in zip([0, *ends[:-1]], ends, strict=True):
        found = dict(zip(ids[begin:end].tolist(), values[begin:end], strict=True))
        Y.append([found.get(id, default) for id in MASK["mask"]])
        present.append([id in found for id in MASK["mask"]])
    return (np.array(Y[0]), np.array(present[0])) if lengths is None else (np.array(Y), np.array(present))


def spread(ids: Array, dY: Array, lengths: Array) -> Array:
    """Return the gradient of the last row of each id in each segment."""
    dX, begin = np.zeros((len(ids), *dY.shape[2:]), dY.dtype), 0
    for n, count in enumerate(lengths):
        own = ids[begin : begin + count].tolist()
        for k, id in enumerate(own):
            if id in MASK["mask"] and id not in own[k + 1 :]:
                dX[begin + k] = dY[n, MASK["mask"].index(id)]
        begin += count
    return dX


PRESENT = {**MASK, "return_presence_mask": 1}
SLOPES = np.random.default_rng(2).standard_normal((4, 3, 5)).astype(np.float32)
CASES = [
    Case("SparseToDense", [AT, X], summed(5)),
    Case("SparseToDense", [AT.astype(np.int32), X, np.zeros((7, 2), bool)], summed(7), id="as many rows as like has"),
    Case("SparseToDense", [AT[:0], X[:0]], X[:0], id="none", gradient=False),
    Case("SparseToDense", [AT, np.arange(6)], summed(5), id="whole numbers", gradient=False),
    Case("EnsureDense", [X], X),
    Case("EnsureDense", [np.array([b"a", b""], object)], np.array([b"a", b""], object), id="text", gradient=False),
    Case("SparseToDenseMask", [IDS, X, DEFAULT, LENGTHS], masked(IDS, X, DEFAULT, LENGTHS)[:1], MASK),
    Case("SparseToDenseMask", [IDS, X, DEFAULT, LENGTHS], masked, PRESENT, 2, id="with marks"),
    Case("SparseToDenseMask", [IDS, X, DEFAULT], masked, PRESENT, 2, id="one segment"),
    Case("SparseToDenseMask", [IDS, X, DEFAULT, LENGTHS[:3]], masked, PRESENT, 2, id="ids are left"),
    Case("SparseToDenseMask", [IDS[:0], X[:0], DEFAULT, 0 * LENGTHS], masked, PRESENT, 2, id="no ids"),
    Case(
        "SparseToDenseMask",
        [IDS[:2], np.array([b"a", b"b"], object), np.array(b"?", object)],
        np.array([b"a", b"?", b"b"], object),
        MASK,
        id="text",
        gradient=False,
    ),
    Case("SparseToDenseMaskGradient", [IDS, SLOPES, LENGTHS], spread, MASK),
    Case(
        "SparseToDenseMaskGradient",
        [IDS, SLOPES[0]],
        spread(IDS, SLOPES[:1], np.array([6])),
        MASK,
        id="one segment",
    ),
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[TazzaError], str]] = [
    ("SparseToDense", [AT - 1, X], {}, NumericError, r"indices\[1\] is -1, not in \[0, 4\)"),
    ("SparseToDense", [AT, X, X[:4]], {}, NumericError, r"indices\[2\] is 4, not in \[0, 4\)"),
    ("SparseToDense", [AT * 2**40, X], {}, NumericError, "the indices name 4398046511105 rows"),
    ("SparseToDense", [AT, X, np.float32(0)], {}, ShapeError, "like has rank 0"),
    ("SparseToDense", [AT[:5], X], {}, ShapeError, "X"),
    ("SparseToDense", [AT, X.astype(np.float64)], {}, DTypeError, "X is float64"),
    ("SparseToDenseMask", [IDS, X, DEFAULT], {"mask": []}, ArgumentError, "'mask' is empty"),
    ("SparseToDenseMask", [IDS, X, DEFAULT], {"mask": [3, -1]}, ArgumentError, r"mask\[1\] = -1 is negative"),
    ("SparseToDenseMask", [IDS, X, DEFAULT], {"mask": [3, 5, 3]}, ArgumentError, r"mask\[2\] = 3 stands at 0"),
    ("SparseToDenseMask", [IDS, X, DEFAULT], PRESENT, SchemaError, "there is no second output"),
    ("SparseToDenseMask", [IDS, X, DEFAULT[0]], MASK, ShapeError, r"default has the shape \(2\), a row of X \(3, 2\)"),
    ("SparseToDenseMask", [IDS, X, DEFAULT.astype(np.float64)], MASK, DTypeError, "default"),
    ("SparseToDenseMask", [IDS, X, DEFAULT, [7]], MASK, NumericError, r"lengths\[0\] = 7 ends at 7"),
    ("SparseToDenseMask", [IDS, X, DEFAULT, [7, -1]], MASK, NumericError, r"lengths\[1\] is -1"),
    (
        "SparseToDenseMask",
        [IDS, X, DEFAULT, LENGTHS],
        {**MASK, "max_skipped_indices": 1},
        NumericError,
        "1 segments have negative ids, max_skipped_indices is 1",
    ),
    ("SparseToDenseMaskGradient", [IDS, SLOPES[:3], LENGTHS], MASK, ShapeError, r"it must begin with \(4, 3\)"),
]


@pytest.mark.parametrize(("type", "inputs", "arguments", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], arguments: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **arguments)


@pytest.mark.parametrize("most", [2, -1])
def test_some_segments_may_have_negative_ids(most: int) -> None:
    Y = run_op("SparseToDenseMask", IDS, X, DEFAULT, LENGTHS, max_skipped_indices=most, **MASK)
    np.testing.assert_array_equal(Y[2, 0], X[3])


def test_a_gradient_by_rows_becomes_dense() -> None:
    definition = operator_def("EnsureDense", ["x"], ["y"])
    op = find_schema("EnsureDense").view(definition)
    assert gradient_for_op(op, ["g"]) == ([], ["g"])
    made, found = gradient_for_op(op, [RowSlices("i", "v")])
    assert [(one.type, list(one.input), list(one.output)) for one in made] == [
        ("SparseToDense", ["i", "v", "x"], ["x_grad"])
    ]
    assert found == ["x_grad"]
