"""The kernel of the filters' gradient alone: sums of all threads, lines of windows filled up, dW of any strides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.codegen.block import BlockLaunch
from tazza.codegen.kernel import compiled, lane_count, unavailable
from tazza.engines.native.few_channels import SOURCES
from tazza.engines.native.few_channels.packing import Packing
from tazza.engines.native.few_channels.weights_code import BLOCK, WeightsCode
from tazza.tensor import Tensor
from tests.engines.native.few_channels.images import CASES, Windows
from tests.launching import call_alone

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

Array = NDArray[Any]
PANEL = 2 * lane_count()


def run(code: WeightsCode, case: Windows, K: int, threads: int = 2, last: bool = False) -> tuple[Array, ...]:
    """Return dW (K, kH, kW, C) and db, and what they should be; `last` says that dW lies so."""
    (oH, oW), (kH, kW) = case.out, case.kernel
    X, dY = case.images(), np.random.default_rng(K).standard_normal((case.N, oH, oW, K)).astype(np.float32)
    # A register tile at the end of a row of a window reads `run` numbers from where the window begins.
    pitch = -(-(max(case.pitch(1), (oW - 1) * case.step[1] * case.C + code.run)) // lane_count()) * lane_count()
    packed = case.packed_rows * pitch + PANEL
    own = packed + -(-K // PANEL) * (kH * code.run + 1) * PANEL
    shape = (K, kH, kW, case.C) if last else (K, case.C, kH, kW)
    dW, db = np.full(shape, np.nan, np.float32), np.full(K, np.nan, np.float32)
    k, *steps = (step // 4 for step in dW.strides)
    y, x, c = steps if last else (*steps[1:], steps[0])
    words = case.words(1, threads, own) | {"pitch": pitch}
    words |= {"oW": oW, "K": K, "packed_floats": packed}
    words |= {"y_image": oH * oW * K, "y_row": oW * K, "y_pixel": K, "w_k": k, "w_c": c, "w_y": y, "w_x": x}
    address = compiled(code.description, code.write, sources=SOURCES.digest, rewrite=False)
    arrays = {"X": case.laid(X), "dY": dY, "dW": dW, "db": db}
    tensors = {name: Tensor.from_numpy(array) for name, array in arrays.items()}
    call_alone(BlockLaunch(address, BLOCK.words(**words), 4 * own * threads), tensors)
    found = tensors["dW"].array
    expected = np.einsum("nijyxc,nijk->kyxc", case.patches(X).astype(float), dY)
    right = found if last else found.transpose(0, 2, 3, 1)
    return right, tensors["db"].array, expected, dY.sum((0, 1, 2), dtype=float)


def assert_close(found: Array, expected: Array) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=3e-6 * np.abs(expected).max())


@pytest.mark.parametrize("K", [5, PANEL + 3])
@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_windows(case: Windows, K: int) -> None:
    dW, db, right_dW, right_db = run(WeightsCode(case.packing, 4, True), case, K)
    assert_close(dW, right_dW)
    assert_close(db, right_db)


@pytest.mark.parametrize("threads", [1, 2, 20])
@pytest.mark.parametrize("last", [False, True])
def test_threads_and_strides(threads: int, last: bool) -> None:
    """With more threads than bands some add up nothing."""
    case = CASES["three channels, last"]
    dW, _, right, _ = run(WeightsCode(case.packing, 5, True), case, 7, threads, last)
    assert_close(dW, right)


@pytest.mark.parametrize("numbers", [1, 6, 8])
def test_without_a_bias_none_is_written(numbers: int) -> None:
    case = CASES["three channels in planes"]
    dW, db, right, _ = run(WeightsCode(case.packing, numbers, False), case, 7)
    assert_close(dW, right)
    assert np.isnan(db).all()


def test_rows_of_windows_are_whole_register_tiles() -> None:
    for numbers in range(1, 9):
        code = WeightsCode(Packing(3, 5, 1, False), numbers, True)
        assert code.run % numbers == 0
        assert code.run - numbers < 15 <= code.run


def test_descriptions_tell_codes_apart() -> None:
    found = {
        WeightsCode(Packing(C, 3, 1, planes), numbers, bias).description
        for C in (1, 3)
        for planes in (False, True)
        for numbers in (5, 6)
        for bias in (False, True)
    }
    assert len(found) == 16
