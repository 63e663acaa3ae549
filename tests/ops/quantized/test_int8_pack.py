"""Int8FCPackWeight: steps between the least number and the largest, one row or all; whole layers; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, NumericError, ShapeError
from tazza.operator import operator_def, run_op
from tazza.proto import NetDef
from tazza.tensor import Int8Tensor, PerTensor
from tazza.workspace import Workspace
from tests.check import Case, check_op, on_all_engines
from tests.ops.quantized.numbers import octets, real, whole

Array = NDArray[Any]
W = np.random.default_rng(1).standard_normal((3, 2, 5)).astype(np.float32)
b = np.array([0.5, -1.25, 2.0], np.float32)


def steps(numbers: Array) -> tuple[float, int]:
    """Return the step and the byte of 0: the nearest of 256 marks on the line from the least number to the largest."""
    low, high = min(0.0, float(numbers.min())), max(0.0, float(numbers.max()))
    step = (high - low) / 255 if high > low else 0.1
    return float(np.float32(step)), int(np.abs(low + np.arange(256) * step).argmin())


def packed(W: Array, *rest: Any) -> Int8Tensor:
    """Return the nearest mark of each number."""
    del rest
    (step, zero), rows = steps(W), W.reshape(len(W), -1).astype(np.float64)
    marks = (np.arange(256) - zero) * step
    return Int8Tensor(np.abs(rows[..., None] - marks).argmin(-1).astype(np.uint8), PerTensor(step).scale, zero)


def by_row(W: Array) -> Int8Tensor:
    """Return each row as if it were alone."""
    each = [packed(row[None]) for row in W]
    scales = np.array([one.scale for one in each], np.float32)[:, None]
    points = np.array([one.zero_point for one in each], np.int32)[:, None]
    return Int8Tensor(np.concatenate([one.data for one in each]), scales, points)


def with_bias(W: Array, b: Array) -> tuple[Int8Tensor, Int8Tensor]:
    """Return b in steps of those of W times 0.05, too."""
    made = packed(W)
    unit = PerTensor(float(np.float32(0.05) * np.float32(made.scale))).scale
    return made, Int8Tensor(np.rint(b / unit).astype(np.int32), unit, 0)


def kept(W: Int8Tensor, b: Int8Tensor) -> tuple[Int8Tensor, Int8Tensor]:
    return W, b


CASES = [
    Case("Int8FCPackWeight", [W], packed),
    Case("Int8FCPackWeight", [W + 7], packed, id="above 0"),
    Case("Int8FCPackWeight", [-np.abs(W)], packed, id="below 0"),
    Case("Int8FCPackWeight", [W * 0], packed, id="all 0"),
    Case("Int8FCPackWeight", [W], by_row, {"quantize_channelwise": 1}, id="by row"),
    Case("Int8FCPackWeight", [W, b], with_bias, {"in_scale": 0.05}, outputs=2, id="bias"),
    Case(
        "Int8FCPackWeight",
        [octets(3, 7, scale=0.02), whole(3, 0.001)],
        kept,
        {"in_scale": 0.05},
        outputs=2,
        id="whole numbers",
    ),
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


@pytest.mark.parametrize("type", ["simple", "async_scheduling", "plan"])
@pytest.mark.parametrize("channelwise", [0, 1])
def test_a_layer_follows_its_weights(type: str, channelwise: int) -> None:
    """Packed in the same net as they are used: whatever is fed, the result is that of the real numbers."""
    workspace, x = Workspace(), octets(4, 10, scale=0.05)
    pack = operator_def("Int8FCPackWeight", ["W", "b"], ["W_q", "B_q"], in_scale=0.05, quantize_channelwise=channelwise)
    layer = operator_def("Int8FC", ["X", "W_q", "B_q"], ["Y"], Y_scale=0.25, Y_zero_point=128, engine="DNNLOWP")
    back = operator_def("Int8Dequantize", ["Y"], ["y"])
    workspace.feed("X", x)
    workspace.feed("b", b)
    for factor in (0.1, 0.2, 0.05):
        workspace.feed("W", W.reshape(3, 10) * np.float32(factor))
        if factor == 0.1:
            workspace.create_net(NetDef(name="n", type=type, op=[pack, layer, back], external_output=["y"]))
        workspace.run_net("n")
        wanted = real(x) @ (W.reshape(3, 10) * factor).T + b
        np.testing.assert_allclose(workspace.fetch("y"), wanted, atol=0.25)


REFUSED: list[tuple[list[Any], dict[str, Any], type[Exception], str]] = [
    ([W, b], {}, ArgumentError, "b needs the argument in_scale"),
    ([W], {"outputs": 2}, ArgumentError, "there is no b to make B_q of"),
    ([W], {"axis_w": 3}, ShapeError, "axis_w = 3 is not an axis of W, which has 3 dimensions"),
    ([W * np.float32(np.inf)], {}, NumericError, "W reaches from -inf to inf"),
    ([W, whole(3, 0.5)], {"in_scale": 0.05, "outputs": 2}, ShapeError, "the scale of b is 0.5, in_scale and that of W"),
    ([(W > 0).astype(np.uint8)], {}, DTypeError, "whole numbers with a scale"),
]


@pytest.mark.parametrize(("inputs", "args", "error", "text"), REFUSED)
def test_refused(inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op("Int8FCPackWeight", *inputs, **args)
