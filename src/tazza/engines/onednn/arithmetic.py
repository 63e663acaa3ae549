"""Add, Sub, Mul and Div of floats, with broadcasting, in any layout of the operands that have the shape of C."""

from __future__ import annotations

from tazza.engines.onednn.descriptor import Descriptor
from tazza.engines.onednn.launch import PrimitiveLaunch
from tazza.engines.onednn.library import Unimplemented
from tazza.engines.onednn.prepare import Answer, onednn, wished
from tazza.engines.onednn.primitive import Attributes, Eltwise, PrimitiveDescriptor, describe
from tazza.operator import LaidOut, OpView, Unsupported
from tazza.ops.arithmetic import ADD, DIV, MUL, SUB
from tazza.ops.broadcast import align_b
from tazza.tensor import ROW_MAJOR, DataType, Layout, Opaque, TensorSpec

FLOATS = frozenset({DataType.FLOAT, DataType.BFLOAT16, DataType.FLOAT16})
ALGORITHMS = {"Add": "binary_add", "Sub": "binary_sub", "Mul": "binary_mul", "Div": "binary_div"}


@onednn(ADD, SUB, MUL, DIV, empty="zero")
def binary(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """C from A and B; over B it is computed with the two exchanged, as oneDNN may overwrite its first operand only."""
    A, C = specs["A"], specs["C"]
    if C.dtype not in FLOATS:
        return Unsupported(f"C is {C.dtype.label}: oneDNN computes with floats of 4 and 2 bytes")
    over_a, over_b = (name == op.definition.output[0] for name in op.definition.input)
    exchanged = (over_b and not over_a) or (op.type != "Div" and A.shape != C.shape)
    if op.type == "Div" and (exchanged or A.shape != C.shape):
        return Unsupported("A grows by broadcasting, or C overwrites B: oneDNN has no code for such quotients")
    sign = (Eltwise("eltwise_linear", -1.0, 0.0),) if exchanged and op.type == "Sub" else ()  # a - b = -(b - a)
    first, second = "BA" if exchanged else "AB"
    refusal = Unsupported("oneDNN has no code for these operands")
    for layout in _layouts(op, specs, in_place=over_a or over_b):
        try:
            seen = _see(op, specs, layout)
            found = _describe(ALGORITHMS[op.type], seen[first], seen[second], seen["C"], Attributes(sign))
        except Unimplemented as error:
            refusal = Unsupported(error.message)
            continue
        launch = PrimitiveLaunch(found, {"src_0": first, "src_1": second, "dst": "C"})
        reads = {letter: layout if specs[letter].shape == C.shape else ROW_MAJOR for letter in "AB"}
        return LaidOut(launch, reads | {"C": layout})
    return refusal


def _describe(
    algorithm: str, first: Descriptor, second: Descriptor, target: Descriptor, attributes: Attributes
) -> PrimitiveDescriptor:
    found = describe("binary", algorithm, first, second, target, attributes=attributes)
    if found.is_slow:
        raise Unimplemented(f"oneDNN has only its reference code ({found.implementation})")
    return found


def _layouts(op: OpView, specs: dict[str, TensorSpec], *, in_place: bool) -> list[Layout]:
    """Return the layouts of C to try, best first; an input that is overwritten leaves no choice."""
    C, names = specs["C"], dict(zip(op.input_slots, op.definition.input, strict=True))
    if in_place:
        return [specs[letter].layout for letter in "AB" if names[letter] == op.definition.output[0]][:1]
    shown = [specs[letter].layout for letter in "AB" if specs[letter].shape == C.shape]
    return list(dict.fromkeys([*([C.layout] if wished(C) else []), *shown, ROW_MAJOR]))


def _see(op: OpView, specs: dict[str, TensorSpec], layout: Layout) -> dict[str, Descriptor]:
    """Return A, B and C: in that layout where they have the shape of C, row-major where they are broadcast.

    Raises:
        Unimplemented: something is broadcast against a layout with gaps, or with axes that cannot be joined.
    """
    C = specs["C"]
    shapes = {"A": tuple(specs["A"].shape), "B": tuple(specs["B"].shape), **align_b(op, specs), "C": tuple(C.shape)}
    whole = [letter for letter in shapes if specs[letter].shape == C.shape]
    if len(whole) == len(shapes):
        return {letter: Descriptor.of(C.shape, C.dtype, layout) for letter in shapes}
    if isinstance(layout, Opaque):
        raise Unimplemented(f"oneDNN broadcasts nothing against {layout}")
    rank = len(C.shape)
    dims = {letter: (1,) * (rank - len(shape)) + shape for letter, shape in shapes.items()}
    joined = _joined(dims["A"], dims["B"], dims["C"])
    return {
        letter: Descriptor.of(C.shape, C.dtype, layout if letter in whole else ROW_MAJOR).reshape(
            joined["ABC".index(letter)]
        )
        if letter in whole
        else Descriptor.of(joined["ABC".index(letter)], C.dtype)
        for letter in shapes
    }


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
