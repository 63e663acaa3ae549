"""Bytes to planes of bits and back, a vector of bytes at a time: fills `BYTE_PLANES` of array/quantized/planes.py.

A comparison of a vector of bytes gives one bit each, the first in the lowest place, where the format wants it in the
highest: so the bytes of every group of eight are reversed on their way.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tazza.array.quantized.planes import BITS_PER_BYTE, BYTE_PLANES, BytePlanes, Octets
from tazza.codegen.emit import Lines
from tazza.codegen.fields import Fields
from tazza.codegen.kernel import threads_of, unavailable
from tazza.codegen.loop import count_loop, share
from tazza.codegen.rows import element
from tazza.engines.native import SOURCES
from tazza.runtime.cache import remembered
from tazza.runtime.native import call_native
from tazza.runtime.native_code import processor

BLOCK = Fields("threads chunks stride", addresses="octets planes")
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
    write: Callable[[_Bytes, str], None] = {"split": _Bytes.split, "join": _Bytes.join}[name]

    def work(lines: Lines) -> None:
        first, last = share(lines, BLOCK.read(lines).chunks)
        vectors = _Bytes(lines, count)
        count_loop(lines, first, last, lambda chunk: write(vectors, chunk))

    return SOURCES.compiled(f"{name} {count} planes of {processor().vector_bytes} bytes", work)


class _Bytes:
    """Writes what happens to one vector of bytes."""

    def __init__(self, lines: Lines, count: int) -> None:
        self.lines = lines
        self.count = count
        self.width = processor().vector_bytes
        self.type = f"<{self.width} x i8>"
        self.mask = f"<{self.width} x i1>"
        self.bits = f"i{self.width}"
        at = BLOCK.read(lines)
        self.octets, self.planes, self.stride = at.octets, at.planes, at.stride

    def split(self, chunk: str) -> None:
        """Write the bits of a vector into the planes."""
        lines = self.lines
        x = self._reversed(lines.let(f"load {self.type}, ptr {self._bytes_at(chunk)}, align 1"))
        for k in range(self.count):
            bit = lines.let(f"and {self.type} {x}, splat (i8 {_byte(1 << k)})")
            mask = lines.let(f"icmp ne {self.type} {bit}, zeroinitializer")
            packed = lines.let(f"bitcast {self.mask} {mask} to {self.bits}")
            lines.do(f"store {self.bits} {packed}, ptr {self._bits_at(chunk, k)}, align 1")

    def join(self, chunk: str) -> None:
        """Write a vector of bytes from their bits in the planes."""
        lines = self.lines
        x = "zeroinitializer"
        for k in range(self.count):
            packed = lines.let(f"load {self.bits}, ptr {self._bits_at(chunk, k)}, align 1")
            mask = lines.let(f"bitcast {self.bits} {packed} to {self.mask}")
            value = f"splat (i8 {_byte(1 << k)})"
            bit = lines.let(f"select {self.mask} {mask}, {self.type} {value}, {self.type} zeroinitializer")
            x = lines.let(f"or {self.type} {x}, {bit}")
        lines.do(f"store {self.type} {self._reversed(x)}, ptr {self._bytes_at(chunk)}, align 1")

    def _reversed(self, x: str) -> str:
        return self.lines.shuffle(self.type, (lane ^ (BITS_PER_BYTE - 1) for lane in range(self.width)), x)

    def _bytes_at(self, chunk: str) -> str:
        return element(self.lines, self.octets, self.lines.let(f"mul i64 {chunk}, {self.width}"), "i8")

    def _bits_at(self, chunk: str, k: int) -> str:
        lines = self.lines
        start = lines.let(f"mul i64 {self.stride}, {k}")
        offset = lines.let(f"mul i64 {chunk}, {self.width // BITS_PER_BYTE}")
        return element(lines, self.planes, lines.let(f"add i64 {start}, {offset}"), "i8")


def _byte(value: int) -> int:
    """Return a byte as LLVM writes it, signed."""
    return value - 256 if value > 127 else value
