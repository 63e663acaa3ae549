"""Moves of elements: boxes of outputs, each filled with one number or with what lies at equal steps in an input.

A box has extents, and in either blob a place where it begins and a step along each axis: the place of an element is an
affine function of its coordinates. Axes are put in the order of the output's memory and merged where both blobs go on.
Of what is left the last axis is a *run*, the one before counts the runs of a *sheet*, the others count sheets; threads
share one of the three. A run is

    fill       one number                        dot            one number, apart in the output
    copy       dense in both                     block          the same, so long that memcpy has it
    spread     one element for all               pick           dense in the output, a few elements apart in the input
    gather     the same, further apart           put            apart in the output as well
    turn       gathers of neighbours: all runs of a sheet take a few elements each before any goes on

The block is HEAD; for each kind of run KIND, its boxes and how many there are; the addresses of blobs. A box is BOX,
and for each of the axes that count sheets AXIS.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np

from tazza.codegen.block import BlockLaunch, Constant, Slot, Word
from tazza.codegen.fields import Fields, Reader
from tazza.codegen.kernel import threads_of
from tazza.codegen.loop import count_loop, each_vector, share
from tazza.codegen.nest import Axis, merged, row_pointers
from tazza.codegen.term import Lines, Number, Term
from tazza.codegen.vector import Vector
from tazza.data_class import dataclass
from tazza.engines.native import SOURCES
from tazza.operator import LaidOut
from tazza.runtime.native_code import processor
from tazza.tensor import ROW_MAJOR, DataType, Strided, TensorSpec

Run = Literal["fill", "dot", "copy", "block", "spread", "pick", "gather", "turn", "put"]
UNITS = {1: DataType.INT8, 2: DataType.INT16, 4: DataType.INT32, 8: DataType.INT64}
"""Bytes of an element, and the type as which it is moved."""
BLOCK_BYTES = 2048
"""A run of so many bytes is worth a call of memcpy."""
MOST_PICKED = 4
"""Steps, in elements, up to which whole vectors are read and picked from; a gather reads one element at a time."""
TURNED = 32
"""Elements that a run of a turn takes at once: as many lines of the input are in the cache when the next run comes."""
HEAD, KIND, AXIS = Fields("threads"), Fields("count", addresses="boxes:i64"), Fields("extent target source")
BOX = Fields(
    "level sheets runs elements into out_of pattern target_at source_at target_run source_run target_step source_step"
)
"""Which of the three extents threads share, these, the blobs, then places and steps in bytes."""


class Lie(NamedTuple):
    """Where a box begins in a blob, and its step along each axis; in elements."""

    start: int
    steps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Box:
    """A box of elements: how it lies in the output and in the input; where it lies in none, it is filled.

    `fill` are the bytes of an element, none for zeros; `into` and `out_of` the places of the blobs among a launch's.
    """

    extents: tuple[int, ...]
    target: Lie
    source: Lie | None = None
    fill: bytes = b""
    into: int = 0
    out_of: int = 0


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the step along each axis of a row-major blob.

    >>> row_major((2, 3, 5))
    (15, 5, 1)
    """
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def steps_in(spec: TensorSpec) -> tuple[int, ...]:
    """Return the step along each axis of a strided blob, 0 along those of extent 1."""
    assert isinstance(spec.layout, Strided), "launchers take no others unless they say so"
    steps = spec.layout.steps(spec.shape)
    return tuple(0 if extent == 1 else step for extent, step in zip(spec.shape, steps, strict=True))


def frame(shape: Sequence[int], taken: Sequence[range], target: Lie) -> Iterator[Box]:
    """Yield boxes of zeros: all of a shape but the ranges that are taken along its axes.

    >>> [box.extents for box in frame((4, 5), [range(1, 3), range(0, 2)], Lie(0, (5, 1)))]
    [(1, 5), (1, 5), (2, 3)]
    """
    for axis, kept in enumerate(taken):
        for part in (range(kept.start), range(kept.stop, shape[axis])):
            ranges = (*taken[:axis], part, *map(range, shape[axis + 1 :]))
            start = sum(one.start * step for one, step in zip(ranges, target.steps, strict=True))
            box = Box(tuple(map(len, ranges)), Lie(target.start + start, target.steps))
            if math.prod(box.extents):
                yield box


