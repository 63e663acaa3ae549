"""FusedSpatialBNGradient against its formula."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, ShapeError
from tazza.operator import operator_def, run_op
from tests.check import Case, check_op, engines_of, on_all_engines, run

Array = NDArray[Any]


def values(*shape: int) -> Array:
    """Return float32 numbers of that shape, the same in every run."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def gradient(X: Array, scale: Array, bias: Array, dY: Array, mean: Array, inv_std: Array) -> tuple[Array, Array, Array]:
    """Return dX, dscale and dbias for (N, C, S) and an epilogue relu, channel by channel, in float64."""
    dX, dscale, dbias = np.zeros(X.shape), np.zeros(scale.shape), np.zeros(scale.shape)
    n = X.shape[0] * X.shape[2]
    for c in range(X.shape[1]):
        x = (X[:, c].astype(np.float64) - mean[c]) * inv_std[c]
        dz = np.where(x * scale[c] + bias[c] > 0, dY[:, c], 0)
        dscale[c], dbias[c] = (dz * x).sum(), dz.sum()
        dX[:, c] = scale[c] * inv_std[c] * (dz - (dbias[c] + x * dscale[c]) / n)
    return dX, dscale, dbias


BLOBS = [values(4, 3, 5), values(3), values(1, 3)[0], values(4, 5, 3).reshape(4, 3, 5), values(3) / 3]
BLOBS.append(np.abs(values(3)) + 1)
CASES = [
    Case(
        "FusedSpatialBNGradient",
        BLOBS,
        gradient,
        args={"prologue": "where(y > 0, dy, 0)"},
        batched=(0, 3),
        slack=4,
    )
]


@on_all_engines(CASES)
def test_gradient(case: Case, engine: str) -> None:
    check_op(case, engine)


@pytest.mark.parametrize("engine", engines_of("FusedSpatialBNGradient"))
def test_gradient_with_channels_last(engine: str) -> None:
    arguments: dict[str, Any] = {"prologue": "where(y > 0, dy, 0)"}
    names, outputs = ["X", "scale", "bias", "dY", "mean", "inv_std"], ["dX", "dscale", "dbias"]
    first, _ = run(operator_def("FusedSpatialBNGradient", names, outputs, **arguments), BLOBS, engine)
    X, scale, bias, dY, *saved = BLOBS
    images = [np.ascontiguousarray(one.transpose(0, 2, 1)) for one in (X, dY)]
    definition = operator_def("FusedSpatialBNGradient", names, outputs, order="NHWC", **arguments)
    last, _ = run(definition, [images[0], scale, bias, images[1], *saved], engine)
    np.testing.assert_allclose(last[0].transpose(0, 2, 1), first[0], rtol=1e-6, atol=1e-7)
    for got, wanted in zip(last[1:], first[1:], strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-7)


def test_refused() -> None:
    with pytest.raises(ArgumentError, match="'num_batches' = 2"):
        run_op("FusedSpatialBNGradient", *BLOBS, num_batches=2, outputs=3)
    with pytest.raises(ShapeError, match="dY has the shape"):
        run_op("FusedSpatialBNGradient", *BLOBS[:3], BLOBS[3][:2], *BLOBS[4:], outputs=3)
    with pytest.raises(ArgumentError, match="names z, there are dy, y"):
        run_op("FusedSpatialBNGradient", *BLOBS, prologue="dy * z", outputs=3)
