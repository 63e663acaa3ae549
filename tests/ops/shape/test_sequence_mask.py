"""SequenceMask: against one element after the other; and what is refused."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, SchemaError, ShapeError
from tazza.graph import backward_pass
from tazza.operator import operator_def, run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

X = np.arange(1, 25, dtype=np.float32).reshape(2, 3, 4)
ENDS = np.array([1, 0, 9, 3, 2, 4, 7], np.int32)


def is_kept(mode: str, i: int, j: int, end: int, radius: int) -> bool:
    """Whether an element stays."""
    if mode == "sequence":
        return j < end
    if mode == "window":
        return end - radius <= j <= end + radius
    return {"upper": i >= j, "lower": i <= j, "upperdiag": i > j, "lowerdiag": i < j}[mode]


def by_element(
    *blobs: Array, mode: str, axis: int = 1, behind: int = 3, batches: int = 0, fill: float = -np.inf, radius: int = 10
) -> Array:
    """Return Y: rows are the axes from `batches` to `axis`, columns those to `behind`."""
    X, ends = blobs[0], blobs[1].ravel() if len(blobs) > 1 else np.zeros(99, int)
    Y = X.copy()
    for place in itertools.product(*map(range, X.shape)):
        i = int(np.ravel_multi_index(place[batches:axis], X.shape[batches:axis])) if axis > batches else 0
        j = int(np.ravel_multi_index(place[axis:behind], X.shape[axis:behind])) if behind > axis else 0
        if not is_kept(mode, i, j, int(ends[i]), radius):
            Y[place] = fill
    return Y


def case(id: str, mode: str, *, batches: int = 0, behind: int = 3, **args: Any) -> Case:
    """Return a case; lengths are given to modes that read them."""
    inputs = [X, ENDS] if mode in ("sequence", "window") else [X]
    axis = args.get("axis", 1) % 3
    fill = 0.0 if args.get("grad") else args.get("fill_val", -np.inf)
    expected = partial(
        by_element, mode=mode, axis=axis, behind=behind, batches=batches, fill=fill, radius=args.get("radius", 10)
    )
    return Case("SequenceMask", inputs, expected, {"mode": mode, **args}, id=id, gradient=np.isfinite(fill))


CASES = [
    case("sequence", "sequence", fill_val=0.5),
    case("minus infinity", "sequence"),
    case("last axis", "sequence", axis=-1, fill_val=-2.0),
    case("from axis 0", "sequence", axis=0, fill_val=-2.0),
    case("of gradients", "sequence", grad=1),
    case("repeated", "sequence", repeat_from_axis=-1, behind=2, fill_val=0.0),
    case("repeated over nothing", "sequence", repeat_from_axis=1, behind=1, fill_val=0.0),
    case("batches", "sequence", axis=2, batch=0, batches=1, fill_val=0.0),
    case("batches of one row", "window", axis=2, batch=-2, batches=2, radius=1, fill_val=0.0),
    case("window", "window", radius=1, fill_val=0.5),
    case("a window of nothing", "window", radius=-1, fill_val=0.5),
    *(case(mode, mode, axis=2, fill_val=0.25) for mode in ("upper", "lower", "upperdiag", "lowerdiag")),
    Case("SequenceMask", [X[:, :0], ENDS], X[:, :0], {"mode": "sequence"}, gradient=False, id="empty"),
]


@on_all_engines(CASES)
def test_sequence_mask(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_lengths_beside_a_triangle_are_not_read() -> None:
    alone = run_op("SequenceMask", X, mode="upper")
    np.testing.assert_array_equal(run_op("SequenceMask", X, ENDS[:1], mode="upper"), alone)
    emitted, _ = backward_pass([operator_def("SequenceMask", ["X", "L"], ["Y"], mode="upper")], {"Y": "dY"})
    assert [list(op.input) for op in emitted] == [["dY"]]


REFUSED: list[tuple[list[Any], dict[str, Any], type[Exception], str]] = [
    ([X], {}, ArgumentError, "mode"),
    ([X], {"mode": "diagonal"}, ArgumentError, "diagonal"),
    ([X], {"mode": "window"}, SchemaError, "reads lengths"),
    ([X, ENDS[:1]], {"mode": "sequence"}, ShapeError, "there are 1 lengths, and I = 2 rows"),
    ([X, ENDS], {"mode": "sequence", "axis": 3}, ShapeError, "axis = 3 is not an axis of X"),
    ([X, ENDS], {"mode": "sequence", "batch": 1}, ShapeError, "batch = 1 is not before axis = 1"),
    ([X, ENDS], {"mode": "sequence", "axis": 2, "repeat_from_axis": 1}, ShapeError, "is before axis = 2"),
    ([X], {"mode": "upper", "repeat_from_axis": 2}, ArgumentError, "repeat_from_axis is for"),
    ([X, ENDS], {"mode": "sequence", "repeat_from_axis": 2, "batch": 0}, ArgumentError, "without batch"),
    ([X, ENDS.astype(np.int64)], {"mode": "sequence"}, DTypeError, "lengths is int64"),
    ([X.astype(np.float64), ENDS], {"mode": "sequence"}, DTypeError, "X is float64"),
]


@pytest.mark.parametrize(("inputs", "args", "error", "text"), REFUSED)
def test_refused(inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op("SequenceMask", *inputs, **args)


def test_the_gradient_of_an_operator_that_says_that_it_is_none() -> None:
    op = operator_def("SequenceMask", ["x", "l"], ["y"], mode="sequence", grad=0)
    made, _ = backward_pass([op], {"y": "y_grad"})
    assert [argument.i for argument in made[-1].arg if argument.name == "grad"] == [1]
