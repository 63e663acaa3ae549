"""Layers of bytes by way of float32: the same bytes to a step, in place too, and constants computed once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.engines.onednn.library import unavailable
from tazza.operator import operator_def
from tazza.proto import NetDef
from tazza.tensor import Int8Tensor
from tazza.testing.value import assert_near
from tazza.workspace import Workspace
from tests.ops.quantized.numbers import by_channel, octets, whole

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

TO: dict[str, Any] = {"order": "NHWC", "kernel": 3, "pad": 1, "Y_scale": 1.25, "Y_zero_point": 110}
X, W, b, S = octets(2, 5, 7, 8), octets(16, 3, 3, 8, scale=0.02, zero_point=77), whole(16, 0.001), octets(2, 5, 7, 16)


def ran(type: str, engine: str, inputs: dict[str, Int8Tensor], output: str, **args: Any) -> tuple[Any, str]:
    """Return what an engine gives, the second time it runs, and what it says of itself."""
    workspace = Workspace()
    for name, value in inputs.items():
        workspace.feed(name, value)
    net = NetDef(name=type, op=[operator_def(type, list(inputs), [output], engine=engine, **args)])
    made = workspace.create_net(net)
    made.run()
    for name, value in inputs.items():
        workspace.feed(name, value)
    made.run()
    return workspace.fetch(output), str(made.explain())


@pytest.mark.parametrize("output", ["Y", "S"])
@pytest.mark.parametrize("filters", [W, by_channel(W, 0.01, 0.03, 77)])
def test_a_sum_that_may_overwrite_what_is_added(output: str, filters: Int8Tensor) -> None:
    inputs = {"X": X, "W": filters, "b": b, "S": S}
    wanted, _ = ran("Int8FusedConv", "reference", inputs, output, relu=1, **TO)
    found, told = ran("Int8FusedConv", "onednn", inputs, output, relu=1, **TO)
    assert " onednn " in told
    assert_near(found, wanted)


def test_the_scale_of_a_bias_does_not_count() -> None:
    inputs = {"X": X, "W": W, "b": b}
    one, _ = ran("Int8Conv", "onednn", inputs, "Y", **TO)
    other, _ = ran("Int8Conv", "onednn", {**inputs, "b": whole(16, 7.0)}, "Y", **TO)
    np.testing.assert_array_equal(one.data, other.data)


def test_other_filters_are_brought_into_their_form_again() -> None:
    inputs = {"X": X, "W": W, "b": b}
    workspace = Workspace()
    for name, value in inputs.items():
        workspace.feed(name, value)
    made = workspace.create_net(NetDef(name="n", op=[operator_def("Int8Conv", list(inputs), ["Y"], **TO)]))
    for filters in (W, W._replace(data=W.data[::-1].copy()), W._replace(zero_point=78)):
        workspace.feed("W", filters)
        made.run()
        wanted, _ = ran("Int8Conv", "reference", {**inputs, "W": filters}, "Y", **TO)
        assert_near(workspace.fetch("Y"), wanted)
