"""Kernels of operators that have a formula: a thread for each element.

How the operands lie is planned by `codegen.formula_plan`. Where they do not all go on without a gap, a thread finds the
places of its element in each operand from the element's number.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial

from tazza.codegen.block import Slot, accepts_dense
from tazza.codegen.formula_plan import Axes, Operand, plan_formula
from tazza.codegen.function import Emission
from tazza.codegen.loop import when
from tazza.codegen.nvptx import GridKernel, place
from tazza.codegen.scalar import Scalars
from tazza.codegen.term import Lines, Term
from tazza.codegen.vector import KINDS, MEMORY, Vector
from tazza.data_class import dataclass
from tazza.device import Context
from tazza.engines.cuda import make_on_demand
from tazza.engines.cuda.coordinate import HEAD, Lay, coordinates, laid, place_in
from tazza.engines.cuda.launch import THREADS, Brought, GridLaunch, Held, blocks_for, own_code
from tazza.engines.cuda.typed import typed_launch
from tazza.errors import UnsupportedError
from tazza.operator import Expression, LaidOut, Launch, OpSchema, OpView, Spec, Unsupported
from tazza.tensor import DataType


def prepare_formula(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launch | LaidOut:
    """Compile an operator's formulas for these operands."""
    del context
    host = {letter for letter, declared in op.schema.inputs_by_letter.items() if declared.host}
    try:
        return plan_formula(op, inputs, outputs, partial(_launch, host=host), kinds=MEMORY)
    except UnsupportedError as error:
        raise Unsupported(error.message) from None


EACH, MANY = 4, 1 << 20
"""How many elements a thread has, and from how many on: so many loads are on their way at once."""


@dataclass(frozen=True, slots=True)
class _Form:
    """What tells kernels apart.

    Attributes:
        results: over a0, a1 ... and s0, s1 ....
        sources: element types of what is read.
        targets: those of results.
        scalars: s0, s1 ....
        held: places of operands of scalars whose words are the numbers themselves.
        lay: how elements lie.
        each: how many elements a thread has.
    """

    results: tuple[Expression, ...]
    sources: tuple[DataType, ...]
    targets: tuple[DataType, ...]
    scalars: Scalars
    held: tuple[int, ...]
    lay: Lay
    each: int

    def __str__(self) -> str:
        texts = "; ".join(one.text() for one in self.results)
        kinds = ", ".join(dtype.label for dtype in self.sources)
        made = ", ".join(dtype.label for dtype in self.targets)
        told = f"{self.lay} {self.each} {self.held}"
        return f"pointwise {told} ({kinds}) -> ({made}): {texts} with {self.scalars}"


def _launch(
    results: tuple[Expression, ...],
    read: list[Operand],
    written: list[Operand],
    axes: Axes,
    scalars: Scalars,
    *,
    host: Collection[str],
) -> Launch:
    if any(operand.spec.dtype not in KINDS for operand in (*read, *written)):
        return _typed(results, read, written, axes, scalars)
    size = written[0].spec.size
    lay, words = laid(axes, size, [operand.slot for operand in (*read, *written)])
    form = _Form(
        results,
        tuple(operand.spec.dtype for operand in read),
        tuple(operand.spec.dtype for operand in written),
        scalars,
        tuple(k for k, (_, slot, _) in enumerate(scalars.operands) if slot.letter in host),
        lay,
        EACH if size >= MANY else 1,
    )
    far = [operand.name for operand in read if operand.slot.letter in host]
    if far:
        raise UnsupportedError(f"{far[0]} lies on the host, and is no single number")
    blocks = blocks_for(size, THREADS * form.each)

    def launch(form: _Form, of_host: Callable[[Slot], Held | Brought]) -> GridLaunch:
        shared = [of_host(slot) if slot.letter in host else slot for _, slot, _ in scalars.operands]
        code = own_code(str(form), GridKernel(len(words) + len(shared), lambda lines: _write(lines, form)))
        recorded = partial(launch, replace(form, held=()), Brought) if form.held else None
        return GridLaunch(code, (*words, *shared), blocks, recorded=recorded)

    return launch(form, Held)


def _typed(
    results: tuple[Expression, ...], read: list[Operand], written: list[Operand], axes: Axes, scalars: Scalars
) -> Launch:
    """Return the launch where integers are read or written."""
    if scalars.expressions:
        raise UnsupportedError("it computes with shared numbers in floating point")
    given, made = ([(one.spec.dtype, one.slot) for one in operands] for operands in (read, written))
    return typed_launch(results, given, made, axes)


def _write(lines: Lines, form: _Form) -> None:
    """A block has `each` times as many elements as threads, and a thread those that lie as many apart."""
    thread, block = place(lines)
    first = block * (THREADS * form.each) + thread
    count = HEAD.lazily(lines).count
    places = [first]
    for _ in range(1, form.each):
        places.append(places[-1] + THREADS)
    if form.each == 1:
        when(first < count, lambda: _elements(lines, form, places))
        return

    def some() -> None:
        for i in places:
            when(i < count, lambda i=i: _elements(lines, form, [i]))

    when(places[-1] < count, lambda: _elements(lines, form, places), some)


def _elements(lines: Lines, form: _Form, places: Sequence[Term]) -> None:
    """Load what all of these elements need, then compute and store them."""
    wide = DataType.DOUBLE in (*form.sources, *form.targets)
    v = Vector(lines, 1, DataType.DOUBLE if wide else DataType.FLOAT)
    operands = len(form.sources) + len(form.targets)
    given = form.scalars.write(v, form.lay.first(operands), held=form.held)
    numbers = [coordinates(i, form.lay.depth, form.lay.bits) for i in places]
    at = [
        [place_in(i, own, form.lay.first(k)) for k in range(operands)] for i, own in zip(places, numbers, strict=True)
    ]
    loaded = [{f"a{k}": v.load(*where[k], None, dtype=dtype) for k, dtype in enumerate(form.sources)} for where in at]
    results = [[*map(Emission(v, {**given, **values}).write, form.results)] for values in loaded]
    for found, where in zip(results, at, strict=True):
        for dtype, value, (pointer, index) in zip(form.targets, found, where[len(form.sources) :], strict=True):
            v.store(value, pointer, index, None, dtype=dtype)


def register_formula(schema: OpSchema) -> None:
    """Register the kernel of an operator type that has a formula; it is made on demand, so no index lists it."""
    how = {"accepts": accepts_dense, "batch_invariant": True}
    make_on_demand(schema.type, prepare_formula, "compiled from the formula", **how)
