"""FusedConvDepthwise: the two convolutions as sums by hand."""

from __future__ import annotations

from collections.abc import Callable
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


X, W, B, V, C = values(2, 3, 7, 6), values(5, 3, 1, 1), values(5), values(5, 1, 3, 3), values(5)
TEXT = {"inner": "max(min(y, 1), 0)", "epilogue": "relu(y)"}


def by_hand(stride: int, pad: int, inner: Callable[[Array], Array], last: Callable[[Array], Array]) -> Array:
    """Return pixel by pixel products, then each channel's sum over places of the window."""
    wider = inner(np.einsum("nchw,mc->nmhw", X, W[:, :, 0, 0]) + B[:, None, None])
    H = np.pad(wider, [(0, 0), (0, 0), (pad, pad), (pad, pad)])
    rows, columns = H.shape[2] - 2, H.shape[3] - 2
    total = sum(
        H[:, :, i : i + rows : stride, j : j + columns : stride] * V[:, 0, i, j, None, None]
        for i in range(3)
        for j in range(3)
    )
    return last(np.asarray(total) + C[:, None, None])


def clipped(y: Array) -> Array:
    return np.clip(y, 0, 1)


def rectified(y: Array) -> Array:
    return np.maximum(y, 0)


def unchanged(y: Array) -> Array:
    return y


def last(*arrays: Array) -> list[Array]:
    return [np.moveaxis(array, 1, -1).copy() if array.ndim == 4 else array for array in arrays]


INPUTS = [X, W, B, V, C]
CASES = [
    Case(
        "FusedConvDepthwise",
        INPUTS,
        by_hand(1, 1, clipped, rectified),
        {"kernel": 3, "pad": 1, "group": 5, **TEXT},
        batched=(0,),
        id="side by side",
    ),
    Case(
        "FusedConvDepthwise",
        INPUTS,
        by_hand(2, 1, clipped, unchanged),
        {"kernel": 3, "pad": 1, "stride": 2, "group": 5, "inner": TEXT["inner"]},
        id="every second",
    ),
    Case("FusedConvDepthwise", INPUTS, by_hand(1, 0, unchanged, unchanged), {"kernel": 3, "group": 5}, id="no pads"),
    Case(
        "FusedConvDepthwise",
        last(*INPUTS),
        np.moveaxis(by_hand(1, 1, clipped, rectified), 1, -1),
        {"kernel": 3, "pad": 1, "group": 5, "order": "NHWC", **TEXT},
        batched=(0,),
        id="NHWC",
    ),
]


@on_all_engines(CASES)
def test_fused_depthwise(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[list[Array], dict[str, Any], type[TazzaError], str]] = [
    ([X, values(5, 3, 3, 3), B, V, C], {"group": 5}, ShapeError, r"kernel size \(3, 3\), the first convolution is 1x1"),
    ([X, values(5, 4, 1, 1), B, V, C], {"group": 5}, ShapeError, "X has 3 channels, W takes 4"),
    ([X, W, values(4), V, C], {"group": 5}, ShapeError, r"b has the shape \(4\), W has 5 output channels"),
    ([X, W, B, V, values(4)], {"group": 5}, ShapeError, r"b has the shape \(4\), W has 5"),
    (INPUTS, {"group": 1}, ShapeError, "group is 1, W has 5 output channels"),
    (INPUTS, {"group": 5, "inner": "y + s0"}, ArgumentError, "names s0"),
    (INPUTS, {"group": 5, "epilogue": "import os"}, ArgumentError, "cannot be read"),
]


@pytest.mark.parametrize(("inputs", "arguments", "kind", "text"), REFUSED, ids=lambda value: str(value)[:30])
def test_refused(inputs: list[Array], arguments: Any, kind: type[TazzaError], text: str) -> None:
    with pytest.raises(kind, match=text):
        run_op("FusedConvDepthwise", *inputs, kernel=3, **arguments)
