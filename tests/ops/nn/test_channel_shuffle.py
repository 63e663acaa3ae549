"""ChannelShuffle and its gradient: against one channel after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, SchemaError, ShapeError, TazzaError
from tazza.operator import operator_def, run_op
from tests.check import Case, check_op, on_all_engines, run

Array = NDArray[Any]

X = np.arange(2 * 6 * 3 * 5, dtype=np.float32).reshape(2, 6, 3, 5)
LAST = np.ascontiguousarray(np.moveaxis(X, 1, -1))
GROUP = {"group": 2}
FORWARD = [0, 3, 1, 4, 2, 5]
"""Channel that each channel of Y comes from, for 6 channels in 2 groups."""

BACK = [0, 2, 4, 1, 3, 5]
CASES = [
    Case("ChannelShuffle", [X], X[:, FORWARD], GROUP, batched=(0,)),
    Case("ChannelShuffle", [LAST], LAST[..., FORWARD], {**GROUP, "order": "NHWC"}, id="NHWC"),
    Case("ChannelShuffle", [X], X, id="one group"),
    Case("ChannelShuffle", [X[:, :, 0, 0]], X[:, BACK, 0, 0], {"group": 3}, id="rank 2"),
    Case("ChannelShuffle", [X[:, :0]], X[:, :0], GROUP, id="no channels"),
    Case("ChannelShuffleGradient", [X], X[:, BACK], GROUP, batched=(0,)),
    Case("ChannelShuffleGradient", [LAST], LAST[..., BACK], {**GROUP, "order": "NHWC"}, id="NHWC"),
]


@on_all_engines(CASES)
def test_channel_shuffle(case: Case, engine: str) -> None:
    check_op(case, engine)


@settings(max_examples=20)
@given(st.integers(1, 5), st.integers(1, 5))
def test_the_gradient_brings_every_channel_back(groups: int, width: int) -> None:
    channels = np.arange(groups * width, dtype=np.float32).reshape(1, -1)
    there = run_op("ChannelShuffle", channels, group=groups)
    np.testing.assert_array_equal(run_op("ChannelShuffleGradient", there, group=groups), channels)
    np.testing.assert_array_equal(run_op("ChannelShuffle", there, group=width), channels)


def test_arguments_of_a_convolution_are_known() -> None:
    run(operator_def("ChannelShuffle", ["X"], ["Y"], group=2, kernel=3, stride=1, pad=0), [X])


REFUSED: list[tuple[Array, dict[str, Any], type[TazzaError], str]] = [
    (X, {"group": 4}, ShapeError, "6 channels do not divide into 4 groups"),
    (X, {"group": 0}, ArgumentError, "'group' = 0 is below its minimum 1"),
    (X[0, :, 0, 0], {}, ShapeError, "has 1 dimensions"),
    (X.astype("d"), {}, DTypeError, "is float64"),
]


@pytest.mark.parametrize("type", ["ChannelShuffle", "ChannelShuffleGradient"])
@pytest.mark.parametrize(("X", "args", "error", "text"), REFUSED)
def test_refused(type: str, X: Array, args: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, X, **args)


def test_never_in_place() -> None:
    with pytest.raises(SchemaError, match="in place of"):
        run(operator_def("ChannelShuffle", ["X"], ["X"]), [X])
