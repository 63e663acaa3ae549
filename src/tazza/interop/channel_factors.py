"""A factor and a summand of each channel, taken into the weights of the layer before."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza.errors import ShapeError

Array = NDArray[Any]


def normalizing_factors(scale: Array, bias: Array, mean: Array, variance: Array, epsilon: float) -> tuple[Array, Array]:
    """Return factor and summand of each channel that a batch normalization is, once it has been trained.

    >>> normalizing_factors(*(np.float32([v]) for v in (6, 1, 2, 4)), 0.0)
    (array([3.], dtype=float32), array([-5.], dtype=float32))
    """
    factor = scale / np.sqrt(variance + epsilon)
    return factor.astype(np.float32), (bias - mean * factor).astype(np.float32)


def into_weights(weight: Array, bias: Array | None, factor: Array, summand: Array, axis: int) -> tuple[Array, Array]:
    """Return weight and bias of a layer whose output channels are multiplied and added to.

    Args:
        weight: of the layer; `axis` is the one of its output channels.
        bias: of the layer, of as many numbers; None for zeros.
        factor: of each channel.
        summand: of each channel.
        axis: see above.

    Raises:
        ShapeError: there are more or fewer channels than factors.
    """
    if factor.shape != (weight.shape[axis],):
        raise ShapeError(f"{weight.shape[axis]} channels, and {factor.size} factors")
    along = factor.reshape([-1 if each == axis else 1 for each in range(weight.ndim)])
    return weight * along, summand if bias is None else bias * factor + summand
