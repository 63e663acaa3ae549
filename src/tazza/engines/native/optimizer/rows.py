"""Updates of rows that indices pick: each is read and written once, by the formulas that the whole parameter has.

A thread takes the indices of the rows that are its own, in their order: no row is written by two, and what stands there
several times is updated as often, one time after the other. Which rows are whose follows from the last bits of their
numbers, for the first rows of a table are often the ones that are asked for most.

Before a thread writes, it has looked at all indices: a wrong one leaves everything as it was.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from tazza.codegen.block import BlockLaunch, Slot, accepts_rows
from tazza.codegen.emit import Lines
from tazza.codegen.kernel import threads_for
from tazza.codegen.loop import count_loop, lanes_of, load, load_one, store, sweep
from tazza.codegen.rows import FIRST, STATUS, D, N, element, finish_status, first_lane, row_at, when
from tazza.codegen.vector import Emission
from tazza.device import Context
from tazza.engines.native import SOURCES
from tazza.operator import Expression, Launch, OpSchema, OpView, Spec, Unsupported, launcher
from tazza.ops.optimizer.adadelta import SPARSE_ADADELTA
from tazza.ops.optimizer.adagrad import SPARSE_ADAGRAD
from tazza.ops.optimizer.momentum_sgd import SPARSE_MOMENTUM_SGD_UPDATE
from tazza.ops.optimizer.row_wise import ADAGRAD as ROW_WISE_ADAGRAD
from tazza.ops.optimizer.row_wise import row_wise_formulas
from tazza.ops.optimizer.rows import RowFormulas, row_formulas
from tazza.ops.sparse.segment import check_rows
from tazza.runtime.threads import thread_count
from tazza.tensor import DataType, TensorSpec

FLOAT = DataType.FLOAT
TABLE, POINTER = FIRST, FIRST + 1
"""Words behind N = K indices, D elements of a row and the status: rows of the table, then addresses."""
SHARES = 64
"""Parts of a table, by the last bits of row numbers, of which each thread has some."""
AHEAD, LINE_BYTES, LINES_AHEAD = 8, 64, 4
"""How many indices before its turn a row is asked for, and how much of it."""


@dataclass(frozen=True, slots=True)
class Update:
    """What a kernel is written from.

    Attributes:
        formulas: what becomes of a row.
        kept: input letters with the rows of the table -> the outputs that overwrite them.
        one: of these, those that have one number for each row.
        by_index: letters, inputs and outputs, with a row for each index.
        scalars: input letters of one element.
        index_bits: of an index.
    """

    formulas: RowFormulas
    kept: Mapping[str, str]
    one: frozenset[str]
    by_index: frozenset[str]
    scalars: tuple[str, ...]
    index_bits: int

    @property
    def letters(self) -> tuple[str, ...]:
        """Whose addresses stand in the block, behind that of the indices."""
        return (*self.kept, *self.kept.values(), *sorted(self.by_index), *self.scalars)

    def __str__(self) -> str:
        """Return what tells it apart from other kernels."""
        f = self.formulas
        mean = "" if f.mean is None else f.mean.text()
        texts = [f"{letter} = {one.text()}" for part in (f.row, f.each) for letter, one in part.items()]
        return f"{self.letters} {sorted(self.one)} {self.index_bits} mean {mean}; {'; '.join(texts)}"


class _Writer:
    """The words of a kernel's block, and how a row is updated."""

    def __init__(self, lines: Lines, update: Update) -> None:
        self.lines, self.update, self.v = lines, update, lanes_of(lines)
        self.count, self.width, self.table = (lines.load_word("%block", word) for word in (N, D, TABLE))
        self.indices = lines.load_pointer("%block", POINTER)
        self.at = {name: lines.load_pointer("%block", POINTER + 1 + n) for n, name in enumerate(update.letters)}
        self.scalars = {name: load_one(self.v, FLOAT, self.at[name]) for name in update.scalars}

    def index(self, k: str) -> str:
        """Return the row that index k picks."""
        kind = f"i{self.update.index_bits}"
        found = self.lines.let(f"load {kind}, ptr {element(self.lines, self.indices, k, kind)}")
        return found if kind == "i64" else self.lines.let(f"sext {kind} {found} to i64")

    def look(self, k: str) -> None:
        """Leave a status and all that follows, where index k is that of no row."""
        lines = self.lines
        wrong = lines.let(f"icmp uge i64 {self.index(k)}, {self.table}")  # unsigned: -1 is too large
        stop, onward = lines.fresh("stop"), lines.fresh("onward")
        lines.do(f"br i1 {wrong}, label %{stop}, label %{onward}, !prof !0")
        lines.label(stop)
        lines.do(f"store i64 1, ptr {element(lines, '%block', str(STATUS), 'i64')}")
        lines.do("ret void")
        lines.label(onward)

    def ask(self, k: str) -> None:
        """Ask for the row of an index that is about to come."""
        lines = self.lines
        later, last = lines.let(f"add i64 {k}, {AHEAD}"), lines.let(f"sub i64 {self.count}, 1")
        lines.declare("i64 @llvm.smin.i64(i64, i64)")
        row = self.index(lines.let(f"call i64 @llvm.smin.i64(i64 {later}, i64 {last})"))
        for letter in self.update.kept.keys() - self.update.one:
            start = row_at(lines, self.at[letter], row, self.width)
            for line in range(LINES_AHEAD):
                lines.prefetch(start, line * LINE_BYTES, write=True)

    def is_own(self, row: str) -> str:
        """Return whether this thread is the one that updates a row."""
        lines = self.lines
        share = lines.let(f"mul i64 {lines.let(f'and i64 {row}, {SHARES - 1}')}, %many")
        return lines.let(f"icmp eq i64 {lines.let(f'udiv i64 {share}, {SHARES}')}, %who")

    def each(self, k: str) -> None:
        """Update the row of index k, if it is this thread's."""
        self.ask(k)
        row = self.index(k)
        when(self.lines, self.is_own(row), lambda: self._update(k, row))

    def _update(self, k: str, row: str) -> None:
        """The mean over the elements; then what the row has one of; then its elements."""
        lines, v, update, formulas = self.lines, self.v, self.update, self.update.formulas
        known = dict(self.scalars)
        if formulas.mean is not None:
            known["mean"] = self._mean(formulas.mean, k, row)
        for letter in update.one:
            known[letter] = load_one(v, FLOAT, element(lines, self.at[letter], row))
        for letter, expression in formulas.row.items():
            known[letter] = Emission(v, known).write(expression)
            lines.do(f"store float {first_lane(v, known[letter])}, ptr {element(lines, self.at[letter], row)}")

        def elements(i: str, mask: str | None, carried: Sequence[str]) -> Sequence[str]:
            del carried
            emission = Emission(v, known | self._loaded(formulas.each.values(), (k, row), i, mask))
            results = {letter: emission.write(expression) for letter, expression in formulas.each.items()}
            for letter, result in results.items():
                store(v, FLOAT, result, self._start(letter, k, row), i, mask)
            return ()

        sweep(v, "0", self.width, elements)

    def _start(self, letter: str, k: str, row: str) -> str:
        return row_at(self.lines, self.at[letter], k if letter in self.update.by_index else row, self.width)

    def _loaded(self, read: Iterable[Expression], at: tuple[str, str], i: str, mask: str | None) -> dict[str, str]:
        names = {name for expression in read for name in expression.names}
        moving = names & ({*self.update.kept, *self.update.by_index} - self.update.one)
        return {name: load(self.v, FLOAT, self._start(name, *at), i, mask) for name in sorted(moving)}

    def _mean(self, expression: Expression, k: str, row: str) -> str:
        lines, v = self.lines, self.v

        def add(i: str, mask: str | None, carried: Sequence[str]) -> list[str]:
            term = Emission(v, self.scalars | self._loaded([expression], (k, row), i, mask)).write(expression)
            return [v.add(carried[0], term if mask is None else v.select(mask, term, v.constant(0.0)))]

        total = v.splat(v.sum(sweep(v, "0", self.width, add, (v.constant(0.0),))[0]))
        lines.declare("i64 @llvm.smax.i64(i64, i64)")
        elements = lines.let(f"call i64 @llvm.smax.i64(i64 {self.width}, i64 1)")  # of none the mean is 0
        return v.div(total, v.splat(lines.let(f"uitofp i64 {elements} to float")))


