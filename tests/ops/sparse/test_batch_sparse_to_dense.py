"""BatchSparseToDense, BatchDenseToSparse and DenseVectorToIdList: by loops over rows; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, NumericError, SchemaError, ShapeError, TazzaError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

LENGTHS, COLUMNS = np.array([2, 0, 3, 1]), np.array([3, 0, 1, 4, 2, 4])
VALUES = np.array([1.5, -2, 3, 4, -5, 6], np.float32)
DENSE = np.random.default_rng(1).standard_normal((4, 5)).astype(np.float32)
WIDE = {"dense_last_dim": 7}


def filled(columns: int, default: float = 0.0) -> Any:
    """Return the matrix, value after value."""

    def dense(lengths: Array, indices: Array, values: Array, *_: Array) -> Array:
        made, pairs = np.full((len(lengths), columns), default, np.float32), iter(zip(indices, values, strict=True))
        for n, count in enumerate(lengths):
            for _k in range(count):
                column, value = next(pairs)
                made[n, column] = value
        return made

    return dense


NONE = np.zeros(0, np.int64)
LIST = np.array([[0, 0.5, 0.49, -1.5, -1.4], [np.nan, 0, np.inf, -np.inf, 0], [0, 0, 0, 0, 0]], np.float32)
CASES = [
    Case("BatchSparseToDense", [LENGTHS, COLUMNS, VALUES], filled(7), WIDE),
    Case("BatchSparseToDense", [LENGTHS, COLUMNS, VALUES, np.ones((3, 5), bool)], filled(5), id="as wide as like"),
    Case(
        "BatchSparseToDense", [LENGTHS, COLUMNS, VALUES], filled(7, 0.5), {**WIDE, "default_value": 0.5}, id="default"
    ),
    Case(
        "BatchSparseToDense", [LENGTHS, 0 * COLUMNS, VALUES], filled(7), WIDE, id="the last of several", gradient=False
    ),
    Case("BatchSparseToDense", [NONE, NONE, VALUES[:0]], np.zeros((0, 7), np.float32), WIDE, id="none"),
    Case("BatchDenseToSparse", [LENGTHS, COLUMNS, DENSE], DENSE[[0, 0, 2, 2, 2, 3], COLUMNS]),
    Case("BatchDenseToSparse", [NONE, NONE, DENSE[:0]], VALUES[:0], id="none"),
    Case("DenseVectorToIdList", [LIST], (np.array([2, 3, 0], "i"), np.array([1, 3, 0, 2, 3], "i"))),
    Case("DenseVectorToIdList", [LIST[:, :0]], (np.zeros(3, "i"), np.zeros(0, "i")), id="no columns"),
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


GIVEN = [LENGTHS, COLUMNS, VALUES]
REFUSED: list[tuple[str, list[Any], dict[str, Any], type[TazzaError], str]] = [
    ("BatchSparseToDense", GIVEN, {}, SchemaError, "dense_last_dim is -1, it must be at least 1"),
    ("BatchSparseToDense", GIVEN, {"dense_last_dim": 0}, SchemaError, "dense_last_dim is 0"),
    ("BatchSparseToDense", GIVEN, {"dense_last_dim": 4}, NumericError, r"indices\[3\] is 4, not in \[0, 4\)"),
    ("BatchSparseToDense", [LENGTHS, -COLUMNS, VALUES], WIDE, NumericError, r"indices\[0\] is -3"),
    ("BatchSparseToDense", [*GIVEN, DENSE], WIDE, ShapeError, "like has 5 columns, dense_last_dim is 7"),
    ("BatchSparseToDense", [*GIVEN, DENSE[0]], {}, ShapeError, "like"),
    ("BatchSparseToDense", [LENGTHS[:3], *GIVEN[1:]], WIDE, NumericError, "the 3 lengths add up to 5"),
    ("BatchSparseToDense", [LENGTHS.astype("i"), *GIVEN[1:]], WIDE, DTypeError, "lengths is int32"),
    ("BatchDenseToSparse", [LENGTHS, COLUMNS, DENSE[:3]], {}, ShapeError, "dense"),
    ("BatchDenseToSparse", [LENGTHS, COLUMNS + 1, DENSE], {}, NumericError, r"indices\[3\] is 5, not in \[0, 5\)"),
    ("DenseVectorToIdList", [LIST[0]], {}, ShapeError, "X"),
]


@pytest.mark.parametrize(("type", "inputs", "arguments", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], arguments: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **arguments)


@pytest.mark.parametrize("seed", range(4))
def test_there_and_back(seed: int) -> None:
    rng = np.random.default_rng(seed)
    marks = rng.random((5, 8)) < 0.4
    lengths, columns = marks.sum(1), np.nonzero(marks)[1]
    values = rng.standard_normal(columns.size).astype(np.float32)
    dense = run_op("BatchSparseToDense", lengths, columns, values, dense_last_dim=8)
    np.testing.assert_array_equal(dense != 0, marks)
    np.testing.assert_array_equal(run_op("BatchDenseToSparse", lengths, columns, dense), values)
