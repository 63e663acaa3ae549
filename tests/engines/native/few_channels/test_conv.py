"""Convolutions of images with few channels on the engine `native/few_channels` against the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.codegen import kernel
from tazza.device import current_context
from tazza.engines.native.few_channels.conv import Problem
from tazza.engines.native.few_channels.filters import Filters
from tazza.engines.onednn import estimate
from tazza.operator import operator_def
from tazza.operator.engine import why_unavailable
from tazza.operator.reorder import bind_reorder, relayout
from tazza.operator.run import run_op
from tazza.ops.nn.window import Window
from tazza.runtime.fpmath import FPMATH
from tazza.runtime.native_code import Processor, processor
from tazza.runtime.threads import NUM_THREADS
from tazza.tensor import Storage, Tensor, TensorSpec, channels_last
from tests.check import assert_ran, check_engine
from tests.check import run as run_checked

Array = NDArray[Any]

pytestmark = pytest.mark.skipif(
    why_unavailable("Conv", "cpu", "native/few_channels") is not None, reason="nothing can be compiled here"
)

SHAPES = [
    # X (N, C, H, W), W (K, C, kH, kW), arguments
    pytest.param((2, 3, 31, 37), (40, 3, 7, 7), {"stride": 2, "pad": 3}, id="ResNet"),
    pytest.param((3, 3, 17, 40), (33, 3, 3, 3), {"stride": 2, "pads": [0, 1, 2, 0]}, id="uneven pads"),
    pytest.param((1, 3, 12, 19), (36, 3, 3, 3), {"pads": [1, 2, -2, -3]}, id="the image is cut behind"),
    pytest.param((2, 1, 12, 15), (20, 1, 5, 5), {}, id="one channel"),
    pytest.param((1, 4, 5, 9), (70, 4, 2, 3), {"stride_h": 3, "stride_w": 1}, id="oblong filters"),
    pytest.param((1, 2, 50, 47), (96, 2, 11, 11), {"stride": 4}, id="what no window reads"),
    pytest.param((1, 8, 3, 2), (17, 8, 5, 5), {"pads": [3, 2, 3, 4]}, id="image smaller than the filter"),
]


def arrays(image: tuple[int, ...], filters: tuple[int, ...]) -> tuple[Array, Array, Array]:
    random = np.random.default_rng(7)
    X, W, b = (random.standard_normal(shape).astype(np.float32) for shape in (image, filters, filters[:1]))
    return X, W, b


def arguments(filters: tuple[int, ...], given: dict[str, Any]) -> dict[str, Any]:
    return {"kernel_h": filters[2], "kernel_w": filters[3], **given}


def assert_close(actual: Array, expected: Array) -> None:
    np.testing.assert_allclose(actual, expected, rtol=0, atol=3e-6 * float(np.abs(expected).max()))


@pytest.mark.slow
@pytest.mark.parametrize(("image", "filters", "given"), SHAPES)
def test_forward(image: tuple[int, ...], filters: tuple[int, ...], given: dict[str, Any]) -> None:
    X, W, b = arrays(image, filters)
    args = arguments(filters, given)
    (Y,), operator = run_checked(operator_def("Conv", ["X", "W", "b"], ["Y"], **args), [X, W, b], "native/few_channels")
    assert_ran(operator, "native/few_channels")
    assert_close(Y, run_op("Conv", X, W, b, engine="reference", **args))
    last = [np.ascontiguousarray(x.transpose(0, 2, 3, 1)) for x in (X, W)]
    again = run_op("Conv", *last, b, engine="native/few_channels", order="NHWC", **args)
    np.testing.assert_array_equal(again.transpose(0, 3, 1, 2), Y)
    without = run_op("Conv", X, W, engine="native/few_channels", **args)
    assert_close(without, run_op("Conv", X, W, engine="reference", **args))


def test_every_number_of_threads_gives_the_same_bits() -> None:
    X, W, b = arrays((3, 3, 30, 33), (36, 3, 3, 3))
    found: list[Array] = []
    for threads in (1, 2, 3):
        with NUM_THREADS.override(threads):
            found.append(run_op("Conv", X, W, b, engine="native/few_channels", kernel=3, stride=2))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_image_with_its_channels_last_in_a_net_of_the_other_order() -> None:
    """As another kernel may have left it: it is read as it lies."""
    X, W, b = arrays((2, 3, 9, 11), (24, 3, 3, 3))
    definition = operator_def("Conv", ["X", "W", "b"], ["Y"], kernel=3)
    (expected,), _ = run_checked(definition, [X, W, b], "native/few_channels")
    image = Tensor(X.shape)
    image.assign(X)
    relayout(image, channels_last(image.shape), current_context(image.place))
    (Y,), operator = run_checked(definition, [image, W, b], "native/few_channels")
    assert_ran(operator, "native/few_channels")
    np.testing.assert_array_equal(Y, expected)


def test_epilogue_with_an_operand_beside_and_in_place() -> None:
    X, W, b = arrays((2, 3, 9, 11), (40, 3, 3, 3))
    S = np.random.default_rng(9).standard_normal((2, 40, 9, 11)).astype(np.float32)
    args: dict[str, Any] = {"kernel": 3, "pad": 1, "operands": 1, "epilogue": "max(y + s0 * 0.5, 0)"}
    expected = run_op("FusedConv", X, W, b, S, engine="reference", **args)
    definition = operator_def("FusedConv", ["X", "W", "b", "S"], ["Y"], **args)
    (Y,), operator = run_checked(definition, [X, W, b, S], "native/few_channels")
    assert_ran(operator, "native/few_channels")
    assert_close(Y, expected)
    images = [np.ascontiguousarray(x.transpose(0, 2, 3, 1)) for x in (X, W, S)]
    over = operator_def("FusedConv", ["X", "W", "b", "S"], ["S"], order="NHWC", **args)
    (again,), operator = run_checked(over, [*images[:2], b, images[2]], "native/few_channels")
    assert_ran(operator, "native/few_channels")
    np.testing.assert_array_equal(again.transpose(0, 3, 1, 2), Y)
    over = operator_def("FusedConv", ["X", "W", "b", "S"], ["S"], **args)
    _, operator = run_checked(over, [X, W, b, S.copy()], "native/few_channels", refusable=True)
    told = check_engine(operator, "native/few_channels", refusable=True)
    assert told is not None
    assert "not dense" in told


@pytest.mark.parametrize(
    ("image", "filters", "given", "reason"),
    [
        ((1, 9, 6, 7), (40, 9, 3, 3), {}, "up to 8 channels, not 9"),
        ((1, 3, 9, 8), (40, 3, 3, 3), {"dilation": 2}, "dilation 1"),
        ((1, 4, 9, 8), (40, 2, 3, 3), {"group": 2}, "one group"),
        ((1, 3, 9, 8), (40, 3, 3, 3), {"pads": [0, -1, 0, 0]}, "cuts nothing off"),
    ],
)
def test_refusals_are_told(
    image: tuple[int, ...], filters: tuple[int, ...], given: dict[str, Any], reason: str
) -> None:
    X, W, b = arrays(image, filters)
    definition = operator_def("Conv", ["X", "W", "b"], ["Y"], **arguments(filters, given))
    _, operator = run_checked(definition, [X, W, b], "native/few_channels", refusable=True)
    told = check_engine(operator, "native/few_channels", refusable=True)
    assert told is not None
    assert reason in told


def test_what_it_leaves_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few outputs, which leave most lanes empty; whoever names it gets it."""
    monkeypatch.setattr(estimate, "has_tiles", lambda: False)  # which are worth it here
    X, W, b = arrays((1, 3, 9, 16), (40, 3, 3, 3))
    wide = operator_def("Conv", ["X", "W", "b"], ["Y"], kernel=3)
    _, operator = run_checked(wide, [X, W, b])
    assert operator.choices[-1].engine == "native/few_channels"
    with FPMATH.override("bf16"):
        _, operator = run_checked(wide, [X, W, b])
    assert operator.choices[-1].engine == "native/few_channels", "the narrower type is allowed, not demanded"
    few = [X, W[:3].copy(), b[:3].copy()]
    _, operator = run_checked(wide, few)
    told = {choice.engine: choice.reason for choice in operator.choices}["native/few_channels"]
    assert str(told).startswith("could, about")
    named = operator_def("Conv", ["X", "W", "b"], ["Y"], kernel=3, engine="native/few_channels")
    _, operator = run_checked(named, few)
    assert operator.choices[-1].engine == "native/few_channels"


