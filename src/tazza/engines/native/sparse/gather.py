"""Gather, BatchGather, BatchPermutation and gradients: parts of each outer place, copied or added up by indices.

What is copied is shared by its parts, what is added up by outer places: no element is written by two threads, and sums
are those of the order of indices. All indices are looked at before anything is read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from tazza.codegen.block import BlockLaunch, Slot
from tazza.codegen.fields import Fields
from tazza.codegen.kernel import threads_of
from tazza.codegen.loop import count_loop, each_vector, lanes_of
from tazza.codegen.rows import ROWS, ask_ahead, each_row, finish_status, rows_check, stop_if
from tazza.codegen.term import Lines, Number, Term
from tazza.codegen.vector import Vector
from tazza.data_class import dataclass
from tazza.engines.native import SOURCES, native
from tazza.operator import Launch, Operands, OpView
from tazza.ops.shape.batch_permutation import BATCH_PERMUTATION, BATCH_PERMUTATION_GRADIENT
from tazza.ops.sparse.gather import BATCH_GATHER_GRADIENT, axis_of, gathers, places
from tazza.tensor import DataType, TensorSpec

FLOAT = DataType.FLOAT
Extents = tuple[int, int, int]
"""A, V and B."""
BLOCK = Fields("A I V", addresses="indices source target", after=ROWS)
"""N rows that threads share, D = B elements of a part."""
VECTORS = {4: FLOAT, 8: DataType.DOUBLE}
"""By the bytes of an element, as what whole vectors of them are copied; what is not among them is copied one by one."""
LEAST_OUTER = 64
"""Outer places from which on threads share these, where parts have one element."""
AHEAD = 8
"""How many parts before its turn one is asked for."""


@dataclass(frozen=True, slots=True)
class Form:
    """What tells kernels apart: the bits of an index, the bytes of an element, what indices say.

    With `wraps` those below 0 count from behind, with `matched` each outer place has indices of its own. `single` parts
    have one element: they lie near each other, and outer places are shared by threads, not parts.
    """

    bits: int
    itemsize: int
    wraps: bool = False
    matched: bool = False
    single: bool = False


class _Parts:
    """The words of a kernel's block, and where parts lie."""

    def __init__(self, lines: Lines, form: Form) -> None:
        self.lines, self.form = lines, form
        at, kind = BLOCK.lazily(lines), f"i{8 * form.itemsize}"
        self.width, self.taken, self.parts = at.D, at.I, at.V
        self.indices, self.source, self.target = at.indices.of(f"i{form.bits}"), at.source.of(kind), at.target.of(kind)

    def place(self, i: Term) -> Term:
        """Return the part that index i picks, from the front."""
        found = self.indices[i].to("i64")
        if not self.form.wraps:
            return found
        behind = found + self.parts
        return (found < 0).choose(behind, found)

    def index(self, a: Term, i: Term) -> Term:
        """Return the number of the index that outer place `a` has for i."""
        return self.within(a, self.taken, i) if self.form.matched else i

    def look(self) -> None:
        """Leave a status and all that follows, where an index is that of no part."""
        count = BLOCK.lazily(self.lines).A * self.taken if self.form.matched else self.taken

        def one(i: Term) -> None:  # unsigned: -1 is too large
            stop_if(self.place(i).outside(self.parts))

        count_loop(self.lines, 0, count, one)

    def at(self, pointer: Term, place: Term) -> Term:
        """Return the address of a part, of all outer places one behind the other."""
        nbytes = self.width * self.form.itemsize
        return pointer.bytes_on(place * nbytes)

    def within(self, a: Term, count: Term, place: Number) -> Term:
        """Return the number of a part of outer place `a`, each of which has `count`."""
        return a * count + place


def write_copy(lines: Lines, form: Form) -> None:
    """Write target[a, i] = source[a, index i]."""
    parts = _Parts(lines, form)
    parts.look()
    if form.single:
        each_row(lines, lambda a: _copy_singles(parts, a))
        return

    def part(n: Term) -> None:
        a = n // parts.taken
        i = n - a * parts.taken

        def picked(i: Term) -> Term:
            return parts.at(parts.source, parts.within(a, parts.parts, parts.place(parts.index(a, i))))

        ask_ahead((i, AHEAD, parts.taken), lambda later: [picked(later)])
        _copy(parts, picked(i), parts.at(parts.target, n))

    each_row(lines, part)


def _copy(parts: _Parts, x: Term, y: Term) -> None:
    """Write the elements of a part."""
    dtype = VECTORS.get(parts.form.itemsize)
    if dtype is None:

        def one(k: Term) -> None:
            y[k] = x[k]

        count_loop(parts.lines, 0, parts.width, one)
        return
    v = lanes_of(parts.lines, dtype)
    each_vector(v, 0, parts.width, lambda k, mask: v.store(v.load(x, k, mask), y, k, mask))


def _copy_singles(parts: _Parts, a: Term) -> None:
    """Write target[a, i] = source[a, index i] for each i."""
    x = parts.at(parts.source, parts.within(a, parts.parts, 0))
    y = parts.at(parts.target, parts.within(a, parts.taken, 0))

    def one(i: Term) -> None:
        y[i] = x[parts.place(parts.index(a, i))]

    count_loop(parts.lines, 0, parts.taken, one)


