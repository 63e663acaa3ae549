"""Windows with strides far beyond the image: one window on every engine, or a typed error; no arithmetic overflows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.operator import run_op
from tests.check import engines_of

X = (np.arange(2 * 4 * 7 * 6).reshape(2, 4, 7, 6) % 11).astype(np.float32) - 4
W = (np.arange(3 * 4 * 3 * 2).reshape(3, 4, 3, 2) % 5).astype(np.float32) - 2
FAR = 1000
STRIDES = (2**31 - 1, 2**31, 2**40, 2**62)
PROBLEMS: dict[str, list[Any]] = {"Conv": [X, W], "MaxPool": [X], "AveragePool": [X], "Im2Col": [X]}


@pytest.mark.parametrize("stride", STRIDES)
@pytest.mark.parametrize("type", PROBLEMS)
def test_one_window_on_every_engine(type: str, stride: int) -> None:
    for engine in engines_of(type):
        near, far = (
            run_op(type, *PROBLEMS[type], engine=engine, kernel_h=3, kernel_w=2, stride_h=step, stride_w=step)
            for step in (FAR, stride)
        )
        np.testing.assert_array_equal(far, near)


@pytest.mark.parametrize("stride", STRIDES)
def test_gradients_of_one_window(stride: int) -> None:
    dY = np.ones((2, 3, 1, 1), np.float32)
    for engine in engines_of("ConvGradient"):
        near, far = (
            run_op("ConvGradient", X, W, dY, outputs=3, engine=engine, kernel_h=3, kernel_w=2, stride_h=s, stride_w=s)
            for s in (FAR, stride)
        )
        for one, other in zip(far, near, strict=True):
            np.testing.assert_array_equal(one, other)
