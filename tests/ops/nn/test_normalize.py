"""Normalize with its gradient, and NormalizeL1: against one vector after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, GradientError, SchemaError, ShapeError, TazzaError
from tazza.operator import find_schema, gradient_for_op, operator_def, run_op
from tests.check import Case, check_op, on_all_engines, run

Array = NDArray[Any]


def values(*shape: int, seed: int = 0) -> Array:
    """Return float32 numbers of that shape, the same in every run."""
    return np.random.default_rng((sum(shape), seed)).standard_normal(shape).astype(np.float32)


def vectors(axis: int, power: int) -> Any:
    """Return the function that divides each vector along the axis by its length."""

    def one(x: Array) -> Array:
        return x / (np.abs(x.astype(np.float64)) ** power).sum() ** (1 / power)

    def all_of_them(X: Array) -> Array:
        return np.apply_along_axis(one, axis, X)

    return all_of_them


def through_matrix(X: Array, dY: Array) -> Array:
    """Return dX of the rows of a matrix by their full matrices of derivatives."""
    dX = np.zeros(X.shape)
    for i, x in enumerate(X.astype(np.float64)):
        length = np.sqrt((x * x).sum())
        dX[i] = (np.eye(x.size) / length - np.outer(x, x) / length**3) @ dY[i]
    return dX


X, DY = values(3, 7), values(3, 7, seed=1)
CASES = [
    Case("Normalize", [X], vectors(1, 2), batched=(0,), slack=2),
    Case("Normalize", [values(2, 3, 5)], vectors(1, 2), {"axis": 1}, slack=2, id="axis 1"),
    Case("Normalize", [values(2, 3, 5)], vectors(0, 2), {"axis": -3}, slack=2, id="axis -3"),
    Case("Normalize", [values(5)], vectors(0, 2), slack=2, id="rank 1"),
    Case("Normalize", [values(2, 0)], values(2, 0), id="nothing along the axis"),
    Case("NormalizeGradient", [X, DY], through_matrix, batched=(0, 1), slack=2),
    Case("NormalizeGradient", [X.T.copy(), DY.T.copy()], through_matrix(X, DY).T, {"axis": 0}, slack=2, id="axis 0"),
    Case("NormalizeGradient", [X, 3000 * X + DY], through_matrix, slack=2, id="almost along the vector"),
    Case("NormalizeL1", [X], vectors(1, 1), batched=(0,)),
    Case("NormalizeL1", [values(2, 3, 5)], vectors(1, 1), {"axis": -2}, id="axis -2"),
]


@on_all_engines(CASES)
def test_normalize(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_vectors_that_are_zero_or_almost() -> None:
    """Below 1e-12 the divisor is constant: Y is linear in X, and dX is dY / 1e-12."""
    small = np.array([[0, 0], [3e-13, 4e-13]], np.float32)
    np.testing.assert_allclose(run_op("Normalize", small), [[0, 0], [0.3, 0.4]], rtol=1e-5)
    dY = np.array([[3, 4], [5, 6]], np.float32)
    np.testing.assert_allclose(run_op("NormalizeGradient", small, dY), dY * 1e12, rtol=1e-5)
    np.testing.assert_array_equal(run_op("NormalizeL1", small)[0], [0, 0])


def test_no_gradient_of_l1() -> None:
    with pytest.raises(GradientError, match="NormalizeL1 has no gradient yet"):
        gradient_for_op(find_schema("NormalizeL1").view(operator_def("NormalizeL1", ["X"], ["Y"])), ["dY"])


@pytest.mark.parametrize("type", ["Normalize", "NormalizeL1"])
def test_never_in_place(type: str) -> None:
    with pytest.raises(SchemaError, match="in place of"):
        run(operator_def(type, ["X"], ["X"]), [X])


REFUSED: list[tuple[str, list[Array], dict[str, Any], type[TazzaError], str]] = [
    ("Normalize", [X], {"axis": 2}, ShapeError, "axis = 2 is not an axis of X"),
    ("NormalizeL1", [X], {"axis": -3}, ShapeError, "axis = -3 is not an axis of X"),
    ("Normalize", [X.astype("d")], {}, DTypeError, "X is float64"),
    ("NormalizeGradient", [X, DY[:2]], {}, ShapeError, "S is"),
]


@pytest.mark.parametrize(("type", "inputs", "args", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Array], args: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **args)
