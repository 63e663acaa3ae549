"""MaxPoolGradient: both layouts against the reference, bit by bit the same whatever the threads and vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tazza.codegen import kernel
from tazza.codegen.kernel import unavailable
from tazza.engines.native.nn.pool import Covering
from tazza.operator import operator_def
from tazza.runtime.native_code import Processor, processor
from tazza.runtime.threads import NUM_THREADS
from tazza.tensor import ROW_MAJOR, DataType, Tensor, channels_last
from tests.check import run

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

Array = NDArray[Any]


def ties(*shape: int, most: int = 4) -> Array:
    """Return small whole numbers, so that most windows have several maxima and sums are exact."""
    return np.random.default_rng(sum(shape)).integers(0, most, shape).astype(np.float32)


def with_channels_last(x: Array) -> Tensor:
    tensor = Tensor(x.shape, DataType.FLOAT, layout=channels_last(x.shape))
    tensor.array[...] = x
    return tensor


def pooled(X: Array, args: dict[str, Any]) -> tuple[Array, Array]:
    """Return Y and some dY."""
    (Y,), _ = run(operator_def("MaxPool", ["X"], ["Y"], **args), [X], "reference")
    return Y, ties(*Y.shape, most=9) - 3


def gradient(X: Any, Y: Any, dY: Any, args: dict[str, Any], engine: str = "native") -> Tensor:
    definition = operator_def("MaxPoolGradient", ["X", "Y", "dY"], ["dX"], **args)
    _, operator = run(definition, [X, Y, dY], engine)
    return operator.outputs[0].tensor()


def gradient_channels_last(X: Array, Y: Array, dY: Array, args: dict[str, Any]) -> Tensor:
    return gradient(with_channels_last(X), with_channels_last(Y), with_channels_last(dY), args)


def check(X: Array, args: dict[str, Any]) -> None:
    """Compare with the reference, for both layouts."""
    Y, dY = pooled(X, args)
    wanted = gradient(X, Y, dY, args, "reference").array
    plain = gradient(X, Y, dY, args)
    assert plain.layout == ROW_MAJOR
    np.testing.assert_array_equal(plain.array, wanted)
    last = gradient_channels_last(X, Y, dY, args)
    assert last.layout == channels_last(X.shape)
    np.testing.assert_array_equal(last.array, wanted)


DIMENSION = st.tuples(st.integers(1, 19), st.integers(1, 4), st.integers(1, 5), st.integers(0, 3), st.integers(0, 3))


@pytest.mark.slow
@given(st.lists(DIMENSION, min_size=1, max_size=3), st.sampled_from([1, 3, 17]))
@settings(max_examples=40, deadline=None)
def test_any_window(dimensions: list[tuple[int, int, int, int, int]], channels: int) -> None:
    """Extent, kernel, stride and both pads of each dimension; overlapping windows, gaps, and what no window covers."""
    image, kernel, stride, head, tail = (list(one) for one in zip(*dimensions, strict=True))
    kernel = [min(k, n) for k, n in zip(kernel, image, strict=True)]
    pads = [min(pad, k - 1) for pad, k in zip((*head, *tail), (*kernel, *kernel), strict=True)]
    check(ties(2, channels, *image), {"kernels": kernel, "strides": stride, "pads": pads})


@pytest.mark.parametrize("legacy_pad", [1, 2, 3])
def test_legacy_pads(legacy_pad: int) -> None:
    check(ties(2, 5, 12, 19), {"kernel": 3, "stride": 2, "legacy_pad": legacy_pad})


def test_negative_pads() -> None:
    check(ties(2, 5, 6, 7), {"kernel": 1, "stride": 4, "legacy_pad": 2})


def test_global_pooling() -> None:
    check(ties(2, 5, 6, 19), {"global_pooling": 1})


def test_nhwc() -> None:
    X, args = ties(2, 7, 6, 19), {"kernel": 3, "stride": 2, "pad": 1, "order": "NHWC"}
    Y, dY = pooled(X, args)
    wanted = gradient(X, Y, dY, args, "reference").array
    np.testing.assert_array_equal(gradient(X, Y, dY, args).array, wanted)
    strange = gradient(with_channels_last(X), Y, dY, args)
    assert strange.layout == ROW_MAJOR
    np.testing.assert_array_equal(strange.array, wanted)


def test_mixed_layouts() -> None:
    """Y and dY are reordered to lie like X."""
    X, args = ties(2, 5, 7, 6), {"kernel": 2, "stride": 2}
    Y, dY = pooled(X, args)
    wanted = gradient(X, Y, dY, args).array
    found = gradient(with_channels_last(X), Y, with_channels_last(dY), args)
    assert found.layout == channels_last(X.shape)
    np.testing.assert_array_equal(found.array, wanted)
    np.testing.assert_array_equal(gradient(X, with_channels_last(Y), dY, args).array, wanted)


def test_other_strides() -> None:
    """What lies in neither of the two orders is reordered to channels-last."""
    X, args = ties(2, 5, 7, 6), {"kernel": 2, "stride": 2}
    Y, dY = pooled(X, args)
    turned = Tensor.from_numpy(np.ascontiguousarray(X.transpose(3, 2, 1, 0))).view(X.shape, strides=(1, 2, 10, 70))
    found = gradient(turned, Y, dY, args)
    assert found.layout == channels_last(X.shape)
    np.testing.assert_array_equal(found.array, gradient(X, Y, dY, args).array)


@pytest.mark.parametrize("args", [{"kernel": 2, "stride": 2}, {"kernel": 3, "stride": 2, "pad": 1}])
@pytest.mark.parametrize("shape", [(1, 5, 33, 35), (3, 2, 5, 7)])
def test_threads_and_layouts_change_no_bit(
    args: dict[str, int], shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the border between threads falls within an image."""
    X = np.round(np.random.default_rng(1).standard_normal(shape), 1).astype(np.float32)
    Y, _ = pooled(X, args)
    dY = np.random.default_rng(2).standard_normal(Y.shape).astype(np.float32)
    monkeypatch.setattr(kernel, "THREAD_NS", 1)
    results: list[bytes] = []
    for count in (1, 2, 3, 7):
        with NUM_THREADS.override(count):
            results.append(gradient(X, Y, dY, args).array.tobytes())
            last = gradient_channels_last(X, Y, dY, args)
            results.append(np.ascontiguousarray(last.array).tobytes())
    assert set(results) == {results[0]}


