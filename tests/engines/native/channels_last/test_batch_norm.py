"""Batch normalization on `native/channels_last` against the reference, in float64 where that differs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.codegen import kernel
from tazza.codegen.kernel import lane_count
from tazza.device import current_context
from tazza.engines.native.channels_last.batch_norm import Rows
from tazza.operator import LocalBlobs, Operator, operator_def
from tazza.operator.engine import why_unavailable
from tazza.operator.reorder import relayout
from tazza.runtime.native_code import Processor, processor
from tazza.runtime.threads import NUM_THREADS
from tazza.tensor import CPUPlace, Tensor, channels_last
from tests.check import assert_ran, run

Array = NDArray[Any]

pytestmark = pytest.mark.skipif(
    why_unavailable("SpatialBN", "cpu", "native/channels_last") is not None, reason="nothing can be compiled here"
)

BLOBS = ["X", "scale", "bias", "mean", "var"]
TRAINING = ["Y", "mean", "var", "saved_mean", "saved_inv_std"]
GRADIENTS = ["dX", "dscale", "dbias"]

SHAPES = [
    pytest.param((2, 16, 3, 5), id="one vector"),
    pytest.param((2, 24, 4, 3), id="two pixels make three vectors"),
    pytest.param((1, 24, 5, 3), id="an odd number of pixels: vectors with a rest"),
    pytest.param((3, 5, 7, 2), id="fewer channels than lanes"),
    pytest.param((16, 1, 2, 3), id="one channel"),
    pytest.param((37, 33), id="no image"),
    pytest.param((2, 3, 4, 5, 6), id="three dimensions"),
    pytest.param((2, 20, 63, 65), id="several chunks, the last one short"),
    pytest.param((1, 40, 1, 2), id="two pixels"),
]


def _arrays(dims: tuple[int, ...], shift: float = 2.0) -> list[Array]:
    random, C = np.random.default_rng(7), dims[1]
    X = random.standard_normal(dims) + shift
    scale, bias, mean, var = (random.standard_normal(C) for _ in range(4))
    return [one.astype(np.float32) for one in (X, scale, bias, mean, var * var)]


def _close(actual: Array, expected: Array, tolerance: float = 3e-6) -> None:
    np.testing.assert_allclose(
        actual, expected, rtol=tolerance, atol=tolerance * max(1.0, float(np.abs(expected).max()))
    )


def _forward(arrays: list[Array], engine: str, type: str = "SpatialBN", **arguments: Any) -> list[Array]:
    names = [*BLOBS, *(f"S{k}" for k in range(len(arrays) - len(BLOBS)))]
    definition = operator_def(type, names, TRAINING, is_test=0, momentum=0.7, epsilon=0.01, **arguments)
    found, operator = run(definition, [one.copy() for one in arrays], engine)  # two are overwritten
    assert_ran(operator, engine)
    return found


def _backward(X: Array, scale: Array, dY: Array, saved: list[Array], engine: str) -> list[Array]:
    definition = operator_def("SpatialBNGradient", ["X", "scale", "dY", "mean", "inv_std"], GRADIENTS)
    found, operator = run(definition, [X, scale, dY, *saved], engine)
    assert_ran(operator, engine)
    return found


@pytest.mark.parametrize("dims", SHAPES)
def test_both_directions(dims: tuple[int, ...]) -> None:
    arrays = _arrays(dims)
    found, expected = _forward(arrays, "native/channels_last"), _forward(arrays, "reference")
    for got, wanted in zip(found, expected, strict=True):
        _close(got, wanted)
    dY, saved = np.random.default_rng(8).standard_normal(dims).astype(np.float32), expected[3:]
    exact = [one.astype(np.float64) for one in (arrays[0], arrays[1], dY, *saved)]
    gradients = _backward(arrays[0], arrays[1], dY, saved, "native/channels_last")
    for got, wanted in zip(gradients, _gradients(*exact), strict=True):
        _close(got, wanted, 1e-5)


def _gradients(X: Array, scale: Array, dY: Array, mean: Array, inv_std: Array) -> tuple[Array, Array, Array]:
    """Return dX, dscale and dbias with the channels of all images side by side."""
    others = (0, *range(2, X.ndim))
    along = (-1, *[1] * (X.ndim - 2))
    z = (X - mean.reshape(along)) * inv_std.reshape(along)
    dscale, dbias = (dY * z).sum(others), dY.sum(others)
    inner = dY - (dbias.reshape(along) + z * dscale.reshape(along)) * (X.shape[1] / X.size)
    return (scale * inv_std).reshape(along) * inner, dscale, dbias


def test_orders_agree() -> None:
    X, *others = _arrays((3, 20, 5, 7))
    S = np.random.default_rng(3).standard_normal(X.shape).astype(np.float32)
    fused: dict[str, Any] = {"type": "FusedSpatialBN", "operands": 1, "epilogue": "relu(y + s0)"}
    first = _forward([X, *others, S], "native/channels_last", **fused)
    last = [np.ascontiguousarray(one.transpose(0, 2, 3, 1)) for one in (X, S)]
    again = _forward([last[0], *others, last[1]], "native/channels_last", order="NHWC", **fused)
    np.testing.assert_array_equal(again[0].transpose(0, 3, 1, 2), first[0])
    for got, wanted in zip(again[1:], first[1:], strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_every_number_of_threads_gives_the_same_bits() -> None:
    arrays = _arrays((4, 24, 40, 41))
    dY = np.random.default_rng(8).standard_normal(arrays[0].shape).astype(np.float32)
    found: list[list[Array]] = []
    for threads in (1, 2, 3):
        with NUM_THREADS.override(threads):
            made = _forward(arrays, "native/channels_last")
            found.append([*made, *_backward(arrays[0], arrays[1], dY, made[3:], "native/channels_last")])
    for other in found[1:]:
        for got, wanted in zip(other, found[0], strict=True):
            np.testing.assert_array_equal(got, wanted)


def test_a_mean_far_from_zero_costs_no_digits_of_the_variance() -> None:
    arrays = _arrays((4, 24, 30, 31), shift=1000.0)
    found = _forward(arrays, "native/channels_last")
    exact = arrays[0].astype(np.float64)
    _close(found[3], exact.mean((0, 2, 3)), 1e-7)
    _close(found[4], 1 / np.sqrt(exact.var((0, 2, 3)) + 0.01), 1e-5)


@pytest.mark.parametrize("far", [100.0, 1000.0])
def test_a_first_pixel_far_from_the_others_costs_few_digits(far: float) -> None:
    arrays = _arrays((16, 24, 56, 57), shift=far)
    arrays[0][:, :, 0, 0] = 0
    found = _forward(arrays, "native/channels_last")
    exact = arrays[0].astype(np.float64)
    _close(found[3], exact.mean((0, 2, 3)), 1e-6)
    _close(found[4], 1 / np.sqrt(exact.var((0, 2, 3)) + 0.01), 3e-5)


@pytest.mark.slow
@pytest.mark.parametrize("vector_bytes", [16, 32])
def test_narrower_vectors(vector_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on processors that have no wider ones."""
    if processor().vector_bytes < vector_bytes:
        pytest.skip(f"the processor has no vectors of {vector_bytes} bytes")
    narrow = Processor(processor().name, "+avx2" if vector_bytes == 32 else "")
    monkeypatch.setattr(kernel, "processor", lambda: narrow)
    test_both_directions((2, 20, 7, 3))
    test_both_directions((2, 6, 4, 3))


