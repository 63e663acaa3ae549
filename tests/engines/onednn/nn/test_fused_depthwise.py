"""A 1x1 and a depthwise convolution: at once where that keeps what is between in the cache, else one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tazza.device import current_context
from tazza.engines.onednn.launch import PrimitiveLaunch, SequenceLaunch
from tazza.engines.onednn.library import unavailable
from tazza.operator import KERNELS, Array, LaidOut, OpView, Spec, find_schema, operator_def
from tazza.operator.choice import VARIANTS, takes_operator
from tazza.proto import OperatorDef
from tazza.runtime.native_code import processor
from tazza.runtime.threads import at_most_threads
from tazza.tensor import CPUPlace, DataType, TensorSpec
from tests.check import assert_close, run

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))
TYPE = "FusedConvDepthwise"


def inputs(C: int, M: int, image: Sequence[int], kernel: int = 3) -> list[Array]:
    shapes = [(2, C, *image), (M, C, 1, 1), (M,), (M, 1, kernel, kernel), (M,)]
    return [np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32) for shape in shapes]


def definition(M: int, **arguments: Any) -> OperatorDef:
    given: dict[str, Any] = {
        **{"kernel": 3, "pad": 1, "group": M, "inner": "max(min(y, 6), 0)", "epilogue": "relu(y * 0.5)"},
        **arguments,
    }
    return operator_def(TYPE, ["X", "W", "b", "V", "c"], ["Y"], **given)


def view(op: OperatorDef) -> OpView:
    return find_schema(TYPE).view(op)


def specs_of(arrays: Sequence[Array]) -> list[Spec]:
    return [TensorSpec(one.shape, DataType.FLOAT) for one in arrays]


def launch_of(op: OperatorDef, given: Sequence[Array], Y: Array) -> PrimitiveLaunch | SequenceLaunch:
    prepare = KERNELS[TYPE, "cpu", "onednn"].prepare
    assert prepare is not None
    found = prepare(view(op), current_context(CPUPlace()), specs_of(given), specs_of([Y]))
    assert isinstance(found, LaidOut)
    assert isinstance(found.launch, (PrimitiveLaunch, SequenceLaunch))
    return found.launch


def computed(op: OperatorDef, given: Sequence[Array]) -> Array:
    """Return what both engines give."""
    (got,), _ = run(op, given, "onednn")
    (wanted,), _ = run(op, given, "reference")
    assert_close(got, wanted, 20)
    return got


@pytest.mark.slow
@pytest.mark.skipif(processor().vector_bytes < 64, reason="code for both at once is looked for on AVX-512 only")
@pytest.mark.parametrize(
    ("channels", "image", "stride", "order"),
    [
        ((16, 96), (112, 112), 2, "NCHW"),
        ((16, 96), (111, 115), 2, "NCHW"),
        ((16, 96), (112, 113), 1, "NHWC"),
        ((24, 80), (130, 112), 1, "NCHW"),
    ],
)
def test_large_ones_are_done_at_once(
    channels: tuple[int, int], image: tuple[int, int], stride: int, order: str
) -> None:
    """What is between has more than 9 MB, twice the second caches that a core has."""
    C, M = channels
    given = inputs(C, M, image)
    if order == "NHWC":
        given = [np.moveaxis(one, 1, -1).copy() if one.ndim == 4 else one for one in given]
    op = definition(M, stride=stride, order=order)
    with at_most_threads(1):
        Y = computed(op, given)
        launch = launch_of(op, given, Y)
    assert isinstance(launch, PrimitiveLaunch)
    assert launch.implementation.startswith("jit_1x1")
    assert launch.scratch_bytes < 2 * M * image[0] * image[1] * 4 / 8  # some rows of what is between


@pytest.mark.slow
@pytest.mark.parametrize(
    ("channels", "image", "arguments"),
    [
        ((16, 96), (11, 14), {"stride": 2}),
        ((5, 9), (7, 6), {}),
        ((16, 96), (112, 112), {"dilation": 2}),
        ((16, 97), (112, 113), {}),
        ((16, 96), (112, 113), {"pad": None, "pads": [1, 1, 0, 0]}),
        ((16, 96), (112, 113), {"pad": None, "pads": [1, 1, 2, 2], "stride": 2}),
        ((16, 96), (112, 113), {"pad": 0}),
        ((16, 96), (112, 113), {"pad": None, "legacy_pad": 2, "stride": 2}),
    ],
)
def test_others_are_done_one_after_the_other(
    channels: tuple[int, int], image: tuple[int, int], arguments: dict[str, Any]
) -> None:
    C, M = channels
    given = inputs(C, M, image, int(arguments.get("kernel", 3)))
    op = definition(M, **arguments)
    Y = computed(op, given)
    assert isinstance(launch_of(op, given, Y), SequenceLaunch)


def test_a_search_times_both_ways() -> None:
    op, given = definition(96, stride=2), inputs(16, 96, (112, 112))
    with at_most_threads(1):
        look = VARIANTS[TYPE, "cpu", "onednn"]
        names = [one.name for one in look(view(op), specs_of(given), [TensorSpec((2, 96, 56, 56), DataType.FLOAT)])]
    wide = processor().vector_bytes == 64
    assert names == (["at once", "one after the other"] if wide else names[-1:])
    assert names[-1] == "one after the other"


def judged(op: OperatorDef, M: int) -> bool:
    return takes_operator(view(op), [None, TensorSpec((M, 16, 1, 1), DataType.FLOAT), None, None, None], "cpu")


def test_it_is_wanted_where_there_is_code_for_both_at_once() -> None:
    assert judged(definition(96), 96)
    assert judged(definition(96, stride=2, inner="y"), 96)
    assert not judged(definition(97), 97)
    assert not judged(definition(96, stride=3), 96)
    assert not judged(definition(96, dilation=2), 96)
    assert not judged(definition(96, kernel=5, pad=1), 96)
    assert not judged(definition(96, inner="y * y"), 96)
    assert not judged(definition(96, epilogue="sin(y)"), 96)
    assert not takes_operator(view(definition(96)), [None] * 5, "cpu")


def test_pads_that_cut_off_are_left_to_others() -> None:
    op = definition(96, pad=None, pads=[1, 1, -1, -1], kernel=1)
    given = inputs(16, 96, (7, 6), kernel=1)
    _, operator = run(op, given)
    reasons = {choice.engine: choice.reason for choice in operator.choices}
    assert "cuts less than a stride off" in str(reasons["onednn"])
