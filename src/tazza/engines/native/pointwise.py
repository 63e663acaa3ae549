"""Kernels of operators that have a formula: one pass over memory, in vectors, on as many threads as are worth while.

How the operands lie is planned by `codegen.formula_plan`. Of the dimensions that are left the innermost, dense or
constant, is a row; the others count rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from tazza.codegen.block import BlockLaunch, accepts_dense
from tazza.codegen.formula_plan import Axes, Operand, plan_formula
from tazza.codegen.function import Emission
from tazza.codegen.kernel import lane_count, threads_of
from tazza.codegen.loop import each_vector, lanes_of
from tazza.codegen.nest import Nest, nest_words
from tazza.codegen.scalar import Scalars
from tazza.codegen.term import Lines, Term
from tazza.codegen.typed_function import TypedEmission
from tazza.codegen.vector import Vector
from tazza.codegen.whole import WHOLE, Whole, whole
from tazza.device import Context
from tazza.engines.native import SOURCES
from tazza.operator import KERNELS, Expression, Kernel, Launch, OpSchema, OpView, Spec, kernel_key
from tazza.operator.kernel import Answer
from tazza.runtime.machine import machine
from tazza.tensor import DataType, TensorSpec
from tazza.tensor.offer import Offer

NONE = Scalars({}, ())


def prepare_formula(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Offer[Callable[[], Answer]]:
    """Offer to compile an operator's formulas for these operands: every blob is moved once."""
    del context
    nbytes = sum(spec.nbytes for spec in (*inputs, *outputs) if isinstance(spec, TensorSpec) and spec.shape_known)
    make = partial(plan_formula, op, inputs, outputs, _launch, integers=True)
    return Offer(make, estimate_ns=nbytes / machine().memory_bytes_per_ns)


# -- launching ---------------------------------------------------------------------------------------------------------


def _launch(
    results: tuple[Expression, ...], read: list[Operand], written: list[Operand], axes: Axes, scalars: Scalars
) -> Launch:
    *counting, (inner, inner_steps) = axes
    operands = [*read, *written]
    flat = [step == 1 for step in inner_steps[: len(read)]]
    rows = math.prod(extent for extent, _ in counting)
    sources = [(operand.spec.dtype, is_flat) for operand, is_flat in zip(read, flat, strict=True)]
    targets = [operand.spec.dtype for operand in written]
    flops = sum(one.flops for one in results)
    nbytes = sum(operand.spec.nbytes for operand in operands) / max(1, written[0].spec.size)
    threads = threads_of(rows * inner, flops, nbytes)
    lies = [
        (operand.slot, [steps[k] * operand.spec.dtype.itemsize for _, steps in counting])
        for k, operand in enumerate(operands)
    ]
    words = nest_words(threads, ([extent for extent, _ in counting], inner), lies)
    return BlockLaunch(kernel_address(results, sources, targets, len(counting), scalars), (*words, *scalars.words))


def kernel_address(
    results: Sequence[Expression],
    sources: Sequence[tuple[DataType, bool]],
    targets: Sequence[DataType],
    depth: int = 0,
    scalars: Scalars = NONE,
) -> int:
    """Return the kernel of expressions over a0, a1 ...

    Args:
        results: what is computed.
        sources: element type of each operand, and whether it changes along a row.
        targets: element type of each result.
        depth: how many dimensions count the rows.
        scalars: s0, s1 ... of the expressions, whose operands stand behind all others.
    """
    texts = "; ".join(one.text() for one in results)
    kinds = ", ".join(f"{dtype.label}{'[]' if changes else ''}" for dtype, changes in sources)
    description = f"pointwise {depth} ({kinds}) -> ({', '.join(dtype.label for dtype in targets)}): {texts}"
    if scalars.expressions:
        description += f" with {scalars}"
    wide = DataType.DOUBLE in (*(dtype for dtype, _ in sources), *targets)
    integers = None if scalars.expressions else _in_integers(results, sources, targets)

    def write(lines: Lines) -> None:
        nest = Nest(lines, depth, len(sources) + len(targets))
        if integers is not None:
            _write_integers(nest, integers, sources, targets)
            return
        v = lanes_of(lines, DataType.DOUBLE if wide else DataType.FLOAT)
        _write(v, results, sources, targets, (nest, scalars.write(v, nest.tail)))

    return SOURCES.compiled(description, write)


