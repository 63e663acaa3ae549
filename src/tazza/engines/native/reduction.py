"""Reductions of lazy expressions: sum, prod, mean, max, min, any, all along axes, one loop with what is reduced.

Letters: after merging there are axes that are kept and axes that are reduced; the innermost of all is a row, kept or
reduced. An item is a row of the kept axes, or some columns where the row itself is kept. The reduced range of an item
is cut into chunks where there are few items; their parts are joined in order at the end. Items and chunks follow from
the shape alone, so the result is the same on any number of threads. Sums are carried in float64 or int64.

Words of the block: threads, items, chunks, elements of a row, rows that are reduced, whether chunks divide these rows,
the number of elements for a mean (bits of float64), the step between chunks of the target; then the extents of the kept
and of the reduced axes, for each operand its address and steps, and the steps along a row of operands that need one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tazza.array.evaluator import Prepared, Sweep
from tazza.array.program import (
    REDUCTIONS,
    ElementProgram,
    accumulator_type,
    expressions,
    flops_of,
    initial,
    steps_text,
    types_of,
)
from tazza.codegen.fields import Fields
from tazza.codegen.kernel import threads_for
from tazza.codegen.loop import count_loop, each_vector, fold_loop, share, sweep
from tazza.codegen.nest import Axis, merged, row_pointers
from tazza.codegen.term import Lines, Number, Term
from tazza.codegen.typed_function import TypedEmission, folded, joined
from tazza.codegen.vector import HALVES, Vector
from tazza.engines.native import SOURCES
from tazza.engines.native.direct import Kind, address_of, kind_along, lane_count, lay_of, read, runner, steps_of
from tazza.runtime.cache import Cache
from tazza.runtime.threads import thread_count
from tazza.tensor import DataType
from tazza.tensor.function import FUNCTIONS

HEAD = Fields("threads items chunks rows by_rows chunk_step", doubles="elements")
"""Behind it come the addresses of operands, the last of what is written; then of each axis, kept ones, reduced ones and
the row, the steps of each operand in bytes, and the extent."""
COLUMNS = 512
"""Columns of an item where rows are kept: long enough to be read ahead, while what is carried stays in the cache."""
CHUNK = 1 << 15
"""Elements that are worth a chunk, about."""
MOST_CHUNKS, MOST_PARTS = 64, 1 << 15
"""The most chunks of an item, and of all items."""


class Form(NamedTuple):
    """What tells kernels apart: the program, kinds, numbers of axes, whether the row is kept, the type written."""

    program: ElementProgram
    kinds: tuple[Kind, ...]
    kept: int
    reduced: int
    row_kept: bool
    written: DataType
    finished: bool

    @property
    def operands(self) -> Fields:
        """What has an address, and a step along each axis."""
        return Fields(" ".join(f"a{k}" for k in range(len(self.kinds))))

    @property
    def text(self) -> str:
        """What names the kernel; complete."""
        shown = ", ".join(f"{dtype} {kind}" for dtype, kind in zip(self.program.operands, self.kinds, strict=False))
        return (
            f"reduction {self.program.reduction} {self.kept} {self.reduced} {self.row_kept} ({shown}) {self.kinds[-1]}"
            f" -> {self.written} {self.finished}: {steps_text(self.program)}"
        )


def prepare_reduction(task: Sweep) -> Prepared:
    """Find or compile the kernel of a reduction, and write its block; all functions of it are known to be compiled."""
    program, (target,) = task.program, task.targets
    carried = accumulator_type(program.reduction, types_of(program)[program.results[0]])
    elements = math.prod(task.shape)
    chunks = _chunks(elements, target.size)
    written, place = program.targets[0], target
    if chunks > 1:
        written = DataType.FLOAT if carried in HALVES else carried
        place = np.empty((*target.shape, chunks), written.numpy)[..., 0]
    arrays = (*task.sources, place)
    kept, reduced, (inner, inner_steps), row_kept = _axes(task, arrays)
    kinds: tuple[Kind, ...] = tuple(
        kind_along(step, array.itemsize) for step, array in zip(inner_steps, arrays, strict=True)
    )
    form = Form(program, kinds, len(kept), len(reduced), row_kept, written, chunks == 1)
    items = math.prod(extent for extent, _ in kept) * (-(-inner // COLUMNS) if row_kept else 1)
    rows = math.prod(extent for extent, _ in reduced)
    nbytes = sum(array.itemsize for array, kind in zip(arrays, kinds, strict=True) if kind != "one")
    threads = min(threads_for(thread_count(), elements, flops_of(program), nbytes), max(1, items * chunks))
    head = HEAD.words(
        threads=threads,
        items=items,
        chunks=chunks,
        rows=rows,
        by_rows=int(row_kept or rows >= chunks),
        chunk_step=place.itemsize if chunks > 1 else 0,
        elements=elements // max(1, target.size),
    )
    axes = (word for extent, steps in (*kept, *reduced, (inner, inner_steps)) for word in (*steps, extent))
    words = (*head, *map(address_of, arrays), *axes)
    cached = _kernels.get(form) is not None
    run = runner(_kernel(form), words, arrays)
    told = f"one loop that reduces, {items} items in {chunks} chunks each on {threads} threads"
    if chunks == 1:
        return Prepared(run, told, cached)
    return Prepared(_joining(task, run, place, chunks), told, cached)


def _chunks(elements: int, items: int) -> int:
    return max(1, min(MOST_CHUNKS, elements // CHUNK, MOST_PARTS // max(1, items)))


def _joining(task: Sweep, run: Any, place: Any, chunks: int) -> Any:
    """Return what runs the kernel and joins the parts that it leaves."""
    (target,), reduction = task.targets, task.program.reduction
    parts = np.lib.stride_tricks.as_strided(place, (*place.shape, chunks), (*place.strides, place.itemsize))
    join: Any = FUNCTIONS[REDUCTIONS[reduction]].evaluate
    count = math.prod(task.shape[axis] for axis in task.axes)

    def joined() -> None:
        run()
        with np.errstate(all="ignore"):
            total = join.reduce(parts, axis=-1)
            np.copyto(target, total / count if reduction == "mean" else total, casting="unsafe")

    return joined


def _axes(task: Sweep, arrays: Sequence[Any]) -> tuple[list[Axis], list[Axis], Axis, bool]:
    """Return kept and reduced axes, the row, whether it is a kept one; merged, the largest steps of sources first."""
    steps = [steps_of(lay_of(array), task.shape) for array in arrays]
    axes = [(extent, (*(one[k] for one in steps), 0 if k in task.axes else 1)) for k, extent in enumerate(task.shape)]
    axes.sort(key=lambda axis: -max((abs(step) for step in axis[1][:-2]), default=0))
    # The mark of kept axes is no step: axes are merged within runs of one mark.
    found: list[tuple[int, Axis]] = []
    run: list[Axis] = []
    mark = 0
    for extent, marked in [*axes, (1, (0,) * len(steps) + (2,))]:
        if run and marked[-1] != mark:
            found += [(mark, axis) for axis in merged(run)]
            run = []
        mark = marked[-1]
        run.append((extent, marked[:-1]))
    if not found:
        found = [(0, (1, (0,) * len(steps)))]
    row_kept, row = found.pop()
    kept, reduced = ([axis for flag, axis in found if flag == wanted] for wanted in (1, 0))
    return kept, reduced, row, bool(row_kept)


_kernels: Cache[Form, int] = Cache("reducing kernels", 4096)
"""Addresses by form; a form that is put in twice is put in equal."""


def _kernel(form: Form) -> int:
    found = _kernels.get(form)
    if found is None:
        found = SOURCES.compiled(form.text, lambda lines: _Writer(lines, form).write())
        _kernels.put(form, found)
    return found


class _Writer:
    """Writes the loops of one kernel."""

    def __init__(self, lines: Lines, form: Form) -> None:
        """Load what the block says."""
        self.lines, self.form, program = lines, form, form.program
        count = lane_count(program)
        self.types = types_of(program)
        self.value = self.types[program.results[0]]
        self.accumulator = Vector(lines, count, accumulator_type(program.reduction, self.value))
        self.vectors = [Vector(lines, count, dtype) for dtype in program.operands]
        self.function = REDUCTIONS[program.reduction]
        carried = self.accumulator.dtype
        self.buffer = Vector(lines, count, DataType.FLOAT if carried in HALVES else carried)
        self.carried = lines.let("ptr", f"alloca {self.buffer.stored}, i64 {-(-COLUMNS // count)}, align 64")
        self.words, names = HEAD.loaded(lines), form.operands
        axis, first = Fields("extent", after=names), len(HEAD) + len(names)
        axes = [axis.lazily(lines, first + len(axis) * k) for k in range(form.kept + form.reduced + 1)]
        kept, reduced, row = axes[: form.kept], axes[form.kept : -1], axes[-1]
        addresses = names.lazily(lines, len(HEAD))
        self.kept_extents, self.reduced_extents = [one.extent for one in kept], [one.extent for one in reduced]
        self.inner = row.extent
        self.kept_bases = [[one[name] for one in (addresses, *kept)] for name in names]
        self.reduced_steps = [[one[name] for one in reduced] for name in names]
        self.steps = {k: row[name] for k, name in enumerate(names) if form.kinds[k] == "step"}

    def write(self) -> None:
        """Go over the items and chunks of this thread."""
        count_loop(self.lines, *share(self.lines, self.words.items * self.words.chunks), self._part)

    def _part(self, part: Term) -> None:
        """Reduce one chunk of one item."""
        words = self.words
        chunk, item = part % words.chunks, part // words.chunks
        columns = None
        if self.form.row_kept:
            blocks = self.inner.pieces(COLUMNS)
            columns, item = item % blocks * COLUMNS, item // blocks
        pointers = row_pointers(item, self.kept_extents, self.kept_bases)
        target = pointers[-1].bytes_on(chunk * words.chunk_step)
        by_rows = words.by_rows.differs(0)
        rows = self._range(chunk, words.rows, by_rows)
        if columns is None:
            self._reduce_rows(pointers, target, rows, self._range(chunk, self.inner, ~by_rows))
        else:
            self._reduce_columns(pointers, target, rows, (columns, (columns + COLUMNS).at_most(self.inner)))

    def _range(self, chunk: Term, total: Term, divided: Term) -> tuple[Term, Term]:
        """Return the part of `total` things that a chunk gets: all of them, if they are not divided."""
        first, last = (total * one // self.words.chunks for one in (chunk, chunk + 1))
        return divided.choose(first, 0), divided.choose(last, total)

    def _row(self, pointers: Sequence[Term], r: Term) -> list[Term]:
        """Return where reduced row r of each source begins."""
        addresses = [pointer.as_integer() for pointer in pointers[:-1]]
        bases = [[at, *steps] for at, steps in zip(addresses, self.reduced_steps, strict=False)]
        return row_pointers(r, self.reduced_extents, bases)

    def _joined(self, rows: Sequence[Term], i: Term, mask: Term | None, carried: Term) -> Term:
        """Return what was carried, joined with the values of lanes i, i + 1 ... of a row."""
        accumulator, values = self.accumulator, dict[str, Term]()
        for k, vector in enumerate(self.vectors):
            is_one = self.form.kinds[k] == "one"
            values[f"a{k}"] = vector.load_one(rows[k]) if is_one else read(vector, rows[k], i, self.steps.get(k), mask)
        names = {f"a{k}": vector.dtype for k, vector in enumerate(self.vectors)}
        (expression,) = expressions(self.form.program)
        value = TypedEmission(self.lines, accumulator.count, values, names).write(expression)
        value = Vector(self.lines, accumulator.count, self.value).converted(value, accumulator.dtype)
        new = joined(accumulator, self.function, carried, value)
        return new.masked(mask, carried)

    def _start(self) -> Term:
        return self.accumulator.constant(initial(self.form.program.reduction, self.accumulator.dtype))

    def _reduce_rows(
        self, pointers: Sequence[Term], target: Term, rows: tuple[Term, Term], inner: tuple[Term, Term]
    ) -> None:
        """Carry one vector over rows and lanes; its lanes are joined at the end."""

        def row(r: Term, carried: Term) -> Term:
            places = self._row(pointers, r)

            def body(i: Term, mask: Term | None, values: Sequence[Term]) -> list[Term]:
                return [self._joined(places, i, mask, values[0])]

            return sweep(self.accumulator, *inner, body, [carried])[0]

        total = fold_loop(*rows, self._start(), row)
        self._store(folded(self.accumulator, total, self.function), 1, target, 0, None)

    def _reduce_columns(
        self, pointers: Sequence[Term], target: Term, rows: tuple[Term, Term], columns: tuple[Term, Term]
    ) -> None:
        """Carry a vector of each column's totals from row to row, in a buffer."""
        buffer, count = self.buffer, self.accumulator.count
        first, width = columns[0], columns[1] - columns[0]

        def begin(i: Term, mask: Term | None) -> None:
            del mask  # the buffer ends with a whole vector
            buffer.store(self._start(), self.carried, i, None)

        def row(r: Term) -> None:
            here = self._row(pointers, r)

            def add(i: Term, mask: Term | None) -> None:
                total = self._joined(here, first + i, mask, buffer.load(self.carried, i, None))
                buffer.store(total, self.carried, i, None)

            each_vector(buffer, 0, width, add)

        def end(i: Term, mask: Term | None) -> None:
            at = first + i
            self._store(buffer.load(self.carried, i, None), count, target, at, mask)

        each_vector(buffer, 0, width, begin)
        count_loop(self.lines, *rows, row)
        each_vector(buffer, 0, width, end)

    def _store(self, value: Term, count: int, target: Term, i: Number, mask: Term | None) -> None:
        vector, written = (Vector(self.lines, count, one) for one in (self.accumulator.dtype, self.form.written))
        if self.form.program.reduction == "mean" and self.form.finished:
            value /= vector.full(self.words.elements)
        value = vector.converted(value, written.dtype)
        step = self.steps.get(len(self.vectors))
        if step is None or count == 1:
            written.store(value, target, i, mask)
        else:
            written.scatter(value, target, i, step, mask)