@pytest.mark.slow
@pytest.mark.parametrize("vector_bytes", [16, 32])
def test_narrower_vectors(vector_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on processors that have no wider ones."""
    if processor().vector_bytes < vector_bytes:
        pytest.skip(f"the processor has no vectors of {vector_bytes} bytes")
    narrow = Processor(processor().name, "+avx2" if vector_bytes == 32 else "")
    monkeypatch.setattr(kernel, "processor", lambda: narrow)
    check(ties(2, 11, 7, 19), {"kernel": 3, "stride": 2, "pad": 1})


def test_nothing_equals_nan() -> None:
    X, args = ties(2, 3, 4, 6), {"kernel": 2, "stride": 2}
    Y, dY = pooled(X, args)
    Y[0], dY[1] = np.nan, np.inf
    dX = gradient(X, Y, dY, args).array
    assert not dX[0].any()
    np.testing.assert_array_equal(np.unique(dX[1]), [0.0, np.inf])


def test_windows_that_cover_a_place() -> None:
    """Kernel 3, stride 2, one place of padding: windows over places -1..1, 1..3, 3..5."""
    found = Covering.of(6, 3, 2, 1, 3)
    np.testing.assert_array_equal(found.first, [0, 0, 1, 1, 2, 2])
    np.testing.assert_array_equal(found.last, [1, 2, 2, 3, 3, 3])
    assert found.most == 2