FORMULAS = ["relu(y - s0)", "where(y > s0, sigmoid(y), exp(-abs(s0)))", "max(min(y, 1), s0) + tanh(y) * y"]


@pytest.mark.parametrize("epilogue", FORMULAS)
@pytest.mark.parametrize("dims", [(2, 24, 4, 3), (3, 5, 7, 2)])
def test_epilogues(dims: tuple[int, ...], epilogue: str) -> None:
    S = np.random.default_rng(3).standard_normal(dims).astype(np.float32)
    arrays = [*_arrays(dims), S]
    fused: dict[str, Any] = {"type": "FusedSpatialBN", "operands": 1, "epilogue": epilogue}
    _close(_forward(arrays, "native/channels_last", **fused)[0], _forward(arrays, "reference", **fused)[0], 1e-5)


def test_a_result_that_overwrites_its_input() -> None:
    X, vectors = _arrays((2, 5, 6, 24))[0], _arrays((2, 24))[1:]
    found: list[Array] = []
    for result in ("Y", "X"):
        outputs = [result, *TRAINING[1:]]
        definition = operator_def("FusedSpatialBN", BLOBS, outputs, order="NHWC", epilogue="relu(y)")
        (Y, *_), operator = run(definition, [one.copy() for one in (X, *vectors)], "native/channels_last")
        assert_ran(operator, "native/channels_last")
        found.append(Y)
    np.testing.assert_array_equal(found[0], found[1])


