"""Functions of one byte: what each of the 256 becomes is computed by the definition, and every byte looked up."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tazza.codegen.block import BlockLaunch, Constant
from tazza.codegen.emit import Lines
from tazza.codegen.fields import Fields
from tazza.codegen.kernel import threads_of
from tazza.codegen.loop import count_loop, share
from tazza.codegen.rows import element
from tazza.engines.native import SOURCES
from tazza.operator import Array, Launch

BLOCK = Fields("threads size", addresses="X Y table")
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
    at = BLOCK.read(lines)
    begin, end = share(lines, at.size, UNIT)
    X, Y, table = at.X, at.Y, at.table

    def each(i: str) -> None:
        q = lines.let(f"load i8, ptr {element(lines, X, i, 'i8')}")
        found = lines.let(f"load i8, ptr {element(lines, table, lines.let(f'zext i8 {q} to i64'), 'i8')}")
        lines.do(f"store i8 {found}, ptr {element(lines, Y, i, 'i8')}")

    count_loop(lines, begin, end, each)
