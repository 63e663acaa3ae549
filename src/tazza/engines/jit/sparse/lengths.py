"""Reductions of segments and their gradients: rows are added up in registers, segments are shared by threads.

A thread adds up the lengths before its first segment, looks at each length and index before it reads with it, and
leaves the number of the first segment that is wrong as status; what is wrong is then said in Python.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

from tazza.device import Context
from tazza.engines.jit.block import BlockLaunch, Slot, accepts_rows
from tazza.engines.jit.emit import Lanes, Lines
from tazza.engines.jit.loop import KINDS, compiled, count_loop, lanes_of, load, store, threads_for
from tazza.engines.jit.loop import carry_loop as carry_vectors
from tazza.engines.jit.rows import FIRST, STATUS, D, N, element, finish_status, row_at
from tazza.engines.jit.sparse_product import TILE, carry_loop, tiles
from tazza.operator import Launch, Operands, OpSchema, OpView, SizedLaunch, Spec, launcher
from tazza.ops.sparse.lengths import (
    bare_gradients,
    lengths_reductions,
    row_count,
    sparse_lengths_reductions,
    told_gradients,
)
from tazza.ops.sparse.segment import check_rows, starts_of
from tazza.runtime.threads import thread_count
from tazza.tensor import DataType, TensorSpec

Preparation: TypeAlias = "Callable[[OpView, Context, Sequence[Spec], Sequence[Spec]], Launch]"

FLOAT = DataType.FLOAT
ROWS, TABLE, LENGTHS, FROM, TO, PICKS = range(FIRST, FIRST + 6)
"""Words behind N = M segments, D elements of a row and the status: rows of segments, rows of the table, pointers."""


@dataclass(frozen=True, slots=True)
class Code:
    """What a reducer becomes on vectors: where it starts, how a row joins, what is made of the end.

    `spread` gives the gradient of a row, of that of its segment.
    """

    start: Callable[[Lanes], str]
    join: Callable[[Lanes, str, str], str]
    spread: Callable[[Lanes, str], str]


CODES: Mapping[str, Code] = {"Sum": Code(lambda v: v.constant(0.0), lambda v, y, x: v.add(y, x), lambda v, dy: dy)}
"""Reducer -> its code; other reducers are left to the reference."""


@dataclass(frozen=True, slots=True)
class _Segments:
    """The words of a kernel's block, and the vectors that it computes with."""

    v: Lanes
    count: str
    width: str
    rows: str
    table: str
    lengths: str

    @classmethod
    def load(cls, lines: Lines) -> _Segments:
        count, width, rows, table = (lines.load_word("%block", word) for word in (N, D, ROWS, TABLE))
        return cls(lanes_of(lines), count, width, rows, table, lines.load_pointer("%block", LENGTHS))

    def length(self, m: str) -> str:
        """Return how many rows segment m takes; a negative length becomes a very large one."""
        lines = self.v.lines
        found = lines.let(f"load i32, ptr {element(lines, self.lengths, m, 'i32')}")
        return lines.let(f"sext i32 {found} to i64")

    def each(self, body: Callable[[str, str, str], None]) -> None:
        """Run `body(m, begin, end)` for the segments of this thread; stop at one that is wrong."""
        lines = self.v.lines
        borders = [
            lines.let(f"udiv i64 {lines.let(f'mul i64 {self.count}, {who}')}, %many")
            for who in ("%who", lines.let("add i64 %who, 1"))
        ]

        def skip(m: str, before: Sequence[str]) -> Sequence[str]:
            return (self._end(m, before[0]),)

        def segment(m: str, before: Sequence[str]) -> Sequence[str]:
            end = self._end(m, before[0])
            body(m, before[0], end)
            return (end,)

        _, (begin,) = carry_loop(lines, "i64", ("0", borders[0], 1), ["0"], skip)
        _, (end,) = carry_loop(lines, "i64", (borders[0], borders[1], 1), [begin], segment)
        is_last = lines.let(f"icmp eq i64 {borders[1]}, {self.count}")
        is_short = lines.let(f"icmp ne i64 {end}, {self.rows}")
        stop_at(lines, lines.let(f"and i1 {is_last}, {is_short}"), self.count)

    def _end(self, m: str, begin: str) -> str:
        lines = self.v.lines
        length = self.length(m)
        left = lines.let(f"sub i64 {self.rows}, {begin}")
        stop_at(lines, lines.let(f"icmp ugt i64 {length}, {left}"), m)
        return lines.let(f"add i64 {begin}, {length}")


