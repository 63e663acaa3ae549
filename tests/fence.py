"""Memory between pages that nobody may touch: who reads or writes outside of what there is ends the process at once."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np

from tazza.device import Context
from tazza.tensor import Allocation, Allocator, CPUPlace
from tazza.tensor.allocation import ALIGNMENT, Taken, using_allocator
from tests.judge.hand import Array

MARK = 0xA5
"""What the bytes between a span and the page behind it hold."""

MOST_BYTES = 1 << 28
"""What a span has at most."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def guarded(nbytes: int, *, at_end: bool, alignment: int) -> tuple[mmap.mmap, int]:
    """Return a mapping, and the offset of so many bytes in it, whose pages before and behind cannot be touched.

    The bytes begin behind the first of these pages, or end before the last one, up to their alignment.
    """
    page = mmap.PAGESIZE
    size = -(-max(nbytes, 1) // page) * page
    made = mmap.mmap(-1, size + 2 * page)
    base = ctypes.addressof(ctypes.c_char.from_buffer(made))
    for start in (base, base + page + size):
        assert _libc.mprotect(start, page, 0) == 0, ctypes.get_errno()
    return made, page + ((size - nbytes) // alignment * alignment if at_end else 0)


class Guarded(Allocator):
    """Spans between pages that cannot be touched; what lies between a span and the page behind it is marked."""

    def __init__(self, *, at_end: bool) -> None:
        """Put spans before the page behind them, or behind the page before them."""
        super().__init__(CPUPlace())
        self.at_end = at_end
        self.spans: list[tuple[Array, int, int]] = []

    def _take(self, nbytes: int) -> Taken | None:
        if nbytes > MOST_BYTES:  # a wrong index may well be a wrong size
            return None
        made, offset = guarded(nbytes, at_end=self.at_end, alignment=ALIGNMENT)
        whole = np.frombuffer(made, np.uint8)
        whole[mmap.PAGESIZE : -mmap.PAGESIZE] = MARK
        self.spans.append((whole, offset, nbytes))
        address = ctypes.addressof(ctypes.c_char.from_buffer(made)) + offset
        return whole, address, whole[offset : offset + nbytes], None

    def _give(self, address: int, nbytes: int, block: Any) -> None:
        del address, nbytes, block

    def written_beside(self) -> bool:
        """Whether anybody wrote between a span and the pages around it."""
        page = mmap.PAGESIZE
        return any(
            (whole[page:offset] != MARK).any() or (whole[offset + nbytes : -page] != MARK).any()
            for whole, offset, nbytes in self.spans
        )


@contextmanager
def fenced(*, at_end: bool) -> Generator[None]:
    """Let tensors and the scratch memory of this thread lie between such pages while the block runs.

    Raises:
        AssertionError: something was written between them and the pages.
    """
    memory = Guarded(at_end=at_end)

    def scratch(self: Context, nbytes: int) -> Allocation:
        del self
        return memory.allocate(nbytes, "scratch")

    with using_allocator(memory), mock.patch.object(Context, "scratch", scratch):
        yield
    assert not memory.written_beside(), "it wrote beside what it allocated"


def between_pages(array: Array, *, at_end: bool) -> Array:
    """Return a copy in memory of its own."""
    made, offset = guarded(array.nbytes, at_end=at_end, alignment=array.itemsize)
    copy = np.frombuffer(made, array.dtype, array.size, offset).reshape(array.shape)
    copy[...] = array
    return copy
