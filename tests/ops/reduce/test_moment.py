"""Moments and the way back through a normalization, against NumPy and the full matrix of derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, ShapeError
from tazza.operator import run_op
from tazza.ops.reduce.moment import moments, normalization_gradient
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]
X = np.random.default_rng(0).standard_normal((2, 3, 5)).astype("f")


def of_numpy(*axes: int, keepdims: bool = True) -> Any:
    """Return mean and variance as NumPy has them."""

    def function(X: Array) -> tuple[Array, Array]:
        x = X.astype("d")
        return x.mean(axes, keepdims=keepdims), x.var(axes, keepdims=keepdims)

    return function


def slopes(dmean: Array, dvariance: Array, X: Array, mean: Array) -> Array:
    """Return dX of moments over axis 1, element by element."""
    dX, n = np.zeros(X.shape), X.shape[1]
    for i, j, k in np.ndindex(*X.shape):
        part = (i, k)
        rows = [a.reshape(len(X), -1)[part] for a in (dmean, dvariance, mean)]
        dX[i, j, k] = rows[0] / n + 2 * (float(X[i, j, k]) - rows[2]) / n * rows[1]
    return dX


GIVEN = [X[:, 0] + 1, X[:, 1], X, X.mean(1)]
CASES = [
    Case("Moments", [X], of_numpy(0, 1, 2), id="all"),
    Case("Moments", [X], of_numpy(1), {"axes": [1]}),
    Case("Moments", [X], of_numpy(0, 2, keepdims=False), {"axes": [2, 0, 2], "keepdims": 0}, id="without axes"),
    Case("Moments", [np.array(3, "f")], (np.array(3), np.array(0)), id="rank 0"),
    Case("Moments", [X[:, :0]], (np.zeros((2, 1, 5)), np.zeros((2, 1, 5))), {"axes": [1]}, id="nothing"),
    Case("MomentsGradient", GIVEN, slopes, {"axes": [1], "keepdims": 0}),
    Case("MomentsGradient", [*(x[:, np.newaxis] for x in GIVEN[:2]), *GIVEN[2:]], slopes, {"axes": [1]}, id="any rank"),
    Case("MomentsGradient", [GIVEN[0], GIVEN[1], X[:, :0], GIVEN[3]], np.zeros((2, 0, 5)), {"axes": [1]}, id="nothing"),
]


@on_all_engines(CASES)
def test_moment(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[Exception], str]] = [
    ("Moments", [X], {"axes": [-1]}, ArgumentError, r"axes = \[-1\], they must not be negative"),
    ("Moments", [X], {"axes": [3]}, ShapeError, r"axes = \[3\] are not all axes of X"),
    ("Moments", [X.astype("d")], {}, DTypeError, "X is float64, it must be float32"),
    # Caffe2 reads behind the end of the smaller one.
    ("MomentsGradient", [X[0, 0], *GIVEN[1:]], {"axes": [1]}, ShapeError, r"dmean has the shape \(5\), the mean of X"),
]


@pytest.mark.parametrize(("type", "inputs", "args", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **args)


def test_moments_are_those_of_numpy() -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 5)).astype(np.float32) + 100
    mean, variance = moments(x, (0, 2))
    assert mean.shape == variance.shape == (1, 3, 1)
    np.testing.assert_allclose(mean[0, :, 0], x.astype(np.float64).mean((0, 2)))
    np.testing.assert_allclose(variance[0, :, 0], x.astype(np.float64).var((0, 2)))


def test_nothing_has_moments_of_zero() -> None:
    mean, variance = moments(np.zeros((2, 0)), (1,))
    np.testing.assert_array_equal([mean, variance], np.zeros((2, 2, 1)))


def test_gradient_is_the_product_with_the_matrix() -> None:
    random = np.random.default_rng(1)
    x, dz = random.standard_normal(7), random.standard_normal(7)
    inv_std = 1 / np.sqrt(x.var() + 0.1)
    z = (x - x.mean()) * inv_std
    matrix = inv_std * (np.eye(7) - 1 / 7 - np.outer(z, z) / 7)  # dz[j] / dx[i]
    found = normalization_gradient(dz[None], z[None], inv_std.reshape(1, 1), (1,))
    np.testing.assert_allclose(found[0], matrix @ dz)
