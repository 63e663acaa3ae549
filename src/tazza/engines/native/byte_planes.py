"""Bytes to planes of bits and back, a vector of bytes at a time: fills `BYTE_PLANES` of array/quantized/planes.py.

A comparison of a vector of bytes gives one bit each, the first in the lowest place, where the format wants it in the
highest: so the bytes of every group of eight are reversed on their way.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tazza.array.quantized.planes import BITS_PER_BYTE, BYTE_PLANES, BytePlanes, Octets
from tazza.codegen.fields import Fields
from tazza.codegen.kernel import threads_of, unavailable
from tazza.codegen.loop import count_loop, share
from tazza.codegen.term import Lines, Term
from tazza.engines.native import SOURCES
from tazza.runtime.cache import remembered
from tazza.runtime.native import call_native
from tazza.runtime.native_code import processor

BLOCK = Fields("threads chunks stride", addresses="octets:i8 planes:i8")
"""How many vectors of bytes, the bytes from plane to plane."""
FLOPS_PER_PLANE = 0.2
"""Work for one bit, in the unit of `threads_for`."""


def _split(octets: Octets, planes: Octets) -> None:
    done = _run("split", octets, planes)
    BYTE_PLANES["numpy"].split(octets[done:], planes[:, done // BITS_PER_BYTE :])


def _join(planes: Octets, octets: Octets) -> None:
    done = _run("join", octets, planes)
    BYTE_PLANES["numpy"].join(planes[:, done // BITS_PER_BYTE :], octets[done:])


BYTE_PLANES.register("native", BytePlanes(_split, _join, 10, unavailable), help="compiled, a vector of bytes at a time")


def _run(name: str, octets: Octets, planes: Octets) -> int:
    """Do the whole vectors; returns how many bytes those are."""
    width = processor().vector_bytes
    chunks = len(octets) // width
    if chunks == 0 or len(planes) == 0:
        return 0
    threads = threads_of(len(octets), FLOPS_PER_PLANE * len(planes), 1 + len(planes) / BITS_PER_BYTE)
    addresses = {"octets": octets.ctypes.data, "planes": planes.ctypes.data}
    block = np.array(BLOCK.words(threads=threads, chunks=chunks, stride=planes.strides[0], **addresses), np.int64)
    call_native(_kernel(name, len(planes)), block.ctypes.data, threads=threads)
    return chunks * width


@remembered("kernels of byte planes", entries=64)
def _kernel(name: str, count: int) -> int:
    write: Callable[[_Bytes, Term], None] = {"split": _Bytes.split, "join": _Bytes.join}[name]

    def work(lines: Lines) -> None:
        some, vectors = share(lines, BLOCK.lazily(lines).chunks), _Bytes(lines, count)
        count_loop(lines, *some, lambda chunk: write(vectors, chunk))

    return SOURCES.compiled(f"{name} {count} planes of {processor().vector_bytes} bytes", work)


class _Bytes:
    """Writes what happens to one vector of bytes."""

    def __init__(self, lines: Lines, count: int) -> None:
        self.lines, self.count = lines, count
        self.width = processor().vector_bytes
        self.type = f"<{self.width} x i8>"
        self.mask = f"<{self.width} x i1>"
        self.bits = f"i{self.width}"
        at = BLOCK.lazily(lines)
        self.octets, self.planes, self.stride = at.octets, at.planes, at.stride

    def split(self, chunk: Term) -> None:
        """Write the bits of a vector into the planes."""
        x = self._reversed(self._bytes_at(chunk).load(1))
        for k in range(self.count):
            packed = (x & _byte(1 << k)).differs(0).bitcast(self.bits)
            self._bits_at(chunk, k).store(packed, 1)

    def join(self, chunk: Term) -> None:
        """Write a vector of bytes from their bits in the planes."""
        x = self.lines.number(0, self.type)
        for k in range(self.count):
            mask = self._bits_at(chunk, k).load(1).bitcast(self.mask)
            x |= mask.choose(self.lines.number(_byte(1 << k), self.type), 0)
        turned = self._reversed(x)
        self._bytes_at(chunk).store(turned, 1)

    def _reversed(self, x: Term) -> Term:
        return x.shuffle(lane ^ (BITS_PER_BYTE - 1) for lane in range(self.width))

    def _bytes_at(self, chunk: Term) -> Term:
        return self.octets.at(chunk * self.width).of(self.type)

    def _bits_at(self, chunk: Term, k: int) -> Term:
        return self.planes.at(self.stride * k + chunk * (self.width // BITS_PER_BYTE)).of(self.bits)


def _byte(value: int) -> int:
    """Return a byte as LLVM writes it, signed."""
    return value - 256 if value > 127 else value
