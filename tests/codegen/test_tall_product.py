"""Products of tall matrices against NumPy: any columns, blocks that are not full, strided rows, threads, vectors."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.codegen import kernel, tall_product
from tazza.codegen.kernel import unavailable
from tazza.codegen.tall_product import Grid, Windows
from tazza.runtime.native_code import Processor, processor
from tazza.tensor import Tensor
from tests.launching import call_alone

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

Array = NDArray[np.float32]


def _tensor(array: NDArray[Any]) -> Tensor:
    made = Tensor(array.shape)
    made.assign(array)
    return made


def _run(A: Array, B: Array, grid: Grid, threads: int) -> Array:
    """Return A^T B, for the rows of B that the grid tells."""
    M, K = A.shape[1], B.shape[-1]
    columns = grid.taps * K
    launch = tall_product.tall_product(("A", "B", "C"), M, K, grid, threads)
    assert launch is not None
    assert launch.words[0] == threads
    C = Tensor((M, columns))
    C.reserve()
    C.array[:] = np.nan
    call_alone(launch, {"A": _tensor(A), "B": _tensor(B), "C": C})
    return C.array.copy()


def _values(*dims: int) -> Array:
    return np.random.default_rng(math.prod(dims)).standard_normal(dims).astype(np.float32)


@pytest.fixture(autouse=True)
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take matrices that are small, in blocks of few rows."""
    for name in ("PIXELS", "WINDOWS"):
        monkeypatch.setattr(tall_product, name, replace(getattr(tall_product, name), tall=0, blocks=0, fill=0))
    monkeypatch.setattr(tall_product, "FEW", 16)
    monkeypatch.setattr(tall_product, "MANY", 48)


@pytest.mark.parametrize(("P", "M", "K"), [(5, 24, 32), (63, 32, 33), (130, 40, 7), (1000, 24, 97), (257, 64, 1)])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_dense_rows(P: int, M: int, K: int, threads: int) -> None:
    A, B = _values(P, M), _values(P, K)
    found = _run(A, B, Grid((1, 1, P), (0, 0, K)), threads)
    expected = A.astype(np.float64).T @ B
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6 * float(np.abs(expected).max()) + 1e-6)


def test_blocks_of_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tall_product, "FEW_BYTES", 0)
    test_dense_rows(1300, 24, 40, 2)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_rows_that_are_pixels_apart(threads: int) -> None:
    N, H, W, K, M = 3, 11, 13, 37, 32
    image = _values(N, H, W, K)
    taken = image[:, ::2, ::3]
    _, oH, oW, _ = taken.shape
    A = _values(N * oH * oW, M)
    found = _run(A, image, Grid((N, oH, oW), (H * W * K, 2 * W * K, 3 * K)), threads)
    expected = A.astype(np.float64).T @ taken.reshape(-1, K)
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6 * float(np.abs(expected).max()))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("K", [16, 37, 64])
@pytest.mark.parametrize(("kernel", "pads"), [((3, 2), (1, 1)), ((2, 5), (0, 3)), ((1, 1), (2, 0))])
def test_rows_that_are_windows(kernel: tuple[int, int], pads: tuple[int, int], K: int, threads: int) -> None:
    """Beyond all four sides of the image they hold zeros."""
    (N, H, W), M, (down, across) = (3, 9, 13), 32, (2, 3)
    image = _values(N, H, W, K)
    padded = np.full((N, H + 8, W + 8, K), 0, np.float32)
    padded[:, pads[0] : pads[0] + H, pads[1] : pads[1] + W] = image
    oH, oW = (H + pads[0] + 1 - kernel[0]) // down + 1, (W + pads[1] + 1 - kernel[1]) // across + 1
    A = _values(N * oH * oW, M)
    windows = Windows(kernel, (H, W), pads, (down, across), (W * K, K))
    found = _run(A, image, Grid((N, oH, oW), (H * W * K, down * W * K, across * K), windows), threads)
    taken = [
        padded[:, y : y + down * oH : down, x : x + across * oW : across].reshape(-1, K)
        for y in range(kernel[0])
        for x in range(kernel[1])
    ]
    expected = A.astype(np.float64).T @ np.concatenate(taken, 1)
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6 * float(np.abs(expected).max()))


@pytest.mark.parametrize("vector_bytes", [16, 32])
def test_narrower_vectors(vector_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on processors that have no wider ones."""
    if processor().vector_bytes < vector_bytes:
        pytest.skip(f"the processor has no vectors of {vector_bytes} bytes")
    monkeypatch.setattr(kernel, "processor", lambda: Processor(processor().name, "+avx2" if vector_bytes == 32 else ""))
    test_dense_rows(200, 28, 21, 2)
    test_rows_that_are_windows((3, 2), (1, 1), 37, 2)


@pytest.mark.parametrize(
    ("P", "M", "threads"),
    [
        pytest.param(1 << 20, 28, 2, id="no multiple of the columns of a register tile"),
        pytest.param(1 << 20, 16, 2, id="few columns"),
        pytest.param(1 << 20, 1024, 64, id="sums of many threads"),
        pytest.param(1023, 512, 1, id="not tall"),
        pytest.param(4095, 32, 16, id="few blocks for each thread"),
        pytest.param(0, 32, 1, id="no rows"),
    ],
)
def test_what_is_left_to_others(P: int, M: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if kernel.lane_count() < 16:
        pytest.skip("register tiles have other numbers of columns")
    monkeypatch.undo()

    def made(P: int, M: int, threads: int) -> object:
        return tall_product.tall_product(("A", "B", "C"), M, 512, Grid((1, 1, P), (0, 0, 512)), threads)

    assert made(P, M, threads) is None
    assert made(1 << 20, 32, 2) is not None


@pytest.mark.parametrize(
    ("P", "M", "K", "taken"),
    [
        pytest.param(784, 512, 512, True, id="ResNet-50's last"),
        pytest.param(12544, 128, 128, True, id="its first"),
        pytest.param(12544, 128, 24, False, id="a quarter of the panels empty"),
        pytest.param(12544, 128, 40, False, id="most of the second panel empty"),
        pytest.param(12544, 128, 100, False, id="most of the fourth panel empty"),
        pytest.param(12544, 128, 120, True, id="little of the fourth panel empty"),
        pytest.param(496, 32, 512, False, id="fewer windows than channels"),
    ],
)
def test_windows_that_are_worth_it(P: int, M: int, K: int, taken: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if kernel.lane_count() < 16:
        pytest.skip("register tiles have other numbers of columns")
    monkeypatch.undo()
    windows = Windows((3, 3), (2, 2 * P), (1, 1), (2, 2), (2 * P * K, K))
    grid = Grid((1, 1, P), (0, 0, 2 * K), windows)
    assert (tall_product.tall_product(("A", "B", "C"), M, K, grid, 2) is not None) is taken