def _write(
    v: Vector,
    results: Sequence[Expression],
    sources: Sequence[tuple[DataType, bool]],
    targets: Sequence[DataType],
    told: tuple[Nest, Mapping[str, Term]],
) -> None:
    """Write the loops over rows and vectors; `told` is where operands lie, and vectors by name."""
    nest, given = told
    moving = {k: dtype for k, (dtype, changes) in enumerate(sources) if changes}
    still = {k: dtype for k, (dtype, changes) in enumerate(sources) if not changes}

    def row(pointers: Sequence[Term], begin: Term, end: Term) -> None:
        fixed = {f"a{k}": v.load_one(pointers[k], dtype=dtype) for k, dtype in still.items()}

        def body(i: Term, mask: Term | None) -> None:
            some = {f"a{k}": v.load(pointers[k], i, mask, dtype=dtype) for k, dtype in moving.items()}
            emission = Emission(v, {**given, **fixed, **some})
            values = [emission.write(one) for one in results]
            for dtype, value, pointer in zip(targets, values, pointers[len(sources) :], strict=True):
                v.store(value, pointer, i, mask, dtype=dtype)

        each_vector(v, begin, end, body)

    nest.each_row(row)


def _in_integers(
    results: Sequence[Expression], sources: Sequence[tuple[DataType, bool]], targets: Sequence[DataType]
) -> list[Whole] | None:
    """Return expressions as integers and bools are computed, None where they are computed in floating point."""
    if not {*targets, *(dtype for dtype, _ in sources)} <= WHOLE:
        return None
    types = {f"a{k}": dtype for k, (dtype, _) in enumerate(sources)}
    found = [one for expression in results if isinstance(one := whole(expression, types), Whole)]
    return found if len(found) == len(results) else None


def _write_integers(
    nest: Nest, results: Sequence[Whole], sources: Sequence[tuple[DataType, bool]], targets: Sequence[DataType]
) -> None:
    """Write the loops over rows and vectors, as many lanes as the widest type has."""
    lines, all_types = nest.lines, (*(dtype for dtype, _ in sources), *targets)
    count = lane_count(8 * max(dtype.itemsize for dtype in all_types))
    vectors = [Vector(lines, count, dtype) for dtype in all_types]
    numbers = {name: number for one in results for name, number in one.numbers.items()}
    types = {f"a{k}": dtype for k, (dtype, _) in enumerate(sources)} | {n: dtype for n, (dtype, _) in numbers.items()}
    given = {name: Vector(lines, count, dtype).constant(value) for name, (dtype, value) in numbers.items()}

    def row(pointers: Sequence[Term], begin: Term, end: Term) -> None:
        fixed = {f"a{k}": vectors[k].load_one(pointers[k]) for k, (_, changes) in enumerate(sources) if not changes}

        def body(i: Term, mask: Term | None) -> None:
            some = {f"a{k}": vectors[k].load(pointers[k], i, mask) for k, (_, changes) in enumerate(sources) if changes}
            emission = TypedEmission(lines, count, {**given, **fixed, **some}, types)
            values = [Vector(lines, count, one.dtype) for one in results]
            found = [emission.write(one.expression) for one in results]
            for k, (value, vector) in enumerate(zip(found, values, strict=True), len(sources)):
                vectors[k].store(vector.converted(value, vectors[k].dtype), pointers[k], i, mask)

        each_vector(vectors[0], begin, end, body)

    nest.each_row(row)


def register_formula(schema: OpSchema) -> None:
    """Register the kernel of an operator type that has a formula; it is made on demand, so no index lists it.

    Whoever asks for something else of that kernel, or two who ask for it at once, come here as well.
    """
    key = kernel_key(schema.type, "native")
    kernel = Kernel(*key, prepare=prepare_formula, accepts=accepts_dense, batch_invariant=True)
    KERNELS.setdefault(key, kernel, help="compiled from the formula")
