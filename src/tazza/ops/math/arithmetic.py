"""Sums, differences, products and quotients: Add, Sub, Mul, Div; and SumReduceLike, which undoes broadcasting.

C has the joint shape of A and B, see `ops.broadcast`. Gradients are summed over what was broadcast.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tazza.data_class import dataclass
from tazza.errors import NumericError
from tazza.operator import (
    Array,
    Cost,
    Cut,
    Dims,
    Effects,
    GradientRequest,
    OpSchema,
    OpView,
    Role,
    RowProgram,
    Total,
    blob,
    ends,
    family,
    formula,
    kernel,
    row_program,
    schema,
    show_dims,
)
from tazza.ops.math.broadcast import AXIS_ARGS, BROADCAST_ARGS, align_b, check_axis, joint_dims, lying, summed, under
from tazza.ops.math.elementwise import formula_cost
from tazza.ops.math.sum import SUMMABLE
from tazza.ops.shape.axis import shapes_agree
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec


def binary_infer(op: OpView, A: TensorSpec, B: TensorSpec) -> TensorSpec:
    return TensorSpec(joint_dims(op, A, B), A.dtype)


def binary_gradient_infer(op: OpView, dC: TensorSpec, A: TensorSpec, B: TensorSpec) -> tuple[TensorSpec, ...]:
    C = joint_dims(op, A, B)
    if C is not None and dC.dims is not None:
        op.require(shapes_agree(dC.dims, C), f"dC has the shape {show_dims(dC.dims)}, C has {show_dims(C)}")
    return TensorSpec(A.dims, dC.dtype), TensorSpec(B.dims, dC.dtype)


def linear_gradient(g: GradientRequest) -> list[OperatorDef]:
    """Emit the gradient of Add or Sub, which needs no values."""
    return g.emit(f"{g.op.type}Gradient", [g.dC, g.like("A"), g.like("B")], [g.dA, g.dB])


def mul_gradient(g: GradientRequest) -> list[OperatorDef]:
    """Emit MulGradient; where A was overwritten, what comes out as dB is none, and the same the other way round."""
    inputs = [g.dC, g.like("A"), g.like("B")]
    dA = g.lose("A", needed="B") if g.in_place("B") else g.dA
    return g.emit("MulGradient", inputs, [dA, g.lose("B", needed="A") if g.in_place("A") else g.dB])


def div_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("DivGradient", [g.dC, g.like("A"), g.B, g.C], [g.dA, g.dB])


def add(op: OpView, A: Array, B: Array, C: Array) -> None:
    np.add(A, lying(op, A, B), out=C)


def sub(op: OpView, A: Array, B: Array, C: Array) -> None:
    np.subtract(A, lying(op, A, B), out=C)


def mul(op: OpView, A: Array, B: Array, C: Array) -> None:
    np.multiply(A, lying(op, A, B), out=C)


def div(op: OpView, A: Array, B: Array, C: Array) -> None:
    np.copyto(C, quotient(op, A, lying(op, A, B)))


@dataclass(frozen=True, slots=True)
class Binary:
    """What tells one operator of two tensors from another; `text` is its formula, C may overwrite A, and B `over_b`."""

    doc: str
    text: str
    compute: Callable[[OpView, Array, Array, Array], None]
    gradient: Callable[[GradientRequest], list[OperatorDef]]
    example: str
    over_b: bool = True


@family(
    {
        "Add": Binary(
            "C = A + B.",
            "A + B",
            add,
            linear_gradient,
            """
            >>> run("Add", [[1, 2], [3, 4]], [10, 20])
            array([[11, 22],
                   [13, 24]], dtype=int32)
            >>> run("Add", [[1, 2], [3, 4]], [10, 20], broadcast=1, axis=0)
            array([[11, 12],
                   [23, 24]], dtype=int32)
            """,
        ),
        "Sub": Binary(
            "C = A - B.",
            "A - B",
            sub,
            linear_gradient,
            """
            >>> run("Sub", [[1, 2], [3, 4]], [10, 20])
            array([[ -9, -18],
                   [ -7, -16]], dtype=int32)
            """,
        ),
        "Mul": Binary(
            "C = A * B.",
            "A * B",
            mul,
            mul_gradient,
            """
            >>> run("Mul", [[1, 2], [3, 4]], [10, 20])
            array([[10, 40],
                   [30, 80]], dtype=int32)
            """,
        ),
        "Div": Binary(
            "C = A / B.\n\nIntegers lose the fraction, as in C: -7 / 2 is -3.",
            "A / B",
            div,
            div_gradient,
            """
            >>> run("Div", [7, -7], [2])
            array([ 3, -3], dtype=int32)
            """,
            over_b=False,
        ),
    }
)
def binaries(type: str, row: Binary) -> OpSchema:
    """A sum, difference, product or quotient."""
    made = schema(
        type,
        f"{row.doc}\n\nBoth have one element type.",
        inputs=[blob("A", SUMMABLE), blob("B", "A", role=Role.PARAMETER)],
        outputs=[blob("C", "A", doc="the joint shape of A and B; with `broadcast` that of A")],
        args=BROADCAST_ARGS,
        in_place={"C": ("A", "B") if row.over_b else "A"},
        effects=Effects.PURE,
        source="Caffe2",
        example=row.example,
    )
    made.validate(check_axis)
    made.infer(binary_infer)
    made.cost(formula_cost)
    made.gradient(row.gradient)
    formula(made, C=row.text, align=align_b)
    kernel(made)(row.compute)
    return made


def spread_axes(op: OpView, whole: TensorSpec, part: TensorSpec) -> list[int]:
    """Return the axes of a whole along which a part of it is broadcast, as B is along those of A."""
    dims = under(op, whole.shape, part.shape) if op.broadcast else part.shape
    return _other_axes(whole, dims)


def _other_axes(whole: TensorSpec, dims: Dims) -> list[int]:
    laid = (1,) * (len(whole.shape) - len(dims)) + tuple(dims)
    return [axis for axis, extents in enumerate(zip(laid, whole.shape, strict=True)) if len({*extents}) > 1]


def gradient_rows(op: OpView, specs: Mapping[str, TensorSpec], dA: str, dB: str) -> RowProgram | str:
    """Return what becomes of rows along which B is broadcast, by the texts of both gradients."""
    dC, B = specs["dC"], specs["dB"]
    if specs["dA"].size != dC.size:
        return "A is broadcast"
    if B.size == dC.size:
        return RowProgram(Cut(1, dC.size), each={"dA": dA, "dB": dB})
    cut = Cut.of(dC.shape, spread_axes(op, dC, B))
    if isinstance(cut, str):
        return cut
    return RowProgram(cut, {"dB": Total("sum", dB)}, each={"dA": dA}, lies={"B": "row"})


@dataclass(frozen=True, slots=True)
class BinaryGradient:
    """What tells one gradient operator from another.

    `compute(dC, A, B)` gives the gradients in the shape of C, or views of what it is given; `flops` an element of C.
    `dA` and `dB` are the same as texts.
    """

    doc: str
    flops: int
    compute: Callable[[Array, Array, Array], tuple[Array, Array]]
    dA: str
    dB: str
    example: str


@family(
    {
        "AddGradient": BinaryGradient(
            "dA = dC, dB = dC.",
            0,
            lambda dC, A, B: (dC, dC),
            "dC",
            "dC",
            """
            >>> run("AddGradient", [[1, 2], [3, 4]], [[0, 0], [0, 0]], [0, 0])[1]
            array([4, 6], dtype=int32)
            """,
        ),
        "SubGradient": BinaryGradient(
            "dA = dC, dB = -dC.",
            1,
            lambda dC, A, B: (dC, -dC),
            "dC",
            "-dC",
            """
            >>> run("SubGradient", [[1, 2], [3, 4]], [[0, 0], [0, 0]], [0, 0])[1]
            array([-4, -6], dtype=int32)
            """,
        ),
        "MulGradient": BinaryGradient(
            "dA = dC * B, dB = dC * A.",
            2,
            lambda dC, A, B: (dC * B, dC * A),
            "dC * B",
            "dC * A",
            """
            >>> run("MulGradient", [[1, 2], [3, 4]], [[5, 6], [7, 8]], [10, 20])[1]
            array([26, 44], dtype=int32)
            """,
        ),
    }
)
def binary_gradients(type: str, row: BinaryGradient) -> OpSchema:
    """The gradient operator of Add, Sub or Mul."""
    made = schema(
        type,
        f"{row.doc}\n\nEach summed over what was broadcast.",
        inputs=[blob("dC", SUMMABLE), blob("A", "dC"), blob("B", "dC", role=Role.PARAMETER)],
        outputs=[blob("dA", like="A"), blob("dB", like="B")],
        args=BROADCAST_ARGS,
        in_place={"dA": "dC", "dB": "dC"},
        effects=Effects.PURE,
        no_gradient=ends("second derivatives are not built"),
        example=row.example,
    )
    made.validate(check_axis)
    made.infer(binary_gradient_infer)

    @made.cost
    def cost(op: OpView, dC: TensorSpec, A: TensorSpec, B: TensorSpec, dA: TensorSpec, dB: TensorSpec) -> Cost:
        del op
        read = dC.nbytes + (A.nbytes + B.nbytes if row.flops > 1 else 0)
        return Cost((row.flops + 2) * dC.size, read, dA.nbytes + dB.nbytes)

    @kernel(made)
    def compute_sums(op: OpView, dC: Array, A: Array, B: Array, dA: Array, dB: Array) -> None:
        b = lying(op, A, B)
        whole_a, whole_b = row.compute(dC, A, b)
        sums = summed(whole_a, A.shape, A), summed(whole_b, b.shape, B)
        np.copyto(dA, sums[0])  # only now, since dA or dB may be dC
        np.copyto(dB, sums[1])

    row_program(made, lambda op, specs: gradient_rows(op, specs, row.dA, row.dB))
    return made


DIV_GRADIENT = schema(
    "DivGradient",
    """dA = dC / B, dB = -dC * C / B.

    Each summed over what was broadcast. Inputs dC, A, B, C; or, where A has the shape of C, just B, C, dC.""",
    inputs=[
        blob("dC", SUMMABLE),
        blob("A", "dC", optional=True),
        blob("B", "dC", role=Role.PARAMETER),
        blob("C", "dC"),
    ],
    outputs=[blob("dA", "dC"), blob("dB", like="B")],
    args=BROADCAST_ARGS,
    in_place={"dA": "dC"},
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    example="""
    >>> run("DivGradient", [6.0, 6.0], [1.0, 8.0], [1.0, 2.0], [1.0, 4.0])
    (array([6., 3.], dtype=float32), array([ -6., -12.], dtype=float32))
    """,
)
DIV_GRADIENT.validate(check_axis)


@DIV_GRADIENT.name_inputs
def div_gradient_inputs(op: OpView, count: int) -> tuple[str, ...]:
    del op
    return ("dC", "A", "B", "C") if count == 4 else ("B", "C", "dC")


@DIV_GRADIENT.infer
def div_gradient_infer(
    op: OpView, dC: TensorSpec, A: TensorSpec | None, B: TensorSpec, C: TensorSpec
) -> tuple[TensorSpec, ...]:
    if C.dims is not None and dC.dims is not None:
        relation = f"dC has the shape {show_dims(dC.dims)}, C has {show_dims(C.dims)}"
        op.require(shapes_agree(dC.dims, C.dims), relation)
    return binary_gradient_infer(op, dC, C if A is None else A, B)


@DIV_GRADIENT.cost
def div_gradient_cost(
    op: OpView, dC: TensorSpec, A: TensorSpec | None, B: TensorSpec, C: TensorSpec, dA: TensorSpec, dB: TensorSpec
) -> Cost:
    del op, A
    return Cost(12 * dC.size, dC.nbytes + B.nbytes + C.nbytes, dA.nbytes + dB.nbytes)


@kernel(DIV_GRADIENT)
def div_gradient_kernel(op: OpView, dC: Array, A: Array | None, B: Array, C: Array, dA: Array, dB: Array) -> None:
    a = C if A is None else A
    b = lying(op, a, B)
    sums = summed(quotient(op, dC, b), a.shape, a), summed(quotient(op, -dC * C, b), b.shape, B)
    np.copyto(dA, sums[0])  # only now, since dA may be dC
    np.copyto(dB, sums[1])


row_program(DIV_GRADIENT, lambda op, specs: gradient_rows(op, specs, "dC / B", "-dC * C / B"))


SUM_REDUCE_LIKE = schema(
    "SumReduceLike",
    "C = sum of A over what would be broadcast if B lay under it; C has the shape of B, whose values do not matter.",
    inputs=[
        blob("A", frozenset({DataType.FLOAT, DataType.DOUBLE})),
        blob("B", role=Role.SHAPE, doc="of any type"),
    ],
    outputs=[blob("C", "A")],
    args=AXIS_ARGS,
    effects=Effects.PURE,
    no_gradient=ends("it stands in backward passes; second derivatives are not built"),
    source="Caffe2",
    example="""
    >>> run("SumReduceLike", [[1.0, 2.0], [3.0, 4.0]], [0.0, 0.0], axis=0)
    array([3., 7.], dtype=float32)
    """,
)
SUM_REDUCE_LIKE.validate(check_axis)


@SUM_REDUCE_LIKE.infer
def sum_reduce_like_infer(op: OpView, A: TensorSpec, B: TensorSpec) -> TensorSpec:
    if A.dims is not None and B.dims is not None:
        under(op, A.dims, B.dims)
    return TensorSpec(B.dims, A.dtype)


@SUM_REDUCE_LIKE.cost
def sum_reduce_like_cost(op: OpView, A: TensorSpec, B: TensorSpec, C: TensorSpec) -> Cost:
    del op, B
    return Cost(A.size, A.nbytes, C.nbytes)


@kernel(SUM_REDUCE_LIKE)
def sum_reduce_like(op: OpView, A: Array, B: Array, C: Array) -> None:
    dims = under(op, A.shape, B.shape)
    np.copyto(C, summed(A, [extent for extent in dims if extent is not None], B))


def _reduced_rows(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram | str:
    A = specs["A"]
    cut = Cut.of(A.shape, _other_axes(A, under(op, A.shape, specs["C"].shape)))
    return cut if isinstance(cut, str) else RowProgram(cut, {"C": Total("sum", "A")})


row_program(SUM_REDUCE_LIKE, _reduced_rows)


def quotient(op: OpView, a: Array, b: Array) -> Array:
    """Return a / b, for integers without the fraction.

    Raises:
        NumericError: an integer is divided by 0.
    """
    if a.dtype.kind == "f":
        return a / b
    if a.size > 0 and not b.all():
        raise op.error(NumericError, "B holds 0, and integers cannot be divided by 0", "insert a Cast to float")
    down = a // b
    return down + ((a % b != 0) & ((a < 0) != (b < 0)))
