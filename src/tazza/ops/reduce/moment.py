"""Mean and variance of parts of a blob, and the way back through a normalization with them.

Letters: n elements in each part, z = (x - mean) * inv_std. All results are float64 and keep the axes that were
summed over, with length 1, so that they broadcast over x.
"""

from __future__ import annotations

import math

import numpy as np

from tazza.operator import Array


def moments(x: Array, axes: tuple[int, ...]) -> tuple[Array, Array]:
    """Return mean and biased variance over `axes`; both are 0 where there is nothing to sum.

    >>> moments(np.array([[1.0, 3.0]]), (1,))
    (array([[2.]]), array([[1.]]))
    """
    mean = mean_over(x, axes)
    return mean, mean_over(np.square(x - mean), axes)


def mean_over(x: Array, axes: tuple[int, ...]) -> Array:
    """Return the mean over `axes`, 0 where there is nothing to sum."""
    n = math.prod(x.shape[axis] for axis in axes)
    return x.sum(axis=axes, dtype=np.float64, keepdims=True) / max(n, 1)


def normalization_gradient(dz: Array, z: Array, inv_std: Array, axes: tuple[int, ...]) -> Array:
    """Return dx = inv_std * (dz - mean of dz - z * mean of dz * z), for z normalized over `axes`.

    The mean of x has the derivative 1 / n, inv_std the derivative -inv_std^2 * z / n.
    """
    return inv_std * (dz - mean_over(dz, axes) - z * mean_over(dz * z, axes))
