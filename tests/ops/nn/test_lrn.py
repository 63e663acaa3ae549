"""LRN and its gradient: against one channel after the other, and the full matrix of derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, SchemaError, ShapeError, TazzaError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

ARGS = {"alpha": 0.7, "beta": 0.75, "bias": 1.5}
NHWC = {"order": "NHWC"}


def values(*shape: int) -> Array:
    """Return float32 numbers of that shape, the same in every run."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def last(X: Array) -> Array:
    """Return (N, C, H, W) as (N, H, W, C)."""
    return np.ascontiguousarray(np.moveaxis(X, 1, -1))


def scale_of(X: Array, size: int) -> Array:
    """Return scale of (N, C, H, W), one channel after the other."""
    scale = np.zeros(X.shape)
    for c in range(X.shape[1]):
        seen = X[:, max(c - (size - 1) // 2, 0) : c + size // 2 + 1].astype(np.float64)
        scale[:, c] = ARGS["bias"] + ARGS["alpha"] / size * (seen * seen).sum(1)
    return scale


def by_channel(X: Array, size: int) -> tuple[Array, Array]:
    """Return Y and scale of NCHW."""
    scale = scale_of(X, size)
    return X * scale ** -ARGS["beta"], scale


def through_matrix(X: Array, dY: Array, size: int) -> Array:
    """Return dX of NCHW by the derivative of each channel after each other one."""
    s, dX = scale_of(X, size), np.zeros(X.shape)
    for i, c in np.ndindex(X.shape[1], X.shape[1]):
        own = s[:, c] ** -ARGS["beta"] if i == c else 0
        seen = c - (size - 1) // 2 <= i <= c + size // 2
        slope = 2 * ARGS["alpha"] / size * X[:, i] if seen else 0
        dX[:, i] += dY[:, c] * (own - ARGS["beta"] * X[:, c] * s[:, c] ** (-ARGS["beta"] - 1) * slope)
    return dX


def forward(size: int) -> Case:
    """Return the case of that window."""
    return Case("LRN", [X], by_channel(X, size)[0], {"size": size, **ARGS})


def backward(size: int) -> Case:
    """Return the gradient's case of that window."""
    Y = by_channel(X, size)[0].astype(np.float32)
    return Case(
        "LRNGradient",
        [X, Y, DY],
        through_matrix(X, DY, size),
        {"size": size, **ARGS},
        batched=(0, 1, 2),
    )


X = values(2, 7, 3, 5)
DY = X[::-1].copy()


CASES = [
    *map(forward, (1, 3, 4, 11)),
    Case("LRN", [last(X)], last(by_channel(X, 3)[0]), {"size": 3, **ARGS, **NHWC}, batched=(0,), id="NHWC"),
    Case(
        "LRN",
        [last(X)],
        last(by_channel(X, 4)[0]),
        {"size": 4, **ARGS, **NHWC},
        id="even size and NHWC",
    ),
    Case("LRN", [X], by_channel(X, 5), {"size": 5, **ARGS}, 2, (0,), gradient=False, id="with scale"),
    Case("LRN", [X], X, {"size": 3}, id="defaults"),
    *map(backward, (3, 4)),
    Case(
        "LRNGradient",
        [last(one) for one in (X, by_channel(X, 4)[0].astype(np.float32), DY)],
        last(through_matrix(X, DY, 4)),
        {"size": 4, **ARGS, **NHWC},
        id="even size and NHWC, where Caffe2 is wrong",
    ),
]
"""The gradient of an operator with scale among its outputs leaves scale out, so that case goes without."""


@on_all_engines(CASES)
def test_lrn(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[str, list[Array], dict[str, Any], type[TazzaError], str]] = [
    ("LRN", [values(2, 3, 4)], {"size": 3}, ShapeError, r"X has 3 dimensions \(2, 3, 4\), it must have 4"),
    ("LRN", [values(1, 2, 3, 4, 5)], {"size": 3}, ShapeError, "X has 5 dimensions"),
    ("LRN", [values(2, 3, 4, 5)], {}, ArgumentError, "needs the argument 'size'"),
    ("LRN", [values(2, 3, 4, 5)], {"size": 0}, ArgumentError, "'size' = 0 is below its minimum 1"),
    ("LRN", [np.zeros((2, 3, 4, 5))], {"size": 3}, DTypeError, "X is float64"),
    ("LRN", [values(2, 3, 4, 5)] * 2, {"size": 3}, SchemaError, "2 inputs"),
    ("LRNGradient", [values(2, 3, 4, 5)] * 2 + [values(2, 3, 4, 6)], {"size": 3}, ShapeError, "D is"),
]


@pytest.mark.parametrize(("type", "inputs", "args", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Array], args: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **args)
