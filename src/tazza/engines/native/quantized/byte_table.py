"""Functions of one byte: what each of the 256 becomes is computed by the definition, and every byte looked up."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tazza.codegen.block import BlockLaunch, Constant
from tazza.codegen.fields import Fields
from tazza.codegen.kernel import threads_of
from tazza.codegen.loop import count_loop, share
from tazza.codegen.term import Lines, Term
from tazza.engines.native import SOURCES
from tazza.operator import Array, Launch

BLOCK = Fields("threads size", addresses="X:i8 Y:i8 table:i8")
UNIT = 64
"""Borders between threads lie at multiples of this many bytes."""
LOOKUP_FLOPS = 5


def table_launch(define: Callable[[Array, Array], None], size: int) -> Launch:
    """Return what writes to Y the table's entry for each of the `size` bytes of X, which may be the same memory.

    `define` writes to its second argument what the bytes of the first become.
    """
    octets = np.arange(256, dtype=np.uint8)
    table = np.empty_like(octets)
    define(octets, table)
    words = BLOCK.words(threads=threads_of(size, LOOKUP_FLOPS, 2), size=size, table=Constant(table.tobytes()))
    return BlockLaunch(SOURCES.compiled("table of bytes", _look_up), words)


def _look_up(lines: Lines) -> None:
    at = BLOCK.lazily(lines)
    begin, end = share(lines, at.size, UNIT)
    X, Y, table = at.X, at.Y, at.table

    def each(i: Term) -> None:
        Y[i] = table[X[i].to_unsigned("i64")]

    count_loop(lines, begin, end, each)
