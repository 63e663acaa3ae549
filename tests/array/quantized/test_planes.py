"""Planes of bits: bytes taken apart and put together, signs, two's complement."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tazza.array.quantized.planes import (
    BYTE_PLANES,
    best_byte_planes,
    integer_type,
    plane_bytes,
    planes_of_bytes,
    read_planes,
    twos_complement,
    write_planes,
)

best_byte_planes()  # loads what engines bring
SIZES = st.sampled_from([0, 1, 7, 8, 9, 63, 64, 65, 130, 70_001])


def bits_of(x: np.ndarray, count: int) -> list[list[int]]:
    return [[int(value) >> k & 1 for value in x] for k in range(count)]


@pytest.mark.parametrize("name", BYTE_PLANES.registered())
@given(SIZES, st.integers(1, 8), st.integers(0, 9))
def test_apart_and_together(name: str, size: int, count: int, seed: int) -> None:
    reason = BYTE_PLANES[name].unavailable()
    if reason is not None:
        pytest.skip(reason)
    octets = np.random.default_rng(seed).integers(0, 256, size, np.uint8)
    planes = np.full((count, plane_bytes(size)), 0xA5, np.uint8)
    BYTE_PLANES[name].split(octets, planes)
    np.testing.assert_array_equal(planes, np.packbits(octets >> np.arange(count, dtype=np.uint8)[:, None] & 1, axis=1))
    again = np.full(size, 0xA5, np.uint8)
    BYTE_PLANES[name].join(planes, again)
    np.testing.assert_array_equal(again, octets & (1 << count) - 1)


@given(st.integers(1, 8), st.booleans(), st.lists(st.integers(-255, 255), max_size=70))
def test_integers(precision: int, signed: bool, numbers: list[int]) -> None:
    top = (1 << precision) - 1
    x = np.clip(np.array(numbers, np.int16), -top if signed else 0, top)
    planes = np.empty((precision + signed, plane_bytes(len(x))), np.uint8)
    write_planes(x if signed else x.astype(np.uint8), precision, signed, planes)
    expected = bits_of(np.abs(x), precision) + ([[int(value < 0) for value in x]] if signed else [])
    assert np.unpackbits(planes, axis=1)[:, : len(x)].tolist() == expected
    found = read_planes(planes, len(x), signed)
    assert found.dtype == integer_type(precision, signed)
    np.testing.assert_array_equal(found, x)
    if signed:
        complement = np.unpackbits(twos_complement(planes), axis=1)[:, : len(x)]
        assert complement.tolist() == bits_of(x & (1 << precision + 1) - 1, precision + 1)


def test_padding_is_zero() -> None:
    assert planes_of_bytes(np.full(9, 255, np.uint8), 2).tolist() == [[0xFF, 0x80]] * 2


def test_negative_zero_is_zero() -> None:
    planes = np.array([[0b0100_0000], [0b1100_0000]], np.uint8)  # -0 and -1 in one bit and a sign
    assert read_planes(planes, 2, signed=True).tolist() == [0, -1]