def test_channels_that_do_not_vary() -> None:
    arrays = _arrays((4, 24, 5, 6))
    arrays[0][:, 5] = -3.25
    Y, _, var, mean, inv_std = _forward(arrays, "native/channels_last")
    assert mean[5] == -3.25
    assert inv_std[5] == np.float32(1 / np.sqrt(0.01))
    np.testing.assert_allclose(var[5], 0.7 * arrays[4][5], rtol=1e-6)
    np.testing.assert_array_equal(Y[:, 5], arrays[2][5])


def test_one_value_a_channel_has_no_running_variance() -> None:
    arrays = _arrays((1, 17, 1, 1))
    Y, _, var, *_ = _forward(arrays, "native/channels_last")
    assert np.isnan(var).all()
    np.testing.assert_array_equal(Y.reshape(-1), arrays[2])


@pytest.mark.parametrize("special", [np.nan, np.inf])
def test_what_is_not_finite_stays_in_its_channel(special: float) -> None:
    arrays = _arrays((2, 24, 5, 6))
    arrays[0][1, 7, 2, 2] = special
    Y, *_ = _forward(arrays, "native/channels_last")
    finite = np.isfinite(Y).reshape(2, 24, -1).all(2)
    np.testing.assert_array_equal(finite, np.broadcast_to(np.arange(24) != 7, (2, 24)))


def test_images_that_lie_channels_first_are_left_to_libraries() -> None:
    arrays = _arrays((2, 24, 5, 6))
    definition = operator_def("SpatialBN", BLOBS, TRAINING, is_test=0)
    _, operator = run(definition, arrays)
    reasons = {choice.engine: choice.reason for choice in operator.choices}
    assert str(reasons["native/channels_last"]).startswith("could, about")


def test_running_values_with_gaps_are_left_to_others() -> None:
    arrays = _arrays((2, 24, 5, 6))
    arrays[3] = np.repeat(arrays[3], 2)[::2]
    definition = operator_def("FusedSpatialBN", BLOBS, TRAINING)
    found, operator = run(definition, arrays)
    assert_ran(operator, "reference")
    np.testing.assert_array_equal(found[1], arrays[3])


def test_images_that_lie_channels_last_are_taken_as_they_lie() -> None:
    X, *others = _arrays((2, 24, 5, 6))
    blobs = LocalBlobs()
    for name, value in zip(BLOBS, (X, *others), strict=True):
        blobs.create_blob(name).set(Tensor.from_numpy(value))
    relayout(blobs.create_blob("X").tensor(), channels_last(X.shape), current_context(CPUPlace()))
    operator = Operator(operator_def("SpatialBN", BLOBS, TRAINING, is_test=0), blobs, strict=True)
    operator.run()
    assert_ran(operator, "native/channels_last")
    assert operator.outputs[0].tensor().layout == channels_last(X.shape)


@pytest.mark.parametrize(("pixels", "channels"), [(1, 1), (7, 24), (8, 24), (784, 2048), (200704, 64), (50177, 3)])
def test_rows_cover_all_pixels(pixels: int, channels: int) -> None:
    rows = Rows(pixels, channels)
    assert rows.count * rows.width == pixels * channels
    assert (rows.chunks - 1) * rows.chunk_rows < rows.count <= rows.chunks * rows.chunk_rows
    assert rows.folds == 1 or rows.width % lane_count() == 0
