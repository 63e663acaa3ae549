"""CopyRowsToTensor: row by row; its gradient, that of Y; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, NumericError, SchemaError, ShapeError
from tazza.operator import find_schema, gradient_for_op, operator_def
from tests.check import Case, check_op, engines_of, on_all_engines, run

Array = NDArray[Any]
X = np.arange(15, dtype=np.float32).reshape(5, 3)
ROW = np.array([-1, -2, -3], np.float32)
CASES = [
    Case("CopyRowsToTensorGradient", [X], X, batched=(0,)),
    Case("CopyRowsToTensorGradient", [X.astype(np.int64)], X.astype(np.int64), id="integers"),
]
DEFINITION = operator_def("CopyRowsToTensor", ["X", "i", "row"], ["X"])


@on_all_engines(CASES)
def test_gradient(case: Case, engine: str) -> None:
    check_op(case, engine)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32, np.int64])
@pytest.mark.parametrize("places", [[3, 0, 3], [4], []])
@pytest.mark.parametrize("engine", engines_of("CopyRowsToTensor"))
def test_rows_are_overwritten(engine: str, places: list[int], dtype: Any) -> None:
    wanted = [ROW.tolist() if n in places else row for n, row in enumerate(X.tolist())]
    given = [X.astype(dtype), np.array(places, np.int64), ROW.astype(dtype)]
    (Y,), _ = run(DEFINITION, given, engine)
    np.testing.assert_array_equal(Y, np.array(wanted, dtype))


def test_the_gradient_is_that_of_all_rows() -> None:
    (made,), names = gradient_for_op(find_schema("CopyRowsToTensor").view(DEFINITION), ["dY"])
    assert (made.type, list(made.input), list(made.output)) == ("CopyRowsToTensorGradient", ["dY"], ["X_grad"])
    assert names == ["X_grad", None, None]


AT = np.array([1])
REFUSED: list[tuple[list[Array], type[Exception], str]] = [
    ([X, np.array([5]), ROW], NumericError, r"indices\[0\] is 5"),
    ([X, np.array([0, -1]), ROW], NumericError, r"indices\[1\] is -1"),
    ([X, AT, ROW[:2]], ShapeError, "row"),
    ([X[0], AT, ROW], ShapeError, "X"),
    ([X, AT.reshape(1, 1), ROW], ShapeError, "indices"),
    ([X, AT.astype(np.int32), ROW], DTypeError, "indices is int32, it must be int64"),
    ([X, AT, ROW.astype(np.float64)], DTypeError, "row is float64"),
    ([X.astype(np.uint8), AT, ROW.astype(np.uint8)], DTypeError, "X is uint8"),
]


@pytest.mark.parametrize(("inputs", "error", "text"), REFUSED)
def test_refused(inputs: list[Array], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run(DEFINITION, inputs)


def test_in_place_alone() -> None:
    with pytest.raises(SchemaError, match="in place"):
        run(operator_def("CopyRowsToTensor", ["X", "i", "row"], ["Y"]), [X, AT, ROW])
