"""A 1x1 and a depthwise convolution: at once where that keeps what is between in the cache, else one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.device import current_context
from tazza.engines.onednn.launch import PrimitiveLaunch, SequenceLaunch
from tazza.engines.onednn.library import unavailable
from tazza.operator import LaidOut, find_schema, operator_def
from tazza.operator.kernel import KERNELS
from tazza.tensor import CPUPlace, DataType, TensorSpec
from tests.check import Array, assert_close, run

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))


def values(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    ("channels", "image", "stride", "order", "at_once"),
    [
        ((16, 96), (112, 112), 2, "NCHW", True),
        ((16, 96), (111, 115), 2, "NCHW", True),
        ((16, 96), (112, 113), 1, "NHWC", True),
        ((24, 80), (130, 112), 1, "NCHW", True),
        ((16, 96), (11, 14), 2, "NCHW", False),
        ((5, 9), (7, 6), 1, "NHWC", False),
    ],
)
def test_values(channels: tuple[int, int], image: tuple[int, int], stride: int, order: str, at_once: bool) -> None:
    C, M = channels
    inputs = [values(2, C, *image), values(M, C, 1, 1), values(M), values(M, 1, 3, 3), values(M)]
    if order == "NHWC":
        inputs = [np.moveaxis(one, 1, -1).copy() if one.ndim == 4 else one for one in inputs]
    arguments: dict[str, Any] = {"kernel": 3, "pad": 1, "stride": stride, "group": M, "order": order}
    formulas: dict[str, Any] = {"inner": "max(min(y, 6), 0)", "epilogue": "relu(y * 0.5)"}
    definition = operator_def("FusedConvDepthwise", ["X", "W", "b", "V", "c"], ["Y"], **arguments, **formulas)
    (got,), _ = run(definition, inputs, "onednn")
    (wanted,), _ = run(definition, inputs, "reference")
    assert_close(got, wanted, 20)
    specs = [TensorSpec(one.shape, DataType.FLOAT) for one in (*inputs, wanted)]
    prepare = KERNELS["FusedConvDepthwise", "cpu", "onednn"].prepare
    assert prepare is not None
    view = find_schema("FusedConvDepthwise").view(definition)
    found = prepare(view, current_context(CPUPlace()), specs[:5], specs[5:])
    assert isinstance(found, LaidOut)
    if at_once and isinstance(found.launch, SequenceLaunch):
        pytest.skip("the caches of this processor hold what is between")
    assert isinstance(found.launch, PrimitiveLaunch if at_once else SequenceLaunch)
