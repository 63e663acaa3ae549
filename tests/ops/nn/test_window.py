"""Windows: sizes and paddings of all modes, against the rules as the definition says them, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.errors import ShapeError
from tazza.operator import SCHEMAS, operator_def, run_op
from tazza.ops.nn.conv import conv_window

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


def test_every_window_lies_in_the_padded_image() -> None:
    """Whatever the arguments: what kernels pad and cut is what all windows reach, and a library finds as many."""
    rng = np.random.default_rng(0)
    for _ in range(400):
        extent, k, s, d = (int(rng.integers(1, n)) for n in (9, 7, 5, 4))
        legacy = int(rng.integers(0, 4))
        pads = [] if legacy in (1, 2) else [int(rng.integers(0, k))] * 2
        dilation = d if legacy < 2 else 1
        definition = operator_def(
            "Conv", ["X", "W"], ["Y"], kernels=[k], strides=[s], dilations=[dilation], pads=pads, legacy_pad=legacy
        )
        op = SCHEMAS["Conv"].view(definition)
        try:
            window, (out,) = conv_window(op, (1, 1, extent), (1, 1, k))
        except ShapeError:
            continue
        assert out is not None
        (stride,), (cover,), (head,), (tail,) = window.stride, window.cover, window.head, window.tail
        assert (out - 1) * stride + cover <= head + extent + tail
        assert (head + extent + tail - cover) // stride + 1 == out
