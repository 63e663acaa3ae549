"""Weight gradients that go another way than oneDNN's own primitive: products, and copies in blocks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tazza.codegen import tall_product
from tazza.codegen.kernel import unavailable as no_code
from tazza.device import current_context
from tazza.engines.onednn.library import unavailable
from tazza.operator import Array, OpView, find_schema, operator_def
from tazza.operator.choice import choose_kernel
from tazza.operator.engine import rank_engines
from tazza.runtime.fpmath import FPMATH, why_narrow
from tazza.runtime.threads import NUM_THREADS
from tazza.tensor import CPUPlace, DataType, TensorSpec
from tests.check import assert_close, run

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

RANDOM = np.random.default_rng(0)


def values(*dims: int) -> Array:
    return RANDOM.standard_normal(dims).astype(np.float32)


def check(type: str, arrays: list[Array], outputs: list[str], **args: Any) -> str:
    """Compare with the reference; return what the code is called."""
    definition = operator_def(type, ["X", "W", "dY"], outputs, **args)
    got, _ = run(definition, arrays, "onednn")
    expected, _ = run(definition, arrays, "reference")
    for one, other in zip(got, expected, strict=True):
        assert_close(one, other, 50)
    op: OpView = find_schema(type).view(definition)
    specs = [TensorSpec(array.shape, DataType.FLOAT) for array in arrays]
    made = {"dW": specs[1], "dX": specs[0], "db": TensorSpec(arrays[1].shape[:1], DataType.FLOAT)}
    ranking = rank_engines(type, "cpu", "onednn")
    chosen = choose_kernel(op, ranking, current_context(CPUPlace()), specs, [made[name] for name in outputs])
    assert chosen.kernel.engine == "onednn"
    return str(getattr(chosen.launch, "implementation", ""))


PLAIN: dict[str, Any] = {"no_bias": 1}
PRODUCTS = [
    pytest.param("ConvGradient", (3, 20, 7, 5), (12, 20, 1, 1), (3, 12, 7, 5), {"kernel": 1}, id="fewer outputs"),
    pytest.param("ConvGradient", (3, 12, 7, 5), (20, 12, 1, 1), (3, 20, 7, 5), {"kernel": 1}, id="more outputs"),
    pytest.param("Conv1DGradient", (3, 12, 7), (20, 12, 1), (3, 20, 7), {"kernels": [1]}, id="1D"),
    pytest.param(
        "Conv3DGradient", (2, 12, 3, 7, 5), (20, 12, 1, 1, 1), (2, 20, 3, 7, 5), {"kernels": [1] * 3}, id="3D"
    ),
    pytest.param(
        "ConvGradient", (3, 7, 5, 20), (12, 1, 1, 20), (3, 7, 5, 12), {"kernel": 1, "order": "NHWC"}, id="NHWC"
    ),
]


@pytest.mark.parametrize(("type", "X", "W", "dY", "args"), PRODUCTS)
def test_filters_of_one_pixel(
    type: str, X: tuple[int, ...], W: tuple[int, ...], dY: tuple[int, ...], args: dict[str, Any]
) -> None:
    arrays = [values(*X), values(*W), values(*dY)]
    assert check(type, arrays, ["dW", "dX"], **PLAIN, **args).startswith("gemm")
    assert check(type, arrays, ["dW"], no_gradient_to_input=1, **PLAIN, **args).startswith("gemm")


TALL = [
    pytest.param("ConvGradient", (3, 40, 7, 5), (24, 40, 1, 1), (3, 24, 7, 5), {"kernel": 1}, id="fewer outputs"),
    pytest.param("ConvGradient", (3, 24, 7, 5), (41, 24, 1, 1), (3, 41, 7, 5), {"kernel": 1}, id="more outputs"),
    pytest.param(
        "ConvGradient",
        (3, 13, 9, 40),
        (32, 1, 1, 40),
        (3, 5, 5, 32),
        {"kernel": 1, "stride_h": 3, "stride_w": 2, "order": "NHWC"},
        id="strides, NHWC",
    ),
    pytest.param(
        "ConvGradient", (3, 24, 13, 9), (48, 24, 1, 1), (3, 48, 7, 5), {"kernel": 1, "stride": 2}, id="strides"
    ),
    pytest.param(
        "Conv1DGradient", (2, 24, 20), (32, 24, 1), (2, 32, 7), {"kernels": [1], "strides": [3]}, id="1D, a stride"
    ),
    pytest.param(
        "Conv3DGradient", (2, 24, 3, 7, 5), (32, 24, 1, 1, 1), (2, 32, 3, 7, 5), {"kernels": [1] * 3}, id="3D"
    ),
    pytest.param(
        "ConvGradient",
        (3, 24, 13, 9),
        (48, 24, 3, 2),
        (3, 48, 7, 6),
        {"kernel_h": 3, "kernel_w": 2, "stride": 2, "pad_t": 1, "pad_l": 1, "pad_b": 1, "pad_r": 2},
        id="windows",
    ),
    pytest.param(
        "ConvGradient",
        (3, 13, 9, 24),
        (48, 3, 3, 24),
        (3, 7, 5, 48),
        {"kernel": 3, "stride": 2, "pad": 1, "order": "NHWC"},
        id="windows, NHWC",
    ),
    pytest.param(
        "Conv1DGradient",
        (2, 24, 20),
        (32, 24, 3),
        (2, 32, 10),
        {"kernels": [3], "strides": [2], "pads": [1, 0]},
        id="windows, 1D",
    ),
]


@pytest.fixture
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small matrices be tall."""
    for name in ("PIXELS", "WINDOWS"):
        monkeypatch.setattr(tall_product, name, replace(getattr(tall_product, name), tall=0, blocks=0, fill=0))


