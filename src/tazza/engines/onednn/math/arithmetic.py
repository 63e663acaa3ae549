"""Add, Sub, Mul and Div of floats, with broadcasting, in any layout of the operands that have the shape of C.

oneDNN has code for operands that are broadcast along images, or along everything but the channels. Others are spread
in scratch memory first, by a reorder whose source has strides of 0.
"""

from __future__ import annotations

from typing import TypeAlias

from tazza.engines.onednn.descriptor import Descriptor, accepts_narrow, unless_mixed
from tazza.engines.onednn.eltwise import eltwise_ns
from tazza.engines.onednn.launch import Operand, Part, PrimitiveLaunch, SequenceLaunch
from tazza.engines.onednn.library import Unimplemented
from tazza.engines.onednn.prepare import Answer, onednn, wished
from tazza.engines.onednn.primitive import Attributes, Eltwise, describe
from tazza.engines.onednn.shape.copy import reorder
from tazza.operator import LaidOut, OpView, Unsupported
from tazza.ops.math.arithmetic import binaries
from tazza.ops.math.broadcast import align_b
from tazza.tensor import ROW_MAJOR, DataType, Dim, Layout, Opaque, Strided, TensorSpec, channels_last

FLOATS = frozenset({DataType.FLOAT, DataType.BFLOAT16, DataType.FLOAT16})
ALGORITHMS = {"Add": "binary_add", "Sub": "binary_sub", "Mul": "binary_mul", "Div": "binary_div"}


def binary_ns(op: OpView, specs: dict[str, TensorSpec]) -> float | None:
    """Return about how long it takes where one is broadcast, which compiled formulas do a little faster."""
    return None if specs["A"].shape == specs["B"].shape else eltwise_ns(op, specs)


