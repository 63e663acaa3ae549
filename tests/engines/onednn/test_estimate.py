"""Estimates of oneDNN's time: they grow with the work, and do not depend on how blobs lie or are written down."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tazza.engines.onednn import estimate
from tazza.engines.onednn.estimate import FEW_CHANNELS, conv_flops, conv_gradient_ns, conv_ns, passes_ns, product_ns
from tazza.engines.onednn.library import unavailable
from tazza.operator import OpView, find_schema, operator_def
from tazza.runtime.fpmath import FPMATH
from tazza.runtime.machine import machine
from tazza.runtime.threads import NUM_THREADS
from tazza.tensor import DataType, TensorSpec, channels_last

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

N, C, K, H, W = 2, 24, 40, 13, 11
SIZES = st.sampled_from(["N", "C", "K", "H", "W"])
Specs = dict[str, TensorSpec]


def spec(*dims: int) -> TensorSpec:
    return TensorSpec(dims, DataType.FLOAT)


def conv(order: str = "NCHW", **sizes: int) -> tuple[OpView, Specs]:
    """Return a convolution of 3 x 2 that keeps to its image, and the specs of both directions."""
    size = {"N": N, "C": C, "K": K, "H": H, "W": W} | sizes
    shapes = {
        "X": ("N", "C", "H", "W"),
        "Y": ("N", "K", "H", "W"),
        "W": ("K", "C", 3, 2),
    }
    turn = (0, 2, 3, 1) if order == "NHWC" else (0, 1, 2, 3)
    dims = {
        letter: [one if isinstance(one, int) else size[one] for one in (axes[t] for t in turn)]
        for letter, axes in shapes.items()
    }
    X, Y, filters = (spec(*dims[letter]) for letter in ("X", "Y", "W"))
    definition = operator_def("Conv", ["X", "W"], ["Y"], kernel_h=3, kernel_w=2, pads=[1, 1, 1, 0], order=order)
    return find_schema("Conv").view(definition), {"X": X, "Y": Y, "W": filters, "dY": Y, "dX": X}


ESTIMATES: dict[str, Callable[[OpView, Specs], float]] = {"forward": conv_ns, "backward": conv_gradient_ns}


@pytest.mark.parametrize("direction", ESTIMATES)
@given(SIZES, st.integers(1, 4))
def test_more_work_takes_longer(direction: str, what: str, times: int) -> None:
    size = {"N": N, "C": C, "K": K, "H": H, "W": W}[what]
    before, after = (ESTIMATES[direction](*conv("NCHW", **{what: size * one})) for one in (times, times + 1))
    assert 0 < before < after


@pytest.mark.parametrize("direction", ESTIMATES)
@given(st.integers(1, 40), st.integers(1, 70))
def test_orders_and_layouts_take_the_same(direction: str, channels: int, outputs: int) -> None:
    ask = ESTIMATES[direction]
    op, specs = conv(C=channels, K=outputs)
    expected = ask(op, specs)
    assert ask(*conv("NHWC", C=channels, K=outputs)) == pytest.approx(expected)
    lying = {letter: replace(one, layout=channels_last(one.shape)) for letter, one in specs.items()}
    assert ask(op, lying) == expected


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
def test_operations_of_a_convolution(order: str) -> None:
    _, specs = conv(order)
    assert conv_flops(specs["W"], specs["Y"]) == 2 * N * K * H * W * C * 3 * 2


def products(found_ns: float, filters_ns: float) -> float:
    """Return what the products of a convolution take, of a time in which filters come meanwhile."""
    return math.sqrt(found_ns**2 - filters_ns**2)


def test_filters_come_while_products_are_computed() -> None:
    """Neither is done before the other is; both do not take their sum, where there are many filters for few pixels."""
    op, specs = conv(N=1, C=512, K=512, H=7, W=7)
    filters_ns = passes_ns(1, specs["W"])
    found = conv_ns(op, specs)
    products_ns = products(found, filters_ns)
    assert max(filters_ns, products_ns) < found < filters_ns + products_ns
    assert conv_ns(*conv(N=100, C=512, K=512, H=7, W=7)) == pytest.approx(100 * products_ns, rel=0.01)


def test_lanes_stay_empty_with_few_channels() -> None:
    """So that one channel more is faster, by the products; not so where bfloat16 is asked for and there."""
    flops = [conv_flops(specs["W"], specs["Y"]) for _, specs in (conv(C=FEW_CHANNELS), conv(C=FEW_CHANNELS + 1))]
    few, more = conv_ns(*conv(C=FEW_CHANNELS)), conv_ns(*conv(C=FEW_CHANNELS + 1))
    assert few / flops[0] > 2 * more / flops[1]


def test_the_image_costs_what_it_takes() -> None:
    op, specs = conv()
    without = {letter: one for letter, one in specs.items() if letter != "dX"}
    assert conv_gradient_ns(op, without) < conv_gradient_ns(op, specs)


def test_threads_share_the_products() -> None:
    op, specs = conv(N=50)
    without = {letter: one for letter, one in specs.items() if letter != "dX"}
    with NUM_THREADS.override(1):
        alone = conv_gradient_ns(op, without)
    with NUM_THREADS.override(2):
        assert conv_gradient_ns(op, without) == pytest.approx(alone / 2)


def product(rows: int, depth: int, outputs: int) -> float:
    definition = operator_def("FC", ["X", "W", "b"], ["Y"])
    specs = {"X": spec(rows, depth), "W": spec(outputs, depth), "b": spec(outputs), "Y": spec(rows, outputs)}
    return product_ns(find_schema("FC").view(definition), specs)


@given(st.integers(1, 50), st.integers(1, 300), st.integers(1, 300))
def test_products(rows: int, depth: int, outputs: int) -> None:
    """They grow in every direction, and no row comes before the weights have; one output alone has slower code."""
    found = product(rows, depth, outputs)
    assert found >= 4 * depth * outputs / machine().memory_bytes_per_ns
    assert all(found < one for one in (product(rows + 1, depth, outputs), product(rows, depth + 1, outputs)))
    assert outputs == 1 or found < product(rows, depth, outputs + 1)


@pytest.mark.parametrize("tiles", [False, True])
def test_narrow_products_are_faster_in_whole_blocks(tiles: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a processor that has them: with bfloat16 allowed, by what the channels fill of their blocks."""
    wide = conv_ns(*conv(C=64, K=96))
    monkeypatch.setattr(estimate, "multiplies", "bf16".__eq__)
    monkeypatch.setattr(estimate, "has_tiles", lambda: tiles)
    assert conv_ns(*conv(C=64, K=96)) == wide, "nobody allowed it"
    with FPMATH.override("bf16"):
        full, partly = conv_ns(*conv(C=64, K=96)), conv_ns(*conv(C=33, K=96))
        memory_ns = 4 * 64 * 96 * 6 / machine().memory_bytes_per_ns
        gain = estimate.TILE_GAIN if tiles else estimate.NARROW_GAIN
        assert full == pytest.approx(math.hypot(memory_ns, products(wide, memory_ns) / gain))
        share = 33 / 64
        assert math.isclose(products(partly, memory_ns * share), products(full, memory_ns), rel_tol=1e-9), (
            "33 channels count as 64"
        )
