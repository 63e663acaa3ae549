"""Folded weights: the layer with them gives what the layer and the normalization give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ShapeError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]


def values(*shape: int) -> Array:
    """Return float32 numbers of that shape, the same in every run."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def batch_norm(axis: int, group: int, epsilon: float) -> Any:
    """Return the fold as loops over output channels."""

    def function(W: Array, *others: Array) -> tuple[Array, Array]:
        scale, bias, mean, var = others[-4:]
        before = others[0] if len(others) == 5 else np.zeros_like(scale)
        slope = scale / np.sqrt(var.astype(np.float64) + epsilon)
        return by_channel(W, slope, axis, group), slope * before + bias - mean * slope

    return function


def affine(W: Array, *others: Array) -> tuple[Array, Array]:
    """Return the fold of AffineChannel along the first axis."""
    scale, bias = others[-2:]
    before = others[0] if len(others) == 3 else np.zeros_like(scale)
    return by_channel(W, scale, 0, 1), scale * before + bias


def by_channel(W: Array, slope: Array, axis: int, group: int) -> Array:
    """Multiply what belongs to output channel m by its slope."""
    folded, M = W.astype(np.float64), len(slope)
    for m in range(M):
        where: list[Any] = [slice(None)] * W.ndim
        where[axis] = m % (M // group) if axis else m
        if axis:
            rows = W.shape[0] // group
            where[0] = slice(m // (M // group) * rows, (m // (M // group) + 1) * rows)
        folded[tuple(where)] *= slope[m]
    return folded


def vectors(count: int) -> list[Array]:
    """Return scale, bias, mean and variance."""
    return [values(count), values(count, 1)[:, 0], values(count, 2)[:, 0], np.abs(values(count, 3)[:, 0]) + 0.5]


CASES = [
    Case("FoldBatchNorm", [values(5, 3, 2), values(5) * 2, *vectors(5)], batch_norm(0, 1, 1e-5), outputs=2),
    Case("FoldBatchNorm", [values(5, 3, 2), *vectors(5)], batch_norm(0, 1, 0.5), {"epsilon": 0.5}, 2, id="no b"),
    Case(
        "FoldBatchNorm",
        [values(6, 5, 3), values(10), *vectors(10)],
        batch_norm(1, 2, 1e-5),
        {"axis": 1, "group": 2},
        2,
        id="transposed, in groups",
    ),
    Case(
        "FoldBatchNorm",
        [values(6, 3, 5), *vectors(10)],
        batch_norm(2, 2, 1e-5),
        {"axis": -1, "group": 2},
        2,
        id="transposed, NHWC, in groups",
    ),
    Case(
        "FoldAffineChannel",
        [values(5, 3, 2), values(5) * 2, *vectors(5)[:2]],
        affine,
        outputs=2,
    ),
    Case(
        "FoldAffineChannel",
        [values(5, 3), *vectors(5)[:2]],
        affine,
        outputs=2,
        id="no b",
    ),
]


@on_all_engines(CASES)
def test_fold(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_vectors_must_have_an_element_for_each_channel() -> None:
    with pytest.raises(ShapeError, match="scale has 4 elements, W has M = 5 output channels along axis 0"):
        run_op("FoldAffineChannel", values(5, 3), values(4), values(5), outputs=2)
    with pytest.raises(ShapeError, match="axis = 2 is not an axis of W"):
        run_op("FoldAffineChannel", values(5, 3), values(5), values(5), axis=2, outputs=2)
