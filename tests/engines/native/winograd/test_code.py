"""The kernel of a convolution alone, on filters that were transformed by NumPy: blocks, slices, threads, epilogues."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.codegen.block import BlockLaunch, Slot
from tazza.codegen.kernel import compiled, lane_count, unavailable
from tazza.engines.native.winograd import SOURCES
from tazza.engines.native.winograd.algorithm import FORMS, algorithm
from tazza.engines.native.winograd.code import BLOCK, Code
from tazza.engines.native.winograd.tiling import ROWS, Problem, Tiling
from tazza.engines.native.winograd.writer import GAP
from tazza.operator import Expression
from tazza.tensor import Tensor
from tests.launching import call_alone

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

Array = NDArray[Any]
H, W, OUT, PADS = 9, 12, (9, 13), (1, 0)


def transformed(W: Array, m: int) -> tuple[Array, int]:
    """Return U[x][panel][c][2 L] of W (K, C, r, r) with its gaps, and the floats of a matrix."""
    K, C, r, _ = W.shape
    L, panel = lane_count(), 2 * lane_count()
    G = np.array(algorithm(m, r).filters, float)
    a = m + r - 1
    filled = np.zeros((a * a, -(-C // L) * L, -(-K // panel) * panel))
    filled[:, :C, :K] = np.einsum("ai,kcij,bj->abck", G, W, G).reshape(a * a, C, K)
    panels = filled.reshape(a * a, filled.shape[1], -1, panel).swapaxes(1, 2).reshape(a * a, -1)
    U = np.pad(panels, ((0, 0), (0, GAP)), constant_values=np.nan)
    return U.astype(np.float32), U.shape[1]


def direct(X: Array, W: Array) -> Array:
    """Return the correlation of images (N, H, W, C), tap by tap, in float64."""
    _, _, r, _ = W.shape
    (oH, oW), (top, left) = OUT, PADS
    padded = np.pad(X.astype(float), ((0, 0), (top, r + oH), (left, r + oW), (0, 0)))
    return sum(
        (padded[:, y : y + oH, x : x + oW] @ W[:, :, y, x].T.astype(float) for y in range(r) for x in range(r)),
        np.zeros(()),
    )


def run(code: Code, tiling: Tiling, X: Array, U: Array, u_matrix: int, b: Array, S: list[Array]) -> Array:
    """Return Y, whose pixels lie as far apart as those of a wider image."""
    problem = tiling.problem
    oH, oW = problem.out
    down, across = problem.across(tiling.algorithm.m)
    wide = problem.K + 3
    memory = [np.full((problem.N, oH, oW, wide), np.nan, np.float32) for _ in range(1 + len(S))]
    for one, s in zip(memory[1:], S, strict=True):
        one[..., : problem.K] = s
    words = {
        "threads": tiling.threads,
        **{"H": problem.image[0], "W": problem.image[1], "C": problem.C, "oH": oH, "oW": oW, "K": problem.K},
        **{"top": problem.pads[0], "left": problem.pads[1]},
        **{"tiles_down": down, "tiles_across": across, "tiles": tiling.tiles},
        **dict(zip(("x_image", "x_row", "x_pixel"), (step // 4 for step in X.strides[:3]), strict=True)),
        **{"y_image": oH * oW * wide, "y_row": oW * wide, "y_pixel": wide},
        **{"block_rows": tiling.block_rows, "slice_panels": tiling.slice_panels, "slices": tiling.slices},
        **{"u_matrix": u_matrix, "scratch_floats": tiling.scratch_floats},
    }
    address = compiled(code.description, code.write, sources=SOURCES.digest, rewrite=False)
    block = (*BLOCK.words(**words), *(Slot(f"S{i}") for i in range(len(S))))
    launch = BlockLaunch(address, block, 4 * tiling.scratch_floats * tiling.threads)
    arrays = {"X": X, "U": U, "b": b, "Y": memory[0], **{f"S{i}": one for i, one in enumerate(memory[1:])}}
    tensors = {name: Tensor.from_numpy(array) for name, array in arrays.items()}
    call_alone(launch, tensors)
    Y = tensors["Y"].array
    assert np.isnan(Y[..., problem.K :]).all(), "it wrote beyond K"
    return Y[..., : problem.K]


def arrays(N: int, C: int, K: int, r: int) -> tuple[Array, Array, Array]:
    random = np.random.default_rng(7)
    shapes = ((N, H, W, C), (K, C, r, r), (K,))
    X, filters, b = (random.standard_normal(shape).astype(np.float32) for shape in shapes)
    return X, filters, b


def problem(N: int, C: int, K: int, r: int) -> Problem:
    return Problem(N, C, K, r, (H, W), OUT, PADS)


def assert_close(found: Array, expected: Array) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-5 * np.abs(expected).max())


@pytest.mark.slow
@pytest.mark.parametrize(("block_rows", "slices", "threads"), [(1, 1, 1), (3, 3, 2), (2, 2, 3)])
@pytest.mark.parametrize(("m", "r"), FORMS)
def test_blocks_slices_and_threads(m: int, r: int, block_rows: int, slices: int, threads: int) -> None:
    """The last block, slice and panel are not full, nor is the last vector of C and of K."""
    N, C, K = 2, lane_count() + 2, 5 * lane_count() + 3
    X, filters, b = arrays(N, C, K, r)
    tiling = Tiling(problem(N, C, K, r), algorithm(m, r), ROWS[lane_count()][-1], block_rows, slices, threads)
    code = Code(tiling.algorithm, tiling.rows, bias=True, epilogue=None, operands=0)
    assert_close(run(code, tiling, X, *transformed(filters, m), b, []), direct(X, filters) + b)


@pytest.mark.slow
@pytest.mark.parametrize("rows", ROWS[lane_count()])
def test_register_tiles_without_a_bias(rows: int) -> None:
    N, C, K, m, r = 1, 3, 5, 4, 3
    X, filters, b = arrays(N, C, K, r)
    tiling = Tiling(problem(N, C, K, r), algorithm(m, r), rows, 1, 1, 1)
    code = Code(tiling.algorithm, rows, bias=False, epilogue=None, operands=0)
    assert_close(run(code, tiling, X, *transformed(filters, m), np.full_like(b, np.nan), []), direct(X, filters))


@pytest.mark.slow
def test_epilogue_with_operands() -> None:
    N, C, K, m, r = 2, 3, 7, 2, 3
    X, filters, b = arrays(N, C, K, r)
    S = [np.random.default_rng(k).standard_normal((N, *OUT, K)).astype(np.float32) for k in range(2)]
    tiling = Tiling(problem(N, C, K, r), algorithm(m, r), ROWS[lane_count()][-1], 2, 1, 1)
    code = Code(tiling.algorithm, tiling.rows, True, Expression.parse("max(y * s1, 0) - s0"), 2)
    y = direct(X, filters) + b
    assert_close(run(code, tiling, X, *transformed(filters, m), b, S), np.maximum(y * S[1], 0) - S[0])


def test_descriptions_tell_codes_apart() -> None:
    found = {
        Code(algorithm(m, r), rows, bias, epilogue, operands).description
        for m, r in FORMS
        for rows in (6, 8)
        for bias in (False, True)
        for epilogue, operands in ((None, 0), (Expression.parse("relu(y)"), 0), (Expression.parse("y + s0"), 1))
    }
    assert len(found) == len(FORMS) * 2 * 2 * 3