@onednn(*binaries.schemas, empty="zero", accepts=accepts_narrow, batch_invariant=True, estimate_ns=binary_ns)
def binary(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """C from A and B; over B it is computed with the two exchanged, as oneDNN may overwrite its first operand only."""
    A, C = specs["A"], specs["C"]
    if C.dtype not in FLOATS:
        return Unsupported(f"C is {C.dtype.label}: oneDNN computes with floats of 4 and 2 bytes")
    over_a, over_b = (name == op.definition.output[0] for name in op.definition.input)
    exchanged = (over_b and not over_a) or (op.type != "Div" and A.shape != C.shape)
    sign = (Eltwise("eltwise_linear", -1.0, 0.0),) if exchanged and op.type == "Sub" else ()  # a - b = -(b - a)
    order, attributes = "BA" if exchanged else "AB", Attributes(sign)
    refusal = Unsupported("oneDNN has no code for these operands")
    for layout in _layouts(op, specs, in_place=over_a or over_b):
        for way in (_as_they_lie, _spread_first):
            try:
                seen, operands, steps = way(op, specs, layout)
                given = (seen[order[0]], seen[order[1]], seen["C"])
                found = describe("binary", ALGORITHMS[op.type], *given, attributes=attributes).unless_slow
            except Unimplemented as error:
                refusal = Unsupported(error.message)
                continue
            arguments: dict[str | int, Operand] = {"src_0": operands[order[0]], "src_1": operands[order[1]], "dst": "C"}
            launch = SequenceLaunch((*steps, PrimitiveLaunch(found, arguments)))
            return LaidOut(launch, _reads(specs, layout))
    return refusal


Way: TypeAlias = "tuple[dict[str, Descriptor], dict[str, Operand], list[PrimitiveLaunch]]"
"""What A, B and C are to the last primitive, which operands A and B are then, and the steps before it."""


def _as_they_lie(op: OpView, specs: dict[str, TensorSpec], layout: Layout) -> Way:
    """Compute C in that layout in one step.

    Raises:
        Unimplemented: oneDNN has no code for that.
    """
    return _see(op, specs, layout), {"A": "A", "B": "B"}, []


def _spread_first(op: OpView, specs: dict[str, TensorSpec], layout: Layout) -> Way:
    """First repeat each broadcast operand until it has the shape of C, in that layout.

    Raises:
        Unimplemented: oneDNN has no code for that.
    """
    C, dims = specs["C"], _dims(op, specs)
    whole = Descriptor.of(C.shape, C.dtype, layout)
    operands: dict[str, Operand] = {"A": "A", "B": "B"}
    steps: list[PrimitiveLaunch] = []
    for letter in operands:
        if specs[letter].shape != C.shape:
            operands[letter] = Part(letter)
            pairs = zip(dims[letter], Dim(dims[letter]).strides(), strict=True)
            repeated = Strided(tuple(0 if extent == 1 else step for extent, step in pairs))
            copy = reorder(Descriptor.of(C.shape, C.dtype, repeated), whole)
            steps.append(PrimitiveLaunch(copy, {"src": letter, "dst": operands[letter]}))
    return dict.fromkeys("ABC", whole), operands, steps


def _reads(specs: dict[str, TensorSpec], layout: Layout) -> dict[str, Layout]:
    C = specs["C"]
    return {letter: layout if specs[letter].shape == C.shape else ROW_MAJOR for letter in "AB"} | {"C": layout}


def _layouts(op: OpView, specs: dict[str, TensorSpec], *, in_place: bool) -> list[Layout]:
    """Return the layouts of C to try, best first; an input that is overwritten leaves no choice."""
    C, names = specs["C"], dict(zip(op.input_letters, op.definition.input, strict=True))
    if in_place:
        return [specs[letter].layout for letter in "AB" if names[letter] == op.definition.output[0]][:1]
    shown = unless_mixed([specs[letter] for letter in "AB" if specs[letter].shape == C.shape])
    dense = [channels_last(C.shape)] if len(C.shape) > 2 and any(isinstance(one, Opaque) for one in shown) else []
    return list(dict.fromkeys([*([C.layout] if wished(C) else []), *shown, *dense, ROW_MAJOR]))


def _see(op: OpView, specs: dict[str, TensorSpec], layout: Layout) -> dict[str, Descriptor]:
    """Return A, B and C: in that layout where they have the shape of C, row-major where they are broadcast.

    Raises:
        Unimplemented: something is broadcast against a layout with gaps, or with axes that cannot be joined.
    """
    C, dims = specs["C"], _dims(op, specs)
    whole = [letter for letter in dims if specs[letter].shape == C.shape]
    if len(whole) == len(dims):
        return {letter: Descriptor.of(C.shape, C.dtype, layout) for letter in dims}
    if isinstance(layout, Opaque):
        raise Unimplemented(f"oneDNN broadcasts nothing against {layout}")
    joined = dict(zip(dims, _joined(*dims.values()), strict=True))
    return {
        letter: Descriptor.of(C.shape, C.dtype, layout).reshape(extents)
        if letter in whole
        else Descriptor.of(extents, C.dtype)
        for letter, extents in joined.items()
    }


def _dims(op: OpView, specs: dict[str, TensorSpec]) -> dict[str, tuple[int, ...]]:
    """Return the dims of A, B and C, all with as many axes as C."""
    shapes = {letter: tuple(specs[letter].shape) for letter in "ABC"} | align_b(op, specs)
    rank = len(shapes["C"])
    return {letter: (1,) * (rank - len(shape)) + shape for letter, shape in shapes.items()}


def _joined(*shapes: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return shapes of one rank with neighbouring axes joined where all are broadcast alike; axes of 1 left out.

    >>> _joined((2, 3, 5, 7), (1, 3, 5, 1), (2, 3, 5, 7))
    [(2, 15, 7), (1, 15, 1), (2, 15, 7)]
    """
    made: list[list[int]] = []
    former: tuple[bool, ...] | None = None
    for extents in zip(*shapes, strict=True):
        if max(extents) == 1:
            continue
        spread = tuple(extent == 1 for extent in extents)
        if spread == former:
            made[-1] = [mine * other for mine, other in zip(made[-1], extents, strict=True)]
        else:
            made.append(list(extents))
        former = spread
    columns = made if made else [[1] * len(shapes)]
    return [tuple(column[i] for column in columns) for i in range(len(shapes))]
