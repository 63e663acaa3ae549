"""Convolutions on oneDNN: layouts that are asked for and honoured, and what is left to other engines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.device import current_context
from tazza.engines.onednn.launch import PrimitiveLaunch
from tazza.engines.onednn.library import unavailable
from tazza.operator import KERNELS, Array, LaidOut, Spec, Unsupported, find_schema, operator_def
from tazza.operator.choice import VARIANTS, Variant
from tazza.operator.kernel import taken
from tazza.tensor import ROW_MAJOR, CPUPlace, DataType, Layout, Opaque, TensorSpec, channels_last
from tests.check import Case, assert_close, run

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

IMAGE, FILTERS, RESULT = (2, 20, 9, 11), (30, 20, 3, 3), (2, 30, 9, 11)


def spec(dims: tuple[int, ...], layout: Layout = ROW_MAJOR) -> TensorSpec:
    return TensorSpec(dims, DataType.FLOAT, layout=layout)


def answer(type: str, inputs: list[Spec], outputs: list[Spec], **args: Any) -> LaidOut:
    """Return the answer of the engine for a 3x3 convolution."""
    names = [f"in{i}" for i in range(len(inputs))], [f"out{i}" for i in range(len(outputs))]
    window: dict[str, Any] = {"kernel": 3, "pad": 1, **args}
    op = find_schema(type).view(operator_def(type, *names, **window))
    prepare = KERNELS[type, "cpu", "onednn"].prepare
    assert prepare is not None
    found = taken(prepare(op, current_context(CPUPlace()), inputs, outputs))
    assert isinstance(found, LaidOut), found
    return found


def test_channels_last_throughout() -> None:
    found = answer("Conv", [spec(IMAGE), spec(FILTERS)], [spec(RESULT)])
    assert found.layouts["X"] == channels_last(IMAGE)
    assert found.layouts["Y"] == channels_last(RESULT)
    assert isinstance(found.layouts["W"], Opaque)


def test_order_nhwc_is_channels_last_as_it_lies() -> None:
    shapes = [(2, 9, 11, 20), (30, 3, 3, 20)]
    found = answer("Conv", [spec(dims) for dims in shapes], [spec((2, 9, 11, 30))], order="NHWC")
    assert (found.layouts["X"], found.layouts["Y"]) == (ROW_MAJOR, ROW_MAJOR)


def test_gradient_keeps_channels_last() -> None:
    inputs: list[Spec] = [spec(IMAGE), spec(FILTERS), spec(RESULT)]
    found = answer("ConvGradient", inputs, [spec(FILTERS), spec((30,)), spec(IMAGE)])
    assert found.layouts["dX"] == channels_last(IMAGE)
    assert found.layouts["dY"] == channels_last(RESULT)
    assert found.launch.scratch_bytes > 0


def test_wished_layout_of_dW_is_honoured() -> None:
    inputs: list[Spec] = [spec(IMAGE), spec(FILTERS), spec(RESULT)]
    first = answer("ConvGradient", inputs, [spec(FILTERS), spec((30,))], no_gradient_to_input=1)
    wish = first.layouts["dW"]
    assert isinstance(wish, Opaque)
    again = answer("ConvGradient", inputs, [spec(FILTERS, wish), spec((30,))], no_gradient_to_input=1)
    assert again.layouts["dW"] == wish


def variants(*specs: list[Spec]) -> list[Variant]:
    op = find_schema("Conv").view(operator_def("Conv", ["X", "W"], ["Y"], kernel=3, pad=1))
    return VARIANTS["Conv", "cpu", "onednn"](op, *specs)


def test_blocked_input_lets_onednn_choose() -> None:
    made = variants([spec(IMAGE), spec(FILTERS)], [spec(RESULT)])
    assert len(made) > 2
    assert made[0].name.startswith("channels-last ")
    blocked = next(one for one in made if isinstance(one.answer.layouts["Y"], Opaque)).answer.layouts["Y"]
    wide = (40, 30, 3, 3)
    found = answer("Conv", [spec(RESULT, blocked), spec(wide)], [spec((2, 40, 9, 11))])
    assert "X" in found.layouts


def test_names_of_variants_tell_them_apart() -> None:
    specs: tuple[list[Spec], list[Spec]] = [spec(IMAGE), spec(FILTERS)], [spec(RESULT)]
    made, again = variants(*specs), variants(*specs)
    assert len({one.name for one in made}) == len(made)
    assert [(one.name, one.answer.layouts) for one in made] == [(one.name, one.answer.layouts) for one in again]


def test_pads_that_cut_off_are_left_to_others() -> None:
    with pytest.raises(Unsupported, match="cuts nothing off"):
        answer("Conv", [spec(IMAGE), spec(FILTERS)], [spec((2, 30, 5, 7))], pad=None, pads=[-1, -1, -1, -1])
    with pytest.raises(Unsupported, match="cuts less than a stride off"):
        answer("Conv", [spec(IMAGE), spec(FILTERS)], [spec((2, 30, 6, 8))], pad=None, pads=[0, 0, -1, -1])


def test_pads_that_cut_less_than_a_stride_off() -> None:
    given = [values(2, 5, 9, 11), values(7, 5, 3, 3)]
    definition = operator_def("Conv", ["X", "W"], ["Y"], kernel=3, stride=2, pads=[1, 0, -1, -1])
    (got,), _ = run(definition, given, "onednn")
    (wanted,), _ = run(definition, given, "reference")
    assert_close(got, wanted, 20)


def test_no_images() -> None:
    X, W = np.zeros((0, 20, 9, 11), np.float32), np.ones(FILTERS, np.float32)
    (Y,), _ = run(operator_def("Conv", ["X", "W"], ["Y"], kernel=3, pad=1), [X, W], "onednn")
    assert Y.shape == (0, 30, 9, 11)
    gradient = operator_def("ConvGradient", ["X", "W", "dY"], ["dW", "db", "dX"], kernel=3, pad=1)
    (dW, db, dX), _ = run(gradient, [X, W, Y], "onednn")
    assert not dW.any()
    assert not db.any()
    assert dX.shape == X.shape


RANDOM = np.random.default_rng(0)


def values(*dims: int) -> Array:
    return RANDOM.standard_normal(dims).astype(np.float32)


CASES = [
    Case("Conv", [values(3, 1, 8, 9), values(5, 1, 3, 2)], None, {"kernels": [3, 2]}, id="one channel"),
    Case("Conv", [values(2, 34, 5, 7), values(34, 1, 3, 3)], None, {"kernel": 3, "group": 34}, id="depthwise"),
    Case("Conv", [values(2, 6, 9, 11), values(8, 3, 3, 3)], None, {"kernel": 3, "group": 2, "dilation": 2}, id="group"),
    Case(
        "Conv", [values(2, 9, 11, 6), values(8, 3, 3, 3)], None, {"kernel": 3, "group": 2, "order": "NHWC"}, id="NHWC"
    ),
    Case("Conv", [values(2, 6, 13), values(7, 6, 4)], None, {"kernels": [4], "strides": [3], "pads": [2, 1]}, id="1D"),
    Case("Conv", [values(2, 3, 5, 6, 7), values(4, 3, 2, 3, 2)], None, {"kernels": [2, 3, 2]}, id="3D"),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in CASES])
def test_forward_and_gradient_agree_with_the_reference(case: Case) -> None:
    definition = case.definition()
    (Y,), _ = run(definition, case.arrays(), "onednn")
    (wanted,), _ = run(definition, case.arrays(), "reference")
    assert_close(Y, wanted, 20)
    letters = ["X", "W", "dY"], ["dW", "db", "dX"]
    gradient = operator_def("ConvGradient", *letters, **case.args)
    inputs = [*case.arrays(), values(*Y.shape)]
    got, _ = run(gradient, inputs, "onednn")
    expected, _ = run(gradient, inputs, "reference")
    for one, other in zip(got, expected, strict=True):
        assert_close(one, other, 50)


def test_depthwise_takes_the_faster_of_two_implementations() -> None:
    """Both have one layout; a search times the other as well."""
    X, W = spec((2, 32, 7, 6)), spec((32, 1, 3, 3))
    op = find_schema("Conv").view(operator_def("Conv", ["X", "W"], ["Y"], kernel=3, pad=1, group=32))
    names = [one.name for one in VARIANTS["Conv", "cpu", "onednn"](op, [X, W], [X])]
    if not {"channels-last brdgmm_dw:avx512_core", "channels-last jit_dw:avx512_core"} <= set(names):
        pytest.skip(f"there are only {', '.join(names)}")
    launch = answer("Conv", [X, W], [X], group=32).launch
    assert isinstance(launch, PrimitiveLaunch)
    assert launch.implementation == "jit_dw:avx512_core"
