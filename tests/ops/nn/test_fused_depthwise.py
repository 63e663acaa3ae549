"""FusedConvDepthwise: the two convolutions as sums by hand."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, ShapeError, TazzaError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]


def values(*shape: int) -> Array:
    """Return float32 numbers of that shape, the same in every run."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


X, W, B, V, C = values(2, 4, 9, 7), values(5, 4, 1, 1), values(5), values(5, 1, 3, 2), values(5)
INPUTS = [X, W, B, V, C]
LINE = [values(2, 4, 9), values(5, 4, 1), values(5), values(5, 1, 3), values(5)]
SOLID = [values(2, 4, 6, 7, 5), values(5, 4, 1, 1, 1), values(5), values(5, 1, 3, 2, 2), values(5)]


def unchanged(y: Array) -> Array:
    return y


def clipped(y: Array) -> Array:
    return np.clip(y, 0, 1)


def rectified(y: Array) -> Array:
    return np.maximum(y, 0)


def by_hand(
    inputs: Sequence[Array],
    inner: Callable[[Array], Array] = unchanged,
    last: Callable[[Array], Array] = unchanged,
    *,
    strides: Sequence[int] = (1, 1),
    dilations: Sequence[int] = (1, 1),
    pads: Sequence[int] = (0, 0, 0, 0),
) -> Array:
    """Return each pixel's products, then each channel's sum over the places of the window."""
    X, W, b, V, c = inputs
    rank = X.ndim - 2
    ones = (1,) * rank
    wide = inner(np.tensordot(W.reshape(W.shape[:2]), X, (1, 1)).swapaxes(0, 1) + b.reshape(-1, *ones))
    padded = np.pad(wide, [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)])
    sizes = [
        (extent - dilation * (k - 1) - 1) // stride + 1
        for extent, k, stride, dilation in zip(padded.shape[2:], V.shape[2:], strides, dilations, strict=False)
    ]
    total = np.zeros((*wide.shape[:2], *sizes))
    for place in itertools.product(*map(range, V.shape[2:])):
        firsts = [i * dilation for i, dilation in zip(place, dilations, strict=False)]
        steps = zip(firsts, sizes, strides, strict=False)
        cut = [slice(first, first + (size - 1) * stride + 1, stride) for first, size, stride in steps]
        total += padded[(slice(None), slice(None), *cut)] * V[(slice(None), 0, *place)].reshape(-1, *ones)
    return last(total + c.reshape(-1, *ones))


def channels_last(arrays: Sequence[Array]) -> list[Array]:
    return [np.moveaxis(array, 1, -1).copy() if array.ndim > 1 else array for array in arrays]


TEXT = {"inner": "max(min(y, 1), 0)", "epilogue": "relu(y)"}
KERNEL: dict[str, Any] = {"kernels": [3, 2], "group": 5}
CASES = [
    Case("FusedConvDepthwise", INPUTS, by_hand(INPUTS), KERNEL, batched=(0,), id="plain"),
    Case(
        "FusedConvDepthwise",
        INPUTS,
        by_hand(INPUTS, clipped, rectified, pads=(1, 0, 2, 1)),
        {**KERNEL, "pads": [1, 0, 2, 1], **TEXT},
        batched=(0,),
        id="formulas and pads",
    ),
    Case(
        "FusedConvDepthwise",
        INPUTS,
        by_hand(INPUTS, clipped, strides=(2, 1), dilations=(1, 3), pads=(1, 1, 1, 1)),
        {**KERNEL, "strides": [2, 1], "dilations": [1, 3], "pad": 1, "inner": TEXT["inner"]},
        id="steps",
    ),
    Case(
        "FusedConvDepthwise",
        INPUTS,
        by_hand(INPUTS, np.ones_like),
        {**KERNEL, "inner": "1"},
        id="one number",
    ),
    Case(
        "FusedConvDepthwise",
        channels_last(INPUTS),
        np.moveaxis(by_hand(INPUTS, clipped, rectified, pads=(1, 0, 2, 1)), 1, -1),
        {**KERNEL, "pads": [1, 0, 2, 1], "order": "nhwc", **TEXT},
        batched=(0,),
        id="nhwc",
    ),
    Case("FusedConvDepthwise", LINE, by_hand(LINE, pads=(0, 0)), {"kernels": [3], "group": 5}, id="one dimension"),
    Case(
        "FusedConvDepthwise",
        SOLID,
        by_hand(SOLID, rectified, strides=(1, 2, 1), dilations=(1, 1, 1), pads=(1, 0, 0, 0, 0, 0)),
        {"kernels": [3, 2, 2], "strides": [1, 2, 1], "pads": [1, 0, 0, 0, 0, 0], "group": 5, "inner": "relu(y)"},
        id="three dimensions",
    ),
]


@on_all_engines(CASES)
def test_fused_depthwise(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[list[Array], Any, type[TazzaError], str]] = [
    ([X, values(5, 4, 3, 3), B, V, C], {}, ShapeError, r"kernel size \(3, 3\), the first convolution is 1x1"),
    ([X, values(5, 3, 1, 1), B, V, C], {}, ShapeError, "X has 4 channels, W takes 3"),
    ([X, values(5, 4, 1), B, V, C], {}, ShapeError, r"W has 3 dimensions \(5, 4, 1\), V's kernel needs 4"),
    ([values(3), W, B, V, C], {}, ShapeError, r"X has 1 dimensions"),
    ([X, W, values(4), V, C], {}, ShapeError, r"b has the shape \(4\), W has 5 output channels"),
    ([X, W, B, V, values(4)], {}, ShapeError, r"c has the shape \(4\), V has 5 output channels"),
    ([X, W, B, values(10, 1, 3, 2), values(10)], {}, ShapeError, "V has 10 output channels, W has 5"),
    ([X, W, B, values(5, 2, 3, 2), C], {}, ShapeError, "H has 5 channels, V takes 2 in each of 5 groups"),
    (INPUTS, {"group": 1}, ShapeError, "group is 1, W has 5 output channels"),
    (INPUTS, {"inner": "y + s0"}, ArgumentError, "inner 'y \\+ s0' names s0"),
    (INPUTS, {"epilogue": "import os"}, ArgumentError, "cannot be read"),
]


@pytest.mark.parametrize(("inputs", "arguments", "kind", "text"), REFUSED, ids=lambda value: str(value)[:30])
def test_refused(inputs: list[Array], arguments: Any, kind: type[TazzaError], text: str) -> None:
    given = KERNEL | arguments
    with pytest.raises(kind, match=text):
        run_op("FusedConvDepthwise", *inputs, **given)