def write_sums(lines: Lines, form: Form) -> None:
    """Write target[a, index i] += source[a, i], from zeros."""
    parts, v = _Parts(lines, form), lanes_of(lines)
    parts.look()
    written = parts.parts * parts.width

    def outer(a: Term) -> None:
        start = parts.at(parts.target, a * parts.parts)
        _zeros(v, start, written)

        def part(i: Term) -> None:
            x = parts.at(parts.source, parts.within(a, parts.taken, i))
            y = parts.at(start, parts.place(parts.index(a, i)))
            if form.single:
                y.of("float")[0] += x.of("float").load()
                return

            def some(k: Term, mask: Term | None) -> None:
                v.store(v.load(y, k, mask) + v.load(x, k, mask), y, k, mask)

            each_vector(v, 0, parts.width, some)

        count_loop(lines, 0, parts.taken, part)

    each_row(lines, outer)


def _zeros(v: Vector, start: Term, count: Term) -> None:
    each_vector(v, 0, count, lambda i, mask: v.store(v.constant(0.0), start, i, mask))


def part_copies(extents: Extents, form: Form, indices: TensorSpec, slots: Mapping[str, Slot]) -> BlockLaunch:
    """Return the launch of a copy; `slots` are those of `of_letters`."""
    A, V, B = extents
    taken = _taken(extents, form, indices)
    own = replace(form, single=B == 1 and A >= LEAST_OUTER)
    rows = A if own.single else A * taken
    address = SOURCES.compiled(f"gather {own}", lambda lines: write_copy(lines, own), finish_status)
    threads = threads_of(A * taken, 0, 2.0 * form.itemsize * B, rows)
    return BlockLaunch(address, BLOCK.words(threads=threads, N=rows, D=B, A=A, I=taken, V=V, **slots))


def part_sums(extents: Extents, form: Form, indices: TensorSpec, slots: Mapping[str, Slot]) -> BlockLaunch:
    """Return the launch that adds up parts by indices, from zeros; as `part_copies`."""
    A, V, B = extents
    taken = _taken(extents, form, indices)
    own = replace(form, single=B == 1)
    address = SOURCES.compiled(f"gather sums {own}", lambda lines: write_sums(lines, own), finish_status)
    threads = threads_of(A * max(taken, V), B, 12.0 * B, A)
    return BlockLaunch(address, BLOCK.words(threads=threads, N=A, D=B, A=A, I=taken, V=V, **slots))


def _taken(extents: Extents, form: Form, indices: TensorSpec) -> int:
    """Return I; nothing is taken from nothing, however often."""
    if extents[1] == 0:
        return 0
    return indices.size // max(1, extents[0]) if form.matched else indices.size


def of_letters(indices: str, source: str, target: str) -> dict[str, Slot]:
    """Return the slots of a launch: what an operator calls its indices, what it reads and what it writes."""
    return {"indices": Slot(indices), "source": Slot(source), "target": Slot(target)}


def _gathered(op: OpView, DATA: TensorSpec, own: TensorSpec, *, adds: bool = False, wraps: bool = False) -> BlockLaunch:
    """Return the launch of a Gather, or of the gradient of one."""
    axis = axis_of(op, len(DATA.shape))
    extents = math.prod(DATA.shape[:axis]), DATA.shape[axis], math.prod(DATA.shape[axis + 1 :])
    form = Form(8 * own.dtype.itemsize, DATA.dtype.itemsize, wraps, op.match_outer)
    slots = of_letters("INDICES", *(("dOUTPUT", "dDATA") if adds else ("DATA", "OUTPUT")))
    made = (part_sums if adds else part_copies)(extents, form, own, slots)

    def check(operands: Operands) -> None:
        places(op, operands["INDICES"].array, extents[1], wraps=wraps)

    return replace(made, check=check)


@native(gathers["Gather"])
def prepare_gather(op: OpView, DATA: TensorSpec, INDICES: TensorSpec) -> Launch:
    """Compile the copy; along axis 0 indices below 0 count from behind."""
    return _gathered(op, DATA, INDICES, wraps=op.axis == 0)


@native(gathers["BatchGather"])
def prepare_batch_gather(op: OpView, DATA: TensorSpec, INDICES: TensorSpec) -> Launch:
    """Compile the copy."""
    return _gathered(op, DATA, INDICES)


@native(BATCH_GATHER_GRADIENT, float32=True)
def prepare_batch_gather_gradient(op: OpView, DATA: TensorSpec, INDICES: TensorSpec) -> Launch:
    """Compile the sums."""
    return _gathered(op, DATA, INDICES, adds=True)


def _permuted(op: OpView, rows: TensorSpec, indices: TensorSpec, *, adds: bool) -> BlockLaunch:
    """Return the launch of a BatchPermutation, or of the gradient of one, over rows (N, *S)."""
    extents = 1, rows.shape[0], math.prod(rows.shape[1:])
    form = Form(8 * indices.dtype.itemsize, rows.dtype.itemsize)
    slots = of_letters("indices", *(("dY", "dX") if adds else ("X", "Y")))
    made = (part_sums if adds else part_copies)(extents, form, indices, slots)
    return replace(made, check=rows_check(op, "indices", extents[1]))


@native(BATCH_PERMUTATION)
def prepare_batch_permutation(op: OpView, X: TensorSpec, indices: TensorSpec) -> Launch:
    """Compile the copy."""
    return _permuted(op, X, indices, adds=False)


@native(BATCH_PERMUTATION_GRADIENT, float32=True)
def prepare_batch_permutation_gradient(op: OpView, indices: TensorSpec, dY: TensorSpec) -> Launch:
    """Compile the sums."""
    return _permuted(op, dY, indices, adds=True)
