"""Updates of rows that indices pick: each is read and written once, by the formulas that the whole parameter has.

A thread takes the indices of the rows that are its own, in their order: no row is written by two, and what stands there
several times is updated as often, one time after the other. Which rows are whose follows from the last bits of their
numbers, for the first rows of a table are often the ones that are asked for most.

Fused updates read the gradient of what was made of each segment of rows, where the others read one of each row.

Before a thread writes, it has looked at all indices and lengths: a wrong one leaves everything as it was.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from tazza.codegen.block import BlockLaunch, Slot, accepts_rows_but
from tazza.codegen.emit import Lines
from tazza.codegen.fields import Fields
from tazza.codegen.kernel import threads_of
from tazza.codegen.loop import count_loop, each_vector, lane_sums, lanes_of, step_loop
from tazza.codegen.row_update import Update, formulas_for, row_updates, update_of
from tazza.codegen.rows import (
    ROWS,
    ask_ahead,
    element,
    finish_status,
    first_lane,
    index_at,
    row_at,
    stop_if,
    when,
)
from tazza.codegen.vector import Emission
from tazza.engines.native import SOURCES, native
from tazza.operator import Expression, Launch, Operands, OpView, Unsupported
from tazza.operator.in_place import overwritten
from tazza.ops.sparse.segment import check_rows, starts_of
from tazza.tensor import DataType, TensorSpec

FLOAT = DataType.FLOAT
HEAD = Fields("table segments", addresses="indices", after=ROWS)
"""N = K indices, D elements of a row, rows of the table, segments; the blobs of the update come after them."""
SHARES = 64
"""Parts of a table, by the last bits of row numbers, of which each thread has some."""
AHEAD = 8
"""How many indices before its turn a row is asked for."""


class _Writer:
    """The words of a kernel's block, and how a row is updated."""

    def __init__(self, lines: Lines, update: Update) -> None:
        self.lines, self.update, self.v = lines, update, lanes_of(lines)
        at, blobs = HEAD.load(lines), Fields(addresses=" ".join(update.letters))
        self.count, self.width, self.table, self.segments = at.N, at.D, at.table, at.segments
        self.indices, self.at = at.indices, blobs.load(lines, len(HEAD))
        self.scalars = {name: self.v.load_one(self.at[name]) for name in update.scalars}
        self.scalars |= update.shared.write(self.v, len(HEAD) + len(blobs))

    def index(self, k: str) -> str:
        """Return the row that index k picks."""
        return index_at(self.lines, self.indices, k, self.update.index_bits)

    def look(self, k: str) -> None:
        """Leave a status and all that follows, where index k is that of no row."""
        stop_if(self.lines, self.lines.let(f"icmp uge i64 {self.index(k)}, {self.table}"))  # unsigned: -1 is too large

    def look_at_lengths(self) -> None:
        """Leave a status and all that follows, where lengths are not those of K indices."""
        lines = self.lines

        def add(m: str, sums: Sequence[str]) -> list[str]:
            length = self._length(m)
            stop_if(lines, lines.let(f"icmp ugt i64 {length}, {lines.let(f'sub i64 {self.count}, {sums[0]}')}"))
            return [lines.let(f"add i64 {sums[0]}, {length}")]

        _, (end,) = step_loop(lines, "i64", ("0", self.segments, 1), ["0"], add)
        stop_if(lines, lines.let(f"icmp ne i64 {end}, {self.count}"))

    def _length(self, m: str) -> str:
        """Return the length of segment m; a negative one becomes very large."""
        return index_at(self.lines, self.at["LENGTHS"], m, 32)

    def _begins(self, k: str) -> Iterable[str]:
        """Yield the addresses of all rows that index k picks, right or wrong."""
        row = self.index(k)
        for letter in (letter for letter in self.update.kept if letter not in self.update.one):
            yield row_at(self.lines, self.at[letter], row, self.width)

    def is_own(self, row: str) -> str:
        """Return whether this thread is the one that updates a row."""
        lines = self.lines
        share = lines.let(f"mul i64 {lines.let(f'and i64 {row}, {SHARES - 1}')}, %many")
        return lines.let(f"icmp eq i64 {lines.let(f'udiv i64 {share}, {SHARES}')}, %who")

    def each(self, k: str, source: str, more: Mapping[str, str]) -> None:
        """Update the row of index k, if it is this thread's, by row `source` of what has one for each index."""
        ask_ahead(self.lines, (k, AHEAD, self.count), self._begins, write=True)
        row = self.index(k)
        when(self.lines, self.is_own(row), lambda: self._update(source, row, {**self.scalars, **more}))

    def segment(self, m: str, begin: str) -> str:
        """Update the rows of a segment; return where the next one begins."""
        lines = self.lines
        length = self._length(m)
        end = lines.let(f"add i64 {begin}, {length}")
        n = self.v.splat(lines.let(f"uitofp i64 {length} to float"))
        count_loop(lines, begin, end, lambda k: self.each(k, m, {"n": n}))
        return end

    def _update(self, k: str, row: str, values: dict[str, str]) -> None:
        """The mean over the elements; then what the row has one of; then its elements."""
        lines, v, update, formulas = self.lines, self.v, self.update, self.update.formulas
        if formulas.mean is not None:
            values["mean"] = self._mean(formulas.mean, k, row, values)
        for letter in sorted(update.one):
            values[letter] = v.load_one(element(lines, self.at[letter], row))
        for letter, expression in formulas.row.items():
            values[letter] = Emission(v, values).write(expression)
            lines.do(f"store float {first_lane(v, values[letter])}, ptr {element(lines, self.at[letter], row)}")

        def elements(i: str, mask: str | None) -> None:
            emission = Emission(v, values | self._loaded(formulas.each.values(), (k, row), i, mask))
            results = {letter: emission.write(expression) for letter, expression in formulas.each.items()}
            for letter, result in results.items():
                v.store(result, self._start(letter, k, row), i, mask)

        each_vector(v, "0", self.width, elements)

    def _start(self, letter: str, k: str, row: str) -> str:
        return row_at(self.lines, self.at[letter], k if letter in self.update.by_index else row, self.width)

    def _loaded(self, read: Iterable[Expression], at: tuple[str, str], i: str, mask: str | None) -> dict[str, str]:
        names = {name for expression in read for name in expression.names}
        moving = names & ({*self.update.kept, *self.update.by_index} - self.update.one)
        return {name: self.v.load(self._start(name, *at), i, mask) for name in sorted(moving)}

    def _mean(self, expression: Expression, k: str, row: str, values: Mapping[str, str]) -> str:
        lines, v = self.lines, self.v

        def term(i: str, mask: str | None) -> str:
            return Emission(v, {**values, **self._loaded([expression], (k, row), i, mask)}).write(expression)

        total = v.splat(v.sum(lane_sums(v, "0", self.width, term)))
        elements = lines.most(self.width, "1")  # of none the mean is 0
        return v.div(total, v.splat(lines.let(f"uitofp i64 {elements} to float")))


