"""SpatialBNRelu and its gradient: against SpatialBN and Relu, one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, SchemaError, ShapeError
from tazza.operator import operator_def, run_op
from tests.check import Case, check_op, on_all_engines, run

Array = NDArray[Any]
NAMES = ["X", "scale", "bias", "mean", "var"]
TRAINING = ["Y", "mean", "var", "saved_mean", "saved_var"]


def values(*shape: int) -> Array:
    """Return float32 numbers of that shape, the same in every run."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def vectors(count: int) -> list[Array]:
    """Return scale, bias, mean and variance."""
    return [values(count), values(count, 1)[:, 0], values(count, 2)[:, 0], np.abs(values(count, 3)[:, 0]) + 0.5]


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
def test_forward_is_both_one_after_the_other(order: str) -> None:
    X = values(4, 3, 5) if order == "NCHW" else values(4, 5, 3)
    fused, _ = run(operator_def("SpatialBNRelu", NAMES, TRAINING, order=order, epsilon=0.1), [X, *vectors(3)])
    definition = operator_def("SpatialBN", NAMES, TRAINING, is_test=0, order=order, epsilon=0.1)
    plain, _ = run(definition, [X, *vectors(3)])
    np.testing.assert_allclose(fused[0], np.maximum(plain[0], 0), rtol=1e-5, atol=1e-6)
    assert 0 < np.count_nonzero(fused[0]) < fused[0].size
    for got, wanted in zip(fused[1:], plain[1:], strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def gradient(X: Array, scale: Array, dY: Array, mean: Array, inv_std: Array, Y: Array) -> tuple[Array, Array, Array]:
    """Return dX, dscale and dbias for (N, C, S), one channel after the other, in float64."""
    dX, dscale, dbias = np.zeros(X.shape), np.zeros(scale.shape), np.zeros(scale.shape)
    n = X.shape[0] * X.shape[2]
    for c in range(X.shape[1]):
        dz = np.where(Y[:, c] > 0, dY[:, c], 0).astype(np.float64)
        z = (X[:, c] - mean[c]) * inv_std[c]
        dscale[c], dbias[c] = (dz * z).sum(), dz.sum()
        dX[:, c] = scale[c] * inv_std[c] * (dz - (dbias[c] + z * dscale[c]) / n)
    return dX, dscale, dbias


BLOBS = [values(4, 3, 5), values(3), values(4, 5, 3).reshape(4, 3, 5), values(3) / 3, np.abs(values(3)) + 1]
CASES = [
    Case(
        "SpatialBNReluGradient",
        [*BLOBS, np.maximum(values(3, 5, 4).reshape(4, 3, 5), 0)],
        gradient,
        batched=(0, 2, 5),
        slack=4,
    )
]


@on_all_engines(CASES)
def test_gradient(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_refused() -> None:
    X, V = values(4, 3, 5), vectors(3)
    with pytest.raises(SchemaError, match="5 inputs with 1 outputs"):
        run_op("SpatialBNRelu", X, *V, outputs=1)
    with pytest.raises(ArgumentError, match="'is_test' = 1"):
        run_op("SpatialBNRelu", X, *V, outputs=5, is_test=1)
    with pytest.raises(SchemaError, match="num_batches = 2, it takes 1"):
        run_op("SpatialBNReluGradient", *BLOBS, BLOBS[0], num_batches=2)
    with pytest.raises(ShapeError, match="Y has the shape"):
        run_op("SpatialBNReluGradient", *BLOBS, BLOBS[0][:2])
