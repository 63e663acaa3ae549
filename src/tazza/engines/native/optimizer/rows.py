"""Updates of rows that indices pick: each is read and written once, by the formulas that the whole parameter has.

A thread takes the indices of the rows that are its own, in their order: no row is written by two, and what stands there
several times is updated as often, one time after the other. Which rows are whose follows from the last bits of their
numbers, for the first rows of a table are often the ones that are asked for most.

Fused updates read the gradient of what was made of each segment of rows, where the others read one of each row.

Before a thread writes, it has looked at all indices and lengths: a wrong one leaves everything as it was.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from tazza.codegen.block import BlockLaunch, Slot, accepts_rows_but
from tazza.codegen.fields import Fields
from tazza.codegen.function import Emission
from tazza.codegen.kernel import threads_of
from tazza.codegen.loop import count_loop, each_vector, fold_loop, lane_sums, lanes_of, when
from tazza.codegen.row_update import Update, formulas_for, row_updates, update_of
from tazza.codegen.rows import ROWS, ask_ahead, finish_status, index_at, stop_if
from tazza.codegen.term import Lines, Term
from tazza.engines.native import SOURCES, native
from tazza.operator import Expression, Launch, Operands, OpView
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
        at, blobs = HEAD.loaded(lines), Fields(addresses=" ".join(update.letters))
        self.count, self.width, self.table, self.segments = at.N, at.D, at.table, at.segments
        self.indices, self.at = at.indices, blobs.loaded(lines, len(HEAD))
        self.scalars = {name: self.v.load_one(self.at[name]) for name in update.scalars}
        self.scalars |= update.shared.write(self.v, len(HEAD) + len(blobs))

    def index(self, k: Term) -> Term:
        """Return the row that index k picks."""
        return index_at(self.indices, k, self.update.index_bits)

    def look(self, k: Term) -> None:
        """Leave a status and all that follows, where index k is that of no row."""
        stop_if(self.index(k).outside(self.table))  # unsigned: -1 is too large

    def look_at_lengths(self) -> None:
        """Leave a status and all that follows, where lengths are not those of K indices."""

        def add(m: Term, before: Term) -> Term:
            length = self._length(m)
            stop_if(length.compare("ugt", self.count - before))
            return before + length

        stop_if(fold_loop(0, self.segments, self.lines.number(0), add).differs(self.count))

    def _length(self, m: Term) -> Term:
        """Return the length of segment m; a negative one becomes very large."""
        return index_at(self.at["LENGTHS"], m, 32)

    def _begins(self, k: Term) -> Iterable[Term]:
        """Yield the addresses of all rows that index k picks, right or wrong."""
        row = self.index(k)
        yield from (self.at[one].at(row * self.width) for one in self.update.kept if one not in self.update.one)

    def is_own(self, row: Term) -> Term:
        """Return whether this thread is the one that updates a row."""
        return ((row & (SHARES - 1)) * self.lines.many // SHARES).equals(self.lines.who)

    def each(self, k: Term, source: Term, more: Mapping[str, Term]) -> None:
        """Update the row of index k, if it is this thread's, by row `source` of what has one for each index."""
        ask_ahead((k, AHEAD, self.count), self._begins, write=True)
        row = self.index(k)
        when(self.is_own(row), lambda: self._update(source, row, {**self.scalars, **more}))

    def segment(self, m: Term, begin: Term) -> Term:
        """Update the rows of a segment; return where the next one begins."""
        length = self._length(m)
        end = begin + length
        n = self.v.full(length.to_unsigned("float"))
        count_loop(self.lines, begin, end, lambda k: self.each(k, m, {"n": n}))
        return end

    def _update(self, k: Term, row: Term, values: dict[str, Term]) -> None:
        """The mean over the elements; then what the row has one of; then its elements."""
        v, update, formulas = self.v, self.update, self.update.formulas
        if formulas.mean is not None:
            values["mean"] = self._mean(formulas.mean, k, row, values)
        for letter in sorted(update.one):
            values[letter] = v.load_one(self.at[letter].at(row))
        for letter, expression in formulas.row.items():
            values[letter] = Emission(v, values).write(expression)
            self.at[letter][row] = values[letter].lane(0)

        def elements(i: Term, mask: Term | None) -> None:
            emission = Emission(v, values | self._loaded(formulas.each.values(), (k, row), i, mask))
            results = {letter: emission.write(expression) for letter, expression in formulas.each.items()}
            for letter, result in results.items():
                v.store(result, self._start(letter, k, row), i, mask)

        each_vector(v, 0, self.width, elements)

    def _start(self, letter: str, k: Term, row: Term) -> Term:
        return self.at[letter].at((k if letter in self.update.by_index else row) * self.width)

    def _loaded(self, read: Iterable[Expression], at: tuple[Term, Term], i: Term, mask: Term | None) -> dict[str, Term]:
        names = {name for expression in read for name in expression.names}
        moving = names & ({*self.update.kept, *self.update.by_index} - self.update.one)
        return {name: self.v.load(self._start(name, *at), i, mask) for name in sorted(moving)}

    def _mean(self, expression: Expression, k: Term, row: Term, values: Mapping[str, Term]) -> Term:
        v = self.v

        def term(i: Term, mask: Term | None) -> Term:
            return Emission(v, {**values, **self._loaded([expression], (k, row), i, mask)}).write(expression)

        total = v.full(lane_sums(v, 0, self.width, term).sum())
        elements = self.width.at_least(1)  # of none the mean is 0
        return total / v.full(elements.to_unsigned("float"))


def write_update(lines: Lines, update: Update) -> None:
    """Write the look at all indices, and then the updates."""
    writer = _Writer(lines, update)
    if update.segmented:
        writer.look_at_lengths()
    count_loop(lines, 0, writer.count, writer.look)
    if update.segmented:
        fold_loop(0, writer.segments, lines.number(0), writer.segment)
    else:
        count_loop(lines, 0, writer.count, lambda k: writer.each(k, k, {}))


def prepare_update(op: OpView, specs: dict[str, TensorSpec]) -> Launch:
    """Compile the update of a row."""
    formulas = formulas_for(op, [specs[letter] for letter in op.input_letters], FORMULAS[op.type])
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
