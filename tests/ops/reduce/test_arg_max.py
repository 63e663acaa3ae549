"""ArgMax and ArgMin: against a walk along the axis; NaN, no elements, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, ShapeError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]
TYPES = ("ArgMax", "ArgMin")
NAN = float("nan")

X = (np.arange(30).reshape(2, 3, 5) * 7 % 11).astype(np.float32)


def by_walk(type: str, axis: int, *, keepdims: bool = True) -> Any:
    """Return a function that goes along the axis and moves only for what is truly better."""

    def function(X: Array) -> Array:
        rows = np.moveaxis(X, axis, -1)
        found = np.zeros(rows.shape[:-1], np.int64)
        for place in np.ndindex(*found.shape):
            row: list[float] = rows[place].tolist()
            best = 0
            for i, number in enumerate(row):
                if number > row[best] if type == "ArgMax" else number < row[best]:
                    best = i
            found[place] = best
        return np.expand_dims(found, axis) if keepdims else found

    return function


ODD = np.array(
    [[NAN, 1, NAN, 3], [1, NAN, 3, 0], [3, 1, NAN, NAN], [NAN] * 4, [-np.inf, NAN, -np.inf, NAN]], np.float32
)

CASES = [
    *(Case(type, [X], by_walk(type, -1), batched=(0,)) for type in TYPES),
    *(Case(type, [X], by_walk(type, 0, keepdims=False), {"axis": 0, "keepdims": 0}, id="axis 0") for type in TYPES),
    *(Case(type, [X.astype("l")], by_walk(type, 1), {"axis": 1}, id="int64, axis 1") for type in TYPES),
    *(Case(type, [X[0, 0]], by_walk(type, 0, keepdims=False), {"keepdims": 0}, id="to rank 0") for type in TYPES),
    *(Case(type, [ODD], by_walk(type, -1), id="NaN") for type in TYPES),
    *(Case(type, [-ODD], by_walk(type, -1), id="NaN, turned around") for type in TYPES),
    *(Case(type, [X[:, :0]], np.zeros((2, 1, 5), "l"), {"axis": 1}, id="nothing along the axis") for type in TYPES),
]


@on_all_engines(CASES)
def test_arg_max(case: Case, engine: str) -> None:
    check_op(case, engine)


@pytest.mark.parametrize(
    ("shape", "axis"), [((3, 70_001), 1), ((1, 300_000), 1), ((2, 700, 131), 1), ((900, 33), 0), ((70, 2100), 1)]
)
@pytest.mark.parametrize("dtype", ["f", "l"])
@pytest.mark.parametrize("type", TYPES)
def test_long_rows_many_columns_and_equal_numbers(type: str, dtype: str, shape: tuple[int, ...], axis: int) -> None:
    draw = np.random.default_rng(3)
    X = draw.integers(-999, 999, shape).astype(dtype)
    if dtype == "f":
        X[draw.random(shape) < 0.1] = NAN
    found = [run_op(type, X, engine=engine, axis=axis) for engine in ("native", "reference")]
    np.testing.assert_array_equal(*found)


REFUSED: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
    (X, {"axis": 3}, ShapeError, "axis 3 of an X of rank 3"),
    (X, {"axis": -2}, ArgumentError, "axis"),
    (np.float32(3), {}, ShapeError, "axis -1 of an X of rank 0"),
    (X.astype(np.uint8), {}, DTypeError, "X is uint8"),
]


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize(("X", "args", "error", "text"), REFUSED)
def test_refused(type: str, X: Array, args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, X, **args)
