"""Int8Relu and Int8LeakyRelu against the rectified numbers that the bytes stand for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tazza.errors import ArgumentError
from tazza.operator import operator_def
from tazza.proto import NetDef
from tazza.tensor import Int8Tensor
from tazza.testing.value import assert_near
from tazza.workspace import Workspace
from tests.check import Case, check_op, on_all_engines, run
from tests.ops.quantized.numbers import octets, quantized, real

X = octets(2, 3, 5)


def expected(scale: float, point: int) -> Callable[[Int8Tensor], Int8Tensor]:
    return lambda x: quantized(np.maximum(real(x), 0), scale, point)


def leaky(alpha: float, scale: float, point: int = 0) -> Callable[[Int8Tensor], Int8Tensor]:
    return lambda x: quantized(np.maximum(real(x), 0) + alpha * np.minimum(real(x), 0), scale, point)


STEEP = {"alpha": 0.4, "Y_scale": 0.03, "Y_zero_point": 90}
CASES = [
    Case("Int8Relu", (X,), expected(0.05, 120), batched=(0,), id="as X"),
    Case(
        "Int8Relu",
        (X,),
        expected(0.03, 7),
        {"Y_scale": 0.03, "Y_zero_point": 7},
        batched=(0,),
        id="other scale",
    ),
    Case("Int8LeakyRelu", (X,), leaky(0.4, 0.03, 90), STEEP, batched=(0,), id="leaky"),
    Case("Int8LeakyRelu", (X,), leaky(0.01, 1.0), batched=(0,), id="leaky as it stands"),
    Case("Int8LeakyRelu", (octets(7, 613),), leaky(0.4, 0.03, 90), STEEP, id="leaky, many"),
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


@pytest.mark.parametrize("alpha", [-0.5, 0.0, 1.0])
def test_a_slope_outside_of_0_to_1_is_refused(alpha: float) -> None:
    with pytest.raises(ArgumentError, match="above 0 and below 1"):
        run(operator_def("Int8LeakyRelu", ["X"], ["Y"], alpha=alpha), [X])


@pytest.mark.parametrize("type", ["simple", "plan", "dag"])
def test_another_scale_in_place_holds_in_every_run(type: str) -> None:
    """The blob means one thing before the operator and another behind it, each time."""
    x = np.random.default_rng(2).standard_normal((3, 5)).astype(np.float32)
    net = NetDef(name="twice", type=type, external_input=["x"], external_output=["q"])
    net.op.append(operator_def("Int8Quantize", ["x"], ["q"], Y_scale=0.05, Y_zero_point=120))
    net.op.append(operator_def("Int8Relu", ["q"], ["q"], Y_scale=0.03, Y_zero_point=7))
    workspace = Workspace()
    workspace.feed("x", x)
    made = workspace.create_net(net)
    wanted = quantized(np.maximum(real(quantized(x, 0.05, 120)), 0), 0.03, 7)
    for _ in range(3):
        made.run()
        assert_near(workspace.fetch("q"), wanted)
