"""The largest over leading or trailing axes: against a loop over columns; lengths; and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import NumericError, ShapeError
from tazza.operator import find_schema, gradient_for_op, operator_def, run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]
TYPES = ("ReduceFrontMax", "ReduceBackMax")
NAN = float("nan")


def by_columns(type: str, count: int = 1) -> Any:
    """Return a reduction that looks at one column after the other in Python."""

    def function(X: Array, lengths: Array | None = None) -> Array:
        front = "Front" in type
        kept = X.shape[count:] if front else X.shape[: X.ndim - count]
        Y = np.zeros(kept, X.dtype)
        for number, place in enumerate(np.ndindex(*kept)):
            elements: list[float] = X[(*(slice(None),) * count, *place) if front else place].ravel().tolist()
            Y[place] = max(elements[: None if lengths is None else max(lengths.ravel()[number], 1)])
        return Y

    return function


X = np.random.default_rng(10).standard_normal((3, 2, 5)).astype(np.float32)
FRONT, BACK = np.array([3, 0, 1, 2, 3, 1, 2, 3, 0, 1], "i"), np.array([5, 0, 1, 4, 2, 3], "i")
CASES = [
    *(Case(type, [X], by_columns(type)) for type in TYPES),
    *(Case(type, [X], by_columns(type, 2), {"num_reduce_dim": 2}, id="two axes") for type in TYPES),
    *(Case(type, [X], by_columns(type, 3), {"num_reduce_dim": 3}, id="all axes") for type in TYPES),
    *(Case(type, [X], X, {"num_reduce_dim": 0}, id="no axis") for type in TYPES),
    # Of no elements the first is the largest, and has no gradient: no derivative.
    *(
        Case(type, [X, FRONT if "Front" in type else BACK], by_columns(type), gradient=False, id="lengths")
        for type in TYPES
    ),
    *(
        Case(type, [X, np.maximum(FRONT if "Front" in type else BACK, 1)], by_columns(type), id="lengths from 1 on")
        for type in TYPES
    ),
]


@on_all_engines(CASES)
def test_reduce_front_back_max(case: Case, engine: str) -> None:
    check_op(case, engine)


@pytest.mark.parametrize("type", TYPES)
def test_no_elements(type: str) -> None:
    shape = (0, 3) if "Front" in type else (3, 0)
    assert run_op(type, np.zeros(shape, "f")).tolist() == [0, 0, 0]


@pytest.mark.parametrize("type", TYPES)
def test_equal_elements_have_the_gradient_each(type: str) -> None:
    x = np.ones((3, 3), np.float32)
    dX = run_op(f"{type}Gradient", [1.0, 2.0, 4.0], x, x[0])
    np.testing.assert_array_equal(dX if "Front" in type else dX.T, [[1, 2, 4]] * 3)
    dX = run_op(f"{type}Gradient", [1.0, 2.0, 4.0], x, x[0], np.array([0, 1, 2], "i"))
    np.testing.assert_array_equal(dX if "Front" in type else dX.T, [[0, 2, 4], [0, 0, 4], [0, 0, 0]])


@pytest.mark.parametrize("type", TYPES)
def test_nan_counts_where_it_stands_first(type: str) -> None:
    x = np.array([[NAN, 1], [2, NAN]], np.float32)
    np.testing.assert_array_equal(run_op(type, x), [NAN, 1] if "Front" in type else [NAN, 2])


@pytest.mark.parametrize("type", TYPES)
def test_emitted_gradients(type: str) -> None:
    op = find_schema(type).view(operator_def(type, ["x", "n"], ["y"]))
    (emitted,), gradients = gradient_for_op(op, ["dy"])
    assert (emitted.type, list(emitted.input), gradients) == (
        f"{type}Gradient",
        ["dy", "x", "y", "n"],
        ["x_grad", None],
    )


def test_refused() -> None:
    with pytest.raises(ShapeError, match="num_reduce_dim = 4, X has only 3"):
        run_op("ReduceFrontMax", X, num_reduce_dim=4)
    with pytest.raises(NumericError, match=r"lengths\[\d+\] is 4, not in \[0, 4\)"):
        run_op("ReduceFrontMax", X, FRONT + 1)
    with pytest.raises(ShapeError, match="num_reduce_dim = 2 with an input lengths"):
        run_op("ReduceBackMax", X, BACK, num_reduce_dim=2)
    with pytest.raises(ShapeError, match=r"Y has the shape \(3\), reducing X gives \(2, 5\)"):
        run_op("ReduceFrontMaxGradient", X[0], X, X[0, 0, :3])
