"""The kernel of a convolution of few channels alone, on filters that NumPy packed: windows, bands, epilogues."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.codegen.block import BlockLaunch, Slot
from tazza.codegen.kernel import compiled, lane_count, unavailable
from tazza.engines.native.few_channels import SOURCES
from tazza.engines.native.few_channels.code import BLOCK, Code
from tazza.engines.native.few_channels.packing import Packing
from tazza.operator import Expression
from tazza.tensor import Tensor
from tests.engines.native.few_channels.images import CASES, Windows
from tests.launching import call_alone

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

Array = NDArray[Any]
PANEL = 2 * lane_count()
ROWS = 4


def filters(case: Windows, K: int) -> tuple[Array, Array]:
    """Return W (K, kH, kW, C), and U[panel][ky][kx][c][2 L] with 0 beyond K."""
    W = np.random.default_rng(K).standard_normal((K, *case.kernel, case.C)).astype(np.float32)
    filled = np.pad(W, ((0, -K % PANEL), (0, 0), (0, 0), (0, 0)))
    U = filled.reshape(-1, PANEL, *W.shape[1:]).transpose(0, 2, 3, 4, 1)
    return W, np.ascontiguousarray(U)


def run(code: Code, case: Windows, K: int, operands: list[Array], threads: int = 2) -> tuple[Array, Array, Array]:
    """Return Y, whose pixels lie as far apart as those of a wider image; and the products alone, and b."""
    (oH, oW), wide = case.out, K + 3
    W, U = filters(case, K)
    X, b = case.images(), np.random.default_rng(9).standard_normal(K).astype(np.float32)
    images = [np.full((case.N, oH, oW, wide), np.nan, np.float32) for _ in range(1 + len(operands))]
    for image, s in zip(images[1:], operands, strict=True):
        image[..., :K] = s
    own = case.packed_rows * case.pitch(code.rows) + PANEL
    words = case.words(code.rows, threads, own)
    words |= {"oW": oW, "K": K, "y_image": oH * oW * wide, "y_row": oW * wide, "y_pixel": wide}
    address = compiled(code.description, code.write, sources=SOURCES.digest, rewrite=False)
    block = (*BLOCK.words(**words), *(Slot(f"S{i}") for i in range(len(operands))))
    arrays = {"X": case.laid(X), "U": U, "b": b, "Y": images[0]} | {f"S{i}": one for i, one in enumerate(images[1:])}
    tensors = {name: Tensor.from_numpy(array) for name, array in arrays.items()}
    call_alone(BlockLaunch(address, block, 4 * own * threads), tensors)
    Y = tensors["Y"].array
    assert np.isnan(Y[..., K:]).all(), "it wrote beyond K"
    products = np.einsum("nijyxc,kyxc->nijk", case.patches(X).astype(float), W)
    return Y[..., :K], products, b


def assert_close(found: Array, expected: Array) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=3e-6 * np.abs(expected).max())


@pytest.mark.parametrize("K", [5, PANEL + 3])
@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_windows(case: Windows, K: int) -> None:
    Y, products, b = run(Code(case.packing, ROWS, True, None, 0), case, K, [])
    assert_close(Y, products + b)


@pytest.mark.parametrize("rows", [1, 3, 8])
def test_register_tiles_without_a_bias(rows: int) -> None:
    """The last one of a row reaches beyond it."""
    case = CASES["three channels, last"]
    Y, products, _ = run(Code(case.packing, rows, False, None, 0), case, 7, [])
    assert_close(Y, products)


def test_epilogue_with_operands() -> None:
    case, K = CASES["three channels in planes"], PANEL + 1
    S = [np.random.default_rng(k).standard_normal((case.N, *case.out, K)).astype(np.float32) for k in range(2)]
    code = Code(case.packing, ROWS, True, Expression.parse("max(y * s1, 0) - s0"), 2)
    Y, products, b = run(code, case, K, S)
    assert_close(Y, np.maximum((products + b) * S[1], 0) - S[0])


def test_every_number_of_threads_gives_the_same_bits() -> None:
    case = CASES["five in planes, the last band short"]
    found = [run(Code(case.packing, ROWS, True, None, 0), case, 7, [], threads)[0] for threads in (1, 2, 5)]
    for one in found[1:]:
        np.testing.assert_array_equal(one, found[0])


def test_descriptions_tell_codes_apart() -> None:
    found = {
        Code(Packing(C, 3, 1, False), rows, bias, epilogue, operands).description
        for C in (1, 3)
        for rows in (6, 8)
        for bias in (False, True)
        for epilogue, operands in ((None, 0), (Expression.parse("relu(y)"), 0), (Expression.parse("y + s0"), 1))
    }
    assert len(found) == 24
