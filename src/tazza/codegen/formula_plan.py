"""How a formula's operands lie, for who compiles it: which layouts they get, and the dimensions that are left.

Letters: the operands are inputs and outputs in the order of the operator. The dimensions in which all of them go on
without a gap are merged.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeAlias, cast

import numpy as np

from tazza.codegen.block import Slot, slots_of
from tazza.codegen.nest import merged
from tazza.codegen.scalar import Scalars
from tazza.codegen.vector import KINDS
from tazza.codegen.whole import WHOLE, misfit, whole
from tazza.data_class import dataclass
from tazza.operator import Expression, LaidOut, Launch, OpView, Spec, Unsupported, formulas_of, scalars_of, show_dims
from tazza.tensor import ROW_MAJOR, DataType, Layout, Opaque, Strided, TensorSpec
from tazza.tensor.function import BITWISE

MOST_AXES = 5


@dataclass(frozen=True, slots=True)
class Operand:
    """One input or output: name in formulas, name of the blob, its slot, spec, and dims for broadcasting."""

    name: str
    blob: str
    slot: Slot
    spec: TensorSpec
    dims: tuple[int, ...]


Axes: TypeAlias = "list[tuple[int, tuple[int, ...]]]"
"""Extent, and the step in elements of each operand, of each dimension; outermost first."""
Make: TypeAlias = "Callable[[tuple[Expression, ...], list[Operand], list[Operand], Axes, Scalars], Launch]"
"""Makes the launch of expressions over operands that are read and written, which lie so, with these scalars.

Operands that are read are called a0, a1 ... and scalars s0, s1 ... in it, so that equal structure gives one kernel,
whatever the letters are called.
"""


def plan_formula(
    op: OpView,
    inputs: Sequence[Spec],
    outputs: Sequence[Spec],
    make: Make,
    *,
    integers: bool = False,
    kinds: Collection[DataType] = KINDS,
) -> Launch | LaidOut:
    """Return what `make` makes of an operator's formulas for these operands, and the layouts that it is made for.

    `integers`: it computes those of integers and bools alone in these (`codegen.whole`); `kinds` are the element types
    that it takes otherwise.
    """
    expressions = formulas_of(op)
    slots = slots_of(op.schema, op.input_letters, outputs=False)
    results = slots_of(op.schema, op.output_letters, outputs=True)
    missing = [slot.name for slot in results if slot.name not in expressions]
    if missing:
        raise Unsupported(f"with these arguments there is no formula of {', '.join(missing)}")
    names = [slot.name for slot in (*slots, *results)]
    blobs = [*op.definition.input, *op.definition.output]
    used = {name for slot in results for name in expressions[slot.name].names}
    scalars = needed_scalars(op, used, dict(zip(names, zip(slots, inputs, strict=True), strict=False)))
    used -= scalars.expressions.keys()
    # The text of a formula may name an optional input that is absent.
    absent = sorted((used | scalars.names) - set(names))
    if absent:
        raise Unsupported(f"its formula needs {', '.join(absent)}")
    named = dict(zip(names, [*inputs, *outputs], strict=True))
    wanted = {slot.name: expressions[slot.name] for slot in results}
    reason = _mixed(wanted, named, used) if integers and not scalars.expressions else "it takes no integers"
    if reason is not None:
        taken = [spec for name, spec in named.items() if name in used or name not in scalars.names]
        reason = _strange(taken, wanted, kinds)
        reason = scalars.unsupported if reason is None else reason
    if reason is not None:
        raise Unsupported(reason)
    tensors = cast("list[TensorSpec]", [*inputs, *outputs])
    aligned: Mapping[str, tuple[int, ...]] = {}
    formulas = op.schema.formulas
    if formulas is not None and formulas.align is not None:
        aligned = formulas.align(op, {name: spec for name, spec in zip(names, inputs, strict=False) if name in used})
    shapes, size = {spec.shape for spec in tensors[len(slots) :]}, tensors[-1].size
    flat = len(shapes) > 1  # outputs of several shapes: what has as many elements is taken as one row
    operands = [
        Operand(name, blob, slot, spec, tuple(aligned.get(name, (size,) if flat and spec.size == size else spec.shape)))
        for name, blob, slot, spec in zip(names, blobs, (*slots, *results), tensors, strict=True)
    ]
    read = [operand for operand in operands[: len(slots)] if operand.name in used]
    return _plan(expressions, read, operands[len(slots) :], scalars, make)


def _mixed(expressions: Mapping[str, Expression], named: Mapping[str, Spec], used: Collection[str]) -> str | None:
    """Return why formulas are not computed in integers and bools, or None."""
    types = {name: spec.dtype for name, spec in named.items() if isinstance(spec, TensorSpec)}
    if len(types) < len(named) or not {types[name] for name in (*used, *expressions)} <= WHOLE:
        return "not all are integers and bools"
    for name, expression in expressions.items():
        found = whole(expression, types)
        if isinstance(found, str):
            return found
        reason = misfit(found.dtype, types[name])
        if reason is not None:
            return reason
    return None


def _strange(specs: Sequence[Spec], expressions: Mapping[str, Expression], kinds: Collection[DataType]) -> str | None:
    """Return why these element types are not computed, or None."""
    bitwise = [node.head for one in expressions.values() for node in one.nodes() if node.head in BITWISE]
    floating = [spec for spec in specs if isinstance(spec, TensorSpec) and spec.dtype in KINDS]
    if bitwise and (floating or kinds is KINDS):
        return f"{bitwise[0]} is not computed in floating point"
    strange = [str(spec) for spec in specs if not isinstance(spec, TensorSpec) or spec.dtype not in kinds]
    if strange:
        return f"it computes in floating point, not {strange[0]}"
    wide = {DataType.DOUBLE, DataType.BFLOAT16}
    if wide <= {spec.dtype for spec in specs if isinstance(spec, TensorSpec)}:
        return "bfloat16 is not computed together with float64"
    return None


def needed_scalars(op: OpView, used: Collection[str], inputs: Mapping[str, tuple[Slot, Spec]]) -> Scalars:
    """Return those of an operator's scalars that its formulas name, over those inputs that they are computed from."""
    found = {name: expression for name, expression in scalars_of(op).items() if name in used}
    read = sorted({name for expression in found.values() for name in expression.names} & inputs.keys())
    return Scalars(found, tuple((name, inputs[name][0], cast("TensorSpec", inputs[name][1]).dtype) for name in read))


