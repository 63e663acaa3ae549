"""Updates of rows that indices pick: a thread for each element of them, or for each row where a row has one number.

What stands in the indices several times is updated as often, one time after the other, by the thread of its first
occurrence. A wrong index is told, and nothing is done with it; other rows are updated all the same. Fused updates read
the gradient of what was made of each segment of rows: the segment of each index is found before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from tazza.codegen.block import Slot, Word
from tazza.codegen.function import Emission
from tazza.codegen.loop import count_loop, when
from tazza.codegen.row_update import Update, formulas_for, row_updates, update_of
from tazza.codegen.term import Term
from tazza.data_class import dataclass
from tazza.engines.cuda.launch import Brought, GridLaunch, Held
from tazza.engines.cuda.occurrence import Occurrences, each_occurrence
from tazza.engines.cuda.sparse.division import owners_bytes, owners_launch, owners_words
from tazza.engines.cuda.threads import Threads, each_launch
from tazza.engines.cuda.translated import addresses, translated
from tazza.operator import Expression, Launch, LaunchChain, OpSchema, OpView, Unsupported
from tazza.ops.optimizer.rows import RowFormulas
from tazza.ops.sparse.segment import BY_LENGTHS
from tazza.tensor import DataType, TensorSpec


@dataclass(frozen=True, slots=True)
class Updates:
    """Writes what a thread does of an update."""

    update: Update
    held: tuple[int, ...]
    """Which of the operands of shared numbers are those of the host, and stand in the block themselves."""

    @property
    def by_row(self) -> bool:
        """Whether a thread has a whole row."""
        return bool(self.update.formulas.row) or self.update.formulas.mean is not None

    def write(self, t: Threads, n: Term) -> None:
        """Update a row, or an element of it, once for each time that its index stands there."""
        k, d = (n, n) if self.by_row else t.split(n, t.w.width)
        update = self.update
        values = {letter: t.load(letter, 0) for letter in update.scalars}
        if update.shared.words:
            values |= update.shared.write(t.single, t.fields.place("shared0"), held=self.held)
        row = t.index("indices", k, update.index_bits)

        def once(source: Term, more: Mapping[str, Term]) -> None:
            if self.by_row:
                self._row(t, (source, row), {**values, **more})
            else:
                self._element(t, (source, row), d, {**values, **more})

        def of_segment(k: Term) -> None:
            owner = t.index("owner", k)

            def owned() -> None:
                length = t.index("starts", owner + 1) - t.index("starts", owner)
                once(owner, {"n": t.counted(length)})

            when(owner >= 0, owned)

        each_occurrence(t, k, of_segment if update.segmented else lambda k: once(k, {}))

    def _row(self, t: Threads, at: tuple[Term, Term], given: Mapping[str, Term]) -> None:
        formulas, v, values = self.update.formulas, t.single, dict(given)
        if formulas.mean is not None:
            mean = formulas.mean

            def of_element(d: Term) -> Term:
                return Emission(v, values | self._loaded(t, [mean], at, d)).write(mean)

            values["mean"] = t.total(0, t.w.elements, of_element) / t.counted(t.w.width)
        for letter in sorted(self.update.one):
            values[letter] = t.load(letter, at[1])
        for letter, expression in formulas.row.items():
            values[letter] = Emission(v, values).write(expression)
            t.store(letter, at[1], values[letter])
        count_loop(t.lines, 0, t.w.elements, lambda d: self._element(t, at, d, values))

    def _element(self, t: Threads, at: tuple[Term, Term], d: Term, given: Mapping[str, Term]) -> None:
        each = self.update.formulas.each
        emission = Emission(t.single, {**given, **self._loaded(t, each.values(), at, d)})
        results = {letter: emission.write(expression) for letter, expression in each.items()}
        for letter, result in results.items():
            t.store(letter, self._place(t, letter, at, d), result)

    def _place(self, t: Threads, letter: str, at: tuple[Term, Term], d: Term) -> Term:
        k, row = at
        return (k if letter in self.update.by_index else row) * t.w.width + d

    def _loaded(self, t: Threads, read: Iterable[Expression], at: tuple[Term, Term], d: Term) -> dict[str, Term]:
        names = {name for expression in read for name in expression.names}
        moving = names & ({*self.update.kept, *self.update.by_index} - self.update.one)
        return {name: t.load(name, self._place(t, name, at, d)) for name in sorted(moving)}


def rows_launch(op: OpView, formulas: RowFormulas, specs: Mapping[str, TensorSpec]) -> Launch:
    """Return the launches of an update: first occurrences, then the rows."""
    update, W = update_of(op, formulas, specs), specs["W"]
    host = {letter for letter, declared in op.schema.inputs_by_letter.items() if declared.host}
    if wrong := sorted(host & {*update.scalars}):
        raise Unsupported(f"{wrong[0]} lies on the host, and is in no shared number")
    for letter in {*op.input_letters} & ({*update.letters} - {"LENGTHS"}):
        if specs[letter].dtype is not DataType.FLOAT:
            raise Unsupported(f"it updates float32, {letter} is {specs[letter].dtype.label}")
    K, width, S = specs["indices"].size, math.prod(W.shape[1:]), specs["LENGTHS"].size if update.segmented else 0
    occurrences = Occurrences(K, W.shape[0], update.index_bits, owners_bytes(S, K) if update.segmented else 0)
    words: dict[str, Word | Held | Brought] = {**occurrences.words, "width": max(1, width), "elements": width}
    words |= addresses(*update.letters)
    words |= owners_words(S) if update.segmented else {}
    operands = [slot for _, slot, _ in update.shared.operands]
    held = tuple(k for k, slot in enumerate(operands) if slot.letter in host)
    scratch = occurrences.scratch_bytes

    def launch(held: tuple[int, ...], of_host: Callable[[Slot], Held | Brought]) -> GridLaunch:
        made = Updates(update, held)
        shared = {f"shared{k}": of_host(slot) if slot.letter in host else slot for k, slot in enumerate(operands)}
        name, count = f"rows {update} {held}", K * (1 if made.by_row else width)
        recorded = partial(launch, (), Brought) if held else None
        return each_launch(name, count, words | shared, made.write, scratch_bytes=scratch, recorded=recorded)

    rows = launch(held, Held)
    first = (owners_launch(BY_LENGTHS, S, K),) if update.segmented else ()
    return LaunchChain((*first, occurrences.launch(), rows))


def _register(made: OpSchema, formulas: Callable[[OpView], RowFormulas | None]) -> None:
    @translated(made)
    def prepare(op: OpView, specs: Mapping[str, TensorSpec]) -> Launch:
        """Compile the update of a row."""
        found = formulas_for(op, [specs[letter] for letter in op.input_letters], formulas)
        return rows_launch(op, found, specs)


for _made, _formulas in row_updates():
    _register(_made, _formulas)