def stop_at(lines: Lines, wrong: str, m: str) -> None:
    """End this thread's work with the number of a segment, from 1, as status if the condition holds."""
    stop, onward = lines.fresh("stop"), lines.fresh("onward")
    lines.do(f"br i1 {wrong}, label %{stop}, label %{onward}, !prof !0")
    lines.label(stop)
    number = lines.let(f"add i64 {m}, 1")
    lines.do(f"store i64 {number}, ptr {element(lines, '%block', str(STATUS), 'i64')}")
    lines.do("ret void")
    lines.label(onward)


# -- forward -----------------------------------------------------------------------------------------------------------


def write_reduction(lines: Lines, code: Code, dtype: DataType, index_bits: int) -> None:
    """Write Y[m] = the rows of segment m joined; they are picked by indices of so many bits, or taken in turn (0)."""
    s = _Segments.load(lines)
    v = s.v
    source, target = (lines.load_pointer("%block", word) for word in (FROM, TO))
    picks = lines.load_pointer("%block", PICKS) if index_bits else ""

    def picked(i: str) -> str:
        if not index_bits:
            return i
        kind = f"i{index_bits}"
        found = lines.let(f"load {kind}, ptr {element(lines, picks, i, kind)}")
        return found if index_bits == 64 else lines.let(f"sext {kind} {found} to i64")

    def segment(m: str, begin: str, end: str) -> None:
        if index_bits:
            count_loop(
                lines, begin, end, lambda i: stop_at(lines, lines.let(f"icmp uge i64 {picked(i)}, {s.table}"), m)
            )
        y = row_at(lines, target, m, s.width)

        def tile(n: str, vectors: int, mask: str | None) -> None:
            def join(i: str, sums: Sequence[str]) -> Sequence[str]:
                offset = lines.let(f"add i64 {lines.let(f'mul i64 {picked(i)}, {s.width}')}, {n}")
                x = element(lines, source, offset, KINDS[dtype])
                loaded = (load(v, dtype, x, str(q * v.count), mask) for q in range(vectors))
                return [code.join(v, y, one) for y, one in zip(sums, loaded, strict=True)]

            for q, result in enumerate(carry_vectors(v, begin, end, [code.start(v)] * vectors, join)):
                store(v, FLOAT, result, element(lines, y, n), str(q * v.count), mask)

        tiles(v, "0", s.width, TILE, tile)

    s.each(segment)


def _prepare_reduction(name: str, op: OpView, inputs: Sequence[Spec], *, sparse: bool) -> Launch:
    DATA, *others = (cast("TensorSpec", spec) for spec in inputs)
    LENGTHS = others[-1]
    bits = 8 * others[0].dtype.itemsize if sparse else 0
    rows, table = (others[0].size if sparse else DATA.shape[0]), DATA.shape[0]
    width = math.prod(DATA.shape[1:])
    address = compiled(
        f"lengths {name}: {DATA.dtype}, {bits}-bit indices",
        lambda lines: write_reduction(lines, CODES[name], DATA.dtype, bits),
        finish_status,
    )
    threads = threads_for(thread_count(), rows + LENGTHS.size, width, 4 * width)
    words = (threads, LENGTHS.size, width, 0, rows, table, Slot("LENGTHS"), Slot("DATA"), Slot("Y"))

    def check(operands: Operands) -> None:
        starts_of(op, operands["LENGTHS"].array, rows, "INDICES" if sparse else "rows of DATA")
        if sparse:
            check_rows(op, operands["INDICES"].array, table)

    return BlockLaunch(address, (*words, *((Slot("INDICES"),) if sparse else ())), check=check)


