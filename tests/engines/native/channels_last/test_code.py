"""The kernels of batch normalization alone: rows of several pixels, chunks and threads, against their formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.codegen.block import BlockLaunch, Slot, Word
from tazza.codegen.kernel import compiled, unavailable
from tazza.engines.native.channels_last import SOURCES
from tazza.engines.native.channels_last.code import BACKWARD, FORWARD, VECTORS, Backward, Forward, scratch_floats
from tazza.operator import Expression
from tazza.tensor import Tensor
from tests.launching import call_alone

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

Array = NDArray[Any]
EPSILON, MOMENTUM = 0.01, 0.7
RUNNING = ("running_mean", "running_var", "saved_mean", "saved_inv_std")

CUTS = {
    # pixels, channels, pixels of a row, rows of a chunk
    "a pixel a row": (21, 37, 1, 4),
    "two pixels a row": (26, 24, 2, 5),
    "one channel": (96, 1, 16, 2),
    "one chunk": (9, 5, 3, 100),
}
CASES = pytest.mark.parametrize(("pixels", "C", "folds", "chunk_rows"), CUTS.values(), ids=list(CUTS))


def numbers(*dims: int, shift: float = 0.0) -> Array:
    return (np.random.default_rng(sum(dims)).standard_normal(dims) + shift).astype(np.float32)


def launched(
    code: Forward | Backward, cut: tuple[int, int, int, int], threads: int, arrays: dict[str, Array]
) -> dict[str, Array]:
    """Run a kernel; arrays are known by the names of their words, S0 ... behind them."""
    pixels, C, folds, chunk_rows = cut
    rows, width = pixels // folds, folds * C
    chunks = -(-rows // chunk_rows)
    given: dict[str, Word | float] = {
        **{"threads": threads, "rows": rows, "width": width, "channels": C, "folds": folds},
        **{"chunk_rows": chunk_rows, "chunks": chunks, "n": pixels},
    }
    forward = isinstance(code, Forward)
    words = FORWARD.words(**given, epsilon=EPSILON, momentum=MOMENTUM) if forward else BACKWARD.words(**given)
    address = compiled(code.description, code.write, sources=SOURCES.digest)
    operands = sorted(name for name in arrays if name.startswith("S"))
    block = (*words, *map(Slot, operands))
    tensors = {name: Tensor.from_numpy(array) for name, array in arrays.items()}
    call_alone(BlockLaunch(address, block, 4 * scratch_floats(width, chunks)), tensors)
    return {name: tensor.array for name, tensor in tensors.items()}


def assert_close(found: Array, expected: Array, tolerance: float = 1e-5) -> None:
    largest = max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * largest)


def forward_arrays(pixels: int, C: int) -> dict[str, Array]:
    """Return all of a forward kernel; the mean is far from 0."""
    given = {"X": numbers(pixels, C, shift=5.0), "scale": numbers(C), "bias": numbers(C, shift=1.0)}
    given |= {"mean": numbers(C, shift=2.0), "var": np.abs(numbers(C, shift=3.0))}
    empty = {name: np.full(C, np.nan, np.float32) for name in RUNNING}
    return given | empty | {"Y": np.full((pixels, C), np.nan, np.float32)}


@pytest.mark.parametrize("threads", [1, 3])
@CASES
def test_forward(pixels: int, C: int, folds: int, chunk_rows: int, threads: int) -> None:
    arrays = forward_arrays(pixels, C)
    found = launched(Forward(None, 0), (pixels, C, folds, chunk_rows), threads, arrays)
    X = arrays["X"].astype(float)
    mean, var = X.mean(0), X.var(0)
    inv_std = 1 / np.sqrt(var + EPSILON)
    assert_close(found["Y"], (X - mean) * inv_std * arrays["scale"] + arrays["bias"])
    assert_close(found["saved_mean"], mean)
    assert_close(found["saved_inv_std"], inv_std)
    assert_close(found["running_mean"], MOMENTUM * arrays["mean"] + (1 - MOMENTUM) * mean)
    unbiased = var * pixels / (pixels - 1)
    assert_close(found["running_var"], MOMENTUM * arrays["var"] + (1 - MOMENTUM) * unbiased)


@CASES
def test_epilogue(pixels: int, C: int, folds: int, chunk_rows: int) -> None:
    S = {f"S{k}": numbers(pixels, C, shift=k) for k in range(2)}
    arrays = forward_arrays(pixels, C)
    cut = (pixels, C, folds, chunk_rows)
    plain = launched(Forward(None, 0), cut, 2, arrays)["Y"]
    found = launched(Forward(Expression.parse("relu(y + s0) * s1"), 2), cut, 2, arrays | S)["Y"]
    assert_close(found, np.maximum(plain + S["S0"], 0) * S["S1"])


def backward_arrays(pixels: int, C: int) -> dict[str, Array]:
    X = numbers(pixels, C, shift=5.0)
    given = {"X": X, "scale": numbers(C), "bias": numbers(C, shift=0.5), "dY": numbers(C, pixels).T.copy()}
    given |= {"mean": X.mean(0), "inv_std": 1 / np.sqrt(X.var(0) + np.float32(EPSILON))}
    empty = {name: np.full(C, np.nan, np.float32) for name in ("dscale", "dbias")}
    return given | empty | {"dX": np.full((pixels, C), np.nan, np.float32)}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("prologue", ["", "where(y > 0, dy, 0)"])
@CASES
def test_backward(pixels: int, C: int, folds: int, chunk_rows: int, prologue: str, threads: int) -> None:
    """Of the gradient itself, or of what a rectifier lets through."""
    arrays = backward_arrays(pixels, C)
    code = Backward(Expression.parse(prologue) if prologue else None)
    found = launched(code, (pixels, C, folds, chunk_rows), threads, arrays)
    X, dZ, mean, inv_std = (arrays[name].astype(float) for name in ("X", "dY", "mean", "inv_std"))
    z = (X - mean) * inv_std
    if prologue:
        dZ = np.where(z * arrays["scale"] + arrays["bias"] > 0, dZ, 0)
    dscale, dbias = (dZ * z).sum(0), dZ.sum(0)
    assert_close(found["dscale"], dscale)
    assert_close(found["dbias"], dbias)
    assert_close(found["dX"], arrays["scale"] * inv_std * (dZ - (dbias + z * dscale) / pixels))


def test_channels_that_do_not_vary_are_the_bias() -> None:
    """Exactly, however large they are, and their gradient is 0."""
    arrays = forward_arrays(12, 5)
    arrays["X"][...] = 1e6 * (1 + np.arange(5))
    cut = (12, 5, 2, 3)
    found = launched(Forward(None, 0), cut, 2, arrays)
    np.testing.assert_array_equal(found["Y"], np.broadcast_to(arrays["bias"], (12, 5)))
    np.testing.assert_array_equal(found["saved_mean"], arrays["X"][0])
    back = backward_arrays(12, 5) | {"X": arrays["X"], "mean": found["saved_mean"], "inv_std": found["saved_inv_std"]}
    back["dY"][...] = numbers(5)
    gradients = launched(Backward(None), cut, 2, back)
    assert not gradients["dscale"].any()
    assert_close(gradients["dX"], np.zeros((12, 5)))


def test_scratch_memory_and_descriptions() -> None:
    """Two sums for each chunk, and the vectors that belong to the channels."""
    assert scratch_floats(24, 7) == (14 + len(VECTORS)) * 24
    y, s = Expression.parse("relu(y)"), Expression.parse("y + s0")
    codes = [Forward(None, 0), Forward(y, 0), Forward(s, 1), Backward(None), Backward(Expression.parse("dy * 2"))]
    assert len({code.description for code in codes}) == len(codes)