def write_update(lines: Lines, update: Update) -> None:
    """Write the look at all indices, and then the updates."""
    writer = _Writer(lines, update)
    count_loop(lines, "0", writer.count, writer.look)
    count_loop(lines, "0", writer.count, writer.each)


def rows_launch(op: OpView, formulas: RowFormulas, specs: Mapping[str, TensorSpec], kept: Mapping[str, str]) -> Launch:
    """Return the launch of an update; `specs` are those of all letters."""
    one = frozenset(letter for letter, out in kept.items() if out in formulas.row)
    scalars = tuple(letter for letter in op.input_letters if letter not in {*kept, "indices", "dW"})
    by_index = frozenset({"dW", *op.output_letters} - set(kept.values()))
    indices, W = specs["indices"], specs["W"]
    K, width, R = indices.size, math.prod(W.shape[1:]), W.shape[0]
    update = Update(formulas, kept, one, by_index, scalars, 8 * indices.dtype.itemsize)
    address = SOURCES.compiled(f"rows: {update}", lambda lines: write_update(lines, update), finish_status)
    flops = width * sum(expression.flops for expression in formulas.each.values())
    threads = threads_for(thread_count(), K, flops, 4.0 * width * (2 * len(kept) + len(by_index)))
    words = (threads, K, width, 0, R, Slot("indices"), *map(Slot, update.letters))
    return BlockLaunch(
        address, words, check=lambda operands: check_rows(op, operands["indices"].array.reshape(-1), R, "indices")
    )


def _register(made: OpSchema, formulas: Callable[[OpView], RowFormulas | None]) -> None:
    @launcher(made, engine="native", accepts=accepts_rows)
    def prepare(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launch | Unsupported:
        """Compile the update of a row."""
        del context
        found = formulas(op)
        if found is None:
            return Unsupported("an argument is NaN, which no formula can name")
        letters = (*op.input_letters, *op.output_letters)
        specs = dict(zip(letters, cast("list[TensorSpec]", [*inputs, *outputs]), strict=True))
        return rows_launch(op, found, specs, {str(over): out for out, (over,) in op.schema.must_in_place.items()})


for _made in (SPARSE_ADADELTA, SPARSE_ADAGRAD, SPARSE_MOMENTUM_SGD_UPDATE):
    _register(_made, row_formulas)
_register(ROW_WISE_ADAGRAD, row_wise_formulas)
