"""Gradients of filters that read images with few channels, on `native/few_channels` against the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.codegen import kernel
from tazza.device import current_context
from tazza.operator import operator_def
from tazza.operator.engine import why_unavailable
from tazza.operator.reorder import relayout
from tazza.operator.run import run_op
from tazza.runtime.native_code import Processor, processor
from tazza.runtime.threads import NUM_THREADS
from tazza.tensor import Tensor, channels_last
from tests.check import assert_ran
from tests.check import run as run_checked
from tests.engines.native.few_channels.test_conv import SHAPES, Array, arguments, arrays, assert_close

pytestmark = pytest.mark.skipif(
    why_unavailable("ConvGradient", "cpu", "native/few_channels") is not None, reason="nothing can be compiled here"
)


def _gradients(X: Array, W: Array, dY: Array, bias: bool, **args: Any) -> list[Array]:
    """Run on the engine; return dW, and db with a bias."""
    outputs = ["dW", "db"] if bias else ["dW"]
    definition = operator_def("ConvGradient", ["X", "W", "dY"], outputs, no_bias=int(not bias), **args)
    found, operator = run_checked(definition, [X, W, dY], "native/few_channels")
    assert_ran(operator, "native/few_channels")
    return found


def _output(X: Array, W: Array, **args: Any) -> Array:
    Y: Array = run_op("Conv", X, W, engine="reference", **args)
    return np.random.default_rng(3).standard_normal(Y.shape).astype(np.float32)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("image", "filters", "given"), SHAPES)
def test_gradients(image: tuple[int, ...], filters: tuple[int, ...], given: dict[str, Any], bias: bool) -> None:
    X, W, _ = arrays(image, filters)
    args = arguments(filters, given)
    dY = _output(X, W, **args)
    found = _gradients(X, W, dY, bias, **args)
    expected = run_op("ConvGradient", X, W, dY, engine="reference", no_bias=int(not bias), outputs=len(found), **args)
    expected = expected if bias else [expected]
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other)
    last = [np.ascontiguousarray(x.transpose(0, 2, 3, 1)) for x in (X, W, dY)]
    again = _gradients(last[0], last[1], last[2], bias, order="NHWC", **args)
    np.testing.assert_array_equal(again[0].transpose(0, 3, 1, 2), found[0])


def test_any_number_of_threads() -> None:
    X, W, _ = arrays((3, 3, 30, 33), (36, 3, 3, 3))
    dY = _output(X, W, kernel=3, stride=2)
    found: list[list[Array]] = []
    for threads in (1, 2, 3, 16):
        with NUM_THREADS.override(threads):
            found.append(_gradients(X, W, dY, True, kernel=3, stride=2))
    for one in found[1:]:
        for some, other in zip(one, found[0], strict=True):
            assert_close(some, other)


def test_images_as_they_lie() -> None:
    """X and dY with their channels last in a net of the other order."""
    X, W, _ = arrays((2, 3, 9, 11), (24, 3, 3, 3))
    dY = _output(X, W, kernel=3)
    expected = _gradients(X, W, dY, False, kernel=3)[0]
    images = [Tensor(X.shape), Tensor(dY.shape)]
    for image, values in zip(images, (X, dY), strict=True):
        image.assign(values)
        relayout(image, channels_last(image.shape), current_context(image.place))
    definition = operator_def("ConvGradient", ["X", "W", "dY"], ["dW"], no_bias=1, kernel=3)
    (dW,), operator = run_checked(definition, [images[0], W, images[1]], "native/few_channels")
    assert_ran(operator, "native/few_channels")
    np.testing.assert_array_equal(dW, expected)


@pytest.mark.parametrize(
    ("image", "filters", "reason"),
    [
        ((1, 1, 9, 40), (64, 1, 1, 1), "could, about"),
        ((1, 3, 9, 40), (40, 3, 3, 2), None),
        ((1, 3, 9, 16), (64, 3, 3, 3), None),
        ((1, 8, 16, 40), (256, 8, 9, 9), "could, about"),
    ],
)
def test_what_is_not_worth_it(image: tuple[int, ...], filters: tuple[int, ...], reason: str | None) -> None:
    """Unless it is asked for by name."""
    if kernel.lane_count() < 16:
        pytest.skip("register tiles have other sizes")
    X, W, _ = arrays(image, filters)
    args = arguments(filters, {})
    dY = _output(X, W, **args)
    definition = operator_def("ConvGradient", ["X", "W", "dY"], ["dW"], no_bias=1, **args)
    _, operator = run_checked(definition, [X, W, dY])
    told = {choice.engine: choice.reason for choice in operator.choices}["native/few_channels"]
    assert told is None if reason is None else reason in str(told)
    _gradients(X, W, dY, False, **args)


@pytest.mark.slow
@pytest.mark.parametrize("vector_bytes", [16, 32])
def test_narrower_vectors(vector_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on processors that have no wider ones."""
    if processor().vector_bytes < vector_bytes:
        pytest.skip(f"the processor has no vectors of {vector_bytes} bytes")
    monkeypatch.setattr(kernel, "processor", lambda: Processor(processor().name, "+avx2" if vector_bytes == 32 else ""))
    test_gradients((2, 3, 17, 21), (26, 3, 5, 5), {"stride": 2, "pad": 2}, bias=True)
