"""InstanceNorm and its gradient: against one channel of one image after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, ShapeError, TazzaError
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


def by_channel(epsilon: float = 1e-5) -> Any:
    """Return the function that gives Y, mean and inv_std of NCHW."""

    def function(X: Array, scale: Array, bias: Array) -> tuple[Array, Array, Array]:
        Y, mean, inv_std = np.zeros(X.shape), np.zeros(X.shape[:2]), np.zeros(X.shape[:2])
        for n, c in np.ndindex(*X.shape[:2]):
            part = X[n, c].astype(np.float64)
            mean[n, c], inv_std[n, c] = part.mean(), 1 / np.sqrt(part.var() + epsilon)
            Y[n, c] = (part - mean[n, c]) * inv_std[n, c] * scale[c] + bias[c]
        return Y, mean, inv_std

    return function


def backward(X: Array, scale: Array, bias: Array, dY: Array, *statistics: Array) -> tuple[Array, Array, Array]:
    """Return dX by the full matrix of derivatives of each channel of (N, C, S), dscale and dbias."""
    _, mean, inv_std = by_channel()(X, scale, bias)
    Z, dX = (X - mean[..., None]) * inv_std[..., None], np.zeros(X.shape)
    for n, c in np.ndindex(*X.shape[:2]):
        z = Z[n, c]
        dX[n, c] = inv_std[n, c] * (np.eye(z.size) - 1 / z.size - np.outer(z, z) / z.size) @ (dY[n, c] * scale[c])
    return dX, (dY * Z).sum((0, 2)), dY.sum((0, 2))


VECTORS = [values(3), values(3, seed=1)]
X = values(2, 3, 5, 7)
NORMALIZED: tuple[Array, ...] = by_channel()(X, *VECTORS)
GIVEN = [values(2, 3, 6), *VECTORS, values(2, 3, 6, seed=1)]
STATISTICS = [one.astype(np.float32) for one in by_channel()(*GIVEN[:3])[1:]]
CASES = [
    Case("InstanceNorm", [X, *VECTORS], NORMALIZED[0], slack=4, batched=(0,)),
    Case("InstanceNorm", [last(X), *VECTORS], last(NORMALIZED[0]), NHWC, slack=4, id="NHWC"),
    Case("InstanceNorm", [X, *VECTORS], by_channel(0.1), {"epsilon": 0.1}, 3, (0,), gradient=False, id="statistics"),
    Case("InstanceNorm", [X, *VECTORS], NORMALIZED[:2], {}, 2, gradient=False, id="mean alone"),
    Case("InstanceNorm", [values(2, 3), *VECTORS], np.tile(VECTORS[1], (2, 1)), gradient=False, id="rank 2"),
    Case("InstanceNorm", [values(2, 3, 0), *VECTORS], values(2, 3, 0), gradient=False, id="no pixels"),
    Case("InstanceNormGradient", GIVEN, backward, slack=4, batched=(0, 3)),
    Case("InstanceNormGradient", [*GIVEN, STATISTICS[0]], backward, slack=4, id="mean given"),
    Case("InstanceNormGradient", [*GIVEN, *STATISTICS], backward, slack=4, batched=(0, 3, 4, 5), id="both given"),
]
"""mean and inv_std have no gradient of their own, so cases with them go without a central difference."""


@on_all_engines(CASES)
def test_instance_norm(case: Case, engine: str) -> None:
    check_op(case, engine)


@pytest.mark.parametrize("outputs", [["Y"], ["Y", "m"], ["Y", "m", "i"]])
def test_the_gradient_takes_what_statistics_there_are(outputs: list[str]) -> None:
    definition = operator_def("InstanceNorm", ["X", "s", "b"], outputs)
    given = ["dY", None, None][: len(outputs)]
    emitted, gradients = gradient_for_op(find_schema("InstanceNorm").view(definition), given)
    assert list(emitted[0].input) == ["X", "s", "b", "dY", *outputs[1:]]
    assert gradients == ["X_grad", "s_grad", "b_grad"]


REFUSED: list[tuple[str, list[Array], dict[str, Any], type[TazzaError], str]] = [
    ("InstanceNorm", [X, VECTORS[0][:2], VECTORS[1]], {}, ShapeError, r"scale has the shape \(2\), X has 3 channels"),
    ("InstanceNorm", [VECTORS[0]] * 3, {}, ShapeError, "X has 1 dimensions"),
    ("InstanceNorm", [X, *VECTORS], {"epsilon": -1.0}, ArgumentError, "'epsilon' = -1.0 is below its minimum 0"),
    ("InstanceNormGradient", [*GIVEN[:3], X], {}, ShapeError, r"dY has the shape \(2, 3, 5, 7\), X has \(2, 3, 6\)"),
    ("InstanceNormGradient", [*GIVEN, VECTORS[0]], {}, ShapeError, "mean has 3 elements, X has 6"),
]


@pytest.mark.parametrize(("type", "inputs", "args", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Array], args: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **args)
