"""Packed rows: each bit of each integer where the kernel looks for it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tazza.array.quantized import QTensor
from tazza.array.quantized.factor import Factor, PackedRows


def unpacked(found: PackedRows) -> list[list[int]]:
    """Read the rows bit by bit."""
    lanes = found.words.shape[-1]
    octets = found.words.array.view(np.uint8).reshape(*found.words.shape, 8)
    bits = np.unpackbits(octets, axis=-1).astype(np.int64)  # (G, W, P, V, 64)
    weights = [1 << k for k in range(found.planes)]
    weights[-1] *= -1 if found.signed else 1
    rows = np.tensordot(bits, weights, axes=(2, 0)).transpose(0, 2, 1, 3)  # (G, V, W, 64)
    flat = rows.reshape(-1, found.word_count * 64)
    assert not flat[found.rows :].any()
    assert not flat[:, found.depth :].any()
    assert len(flat) - found.rows < lanes
    return flat[: found.rows, : found.depth].tolist()


@settings(max_examples=50)
@given(
    st.integers(1, 8),
    st.booleans(),
    st.booleans(),
    st.sampled_from([(1, 3), (5, 64), (9, 72), (17, 130)]),
    st.sampled_from([2, 4, 8]),
)
@pytest.mark.slow
def test_rows_of_a_qtensor(precision: int, signed: bool, transposed: bool, dims: tuple[int, int], lanes: int) -> None:
    top = (1 << precision) - 1
    x = np.random.default_rng(precision).integers(-top if signed else 0, top + 1, dims)
    q = QTensor.of_integers(x.T if transposed else x, precision, signed=signed)
    factor = Factor(q, transposed)
    assert (factor.rows, factor.depth, factor.largest, factor.signed) == (*dims, top, signed)
    assert factor.integers().tolist() == x.tolist()
    found = factor.packed(lanes)
    assert unpacked(found) == x.tolist()
    assert factor.packed(lanes) is found


def test_rows_of_bytes() -> None:
    for dtype in (np.int8, np.uint8):
        x = np.arange(-130, 140).astype(dtype).reshape(3, 90)
        assert unpacked(Factor(x).packed(4)) == x.tolist()
        assert unpacked(Factor(x, transposed=True).packed(8)) == x.T.tolist()