def _plan(
    expressions: Mapping[str, Expression], read: list[Operand], written: list[Operand], scalars: Scalars, make: Make
) -> Launch | LaidOut:
    dims = written[0].dims
    for operand in (*read, *written):
        if not _broadcasts(operand.dims, dims):
            raise Unsupported(
                f"{operand.name} {show_dims(operand.dims)} does not broadcast to {written[0].name} {show_dims(dims)}"
            )
    if any(operand.dims != dims for operand in written):
        raise Unsupported("its outputs differ in shape")
    chosen, layouts = _layouts(expressions, read, written)
    laid = [_steps(operand, dims, layouts.get(operand.slot.letter, operand.spec.layout)) for operand in read]
    laid += [_steps(operand, dims, chosen) for operand in written]
    size = chosen.nbytes // written[0].spec.dtype.itemsize if isinstance(chosen, Opaque) else written[0].spec.size
    axes = [(size, tuple(steps[-1] for steps in laid))] if isinstance(chosen, Opaque) else _merged(dims, laid)
    if len(axes) > MOST_AXES:
        raise Unsupported(f"broadcasting leaves {len(axes)} dimensions, at most {MOST_AXES} are compiled")
    if any(step not in (0, 1) for step in axes[-1][1]):
        raise Unsupported("an operand is not dense along the innermost dimension of the output")
    names = {operand.name: Expression.parse(f"a{i}") for i, operand in enumerate(read)}
    names |= {name: Expression.parse(f"s{i}") for i, name in enumerate(scalars.expressions)}
    results = tuple(expressions[operand.name].substitute(names) for operand in written)
    launch = make(results, read, written, axes, scalars.renamed())
    return LaidOut(launch, layouts | {operand.slot.letter: chosen for operand in written})


