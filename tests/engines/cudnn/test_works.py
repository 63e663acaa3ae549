"""Pads that differ, and images without elements."""

from __future__ import annotations

import numpy as np
import pytest

from tests.engines.cudnn.there import W, X, there


@pytest.mark.parametrize("type", ["Conv", "ConvTranspose"])
def test_pads_may_differ_before_and_behind(type: str) -> None:
    filters = W if type == "Conv" else np.ascontiguousarray(np.moveaxis(W, 0, 1))
    (Y,) = there(type, X, filters, kernels=[3, 2], pads=[0, 1, 2, 0], strides=[2, 1])
    there(
        f"{type}Gradient",
        X,
        filters,
        Y,
        kernels=[3, 2],
        pads=[0, 1, 2, 0],
        strides=[2, 1],
        no_bias=1,
        outputs=2,
    )


def test_what_has_no_elements_is_zeros_or_the_bias() -> None:
    b = np.arange(6, dtype=np.float32)
    nobody = X[:0]
    assert there("Conv", nobody, W, b, kernels=[3, 2])[0].size == 0
    np.testing.assert_array_equal(there("Conv", X[:, :0], W[:, :0], b, kernels=[3, 2])[0][0, :, 0, 0], b)
    dY = np.zeros((0, 6, 5, 5), np.float32)
    dW, db, dX = there("ConvGradient", nobody, W, dY, kernels=[3, 2], outputs=3)
    assert not dW.any()
    assert not db.any()
    assert dX.size == 0


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
def test_gradients_of_biases_are_sums_of_channels(order: str) -> None:
    x, w = (value if order == "NCHW" else np.ascontiguousarray(np.moveaxis(value, 1, -1)) for value in (X, W))
    dY = np.random.default_rng(5).standard_normal((2, 6, 5, 5) if order == "NCHW" else (2, 5, 5, 6)).astype(np.float32)
    _, db, _ = there("ConvGradient", x, w, dY, kernels=[3, 2], outputs=3, order=order)
    axes = (0, 2, 3) if order == "NCHW" else (0, 1, 2)
    np.testing.assert_allclose(db, dY.astype(np.float64).sum(axes), rtol=1e-5, atol=1e-5)