def move_launch(
    boxes: Sequence[Box],
    dtype: DataType,
    targets: Sequence[Slot] = (Slot("Y"),),
    sources: Sequence[Slot] = (Slot("X"),),
) -> BlockLaunch:
    """Return the launch that moves elements of a type by these boxes, no two of which overlap in an output."""
    plans = [_plan(box, dtype.itemsize) for box in boxes if math.prod(box.extents)]
    forms = sorted({plan.form for plan in plans})
    nbytes = sum(_nbytes(plan.box, dtype.itemsize) for plan in plans)
    threads = threads_of(1, 0, nbytes)
    words = [*HEAD.words(threads=threads)]
    for form in forms:
        boxed = [plan.words(threads, len(targets)) for plan in plans if plan.form == form]
        words += KIND.words(count=len(boxed), boxes=Constant(np.array(boxed, np.int64).tobytes()))
    told = ", ".join(f"{form.run} {form.step} {form.depth}" for form in forms)
    writer = _Writer(dtype.itemsize, forms)
    address = SOURCES.compiled(f"moves of {dtype.itemsize} bytes: {told}", writer.write)
    return BlockLaunch(address, (*words, *targets, *sources))


def moved(boxes: Sequence[Box], X: TensorSpec) -> LaidOut:
    """Return the launch that moves X, as it lies, to a row-major Y."""
    return LaidOut(move_launch(boxes, X.dtype), {"X": X.layout, "Y": ROW_MAJOR})


def _nbytes(box: Box, itemsize: int) -> int:
    return math.prod(box.extents) * itemsize * (1 if box.source is None else 2)


# -- planning ----------------------------------------------------------------------------------------------------------


class Form(NamedTuple):
    """What tells two loops apart: the run, its step where elements are picked, how many axes count sheets."""

    run: Run
    step: int
    depth: int


