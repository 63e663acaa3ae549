"""The largest of rows on a device: short and long ones, side by side, with equal elements and NaN."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.device import device_option
from tazza.operator import run_op
from tazza.tensor import CUDAPlace, Tensor
from tazza.tensor.transfer import to_place
from tests.cuda_grid import backwards

DEVICE = CUDAPlace(0)


@pytest.mark.parametrize(
    ("shape", "axis", "k"), [((3, 5), 1, 7), ((2, 300), 1, 6), ((40, 3), 0, 5), ((2, 90, 3), 1, 4)]
)
def test_all_outputs_are_those_of_the_cpu(shape: tuple[int, ...], axis: int, k: int) -> None:
    X = np.random.default_rng(k).integers(-3, 4, shape).astype(np.float32)
    X.reshape(-1)[::4], X.reshape(-1)[1::5] = np.nan, -0.0
    X.reshape(-1)[2::9] = -np.inf
    wanted = run_op("TopK", X, k=k, axis=axis, outputs=3)
    with backwards():
        there = to_place(Tensor.from_numpy(X), DEVICE)
        found = run_op("TopK", there, k=k, axis=axis, outputs=3, device=device_option(DEVICE))
    for one, expected in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, expected)
