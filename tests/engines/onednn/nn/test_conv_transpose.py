"""Transposed convolutions on oneDNN: dense channels, blocks, groups, epilogues."""

from __future__ import annotations

import pytest

from tazza.engines.onednn.library import unavailable
from tazza.tensor import channels_last
from tests.check import assert_close
from tests.engines.onednn.layouts import Relaid, Ways, blocked, numbers, row_major

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

X, W, B = numbers(2, 32, 5, 7), numbers(32, 16, 3, 4), numbers(16)
Y = numbers(2, 16, 10, 16)
ARGS = {"kernels": [3, 4], "stride": 2, "pads": [1, 1, 0, 0], "adj_h": 0, "adj_w": 1}
GROUPED = numbers(32, 4, 3, 4)
CASES = [
    Relaid("ConvTranspose", [X, W, B], ARGS),
    Relaid("ConvTranspose", [X, GROUPED, B], ARGS | {"group": 4}),
    Relaid("ConvTransposeGradient", [X, W, Y], ARGS, images=(0, 2), outputs=3),
    Relaid("ConvTransposeGradient", [X, GROUPED, Y], ARGS | {"group": 4}, images=(0, 2), outputs=3),
    Relaid("FusedConvTranspose", [X, W, B, Y], ARGS | {"epilogue": "relu(y + s0)", "operands": 1}, images=(0, 3)),
    Relaid("FusedConvTranspose", [X, W, Y], ARGS | {"epilogue": "tanh(y) * s0", "operands": 1}, images=(0, 2)),
]


@pytest.mark.parametrize("way", [row_major, channels_last, blocked])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.type)
def test_ways(case: Relaid, way: Ways) -> None:
    expected, _ = case.run("reference", row_major)
    got, operator = case.run("onednn", way)
    for one, wanted in zip(got, expected, strict=True):
        assert_close(one, wanted, slack=100)
    if way is not blocked and operator.schema.type.endswith("ConvTranspose"):
        target = operator.outputs[0].tensor()
        assert target.layout == channels_last(target.shape)


def test_in_place_over_an_operand() -> None:
    args = ARGS | {"epilogue": "relu(y + s0)", "operands": 1}
    case = Relaid("FusedConvTranspose", [X, W, Y], args, images=(0, 2), in_place={0: 2})
    expected, _ = case.run("reference", row_major)
    for way in (row_major, channels_last):
        got, _ = case.run("onednn", way)
        assert_close(got[0], expected[0], slack=100)


def test_a_large_adj_is_left_to_others() -> None:
    case = Relaid("ConvTranspose", [X, W], {"kernels": [3, 4], "stride": 2, "adj": 2})
    with pytest.raises(AssertionError, match="oneDNN adds less than a stride"):
        case.run("onednn", row_major)
