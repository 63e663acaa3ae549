"""GroupNorm and its gradient: against one group of one image after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, SchemaError, ShapeError, TazzaError
from tazza.operator import find_schema, gradient_for_op, operator_def, run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

NHWC = {"order": "NHWC"}


def values(*shape: int, seed: int = 0) -> Array:
    """Return float32 numbers of that shape, the same in every run."""
    return np.random.default_rng((sum(shape), seed)).standard_normal(shape).astype(np.float32)


def last(X: Array) -> Array:
    """Return (N, C, S...) as (N, S..., C)."""
    return np.ascontiguousarray(np.moveaxis(X, 1, -1))


def by_group(G: int, epsilon: float = 1e-5) -> Any:
    """Return the function that gives Y, mean and inv_std of NCHW, one group of one image after the other."""

    def function(X: Array, gamma: Array, beta: Array) -> tuple[Array, Array, Array]:
        N, C = X.shape[:2]
        Y, mean, inv_std = np.zeros(X.shape), np.zeros((N, G)), np.zeros((N, G))
        for n, g in np.ndindex(N, G):
            channels = range(g * C // G, (g + 1) * C // G)
            part = X[n, channels].astype(np.float64)
            mean[n, g], inv_std[n, g] = part.mean(), 1 / np.sqrt(part.var() + epsilon)
            for c in channels:
                Y[n, c] = (X[n, c] - mean[n, g]) * inv_std[n, g] * gamma[c] + beta[c]
        return Y, mean, inv_std

    return function


def on_last(function: Any) -> Any:
    """Return the function for channels that stand last in X."""

    def moved(X: Array, *vectors: Array) -> Any:
        Y, *others = function(np.moveaxis(X, -1, 1), *vectors)
        return (last(Y), *others)

    return moved


def through_matrix(
    dY: Array, X: Array, gamma: Array, beta: Array, mean: Array, inv_std: Array
) -> tuple[Array, Array, Array]:
    """Return dX by the full matrix of derivatives of each group of (N, C, S), and dgamma and dbeta."""
    G = mean.shape[1]
    spread = np.repeat(mean, X.shape[1] // G, axis=1)[..., None], np.repeat(inv_std, X.shape[1] // G, axis=1)[..., None]
    Z, dZ, dX = (X - spread[0]) * spread[1], dY * gamma[:, None], np.zeros(X.shape)
    for n, g in np.ndindex(*mean.shape):
        part = slice(g * X.shape[1] // G, (g + 1) * X.shape[1] // G)
        z = Z[n, part].ravel().astype(np.float64)
        matrix = inv_std[n, g] * (np.eye(z.size) - 1 / z.size - np.outer(z, z) / z.size)
        dX[n, part] = (matrix @ dZ[n, part].ravel()).reshape(dX[n, part].shape)
    return dX, (dY * Z).sum((0, 2)), dY.sum((0, 2))


def backward(G: int, *dims: int) -> list[Array]:
    """Return dY, X, gamma, beta, mean and inv_std."""
    X, gamma, beta = values(*dims), values(dims[1]), values(dims[1], seed=1)
    _, mean, inv_std = by_group(G)(X, gamma, beta)
    return [values(*dims, seed=1), X, gamma, beta, mean.astype(np.float32), inv_std.astype(np.float32)]


ALL = [values(2, 6, 5, 7), values(6), values(6, seed=1)]
GIVEN = backward(2, 2, 4, 3)
DX, *VECTORS = through_matrix(*GIVEN)
CASES = [
    Case("GroupNorm", ALL, by_group(3)(*ALL)[0], {"group": 3}, batched=(0,), gradient=False),
    Case("GroupNorm", ALL, by_group(2, 0.1), {"group": 2, "epsilon": 0.1}, 3, (0,), gradient=False, id="statistics"),
    Case("GroupNorm", ALL, by_group(6), {"group": 6, "is_test": 0}, 3, gradient=False, id="one channel a group"),
    Case(
        "GroupNorm",
        [last(ALL[0]), *ALL[1:]],
        on_last(by_group(3)),
        {"group": 3, **NHWC},
        3,
        gradient=False,
        id="NHWC",
    ),
    Case("GroupNorm", [values(3, 4), values(4), values(4)], by_group(2), {"group": 2}, 3, gradient=False, id="rank 2"),
    Case(
        "GroupNorm", [values(3, 64, 2), values(64), values(64)], by_group(32), outputs=3, gradient=False, id="32 groups"
    ),
    Case("GroupNormGradient", backward(3, 2, 6, 5), through_matrix, {"group": 3}, slack=4, batched=(0, 1, 4, 5)),
    Case("GroupNormGradient", backward(1, 3, 2, 4), through_matrix, {"group": 1}, slack=4, id="one group"),
    Case(
        "GroupNormGradient",
        [last(one) if one.ndim == 3 else one for one in GIVEN],
        (last(DX), *VECTORS),
        {"group": 2, **NHWC},
        slack=4,
        id="NHWC",
    ),
]
"""mean and inv_std have no gradient of their own, so the forward cases go without a central difference."""


@on_all_engines(CASES)
def test_group_norm(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_the_gradient_takes_the_statistics() -> None:
    schema = find_schema("GroupNorm")
    emitted, gradients = gradient_for_op(
        schema.view(operator_def("GroupNorm", ["X", "g", "b"], ["Y", "m", "i"], group=2)), ["dY", None, None]
    )
    assert list(emitted[0].input) == ["dY", "X", "g", "b", "m", "i"]
    assert gradients == ["X_grad", "g_grad", "b_grad"]
    with pytest.raises(SchemaError, match="its gradient needs mean and inv_std too"):
        gradient_for_op(schema.view(operator_def("GroupNorm", ["X", "g", "b"], ["Y"])), ["dY"])


X, V = values(2, 6, 5), values(6)
BACK = backward(3, 2, 6, 5)
REFUSED: list[tuple[str, list[Array], dict[str, Any], type[TazzaError], str]] = [
    ("GroupNorm", [X, V, V], {"group": 4}, ShapeError, "6 channels do not divide into 4 groups"),
    ("GroupNorm", [X, V, V], {}, ShapeError, "6 channels do not divide into 32 groups"),
    ("GroupNorm", [X, V, V], {"group": 0}, ArgumentError, "'group' = 0 is below its minimum 1"),
    ("GroupNorm", [X, V[:5], V], {"group": 3}, ShapeError, r"gamma has the shape \(5\), X has 6 channels"),
    ("GroupNorm", [V, V, V], {"group": 3}, ShapeError, "X has 1 dimensions"),
    ("GroupNorm", [X, V, V], {"group": 3, "is_test": 0}, SchemaError, "1 output with is_test = 0, it takes 3"),
    ("GroupNorm", [X, V, V], {"group": 3, "outputs": 2}, SchemaError, "2 outputs"),
    ("GroupNorm", [X, V, V], {"group": 3, "order": "x"}, ArgumentError, "'order' = 'x'"),
    ("GroupNormGradient", [X[:1], *BACK[1:]], {"group": 3}, ShapeError, r"dY has the shape \(1, 6, 5\), X has"),
    ("GroupNormGradient", BACK, {"group": 2}, ShapeError, "mean has 6 elements, there are 4 groups"),
]


@pytest.mark.parametrize(("type", "inputs", "args", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Array], args: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **args)