@pytest.mark.skipif(no_code() is not None, reason=str(no_code()))
@pytest.mark.usefixtures("few_rows")
@pytest.mark.parametrize(("type", "X", "W", "dY", "args"), TALL)
def test_tall_product(
    type: str, X: tuple[int, ...], W: tuple[int, ...], dY: tuple[int, ...], args: dict[str, Any]
) -> None:
    arrays = [values(*X), values(*W), values(*dY)]
    one_pixel = W.count(1) == len(W) - 2
    with NUM_THREADS.override(2):  # each of which has rows
        found = check(type, arrays, ["dW", "dX"], **PLAIN, **args)
    assert found.split(" + ")[0] == ("tall product" if one_pixel else "tall product of windows")


@pytest.mark.skipif(no_code() is not None, reason=str(no_code()))
def test_tall_product_where_it_is_worth_it() -> None:
    """As many rows as two threads want, and the wish for another precision, which it does not know."""
    arrays = [values(1, 24, 32, 32), values(32, 24, 1, 1), values(1, 32, 32, 32)]
    with NUM_THREADS.override(2):
        assert check("ConvGradient", arrays, ["dW"], kernel=1, **PLAIN) == "tall product"
    with NUM_THREADS.override(16):
        assert check("ConvGradient", arrays, ["dW"], kernel=1, **PLAIN).startswith("gemm")
    with NUM_THREADS.override(2), FPMATH.override("bf16"):
        wished = check("ConvGradient", arrays, ["dW"], kernel=1, **PLAIN)
        assert wished.startswith("tall product") is (why_narrow() is None)


@pytest.mark.skipif(no_code() is not None, reason=str(no_code()))
@pytest.mark.usefixtures("few_rows")
@pytest.mark.parametrize("args", [{"stride": 1, "pad": 1}, {"stride": 2, "dilation": 2}])
def test_windows_that_are_left_to_the_library(args: dict[str, Any]) -> None:
    """Without a stride, or with a dilation."""
    side = 8 if args["stride"] == 1 else 2
    arrays = [values(2, 24, 8, 8), values(32, 24, 3, 3), values(2, 32, side, side)]
    assert "tall" not in check("ConvGradient", arrays, ["dW"], kernel=3, **args, **PLAIN)


OTHERS: list[Any] = [
    pytest.param((3, 20, 7, 5), (12, 20, 1, 1), (3, 12, 7, 5), ["dW", "db", "dX"], {"kernel": 1}, id="a bias"),
    pytest.param(
        (3, 20, 7, 5), (12, 10, 1, 1), (3, 12, 7, 5), ["dW", "dX"], {"kernel": 1, "group": 2, **PLAIN}, id="groups"
    ),
    pytest.param(
        (3, 20, 7, 5), (12, 20, 1, 1), (3, 12, 4, 3), ["dW", "dX"], {"kernel": 1, "stride": 2, **PLAIN}, id="a stride"
    ),
    pytest.param(
        (3, 20, 7, 5), (12, 20, 1, 1), (3, 12, 9, 7), ["dW", "dX"], {"kernel": 1, "pad": 1, **PLAIN}, id="pads"
    ),
]


@pytest.mark.parametrize(("X", "W", "dY", "outputs", "args"), OTHERS)
def test_no_product(
    X: tuple[int, ...], W: tuple[int, ...], dY: tuple[int, ...], outputs: list[str], args: dict[str, Any]
) -> None:
    found = check("ConvGradient", [values(*X), values(*W), values(*dY)], outputs, **args)
    assert not found.startswith("gemm")


def test_a_gradient_that_is_not_finite_spoils_its_own_filters() -> None:
    arrays = [values(3, 20, 7, 5), values(12, 20, 1, 1), values(3, 12, 7, 5)]
    arrays[2][1, 4, 2, 2] = np.nan
    definition = operator_def("ConvGradient", ["X", "W", "dY"], ["dW", "dX"], kernel=1, no_bias=1)
    (dW, _), _ = run(definition, arrays, "onednn")
    np.testing.assert_array_equal(np.isnan(dW).all((1, 2, 3)), np.arange(12) == 4)


def strided(channels: int, filters: int, order: str = "NCHW") -> list[Array]:
    """Return X, W and dY for 3 x 3 filters with a stride of 2."""
    arrays = [values(2, channels, 13, 9), values(filters, channels, 3, 3), values(2, filters, 7, 5)]
    return arrays if order == "NCHW" else [np.ascontiguousarray(one.transpose(0, 2, 3, 1)) for one in arrays]


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
@pytest.mark.parametrize("outputs", [["dW", "dX"], ["dW", "db", "dX"]], ids=["without bias", "bias"])
def test_strided_filters_read_copies_in_blocks(order: str, outputs: list[str]) -> None:
    """Where our product gives no bias, or there are too few filters for it."""
    bias: dict[str, Any] = {} if "db" in outputs else PLAIN
    filters = 48 if "db" in outputs else 16
    found = check("ConvGradient", strided(32, filters, order), outputs, kernel=3, stride=2, pad=1, order=order, **bias)
    if "avx512" not in found:
        pytest.skip(f"{found}: whether blocks are faster is known for AVX-512 only")
    assert found.split(" + ")[:2] == ["jit:uni", "jit:uni"]


def test_channels_that_fill_no_block_are_read_as_they_lie() -> None:
    found = check("ConvGradient", strided(20, 48), ["dW", "dX"], kernel=3, stride=2, pad=1, **PLAIN)
    assert len(found.split(" + ")) == 2
