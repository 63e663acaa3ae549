"""Gradients of images with few channels, on `native/few_channels` against the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.codegen import kernel
from tazza.operator import operator_def
from tazza.operator.engine import why_unavailable
from tazza.operator.run import run_op
from tazza.runtime.native_code import Processor, processor
from tazza.runtime.threads import NUM_THREADS
from tests.check import assert_ran, check_engine
from tests.check import run as run_checked
from tests.engines.native.few_channels.test_conv import Array, arguments, arrays, assert_close

ENGINE = "native/few_channels"
pytestmark = pytest.mark.skipif(
    why_unavailable("ConvGradient", "cpu", ENGINE) is not None, reason="nothing can be compiled here"
)
SHAPES = [
    # X (N, C, H, W), W (K, C, kH, kW), arguments
    pytest.param((3, 1, 28, 28), (20, 1, 5, 5), {}, id="LeNet"),
    pytest.param((2, 3, 13, 37), (33, 3, 3, 3), {"pad": 1}, id="three channels"),
    pytest.param((2, 8, 9, 10), (5, 8, 3, 2), {"pads": [0, 1, 2, 0]}, id="uneven pads"),
    pytest.param((1, 5, 4, 3), (7, 5, 4, 3), {}, id="one window"),
    pytest.param((2, 2, 6, 35), (16, 2, 1, 1), {}, id="one pixel"),
    pytest.param((1, 1, 2, 3), (3, 1, 5, 5), {"pad": 4}, id="more pads than image"),
]


def _gradients(X: Array, W: Array, dY: Array, **args: Any) -> list[Array]:
    """Run on the engine; return dW, db and dX."""
    definition = operator_def("ConvGradient", ["X", "W", "dY"], ["dW", "db", "dX"], **args)
    found, operator = run_checked(definition, [X, W, dY], ENGINE)
    assert_ran(operator, ENGINE)
    return found


def _output(X: Array, W: Array, **args: Any) -> Array:
    Y: Array = run_op("Conv", X, W, engine="reference", **args)
    return np.random.default_rng(3).standard_normal(Y.shape).astype(np.float32)


@pytest.mark.slow
@pytest.mark.parametrize(("image", "filters", "given"), SHAPES)
def test_gradients(image: tuple[int, ...], filters: tuple[int, ...], given: dict[str, Any]) -> None:
    X, W, _ = arrays(image, filters)
    args = arguments(filters, given)
    dY = _output(X, W, **args)
    found = _gradients(X, W, dY, **args)
    expected = run_op("ConvGradient", X, W, dY, engine="reference", outputs=3, **args)
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other)
    last = [np.ascontiguousarray(x.transpose(0, 2, 3, 1)) for x in (X, W, dY)]
    again = _gradients(last[0], last[1], last[2], order="NHWC", **args)
    np.testing.assert_array_equal(again[2].transpose(0, 3, 1, 2), found[2])


@pytest.mark.parametrize("special", [np.nan, np.inf])
def test_what_is_not_finite_stays_where_windows_meet_it(special: float) -> None:
    """The last vector of a row of a window reaches into other pixels, which count nothing."""
    X, W, _ = arrays((2, 3, 9, 40), (7, 3, 3, 3))
    dY = _output(X, W, kernel=3)
    dY[1, 2, 4, 19] = special
    dX = _gradients(X, W, dY, kernel=3)[2]
    touched = np.zeros(dX.shape, bool)
    touched[1, :, 4:7, 19:22] = True
    np.testing.assert_array_equal(~np.isfinite(dX), touched)


def test_any_number_of_threads() -> None:
    X, W, _ = arrays((3, 3, 30, 33), (36, 3, 3, 3))
    dY = _output(X, W, kernel=3)
    found: list[Array] = []
    for threads in (1, 2, 3, 16):
        with NUM_THREADS.override(threads):
            found.append(_gradients(X, W, dY, kernel=3)[2])
    for one in found[1:]:
        np.testing.assert_array_equal(one, found[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("args", "reason"), [({"stride": 2}, "where windows lie apart"), ({"pad": 3}, "are wider than the window")]
)
def test_what_is_left_to_others(args: dict[str, Any], reason: str) -> None:
    X, W, _ = arrays((1, 3, 9, 30), (40, 3, 3, 3))
    dY = _output(X, W, kernel=3, **args)
    definition = operator_def("ConvGradient", ["X", "W", "dY"], ["dW", "dX"], no_bias=1, kernel=3, **args)
    _, operator = run_checked(definition, [X, W, dY], ENGINE, refusable=True)
    assert reason in str(check_engine(operator, ENGINE, refusable=True))


def test_it_is_taken_where_a_library_leaves_lanes_empty() -> None:
    X, W, _ = arrays((8, 1, 28, 28), (20, 1, 5, 5))
    dY = _output(X, W, kernel=5)
    _, operator = run_checked(operator_def("ConvGradient", ["X", "W", "dY"], ["dW", "db", "dX"], kernel=5), [X, W, dY])
    assert operator.choices[-1].engine == ENGINE


@pytest.mark.parametrize("vector_bytes", [16, 32])
def test_narrower_vectors(vector_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on processors that have no wider ones."""
    if processor().vector_bytes < vector_bytes:
        pytest.skip(f"the processor has no vectors of {vector_bytes} bytes")
    narrow = Processor(processor().name, "+avx2" if vector_bytes == 32 else "")
    monkeypatch.setattr(kernel, "processor", lambda: narrow)
    X, W, _ = arrays((2, 3, 9, 21), (6, 3, 3, 3))
    dY = _output(X, W, kernel=3, pad=1)
    found = _gradients(X, W, dY, kernel=3, pad=1)
    expected = run_op("ConvGradient", X, W, dY, engine="reference", outputs=3, kernel=3, pad=1)
    assert_close(found[2], expected[2])
