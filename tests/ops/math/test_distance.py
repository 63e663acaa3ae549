"""Distances of rows and their gradients: against one row after the other, in float64; and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ShapeError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]
Formula = Callable[[list[float], list[float]], float]


def values(*shape: int, seed: int = 0) -> Array:
    """Return float32 numbers, the same in every run."""
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(np.float32)


def times(x: list[float], y: list[float]) -> float:
    return math.fsum(a * b for a, b in zip(x, y, strict=True))


FORMULAS: dict[str, Formula] = {
    "SquaredL2Distance": lambda x, y: math.dist(x, y) ** 2 / 2,
    "L1Distance": lambda x, y: math.fsum(abs(a - b) for a, b in zip(x, y, strict=True)),
    "DotProduct": times,
    "CosineSimilarity": lambda x, y: times(x, y) / max(math.hypot(*x), 1e-6) / max(math.hypot(*y), 1e-6),
}
STEP = 1e-6


def rows(X: Array) -> list[list[float]]:
    return X.reshape(len(X), -1).astype(np.float64).tolist()


def by_row(formula: Formula) -> Callable[..., list[Array]]:
    """Return what computes Z, one row after the other."""

    def distances(X: Array, Y: Array) -> list[Array]:
        return [np.array([formula(x, y) for x, y in zip(rows(X), rows(Y), strict=True)])]

    return distances


def differences(formula: Formula) -> Callable[..., list[Array]]:
    """Return what central differences of a formula say of dX and dY."""

    def slope(given: list[list[float]], row: int, column: int) -> float:
        ends: list[float] = []
        for step in (STEP, -STEP):
            moved = [list(one) for one in given]
            moved[row][column] += step
            ends.append(formula(*moved))
        return (ends[0] - ends[1]) / (2 * STEP)

    def slopes(X: Array, Y: Array, dZ: Array) -> list[Array]:
        pairs = list(zip(rows(X), rows(Y), strict=True))
        return [
            np.array(
                [
                    [dz * slope(list(pair), i, d) for d in range(len(pair[i]))]
                    for pair, dz in zip(pairs, dZ, strict=True)
                ]
            )
            .reshape(one.shape)
            .astype(np.float32)
            for i, one in enumerate((X, Y))
        ]

    return slopes


X, Y = values(3, 5), values(3, 5, seed=1)
DEEP = values(2, 3, 5), values(2, 3, 5, seed=1)
dZ = values(3, seed=2)
PADDED = "DotProductWithPadding"
EIGHT = np.arange(8, dtype=np.float32).reshape(2, 4)
FOUR = np.array([[1, 2], [3, 4]], np.float32)

CASES = [
    *(Case(type, [X, Y], by_row(formula), batched=(0, 1)) for type, formula in FORMULAS.items()),
    *(Case(type, list(DEEP), by_row(formula), id="rank 3") for type, formula in FORMULAS.items()),
    *(
        Case(f"{type}Gradient", [X, Y, dZ], differences(formula), batched=(0, 1, 2), slack=20)
        for type, formula in FORMULAS.items()
    ),
    Case(PADDED, [EIGHT, FOUR], np.array([2.0, 4 * 3 + 5 * 4]), id="filled with 0", batched=(0, 1)),
    Case(PADDED, [FOUR, EIGHT], np.array([2.0 + 15, 32 + 39]), {"pad_value": 3.0}, id="X is filled"),
    Case(PADDED, [EIGHT, FOUR], np.array([10.0, 78.0]), {"replicate": True}, id="repeated"),
    Case(
        PADDED, [EIGHT[:, :3], FOUR], np.array([2.0, 32.0]), {"replicate": True}, gradient=False, id="does not fit: cut"
    ),
    Case(
        f"{PADDED}Gradient",
        [EIGHT, FOUR, np.array([2, -1], np.float32)],
        [np.array([[2.0, 4, 6, 6], [-3, -4, -3, -3]]), np.array([[0.0, 2], [-4, -5]])],
        {"pad_value": 3.0},
        id="filled",
    ),
    Case(
        f"{PADDED}Gradient",
        [EIGHT, FOUR, np.array([2, -1], np.float32)],
        [np.array([[2.0, 4, 2, 4], [-3, -4, -3, -4]]), np.array([[4.0, 8], [-10, -12]])],
        {"replicate": True},
        id="repeated",
    ),
]


@on_all_engines(CASES)
def test_distance(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_rows_without_length_and_length_without_rows() -> None:
    """As genuine Caffe2: products of nothing are no rows, other distances of nothing are 0."""
    nothing = np.zeros((2, 0), np.float32)
    assert [run_op(type, nothing, nothing).shape for type in FORMULAS] == [(2,), (2,), (0,), (2,)]
    assert not run_op("CosineSimilarity", nothing, nothing).any()
    assert run_op("L1Distance", np.float32(3), np.float32(5)).tolist() == [2]


def test_numbers_that_are_almost_equal_have_no_slope() -> None:
    near = X + np.float32(0)
    near[0, 0] = np.nextafter(np.float32(0), np.float32(1))
    far = near.copy()
    far[0, 0] = 0
    dX, dY = run_op("L1DistanceGradient", near, far, dZ)
    assert not dX.any()
    assert not dY.any()


def test_short_rows_count_with_a_norm_of_a_millionth() -> None:
    small = np.array([[3e-8, 4e-8]], np.float32)
    np.testing.assert_allclose(run_op("CosineSimilarity", small, small), [25e-16 / 1e-12], rtol=1e-5)


REFUSED: list[tuple[str, list[Any], dict[str, Any], str]] = [
    ("DotProduct", [X, X[:2]], {}, r"X has the shape (3, 5), Y (2, 5)"),
    ("L1DistanceGradient", [X, Y, dZ[:2]], {}, r"dZ has the shape (2) for 3 rows of X"),
    ("SquaredL2DistanceGradient", [X, Y, dZ[:, None]], {}, r"dZ has the shape (3, 1) for 3 rows of X"),
    (PADDED, [EIGHT, FOUR[:1]], {}, r"X has the shape (2, 4), Y (1, 2)"),
    (f"{PADDED}Gradient", [EIGHT[:, :3], FOUR, dZ[:2]], {"replicate": True}, "rows of 2 and 3 numbers"),
]


@pytest.mark.parametrize(("type", "inputs", "arguments", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ShapeError) as caught:
        run_op(type, *inputs, **arguments)
    assert text in str(caught.value)
