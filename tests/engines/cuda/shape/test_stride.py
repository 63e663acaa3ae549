"""Copies with even steps: axes in another order, repeated ones, none."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.engines.cuda.launch import GridLaunch
from tazza.engines.cuda.shape.stride import steps_of, strided_copy
from tests.engines.cuda.test_threads import run, there


@pytest.mark.parametrize("axes", [[(3, 1), (2, 3)], [(2, 0), (2, 3), (3, 1)], [(0, 3), (3, 1)]])
def test_copies(axes: list[tuple[int, int]]) -> None:
    X = np.arange(6, dtype=np.int16).reshape(2, 3)
    shape = [extent for extent, _ in axes]
    wanted = np.lib.stride_tricks.as_strided(X, shape, [2 * step for _, step in axes])
    Y, launch = there(np.zeros(max(1, wanted.size), np.int16)), strided_copy(2, axes, ("x", "y"))
    assert isinstance(launch, GridLaunch)
    run(launch, x=there(X), y=Y)
    np.testing.assert_array_equal(np.asarray(Y.plain())[: wanted.size], wanted.ravel())
    assert steps_of(X.shape) == [3, 1]
