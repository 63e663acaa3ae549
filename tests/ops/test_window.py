"""Windows: sizes and paddings of all modes, against the rules as the definition says them, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.errors import ShapeError
from tazza.operator import run_op

# in, kernel, stride, pad -> out, as the genuine Caffe2 gave for MaxPool with legacy_pad=3
CAFFE = [
    ((6, 3, 2, 0), 3),
    ((2, 3, 2, 0), 1),
    ((1, 2, 2, 0), 1),
    ((7, 3, 2, 1), 4),
    ((5, 2, 3, 1), 2),
]


@pytest.mark.parametrize(("sizes", "out"), CAFFE)
def test_caffe_rounds_up(sizes: tuple[int, int, int, int], out: int) -> None:
    extent, k, s, pad = sizes
    X = np.arange(extent, dtype=np.float32).reshape(1, 1, extent)
    Y = run_op("MaxPool", X, kernels=[k], strides=[s], pads=[pad, pad], legacy_pad=3)
    assert Y.shape == (1, 1, out)


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ({"kernels": [2], "dilations": [2], "legacy_pad": 3}, "CAFFE_LEGACY_POOLING does not take dilation 2"),
        ({"kernels": [2], "dilations": [2], "legacy_pad": 2}, "SAME does not take dilation 2"),
        ({"kernels": [2], "pads": [-6, 9]}, "pads -6 and 9 cut more off than the 5 elements of dimension 0"),
    ],
)
def test_refused(args: dict[str, Any], text: str) -> None:
    with pytest.raises(ShapeError, match=text):
        run_op("Conv", np.ones((1, 1, 5), np.float32), np.ones((1, 1, 2), np.float32), **args)


def test_caffe_refuses_a_window_that_lies_behind_the_image() -> None:
    """Rounded up there are 2 windows over 1 element with pad 1, where rounding down gives 3; Caffe2 refuses it too."""
    one = np.ones((1, 1, 1), np.float32)
    with pytest.raises(ShapeError, match="kernel of 1 with stride 1 and pad 1 gives 2 windows over 1 elements"):
        run_op("Conv", one, one, kernels=[1], pads=[1, 1], legacy_pad=3)


def test_negative_pads_cut_off() -> None:
    X = np.arange(6, dtype=np.float32).reshape(1, 1, 6)
    Y = run_op("Conv", X, np.ones((1, 1, 2), np.float32), kernels=[2], pads=[-2, -1])
    np.testing.assert_array_equal(Y.ravel(), [5, 7])