def _broadcasts(dims: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    extra = len(wanted) - len(dims)
    return extra >= 0 and all(mine in (1, theirs) for mine, theirs in zip(dims, wanted[extra:], strict=True))


def _layouts(
    expressions: Mapping[str, Expression], read: list[Operand], written: list[Operand]
) -> tuple[Layout, dict[str, Layout]]:
    """Return the layout of all outputs, and wishes for inputs that lie otherwise."""
    dims = written[0].dims
    full = [operand for operand in read if operand.dims == dims and tuple(operand.spec.shape) == dims]
    others = [operand for operand in read if operand not in full]
    chosen = _chosen_layout(full, written)
    scalars = all(operand.spec.size == 1 for operand in others)
    alike = len({operand.spec.dtype for operand in (*full, *written)}) == 1  # a vendor's layout is for one type
    if isinstance(chosen, Opaque) and not (scalars and alike):
        chosen = ROW_MAJOR
    padded = isinstance(chosen, Opaque) and chosen.nbytes != written[0].spec.nbytes
    if padded and not _keeps_zero(expressions, full, others):
        chosen = ROW_MAJOR
    wishes: dict[str, Layout] = {
        operand.slot.letter: ROW_MAJOR for operand in others if operand.spec.layout != ROW_MAJOR
    }
    for operand in full:
        if operand.spec.layout != chosen:
            wishes[operand.slot.letter] = chosen
    for letter in wishes:  # a variadic letter has one layout for all its blobs
        shapes = {operand.spec.shape for operand in read if operand.slot.letter == letter}
        if len(shapes) > 1:
            wishes[letter] = chosen = ROW_MAJOR
    return chosen, wishes


def _keeps_zero(expressions: Mapping[str, Expression], full: list[Operand], others: list[Operand]) -> bool:
    """Whether zeros stay zeros: kernels count on zeros in the padding of a vendor's layout."""
    given = {
        one.name: np.full((), value, np.float32 if one.spec.dtype.is_float else one.spec.dtype.numpy)
        for value, operands in enumerate((full, others))
        for one in operands
    }
    with np.errstate(all="ignore"):
        values = [
            one.evaluate({name: given.get(name, np.float32(1)) for name in one.names}) for one in expressions.values()
        ]
    return all(np.all(value == 0) for value in values)


def _chosen_layout(full: list[Operand], written: list[Operand]) -> Layout:
    overwritten = {operand.blob for operand in written}
    # Of several, the last is what outlives a net: the parameter of an update. One that nobody has laid out yet follows
    # the gradient, once: the gradient would be brought to it in every step.
    laid = [one.spec.layout for one in reversed(full) if one.blob in overwritten and dense(one.spec)]
    if laid:
        return next((layout for layout in laid if layout != ROW_MAJOR), ROW_MAJOR)
    wish = written[0].spec.layout
    offered = [operand.spec.layout for operand in full if dense(operand.spec)]
    if wish in offered and wish != ROW_MAJOR:
        return wish
    return offered[0] if offered else ROW_MAJOR


def dense(spec: TensorSpec) -> bool:
    """Whether the elements lie without gaps, each once, in whatever order."""
    if not isinstance(spec.layout, Strided):
        return True
    expected = 1
    steps = spec.layout.steps(spec.shape)
    for step, extent in sorted(zip(steps, spec.shape, strict=True)):
        if extent == 1:
            continue
        if step != expected:
            return False
        expected *= extent
    return True


def _steps(operand: Operand, dims: tuple[int, ...], layout: Layout) -> tuple[int, ...]:
    """Return the distance in elements between neighbours along each dimension of the output; 0 where it is repeated."""
    if not isinstance(layout, Strided):
        return (1,)
    shape = operand.spec.shape
    own = layout.steps(shape) if tuple(shape) == operand.dims else _row_major(operand.dims)
    steps = [0 if extent == 1 else step for extent, step in zip(operand.dims, own, strict=True)]
    padded = (0,) * (len(dims) - len(steps)) + tuple(steps)
    return padded if dims else (0,)


def _row_major(dims: tuple[int, ...]) -> tuple[int, ...]:
    steps, step = [0] * len(dims), 1
    for axis in reversed(range(len(dims))):
        steps[axis] = step
        step *= dims[axis]
    return tuple(steps)


def _merged(dims: tuple[int, ...], laid: list[tuple[int, ...]]) -> list[tuple[int, tuple[int, ...]]]:
    """Return (extent, step of each operand) of the dimensions, outermost first in memory, merged where all go on."""
    if 0 in dims:
        return [(0, (1,) * len(laid))]
    axes = [(extent, tuple(steps[k] for steps in laid)) for k, extent in enumerate(dims)]
    axes.sort(key=lambda axis: -axis[1][-1])  # the last operand is an output: dense
    found = merged(axes)
    return found if found else [(1, (0,) * len(laid))]
