"""Pooling by oneDNN: an image as it comes from a file never meets the code that takes an element at a time."""

from __future__ import annotations

from functools import partial

import pytest

from tazza.engines.onednn.launch import PrimitiveLaunch
from tazza.engines.onednn.library import unavailable
from tazza.engines.onednn.nn.pool import average_pool_gradient, pool
from tazza.operator import LaidOut, Unsupported, find_schema, operator_def
from tazza.ops.nn.pool import pool_window
from tazza.tensor import DataType, TensorSpec
from tazza.tensor.offer import answered

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))


@pytest.mark.parametrize("type", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
@pytest.mark.parametrize("channels", [1, 2, 3, 5, 8, 16, 17])
def test_large_plain_images(type: str, order: str, channels: int) -> None:
    """Of any number of channels, whichever kernel: 100 times as slow was what 16 plain channels got."""
    for kernel, stride in ((2, 2), (3, 1), (40, 1)):
        dims = (1, channels, 401, 303) if order == "NCHW" else (1, 401, 303, channels)
        schema = find_schema(type)
        op = schema.view(operator_def(type, ["X"], ["Y"], kernel=kernel, stride=stride, order=order))
        out = pool_window(op, dims)[1]
        made = (1, channels, *out) if order == "NCHW" else (1, *out, channels)
        X, Y = TensorSpec(dims, DataType.FLOAT), TensorSpec(made, DataType.FLOAT)
        asked = [partial(pool, op, {"X": X, "Y": Y})]
        if type == "AveragePool":
            back = find_schema("AveragePoolGradient")
            definition = operator_def(back.type, ["X", "Y", "dY"], ["dX"], kernel=kernel, stride=stride, order=order)
            asked.append(partial(average_pool_gradient, back.view(definition), {"X": X, "Y": Y, "dY": Y, "dX": X}))
        for answer in map(answered, asked):
            if not isinstance(answer, Unsupported):
                assert isinstance(answer, LaidOut)
                assert isinstance(answer.launch, PrimitiveLaunch)
                assert not answer.launch.primitive.implementation.startswith(("ref", "simple"))
            else:
                assert channels == 1 or "taps" in answer.reason, answer.reason
