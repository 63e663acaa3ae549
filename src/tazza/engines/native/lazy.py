"""The evaluator `native`: lazy expressions as one compiled loop each, in vectors, on as many threads as pay.

A kernel is made for a program, the dimensions that are left after merging, and how each operand lies along the
innermost of them: constant, dense, or with a step. Addresses, extents and steps are words of its block, numbers of the
expression are operands, so that another size or number runs the same kernel. Large results that are not read again pass
by the caches, which saves reading what is overwritten.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tazza.array.evaluator import EVALUATORS, Array, Prepared, Sweep
from tazza.array.program import ElementProgram, expressions, flops_of, steps_text, types_of
from tazza.codegen.block import Slot
from tazza.codegen.kernel import threads_for, unavailable
from tazza.codegen.loop import each_vector
from tazza.codegen.nest import Axis, Nest, merged, nest_words
from tazza.codegen.term import Lines, Term
from tazza.codegen.typed_function import TypedEmission, unsupported
from tazza.codegen.vector import Vector
from tazza.engines.native import SOURCES
from tazza.engines.native.direct import (
    Kind,
    Lay,
    Runner,
    address_of,
    kind_along,
    lane_count,
    lay_of,
    native,
    read,
    steps_of,
)
from tazza.engines.native.reduction import prepare_reduction
from tazza.runtime.cache import Cache, remembered
from tazza.runtime.native_code import processor
from tazza.runtime.threads import thread_count
from tazza.tensor.offer import Unsupported

MOST_STEPS = 150
"""Functions of one kernel; what is longer takes LLVM seconds."""
STREAM_BYTES = 16 << 20
"""A result of this many bytes or more is not kept in the caches."""
LINE = 64
"""Bytes; vectors that pass by the caches begin at multiples of this."""


class Form(NamedTuple):
    """What tells kernels apart: the program, the kinds of operands, the depth, whether results pass by the caches."""

    program: ElementProgram
    kinds: tuple[Kind, ...]
    depth: int
    streaming: bool

    @property
    def text(self) -> str:
        """What names the kernel; complete."""
        types = (*self.program.operands, *self.program.targets)
        shown = ", ".join(f"{dtype} {kind}" for dtype, kind in zip(types, self.kinds, strict=True))
        return f"lazy {self.depth} ({shown}){' streaming' if self.streaming else ''}: {steps_text(self.program)}"


class Plan(NamedTuple):
    """A kernel and its block, in which the addresses are missing; `places` is where they go."""

    form: Form
    block: NDArray[np.int64]
    places: NDArray[np.int64]
    told: str


@EVALUATORS.solving("native", help="one compiled loop for each expression", priority=10)
def prepare(task: Sweep) -> Prepared:
    """Find or compile the kernel of a task, and write its block."""
    missing = unavailable()
    refusal = _refusal(task.program) if missing is None else missing
    if refusal is not None:
        raise Unsupported(refusal)
    if task.program.reduction:
        return prepare_reduction(task)
    arrays = (*task.sources, *task.targets)
    addresses = [address_of(array) for array in arrays]
    first = len(task.sources)
    plan = _plan(
        task.program,
        tuple(task.shape),
        tuple([lay_of(array) for array in arrays]),
        _may_stream(task.targets, addresses[first:], addresses[:first]),
        thread_count(),
    )
    cached = _kernels.get(plan.form) is not None
    block = plan.block.copy()
    block[plan.places] = addresses
    return Prepared(Runner(native(_kernel(plan.form)), block, arrays), plan.told, cached)


def _may_stream(targets: Sequence[Array], addresses: Sequence[int], sources: Sequence[int]) -> bool:
    """Whether the results are large, aligned, and overwrite no operand, which is in a cache by then."""
    if sum(target.nbytes for target in targets) < STREAM_BYTES:
        return False
    return not any(address % LINE or address in sources for address in addresses)


@remembered("loops of programs", entries=2048)
def _plan(
    program: ElementProgram, shape: tuple[int, ...], lays: tuple[Lay, ...], may_stream: bool, most_threads: int
) -> Plan:
    """Choose the loops for arrays that lie like these."""
    first = len(program.operands)
    axes = _axes(shape, lays, first)
    *counting, (inner, inner_steps) = axes
    sizes = [itemsize for _, _, itemsize in lays]
    kinds: tuple[Kind, ...] = tuple(kind_along(step, size) for step, size in zip(inner_steps, sizes, strict=True))
    aligned = all(step % LINE == 0 for _, steps in counting for step in steps[first:])
    form = Form(program, kinds, len(counting), may_stream and aligned and set(kinds[first:]) == {"dense"})
    rows = math.prod(extent for extent, _ in counting)
    nbytes = sum(size for size, kind in zip(sizes, kinds, strict=True) if kind != "one")
    threads = threads_for(most_threads, rows * inner, flops_of(program), nbytes)
    operands = [(Slot("", k), [steps[k] for _, steps in counting]) for k in range(len(lays))]
    words = nest_words(threads, ([extent for extent, _ in counting], inner), operands)
    places = [place for place, word in enumerate(words) if isinstance(word, Slot)]
    block = [word if isinstance(word, int) else 0 for word in words]
    block += [step for step, kind in zip(inner_steps, kinds, strict=True) if kind == "step"]
    told = f"one loop over {' x '.join(str(extent) for extent, _ in axes)} on {threads} threads"
    if form.streaming:
        told += ", results pass by the caches"
    return Plan(form, np.array(block, np.int64), np.array(places, np.int64), told)


@remembered("refusals of programs", entries=1024)
def _refusal(program: ElementProgram) -> str | None:
    if len(program.steps) > MOST_STEPS:
        return f"{len(program.steps)} functions > {MOST_STEPS}, the most that are compiled into one kernel"
    types = types_of(program)
    reasons = (unsupported(name, tuple(types[one] for one in operands)) for name, operands in program.steps)
    return next((reason for reason in reasons if reason is not None), None)


def _axes(shape: tuple[int, ...], lays: Sequence[Lay], first: int) -> list[Axis]:
    """Return what is left of the axes, outermost first in the memory of the first target, which is array `first`."""
    if 0 in shape:
        return [(0, (0,) * len(lays))]
    steps = [steps_of(lay, shape) for lay in lays]
    axes = [(extent, tuple([one[k] for one in steps])) for k, extent in enumerate(shape)]
    axes.sort(key=lambda axis: -abs(axis[1][first]))
    found = merged(axes)
    return found if found else [(1, (0,) * len(steps))]


_kernels: Cache[Form, int] = Cache("lazy kernels", 4096)
"""Addresses by form; a form that is put in twice is put in equal."""


def _kernel(form: Form) -> int:
    found = _kernels.get(form)
    if found is None:
        found = SOURCES.compiled(form.text, lambda lines: _write(lines, form))
        _kernels.put(form, found)
    return found


def _write(lines: Lines, form: Form) -> None:
    """Write the loops: constant operands are loaded once a row."""
    program, kinds = form.program, form.kinds
    count = lane_count(program)
    types = (*program.operands, *program.targets)
    vectors = [Vector(lines, count, dtype) for dtype in types]
    first = len(program.operands)
    nest = Nest(lines, form.depth, len(types))
    changing = [k for k in range(first) if kinds[k] != "one"]
    stepped = [k for k, kind in enumerate(kinds) if kind == "step"]
    steps = dict(zip(stepped, nest.tail.take(len(stepped)), strict=True))
    results = expressions(program)
    names = {f"a{k}": dtype for k, dtype in enumerate(program.operands)}
    computed = types_of(program)

    def row(pointers: list[Term], begin: Term, end: Term) -> None:
        fixed = {f"a{k}": vectors[k].load_one(pointers[k]) for k in range(first) if kinds[k] == "one"}

        def body(i: Term, mask: Term | None) -> None:
            moving = {f"a{k}": read(vectors[k], pointers[k], i, steps.get(k), mask) for k in changing}
            emission = TypedEmission(lines, count, fixed | moving, names)
            values = [emission.write(one) for one in results]
            for k, (value, number) in enumerate(zip(values, program.results, strict=True), first):
                wanted = Vector(lines, count, computed[number]).converted(value, types[k], rounded=number >= first)
                if kinds[k] == "step":
                    vectors[k].scatter(wanted, pointers[k], i, steps[k], mask)
                else:  # "one" where there is one element, i is 0 then
                    vectors[k].store(wanted, pointers[k], i, mask, streaming=form.streaming)

        each_vector(vectors[0], begin, end, body)

    nest.each_row(row)
    if form.streaming and processor().has("sse"):
        lines.call_for_effect("llvm.x86.sse.sfence")