def write_update(lines: Lines, update: Update) -> None:
    """Write the look at all indices, and then the updates."""
    writer = _Writer(lines, update)
    if update.segmented:
        writer.look_at_lengths()
    count_loop(lines, "0", writer.count, writer.look)
    if update.segmented:
        steps = ("0", writer.segments, 1)
        step_loop(lines, "i64", steps, ["0"], lambda m, begin: [writer.segment(m, next(iter(begin)))])
    else:
        count_loop(lines, "0", writer.count, lambda k: writer.each(k, k, {}))


def prepare_update(op: OpView, specs: dict[str, TensorSpec]) -> Launch | Unsupported:
    """Compile the update of a row."""
    formulas = formulas_for(op, [specs[letter] for letter in op.input_letters], FORMULAS[op.type])
    if isinstance(formulas, Unsupported):
        return formulas
    update = update_of(op, formulas, specs)
    indices, W = specs["indices"], specs["W"]
    K, width, R = indices.size, math.prod(W.shape[1:]), W.shape[0]
    S, segmented = specs["LENGTHS"].size if update.segmented else 0, update.segmented
    address = SOURCES.compiled(f"rows: {update}", lambda lines: write_update(lines, update), finish_status)
    flops = width * sum(expression.flops for expression in formulas.each.values())
    threads = threads_of(K, flops, 4.0 * width * (2 * len(update.kept) + len(update.by_index)))

    def check(operands: Operands) -> None:
        check_rows(op, operands["indices"].array.reshape(-1), R, "indices")
        if segmented:
            starts_of(op, "LENGTHS", operands["LENGTHS"].array, K, "indices")

    head = HEAD.words(threads=threads, N=K, D=width, table=R, segments=S)
    return BlockLaunch(address, (*head, *map(Slot, update.letters), *update.shared.words), check=check)


FORMULAS = {made.type: formulas for made, formulas in row_updates()}
"""Type of an operator -> what gives its formulas."""
for _made, _ in row_updates():
    native(_made, accepts=accepts_rows_but(overwritten(_made)))(prepare_update)
