"""Circular and hyperbolic functions and their gradients: against Python's in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import SchemaError
from tazza.operator import operator_def, run_op
from tests.check import Case, check_op, on_all_engines, run

Array = NDArray[Any]

X = np.array([[-1.5, 0.25, 3.0], [2.25, -0.5, -4.0]], np.float32)
SMALL, DY = X / 5, X + 10


def each(of: Callable[[float], float]) -> Callable[[Array], Array]:
    """Return a function that computes `of` number by number."""
    return lambda x: np.array([of(v) for v in x.reshape(-1).tolist()]).reshape(x.shape)


def slopes(of: Callable[[float], float], x: Array) -> Array:
    """Return the derivative of `of` by a central difference."""
    return each(lambda v: (of(v + 1e-5) - of(v - 1e-5)) / 2e-5)(x)


CASES = [
    Case("Sin", [X], each(math.sin), batched=(0,), slack=2),
    Case("Cos", [X], each(math.cos), batched=(0,), slack=2),
    Case("Tan", [X], each(math.tan), batched=(0,), slack=3),
    Case("Asin", [SMALL], each(math.asin), batched=(0,)),
    Case("Acos", [SMALL], each(math.acos), batched=(0,)),
    Case("Atan", [X], each(math.atan), batched=(0,)),
    Case("Sinh", [X], each(math.sinh), batched=(0,), slack=2),
    Case("Cosh", [X], each(math.cosh), batched=(0,), slack=2),
    Case("Sinh", [np.array([1e-7, -1e-20], "f")], np.array([1e-7, -1e-20]), id="near 0"),
    Case("Sin", [X[0, 0]], each(math.sin), id="rank 0"),
    Case("Sin", [np.array([1e4, -12345], "f")], each(math.sin), slack=10, id="many turns"),
    # No slope beyond the domain.
    Case("Asin", [np.array([-2, 1, 2], "f")], np.array([np.nan, math.pi / 2, np.nan]), gradient=False, id="edges"),
    Case("SinGradient", [X, DY], DY * slopes(math.sin, X), batched=(0, 1), slack=5),
    Case("CosGradient", [X, DY], DY * slopes(math.cos, X), batched=(0, 1), slack=5),
    Case("TanGradient", [X, DY], DY * slopes(math.tan, X), slack=5),
    Case("AsinGradient", [SMALL, DY], DY * slopes(math.asin, SMALL), slack=5),
    Case("AcosGradient", [SMALL, DY], DY * slopes(math.acos, SMALL), slack=5),
    Case("AtanGradient", [X, DY], DY * slopes(math.atan, X), slack=5),
    Case("SinhGradient", [DY, X], DY * slopes(math.sinh, X), batched=(0, 1), slack=5),
    Case("CoshGradient", [DY, X], DY * slopes(math.cosh, X), batched=(0, 1), slack=5),
]


@on_all_engines(CASES)
def test_trigonometry(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_not_in_place() -> None:
    with pytest.raises(SchemaError, match="Sin cannot write Y in place of X"):
        run(operator_def("Sin", ["x"], ["x"]), [X])


def test_the_slope_of_asin_is_infinite_at_its_ends() -> None:
    assert np.isinf(run_op("AsinGradient", np.array([-1, 1], "f"), np.array([1, 1], "f"))).all()
