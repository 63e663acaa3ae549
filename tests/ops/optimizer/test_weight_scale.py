"""Weights that shrink at some steps."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.optimizer.of_rows import results, values

TABLE = values(7, 2)


@pytest.mark.parametrize(("iter", "factor"), [(0, 1), (1, 0.5), (2, 1), (3, 0.5), (4, 1), (5, 1), (7, 1)])
def test_weights_shrink_at_some_steps(iter: int, factor: float) -> None:
    arguments = {"stepsize": 2, "upper_bound_iter": 5, "scale": 0.5}
    (scaled,) = results("WeightScale", {"X": TABLE, "iter": np.array([iter])}, ["X"], **arguments)
    np.testing.assert_array_equal(scaled, np.float32(factor) * TABLE)
