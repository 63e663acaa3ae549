"""The weighted sum of all rows, and its gradient, against products of matrices; and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, ShapeError
from tazza.operator import find_schema, gradient_for_op, operator_def, run_op
from tazza.tensor import DataType, TensorSpec
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]
FORWARD, BACKWARD = "ReduceFrontWeightedSum", "ReduceFrontWeightedSumGradient"
ROW_SHAPES: list[tuple[int, ...]] = [(), (2, 5), (131,)]


def values(*shape: int) -> Array:
    """Return float32 numbers of that shape, the same in every run."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def summed(DATA: Array, SCALARS: Array) -> Array:
    """Return the product of a row of scalars and a matrix."""
    return np.tensordot(SCALARS[: len(DATA)].astype(np.float64), DATA.astype(np.float64), 1).astype(np.float32)


def spread(SCALARS: Array, dY: Array, dims: Array) -> Array:
    """Return the outer product."""
    return np.multiply.outer(SCALARS[: dims[0]], dY)


CASES = [
    *(Case(FORWARD, [values(7, *shape), values(7) + 1], summed) for shape in ROW_SHAPES),
    Case(FORWARD, [values(4, 3), values(6)], summed, id="more scalars"),
    Case(FORWARD, [values(0, 3), values(0)], np.zeros(3, np.float32), gradient=False, id="no rows"),
    *(Case(BACKWARD, [values(7) + 1, values(*shape), np.array([7, *shape])], spread) for shape in ROW_SHAPES),
    Case(BACKWARD, [values(7), values(3), np.array([4, 3])], spread, id="more scalars"),
    Case(BACKWARD, [values(0), values(3), np.array([0, 3])], np.zeros((0, 3), np.float32), id="no rows"),
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[str, list[Any], type[Exception], str]] = [
    (FORWARD, [values(4, 3), values(2)], ShapeError, "there are 2 SCALARS and 4 rows of DATA"),
    (FORWARD, [values(4, 3).astype("d"), values(4)], DTypeError, "DATA is float64"),
    (BACKWARD, [values(2), values(3), np.array([4, 3])], ShapeError, "there are 2 SCALARS and 4 rows"),
    (BACKWARD, [values(4), values(3), np.array([4, 5])], ShapeError, r"dY has the shape \(3\), a row of DATA \(5\)"),
    (BACKWARD, [values(4), values(3), np.array([-4, 3])], ShapeError, r"dims holds \[-4, 3\]"),
]


@pytest.mark.parametrize(("type", "inputs", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs)


def test_what_is_emitted() -> None:
    """As recorded of Caffe2: the shape of DATA is taken first, and SCALARS get nothing."""
    op = find_schema(FORWARD).view(operator_def(FORWARD, ["x", "w"], ["y"], grad_on_weights=1))
    (shape, step), given = gradient_for_op(op, ["dy"])
    assert (shape.type, list(shape.input), list(shape.output)) == ("Shape", ["x"], ["_y_dims"])
    assert (step.type, list(step.input), list(step.output)) == (BACKWARD, ["w", "dy", "_y_dims"], ["x_grad"])
    assert given == ["x_grad", None]


def test_unknown_dimensions() -> None:
    declared = find_schema(BACKWARD)
    op = declared.view(operator_def(BACKWARD, ["w", "dy", "n"], ["dx"]))
    w, dy, n = TensorSpec((4,), DataType.FLOAT), TensorSpec((5,), DataType.FLOAT), TensorSpec((2,), DataType.INT64)
    found = declared.infer_specs(op, [w, dy, n])
    assert (found.specs, found.reads) == ((TensorSpec((None, None), DataType.FLOAT),), {"dims"})
