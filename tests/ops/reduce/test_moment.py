"""Moments and the way back through a normalization, against the full matrix of derivatives."""

from __future__ import annotations

import numpy as np

from tazza.ops.reduce.moment import moments, normalization_gradient


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