# -- backward ----------------------------------------------------------------------------------------------------------


def write_spread(lines: Lines, code: Code) -> None:
    """Write dX[n] = what each row n of segment m gets of dY[m]."""
    s = _Segments.load(lines)
    v = s.v
    source, target = (lines.load_pointer("%block", word) for word in (FROM, TO))

    def segment(m: str, begin: str, end: str) -> None:
        dy = row_at(lines, source, m, s.width)

        def tile(n: str, vectors: int, mask: str | None) -> None:
            given = [load(v, FLOAT, element(lines, dy, n), str(q * v.count), mask) for q in range(vectors)]
            parts = [code.spread(v, one) for one in given]

            def row(i: str) -> None:
                at = element(lines, row_at(lines, target, i, s.width), n)
                for q, part in enumerate(parts):
                    store(v, FLOAT, part, at, str(q * v.count), mask)

            count_loop(lines, begin, end, row)

        tiles(v, "0", s.width, TILE, tile)

    s.each(segment)


def _spread_launch(name: str, op: OpView, dY: TensorSpec, rows: int, noun: str) -> BlockLaunch:
    count = dY.shape[0]
    width = math.prod(dY.shape[1:])
    address = compiled(f"lengths {name} gradient", lambda lines: write_spread(lines, CODES[name]), finish_status)
    threads = threads_for(thread_count(), rows, 1, 4 * width)

    def check(operands: Operands) -> None:
        starts_of(op, operands["LENGTHS"].array, rows, noun)

    words = (threads, count, width, 0, rows, rows, Slot("LENGTHS"), Slot("dY"), Slot("dX"))
    return BlockLaunch(address, words, check=check)


def _told(reducer: str) -> Preparation:
    def told(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launch:
        del context
        noun = "INDICES" if op.has_input("INDICES") else "rows of DATA"
        rows = cast("TensorSpec", outputs[0]).shape[0]
        return _spread_launch(reducer, op, cast("TensorSpec", inputs[0]), rows, noun)

    return told


def _bare(reducer: str) -> Preparation:
    def bare(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launch:
        del context, outputs
        dY = cast("TensorSpec", inputs[0])
        return SizedLaunch(
            lambda operands: {"dX": (row_count(op, operands["LENGTHS"].array), *dY.shape[1:])},
            lambda sizes: _spread_launch(reducer, op, dY, sizes["dX"][0], "rows"),
            {"dX": FLOAT},
        )

    return bare


def _reduction(reducer: str, *, sparse: bool) -> Preparation:
    def reduction(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launch:
        del context, outputs
        return _prepare_reduction(reducer, op, inputs, sparse=sparse)

    return reduction


def _register(schema: OpSchema, prepare: Preparation) -> None:
    launcher(schema, engine="jit", accepts=accepts_rows)(prepare)


for _type, _reducer in lengths_reductions.rows.items():
    if _reducer.name in CODES:
        _register(lengths_reductions[_type], _reduction(_reducer.name, sparse=False))
for _type, _reducer in sparse_lengths_reductions.rows.items():
    if _reducer.name in CODES:
        _register(sparse_lengths_reductions[_type], _reduction(_reducer.name, sparse=True))
for _type, _row in told_gradients.rows.items():
    if _row.reducer.name in CODES:
        _register(told_gradients[_type], _told(_row.reducer.name))
for _type, _reducer in bare_gradients.rows.items():
    if _reducer.name in CODES:
        _register(bare_gradients[_type], _bare(_reducer.name))