@pytest.mark.slow
@pytest.mark.parametrize("vector_bytes", [16, 32])
def test_narrower_vectors(vector_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on processors that have no wider ones."""
    if processor().vector_bytes < vector_bytes:
        pytest.skip(f"the processor has no vectors of {vector_bytes} bytes")
    monkeypatch.setattr(kernel, "processor", lambda: Processor(processor().name, "+avx2" if vector_bytes == 32 else ""))
    test_forward((2, 3, 17, 21), (26, 3, 5, 5), {"stride": 2, "pad": 2})


def test_filters_are_packed() -> None:
    W = arrays((1, 1, 1, 1), (5, 3, 2, 4))[1]
    source = Tensor(W.shape)
    source.assign(W)
    layout = Filters(3, 5, 2, 4, last=False).layout()
    target = Tensor.over(Storage(source.place), 0, TensorSpec(W.shape, source.dtype, layout=layout))
    target.reserve()
    bind_reorder(source, target, current_context(source.place))()
    packed = target.storage.window(target.dtype, (2, 4, 3, 2 * kernel.lane_count()), 0, None)
    np.testing.assert_array_equal(packed[..., :5], W.transpose(2, 3, 1, 0))
    np.testing.assert_array_equal(packed[..., 5:], 0)


def test_bands_share_rows_evenly() -> None:
    """112 rows for two threads: as many bands for each; one image of 3 rows: all threads that there can be."""
    resnet = Problem(1, 3, 64, (224, 224), (112, 112), Window((7, 7), (2, 2), (1, 1), (3, 3), (3, 3)))
    assert resnet.bands(resnet.band(2)) % 2 == 0
    tall = Problem(1, 8, 64, (900, 3840), (900, 3840), Window((7, 7), (1, 1), (1, 1), (3, 3), (3, 3)))
    assert 4 * tall.packed_rows(tall.band(2)) * tall.pitch <= 1 << 20
    low = Problem(1, 3, 64, (5, 64), (3, 62), Window((3, 3), (1, 1), (1, 1), (0, 0), (0, 0)))
    assert low.bands(low.band(3)) == 3