@dataclass(frozen=True, slots=True)
class _Plan:
    """A box, and its axes in the order of the output: extent, and the steps in output and input, in bytes."""

    box: Box
    itemsize: int
    axes: tuple[Axis, ...]

    @property
    def form(self) -> Form:
        """The loops of it."""
        (runs, (_, beside)), (extent, (target, source)) = self.axes[-2:]
        run, step = self._run(extent, target, source)
        if run == "gather" and runs > 1 and beside < source:
            run = "turn"
        return Form(run, step, len(self.axes) - 2)

    def _run(self, extent: int, target: int, source: int) -> tuple[Run, int]:
        if target != self.itemsize:
            return ("dot" if self.box.source is None else "put"), 0
        if self.box.source is None:
            return "fill", 0
        if source == 0:
            return "spread", 0
        if source == self.itemsize:
            return ("block" if extent * self.itemsize >= BLOCK_BYTES else "copy"), 0
        step = source // self.itemsize
        return ("pick", step) if step <= MOST_PICKED else ("gather", 0)

    def words(self, threads: int, targets: int) -> list[Word]:
        """Return what stands in the block for it, where input blobs stand behind so many output blobs."""
        *counting, (runs, (target_run, source_run)), (elements, (target_step, source_step)) = self.axes
        box, size = self.box, self.itemsize
        sheets = math.prod(extent for extent, _ in counting)
        shared = (sheets, runs, elements)
        enough = [level for level, count in enumerate(shared) if count >= 4 * threads]
        own = BOX.words(
            level=enough[0] if enough else max(range(len(shared)), key=shared.__getitem__),
            sheets=sheets,
            runs=runs,
            elements=elements,
            into=box.into,
            out_of=box.into if box.source is None else targets + box.out_of,
            pattern=int.from_bytes(box.fill * (8 // size), "little", signed=True),
            target_at=box.target.start * size,
            source_at=0 if box.source is None else box.source.start * size,
            target_run=target_run,
            source_run=source_run,
            target_step=target_step,
            source_step=source_step,
        )
        axes = (AXIS.words(extent=extent, target=target, source=source) for extent, (target, source) in counting)
        return [*own, *itertools.chain.from_iterable(axes)]


def _plan(box: Box, itemsize: int) -> _Plan:
    none = (0,) * len(box.extents)
    pairs = zip(box.target.steps, none if box.source is None else box.source.steps, strict=True)
    axes = [(extent, (a * itemsize, b * itemsize)) for extent, (a, b) in zip(box.extents, pairs, strict=True)]
    axes.sort(key=lambda axis: -axis[1][0])
    found = merged(axes)
    if not found:
        found = [(1, (itemsize, itemsize))]
    if len(found) == 1:
        found = [(1, (0, 0)), *found]
    return _Plan(box, itemsize, tuple(found))


# -- writing -----------------------------------------------------------------------------------------------------------


class _Writer:
    """Writes the loops of all forms that a launch has."""

    def __init__(self, itemsize: int, forms: Sequence[Form]) -> None:
        self.itemsize, self.forms = itemsize, forms

    def write(self, lines: Lines) -> None:
        """Write one form after the other."""
        blobs = lines.block_start.at(len(HEAD) + len(KIND) * len(self.forms))
        for k, form in enumerate(self.forms):
            kind, width = KIND.lazily(lines, len(HEAD) + len(KIND) * k), len(BOX) + len(AXIS) * form.depth

            def box(b: Term, form: Form = form, boxes: Term = kind.boxes, width: int = width) -> None:
                self._box(lines, form, boxes.at(b * width), blobs)

            count_loop(lines, 0, kind.count, box)

    def _box(self, lines: Lines, form: Form, place: Term, blobs: Term) -> None:
        at = BOX.lazily(lines, block=place)
        axes = [AXIS.lazily(lines, len(BOX) + len(AXIS) * n, place) for n in range(form.depth)]
        which, borders = at.level, list[tuple[Term, Term]]()
        for level, total in enumerate((at.sheets, at.runs, at.elements)):
            mine = which.equals(level)
            begin, end = share(lines, total)
            borders.append((mine.choose(begin, 0), mine.choose(end, total)))
        extents = [one.extent for one in axes]
        bases = [
            [_start(blobs.at(at.into), at.target_at), *(one.target for one in axes)],
            [_start(blobs.at(at.out_of), at.source_at), *(one.source for one in axes)],
        ]
        run, run_steps = _RUNS[form.run](lines, self.itemsize, form.step, at), (at.target_run, at.source_run)

        def sheet(r: Term) -> None:
            starts = row_pointers(r, extents, bases)

            def one(m: Term, begin: Term, end: Term) -> None:
                target, source = (start.of("i8").at(m * step) for start, step in zip(starts, run_steps, strict=True))
                run(target, source, begin, end)

            if form.run == "turn":
                _in_blocks(lines, borders, one)
            else:
                count_loop(lines, *borders[1], lambda m: one(m, *borders[2]))

        count_loop(lines, *borders[0], sheet)


def _start(blob: Term, offset: Term) -> Term:
    return blob.load() + offset


def _in_blocks(lines: Lines, borders: Sequence[tuple[Term, Term]], one: Callable[[Term, Term, Term], None]) -> None:
    """Run `one(run, begin, end)` for a few elements of all runs, then for the next."""
    begin, end = borders[2]
    blocks = (end - begin + (TURNED - 1)).op("sdiv", TURNED)

    def block(b: Term) -> None:
        first = begin + b * TURNED
        last = (first + TURNED).at_most(end)
        count_loop(lines, *borders[1], lambda m: one(m, first, last))

    count_loop(lines, 0, blocks, block)


Emit = Callable[[Term, Term, Term, Term], None]
"""emit(target, source, begin, end): write elements from begin to end of a run; the addresses are those of bytes."""


def _vector(lines: Lines, itemsize: int, least_bytes: int = 1) -> Vector:
    """Return whole vectors of elements; of fewer lanes where elements are moved one at a time."""
    return Vector(lines, processor().vector_bytes // max(itemsize, least_bytes), UNITS[itemsize])


def _swept(v: Vector, body: Callable[[Term, Term, Term | None], Term]) -> Emit:
    """Return what stores `body(source, i, mask)` at elements i, i + 1 ..."""

    def emit(target: Term, source: Term, begin: Term, end: Term) -> None:
        each_vector(v, begin, end, lambda i, mask: v.store(body(source, i, mask), target, i, mask))

    return emit


def copies(lines: Lines, itemsize: int) -> Emit:
    """Return what copies elements from begin to end of a run."""
    v = _vector(lines, itemsize)
    return _swept(v, lambda source, i, mask: v.load(source, i, mask))


def fills(lines: Lines, itemsize: int, pattern: Number) -> Emit:
    """Return what fills elements from begin to end of a run with the low bits of an int64."""
    v = _vector(lines, itemsize)
    full = v.full(pattern)
    return _swept(v, lambda source, i, mask: full)


def _block(lines: Lines, itemsize: int, step: int, at: Reader) -> Emit:
    del step, at

    def emit(target: Term, source: Term, begin: Term, end: Term) -> None:
        first, last = begin * itemsize, end * itemsize
        size, volatile = last - first, lines.number(False, "i1")
        lines.call_for_effect("llvm.memcpy.p0.p0.i64", target.at(first), source.at(first), size, volatile)

    return emit


def _spread(lines: Lines, itemsize: int, step: int, at: Reader) -> Emit:
    del step, at
    v = _vector(lines, itemsize)

    def emit(target: Term, source: Term, begin: Term, end: Term) -> None:
        full = v.load_one(source)
        _swept(v, lambda source, i, mask: full)(target, source, begin, end)

    return emit


def _pick(lines: Lines, itemsize: int, step: int, at: Reader) -> Emit:
    v, apart = _vector(lines, itemsize, 4), at.source_step

    def picked(source: Term, i: Term, mask: Term | None) -> Term:
        return _every(v, step, source, i * step) if mask is None else v.gather(source, i, apart, mask)

    return _swept(v, picked)


def _every(v: Vector, step: int, source: Term, first: Term) -> Term:
    """Return elements `first`, `first + step` ... of as many vectors, the last of which ends at the last of them."""
    found = v.lines.poison(v.type)
    for part in range(step):
        begin = part * v.count - (step - 1 if part == step - 1 else 0)
        here = v.load(source, first + begin, None)
        places = [
            v.count + lane * step - begin if begin <= lane * step < begin + v.count else lane for lane in range(v.count)
        ]
        found = found.shuffle(places, here)
    return found


def _gather(lines: Lines, itemsize: int, step: int, at: Reader) -> Emit:
    del step
    v, apart = _vector(lines, itemsize, 4), at.source_step
    return _swept(v, lambda source, i, mask: v.gather(source, i, apart, mask))


def _apart(lines: Lines, itemsize: int, apart: Term, value: Callable[[Vector, Term, Term], Term]) -> Emit:
    """Return what writes elements one after the other, so many bytes apart in the output."""
    v = Vector(lines, 1, UNITS[itemsize])

    def emit(target: Term, source: Term, begin: Term, end: Term) -> None:
        def one(i: Term) -> None:
            to = target.at(i * apart)
            v.store(value(v, source, i), to, 0, None)

        count_loop(lines, begin, end, one)

    return emit


def _dot(lines: Lines, itemsize: int, step: int, at: Reader) -> Emit:
    del step
    pattern = at.pattern
    return _apart(lines, itemsize, at.target_step, lambda v, source, i: v.full(pattern))


def _put(lines: Lines, itemsize: int, step: int, at: Reader) -> Emit:
    del step
    step_bytes = at.source_step
    return _apart(lines, itemsize, at.target_step, lambda v, source, i: v.load(source.at(i * step_bytes), 0, None))


_RUNS: dict[Run, Callable[[Lines, int, int, Reader], Emit]] = {
    "fill": lambda lines, itemsize, step, at: fills(lines, itemsize, at.pattern),
    "dot": _dot,
    "copy": lambda lines, itemsize, step, at: copies(lines, itemsize),
    "block": _block,
    "spread": _spread,
    "pick": _pick,
    "gather": _gather,
    "turn": _gather,
    "put": _put,
}
