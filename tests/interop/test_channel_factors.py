"""A layer with factors in its weights gives what the layer gave, times the factors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.errors import ShapeError
from tazza.interop.channel_factors import into_weights, normalizing_factors
from tazza.operator import run_op

RANDOM = np.random.default_rng(5)


def drawn(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(("op_type", "shape", "axis"), [("Conv", (5, 3, 2, 3), 0), ("ConvTranspose", (3, 5, 2, 3), 1)])
@pytest.mark.parametrize("biased", [False, True])
def test_it_is_the_layer_and_the_normalization(op_type: str, shape: tuple[int, ...], axis: int, biased: bool) -> None:
    X, W, b = drawn(2, 3, 7, 6), drawn(*shape), drawn(5) if biased else None
    scale, bias, mean, variance = drawn(5), drawn(5), drawn(5), np.abs(drawn(5)) + 1
    window: dict[str, Any] = {"kernel_h": 2, "kernel_w": 3}
    before = run_op(op_type, *[one for one in (X, W, b) if one is not None], **window)
    wanted = run_op("SpatialBN", before, scale, bias, mean, variance, is_test=1, epsilon=0.5)
    factors = normalizing_factors(scale, bias, mean, variance, 0.5)
    got = run_op(op_type, X, *into_weights(W, b, *factors, axis), **window)
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


def test_factors_have_to_fit() -> None:
    with pytest.raises(ShapeError, match="4 channels, and 3 factors"):
        into_weights(drawn(4, 3, 2, 2), None, drawn(3), drawn(3), 0)
