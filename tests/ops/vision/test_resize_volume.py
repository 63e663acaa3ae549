"""ResizeNearest3D and its gradient: by loops; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, ShapeError, TazzaError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

X = np.random.default_rng(8).standard_normal((2, 3, 2, 3, 4)).astype(np.float32)
DOUBLE = {"height_scale": 2.0, "width_scale": 2.0}
ODD = {"temporal_scale": 1.5, "height_scale": 0.5, "width_scale": 0.75}
D_ODD = np.random.default_rng(9).standard_normal((2, 3, 3, 1, 3)).astype(np.float32)


def twice(X: Array) -> Array:
    """Return each element eight times."""
    return X.repeat(2, 2).repeat(2, 3).repeat(2, 4)


def odd_gradient(dY: Array, X: Array) -> Array:
    """Return the sums for the scales ODD."""
    dX = np.zeros_like(X)
    for t, w in np.ndindex(3, 3):
        dX[:, :, int(t / 1.5), 0, int(w / 0.75)] += dY[:, :, t, 0, w]
    return dX


CASES = [
    Case("ResizeNearest3D", [X], twice, {**DOUBLE, "temporal_scale": 2.0}, batched=(0,)),
    Case("ResizeNearest3D", [X], X.repeat(2, 3).repeat(2, 4), DOUBLE, id="frames stay"),
    Case("ResizeNearest3D", [X], X[:, :, [0, 0, 1], :1][..., [0, 1, 2]], ODD, id="any scale"),
    Case("ResizeNearest3DGradient", [D_ODD, X], odd_gradient, ODD),
    Case("ResizeNearest3DGradient", [twice(X), X], 8 * X, {**DOUBLE, "temporal_scale": 2.0}),
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[TazzaError], str]] = [
    ("ResizeNearest3D", [X], {"temporal_scale": 0.0}, ArgumentError, "temporal_scale = 0.0 must be above 0"),
    ("ResizeNearest3D", [X], {"order": "NHWC"}, ArgumentError, "order"),
    ("ResizeNearest3D", [X[0]], {}, ShapeError, "X"),
    ("ResizeNearest3DGradient", [X, X], DOUBLE, ShapeError, r"dY has the shape \(2, 3, 2, 3, 4\), resizing X gives"),
]


@pytest.mark.parametrize(("type", "inputs", "arguments", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], arguments: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **arguments)
