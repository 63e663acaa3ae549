"""ScatterWeightedSum, which works in place: by hand, one row after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, GradientError, NumericError, SchemaError, ShapeError, TazzaError
from tazza.operator import find_schema, gradient_for_op, operator_def
from tests.check import engines_of, run

Array = NDArray[Any]

TYPE = "ScatterWeightedSum"


def values(*shape: int) -> Array:
    """Return float32 numbers of that shape, the same in every run."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def weight(value: float) -> Array:
    """Return one element."""
    return np.array([value], np.float32)


def scatter(inputs: list[Array], output: str = "in0") -> Array:
    """Run the operator on fresh copies."""
    names = [f"in{i}" for i in range(len(inputs))]
    (Y,), _ = run(operator_def(TYPE, names, [output]), [np.array(value) for value in inputs])
    return Y


@pytest.mark.parametrize("engine", engines_of(TYPE))
@pytest.mark.parametrize("shape", [(7,), (7, 3), (7, 2, 5)])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_rows(shape: tuple[int, ...], dtype: Any, engine: str) -> None:
    rows = np.array([4, 0, 4, 6], dtype)
    X0, X1, X2 = values(*shape), values(4, *shape[1:]), values(4, *shape[1:]) + 1
    wanted = X0.copy()
    for row in rows:
        wanted[row] *= 0.5
    for row, first, second in zip(rows, X1, X2, strict=True):
        wanted[row] += 2 * first - 3 * second
    names = ["X0", "w0", "i", "X1", "w1", "X2", "w2"]
    inputs = [X0, weight(0.5), rows, X1, weight(2), X2, weight(-3)]
    (Y,), _ = run(operator_def(TYPE, names, ["X0"]), inputs, engine)
    np.testing.assert_allclose(Y, wanted, rtol=1e-5, atol=1e-6)


def test_shapes_of_indices_and_rows_do_not_matter() -> None:
    X0, X1 = values(5, 3), values(4, 3)
    wanted = scatter([X0, weight(1), np.array([0, 1, 3, 2]), X1, weight(1)])
    again = scatter([X0, weight(1), np.array([[0, 1], [3, 2]]), X1.reshape(6, 2), np.array(1, "f")])
    np.testing.assert_array_equal(again, wanted)


def test_no_gradient() -> None:
    definition = operator_def(TYPE, ["X0", "w0", "i", "X1", "w1"], ["X0"])
    with pytest.raises(GradientError, match="must not be asked for its gradient"):
        gradient_for_op(find_schema(TYPE).view(definition), ["dY"])


X0, ONE, ROWS = values(5, 3), weight(1), np.array([0, 2])
REFUSED: list[tuple[list[Array], type[TazzaError], str]] = [
    ([X0, ONE, np.array([0, 5]), values(2, 3), ONE], NumericError, r"indices\[1\] is 5, not in \[0, 5\)"),
    ([X0, ONE, np.array([-1, 0]), values(2, 3), ONE], NumericError, r"indices\[0\] is -1, not in \[0, 5\)"),
    ([X0, ONE, ROWS, values(3, 3), ONE], ShapeError, "X1 has 9 elements, .* take 6"),
    ([X0, np.ones(2, "f"), ROWS, values(2, 3), ONE], ShapeError, r"w0 has the shape \(2\), it must have 1 element"),
    ([X0, ONE, ROWS, values(2, 3), np.ones(2, "f")], ShapeError, r"w1 has the shape \(2\)"),
    ([X0[0, 0], ONE, ROWS, values(2), ONE], ShapeError, "X0 has rank 0"),
    ([X0, ONE, ROWS], SchemaError, "3 inputs"),
    ([X0, ONE, ROWS, X0, ONE, X0], SchemaError, "does not take 6 inputs"),
    ([X0.astype("d"), ONE, ROWS, values(2, 3), ONE], DTypeError, "X0 is float64"),
]


@pytest.mark.parametrize(("inputs", "error", "text"), REFUSED)
def test_refused(inputs: list[Array], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        scatter(inputs)


def test_only_in_place() -> None:
    with pytest.raises(SchemaError, match="must be in place of input X0"):
        scatter([X0, ONE, ROWS, values(2, 3), ONE], "Y")
