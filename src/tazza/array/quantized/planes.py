"""Integers as planes of bits: plane k holds bit k of every element, the first element in the highest bit of its byte.

Letters: P planes, S elements, B = ceil(S / 8) bytes of a plane. Bits that pad a plane are 0 where tazza writes them.

Bytes are taken apart into planes, and put together, by the fastest that is available of `BYTE_PLANES`: engines fill it
from files `byte_planes.py`. Signs and more than 8 bits are handled here, on top of that.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tazza.data_class import dataclass
from tazza.registry import Registry
from tazza.tensor.dtype import numpy_dtype
from tazza.tensor.filling import load_fillers

BITS_PER_BYTE = 8
_BLOCK_BYTES = 1 << 13
"""Bytes of a plane that NumPy unpacks at a time, so that what comes of them stays in the cache."""

Octets = npt.NDArray[np.uint8]
Integers = npt.NDArray[Any]


def _always() -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class BytePlanes:
    """Takes bytes (S,) apart into planes (P, B) and puts them together; P is at most 8, all arrays are contiguous.

    `split(octets, planes)` writes the planes; `join(planes, octets)` writes the bytes, higher bits 0.
    """

    split: Callable[[Octets, Octets], None]
    join: Callable[[Octets, Octets], None]
    priority: int = 0
    unavailable: Callable[[], str | None] = _always


def _load(_: str) -> None:
    load_fillers("byte_planes")


BYTE_PLANES: Registry[str, BytePlanes] = Registry("maker of bit planes", loader=_load)
"""By engine."""


@functools.cache
def best_byte_planes() -> BytePlanes:
    """Return the one of the highest priority that can be used here."""
    load_fillers("byte_planes")
    found = (BYTE_PLANES[name] for name in BYTE_PLANES.registered())
    return max((one for one in found if one.unavailable() is None), key=lambda one: one.priority)


def _split(octets: Octets, planes: Octets) -> None:
    for start in range(0, planes.shape[1], _BLOCK_BYTES):
        block = octets[start * BITS_PER_BYTE : (start + _BLOCK_BYTES) * BITS_PER_BYTE]
        for k in range(len(planes)):
            planes[k, start : start + _BLOCK_BYTES] = np.packbits(block >> k & 1)


def _join(planes: Octets, octets: Octets) -> None:
    for start in range(0, planes.shape[1], _BLOCK_BYTES):
        block = octets[start * BITS_PER_BYTE : (start + _BLOCK_BYTES) * BITS_PER_BYTE]
        block.fill(0)
        for k in range(len(planes)):
            block |= np.unpackbits(planes[k, start : start + _BLOCK_BYTES], count=len(block)) << np.uint8(k)


BYTE_PLANES.register("numpy", BytePlanes(_split, _join), help="NumPy's packbits and unpackbits")


def plane_bytes(count: int) -> int:
    """Return the bytes of a plane of so many elements.

    >>> plane_bytes(8), plane_bytes(9)
    (1, 2)
    """
    return -(-count // BITS_PER_BYTE)


def integer_type(precision: int, signed: bool) -> np.dtype[Any]:
    """Return the smallest NumPy dtype for integers of so many bits and maybe a sign.

    >>> integer_type(8, False), integer_type(7, True), integer_type(8, True)
    (dtype('uint8'), dtype('int8'), dtype('int16'))
    """
    bits = next(bits for bits in (8, 16, 32, 64) if precision + signed <= bits)
    return numpy_dtype(f"{'int' if signed else 'uint'}{bits}")


def planes_of_bytes(octets: Octets, count: int) -> Octets:
    """Return the lowest `count` bits of bytes (S,) as planes (count, B)."""
    planes = np.empty((count, plane_bytes(len(octets))), np.uint8)
    best_byte_planes().split(np.ascontiguousarray(octets), planes)
    return planes


def write_planes(x: Integers, precision: int, signed: bool, planes: Octets) -> None:
    """Write integers (S,), which must fit, as sign and magnitude into planes (P, B); the signs are the last plane."""
    magnitude = np.abs(x) if signed else x
    low = magnitude.astype(np.uint8)
    best_byte_planes().split(low, planes[:precision])
    if signed:
        planes[precision] = np.packbits(x < 0)


def read_codes(planes: Octets, count: int) -> Integers:
    """Return, for the first `count` elements, the number whose bit k is in plane k: a sign is just the highest bit."""
    octets = np.empty(count, np.uint8)
    best_byte_planes().join(planes[:BITS_PER_BYTE], octets)
    if len(planes) <= BITS_PER_BYTE:
        return octets
    return octets | np.unpackbits(planes[BITS_PER_BYTE], count=count).astype(np.uint16) << np.uint16(BITS_PER_BYTE)


def read_planes(planes: Octets, count: int, signed: bool) -> Integers:
    """Return the first `count` integers of planes that hold up to 8 bits, and maybe a sign, of each."""
    dtype = integer_type(len(planes) - signed, signed)
    if not signed:
        return read_codes(planes, count)
    codes, width = read_codes(twos_complement(planes), count), BITS_PER_BYTE * dtype.itemsize
    spare = width - len(planes)
    x = (codes << codes.dtype.type(spare)).view(dtype)
    x >>= dtype.type(spare)  # brings copies of the sign bit in
    return x


def twos_complement(planes: Octets) -> Octets:
    """Return planes of sign and magnitude as those of two's complement, of as many bits; zero has no sign then.

    Bits of a negative element are complemented and 1 is added: a carry that starts as the sign ripples through the
    planes, all elements at once.

    >>> bits = np.uint8([[0b10000000], [0b11000000], [0b10100000]])  # -3, 2, -0
    >>> [format(plane[0], "08b") for plane in twos_complement(bits)]
    ['10000000', '01000000', '10000000']
    """
    sign = planes[-1]
    result = np.empty_like(planes)
    carry = sign.copy()
    for k in range(len(planes) - 1):
        flipped = planes[k] ^ sign
        np.bitwise_xor(flipped, carry, out=result[k])
        carry &= flipped
    np.bitwise_xor(sign, carry, out=result[-1])
    return result
