"""Gather, BatchGather and its gradient: a thread for each element that is copied, or that adds up what is its own.

Letters as in the family: DATA (A, V, B), INDICES (I) or (A, I), OUTPUT (A, I, B). In the gradient an element is written
by the thread of the first index that picks it, for all that do in their order, so the sums are those of the CPU.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tazza.codegen.block import Slot, Word
from tazza.codegen.loop import count_loop, when
from tazza.codegen.term import Term
from tazza.data_class import dataclass
from tazza.engines.cuda.occurrence import Occurrences, each_occurrence
from tazza.engines.cuda.threads import Threads, each_launch, zeros_launch
from tazza.engines.cuda.translated import translated
from tazza.operator import Launch, LaunchChain, OpView, Unsupported
from tazza.ops.shape.batch_permutation import BATCH_PERMUTATION, BATCH_PERMUTATION_GRADIENT
from tazza.ops.sparse.gather import BATCH_GATHER_GRADIENT, axis_of, gathers
from tazza.tensor import DataType, TensorSpec

COMPLAINT = "an index that is that of no row"


@dataclass(frozen=True, slots=True)
class Parts:
    """What is gathered: A, V, B and I, the types, and what indices say.

    With `wraps` those below 0 count from behind, with `matched` each of the A has indices of its own.
    """

    outer: int
    parts: int
    width: int
    taken: int
    dtype: DataType
    bits: int
    wraps: bool = False
    matched: bool = False

    @property
    def words(self) -> dict[str, Word]:
        """Extents that kernels ask for."""
        return {"parts": self.parts, "width": max(1, self.width), "taken": max(1, self.taken)}

    def picked(self, t: Threads, a: Term, i: Term) -> Term:
        """Return the part that index i of place `a` picks."""
        found = t.index("indices", a * t.w.taken + i if self.matched else i, self.bits)
        if not self.wraps:
            return found
        behind = found + t.w.parts
        return (found < 0).choose(behind, found)

    def copies(self, places: Mapping[str, Slot]) -> Launch:
        """Return the launch of target[a, i] = source[a, index i]."""

        def write(t: Threads, n: Term) -> None:
            row, b = t.split(n, t.w.width)
            a, i = t.split(row, t.w.taken)
            part = self.picked(t, a, i)
            there = (a * t.w.parts + part) * t.w.width + b
            good = part.below(t.w.parts)
            when(good, lambda: t.move(("source", there), ("target", n), self.dtype.itemsize))
            t.require(good)

        name = f"gather {self.dtype.itemsize} {self.bits} {self.wraps} {self.matched}"
        count = self.outer * self.taken * self.width if self.parts else 0  # nothing is taken from nothing
        return each_launch(name, count, {**self.words, **places}, write, complaint=COMPLAINT)

    def sums(self, places: Mapping[str, Slot]) -> Launch:
        """Return the launches of target[a, index i] += source[a, i], from zeros."""
        zeros = zeros_launch(places["target"].letter, self.outer * self.parts * self.width)
        if self.matched:
            return LaunchChain((zeros, self._own_sums(places)))
        found = Occurrences(self.taken, self.parts, self.bits, letter=places["indices"].letter)

        def write(t: Threads, n: Term) -> None:
            row, b = t.split(n, t.w.width)
            a, i = t.split(row, t.w.taken)
            there = (a * t.w.parts + t.index("indices", i, self.bits)) * t.w.width + b
            each_occurrence(t, i, lambda j: _add(t, there, (a * t.w.taken + j) * t.w.width + b))

        words = {**self.words, **places, **found.words}
        count, scratch = self.outer * self.taken * self.width, found.scratch_bytes
        added = each_launch(f"gather sums {self.bits}", count, words, write, scratch_bytes=scratch)
        return LaunchChain((zeros, found.launch(), added))

    def _own_sums(self, places: Mapping[str, Slot]) -> Launch:
        """Return the launch that adds where each place has indices of its own: a thread takes all of a place's."""

        def write(t: Threads, n: Term) -> None:
            a, b = t.split(n, t.w.width)

            def add(i: Term) -> None:
                part = self.picked(t, a, i)
                good = part.below(t.w.parts)
                own = (a * t.w.rows + i) * t.w.width + b
                when(good, lambda: _add(t, (a * t.w.parts + part) * t.w.width + b, own))
                t.require(good)

            count_loop(t.lines, 0, t.w.rows, add)

        words = {**self.words, "rows": self.taken, **places}
        return each_launch(f"own sums {self.bits}", self.outer * self.width, words, write, complaint=COMPLAINT)


def _add(t: Threads, there: Term, own: Term) -> None:
    t.store("target", there, t.load("target", there) + t.load("source", own))


@translated(gathers["Gather"], gathers["BatchGather"], BATCH_GATHER_GRADIENT)
def gather(op: OpView, DATA: TensorSpec, INDICES: TensorSpec, dOUTPUT: TensorSpec | None) -> Launch:
    """Compile copies, or sums for the gradient; along axis 0 indices of Gather below 0 count from behind."""
    adds = dOUTPUT is not None
    axis = axis_of(op, len(DATA.shape))
    outer = math.prod(DATA.shape[:axis])
    parts = Parts(
        outer,
        DATA.shape[axis],
        math.prod(DATA.shape[axis + 1 :]),
        INDICES.size // max(1, outer) if op.match_outer else INDICES.size,
        DATA.dtype,
        8 * INDICES.dtype.itemsize,
        wraps=op.type == "Gather" and op.axis == 0,
        matched=bool(op.match_outer),
    )
    return _launch(parts, adds, ("INDICES", "dOUTPUT", "dDATA") if adds else ("INDICES", "DATA", "OUTPUT"))


@translated(BATCH_PERMUTATION, BATCH_PERMUTATION_GRADIENT)
def permutation(indices: TensorSpec, X: TensorSpec | None, dY: TensorSpec | None) -> Launch:
    """Compile copies of rows, or sums for the gradient."""
    adds, rows = dY is not None, X if dY is None else dY
    assert rows is not None, "one of both is there"
    width = math.prod(rows.shape[1:])
    parts = Parts(1, rows.shape[0], width, indices.size, rows.dtype, 8 * indices.dtype.itemsize)
    return _launch(parts, adds, ("indices", "dY", "dX") if adds else ("indices", "X", "Y"))


def _launch(parts: Parts, adds: bool, letters: tuple[str, str, str]) -> Launch:
    if adds and parts.dtype is not DataType.FLOAT:
        raise Unsupported(f"it adds up float32, not {parts.dtype.label}")
    places = {name: Slot(letter) for name, letter in zip(("indices", "source", "target"), letters, strict=True)}
    return parts.sums(places) if adds else parts.copies(places)
