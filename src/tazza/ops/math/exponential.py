"""Exponentials, logarithms and powers: Exp, Log, Sqrt, Rsqrt, Sqr, Cube, Pow. X and Y have one shape S.

C = A^B of Pow has the shape of A; with `broadcast` B lies under A, see `ops.broadcast`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tazza.data_class import dataclass
from tazza.errors import ArgumentError
from tazza.operator import (
    FLOAT,
    Array,
    Effects,
    GradientRequest,
    OpSchema,
    OpView,
    Role,
    arg,
    blob,
    ends,
    family,
    formula,
    kernel,
    schema,
    show_dims,
)
from tazza.ops.math.broadcast import BROADCAST_ARGS, align_b, check_axis, lying, under
from tazza.ops.math.elementwise import formula_cost
from tazza.ops.math.sum import SUMMABLE
from tazza.ops.shape.axis import shapes_agree
from tazza.proto import OperatorDef
from tazza.runtime.log import logger
from tazza.tensor import DataType, TensorSpec


def exp_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("Mul", [g.Y, g.dY], [g.dX])


def log_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("Div", [g.dY, g.X], [g.dX])


def sqrt_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("Scale", [g.dY], [g.dX], scale=0.5) + g.emit("Div", [g.dX, g.Y], [g.dX])


def rsqrt_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("RsqrtGradient", [g.dY, g.Y], [g.dX])


def sqr_gradient(g: GradientRequest) -> list[OperatorDef]:
    # Caffe2 doubles dY in place, which is wrong for whoever reads dY after that.
    return g.emit("Scale", [g.dY], [g.dX], scale=2.0) + g.emit("Mul", [g.dX, g.X], [g.dX])


def cube_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("CubeGradient", [g.dY, g.X], [g.dX])


@dataclass(frozen=True, slots=True)
class Power:
    """What tells one operator of a single tensor from another; `text` is its formula."""

    doc: str
    text: str
    compute: Callable[[Array], Array]
    gradient: Callable[[GradientRequest], list[OperatorDef]]
    example: str
    dtypes: frozenset[DataType] = FLOAT
    in_place: bool = True


@family(
    {
        "Exp": Power(
            "Y = e^X.",
            "exp(X)",
            np.exp,
            exp_gradient,
            """
            >>> run("Exp", [0.0, -1000.0])
            array([1., 0.], dtype=float32)
            """,
        ),
        "Log": Power(
            "Y = the natural logarithm of X; minus infinity at 0, NaN below.",
            "log(X)",
            np.log,
            log_gradient,
            """
            >>> run("Log", [1.0, 0.0])
            array([  0., -inf], dtype=float32)
            """,
        ),
        "Sqrt": Power(
            "Y = the square root of X; NaN below 0.",
            "sqrt(X)",
            np.sqrt,
            sqrt_gradient,
            """
            >>> run("Sqrt", [4.0, 0.25])
            array([2. , 0.5], dtype=float32)
            """,
            dtypes=frozenset({DataType.FLOAT, DataType.DOUBLE}),
        ),
        "Rsqrt": Power(
            "Y = 1 / the square root of X; infinity at 0, NaN below.",
            "rsqrt(X)",
            lambda X: 1 / np.sqrt(X),
            rsqrt_gradient,
            """
            >>> run("Rsqrt", [4.0, 0.25])
            array([0.5, 2. ], dtype=float32)
            """,
        ),
        "Sqr": Power(
            "Y = X^2.",
            "square(X)",
            np.square,
            sqr_gradient,
            """
            >>> run("Sqr", [-3.0, 0.5])
            array([9.  , 0.25], dtype=float32)
            """,
        ),
        "Cube": Power(
            "Y = X^3.",
            "cube(X)",
            lambda X: X * X * X,
            cube_gradient,
            """
            >>> run("Cube", [-3, 2])
            array([-27,   8], dtype=int32)
            """,
            dtypes=SUMMABLE,
            in_place=False,
        ),
    }
)
def powers(type: str, row: Power) -> OpSchema:
    """An exponential, logarithm or power of one tensor."""
    made = schema(
        type,
        row.doc,
        inputs=[blob("X", row.dtypes, "*S")],
        outputs=[blob("Y", like="X")],
        in_place={"Y": "X"} if row.in_place else None,
        effects=Effects.PURE,
        source="Caffe2",
        example=row.example,
    )
    formula(made, Y=row.text)
    made.cost(formula_cost)
    made.gradient(row.gradient)

    @kernel(made)
    def compute(X: Array, Y: Array) -> None:
        np.copyto(Y, row.compute(X))

    return made


RSQRT_GRADIENT = schema(
    "RsqrtGradient",
    """dX = -dY * Y^3 / 2.

    From Y = X^(-1/2).""",
    inputs=[blob("dY", FLOAT, "*S"), blob("Y", "dY", "*S")],
    outputs=[blob("dX", like="dY")],
    in_place={"dX": "dY"},
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    example="""
    >>> run("RsqrtGradient", [1.0], [2.0])
    array([-4.], dtype=float32)
    """,
)
formula(RSQRT_GRADIENT, dX="-0.5 * dY * cube(Y)")
RSQRT_GRADIENT.cost(formula_cost)


@kernel(RSQRT_GRADIENT)
def rsqrt_gradient_kernel(dY: Array, Y: Array, dX: Array) -> None:
    np.multiply(dY, Y * Y * Y / -2, out=dX)


CUBE_GRADIENT = schema(
    "CubeGradient",
    "dX = 3 * dY * X^2.",
    inputs=[blob("dY", SUMMABLE, "*S"), blob("X", "dY", "*S")],
    outputs=[blob("dX", like="X")],
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    example="""
    >>> run("CubeGradient", [5, 5], [-3, 2])
    array([135,  60], dtype=int32)
    """,
)
formula(CUBE_GRADIENT, dX="3 * dY * square(X)")
CUBE_GRADIENT.cost(formula_cost)


@kernel(CUBE_GRADIENT)
def cube_gradient_kernel(dY: Array, X: Array, dX: Array) -> None:
    np.multiply(dY, X * X * 3, out=dX)


POW = schema(
    "Pow",
    """C = A^B, or A^exponent where there is no B.

    NaN for a negative A with a fraction as exponent; 0^0 is 1. Gradients: dA = dC * B * A^(B - 1), for which 1 is
    taken from B; dB = dC * C * log(A), NaN where A is 0.""",
    inputs=[
        blob("A", FLOAT),
        blob("B", "A", optional=True, role=Role.PARAMETER, doc="the shape of A; with `broadcast` it lies under A"),
    ],
    outputs=[blob("C", like="A")],
    args=[arg("exponent", float, None, doc="one exponent for all; no effect where there is B"), *BROADCAST_ARGS],
    in_place={"C": ("A", "B")},
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("Pow", [1.0, 2.0, 3.0], exponent=2.0)
    array([1., 4., 9.], dtype=float32)
    >>> run("Pow", [[2.0, 3.0], [4.0, 5.0]], [1.0, 2.0], broadcast=1, axis=0)
    array([[ 2.,  3.],
           [16., 25.]], dtype=float32)
    """,
)
formula(POW, lambda op: {"C": "pow(A, B)" if op.has_input("B") else "pow(A, exponent)"}, align=align_b)
POW.cost(formula_cost)


@POW.validate
def pow_validate(op: OpView) -> None:
    check_axis(op)
    if not op.has_input("B"):
        if op.exponent is None:
            raise op.error(ArgumentError, "it has neither an input B nor the argument 'exponent'", "give one of them")
    elif not op.broadcast and (op.axis != -1 or op.axis_str):
        raise op.error(ArgumentError, f"axis = {op.axis}, axis_str = {op.axis_str!r} without broadcast", "broadcast=1")


@POW.infer
def pow_infer(op: OpView, A: TensorSpec, B: TensorSpec | None) -> TensorSpec:
    if A.dims is not None and B is not None and B.dims is not None:
        relation = f"A has the shape {show_dims(A.dims)}, B has {show_dims(B.dims)}"
        op.require(op.broadcast or shapes_agree(A.dims, B.dims), relation, "for a B that lies under A: broadcast=1")
        if op.broadcast:
            under(op, A.dims, B.dims)
    return TensorSpec(A.dims, A.dtype)


def pow_gradient(g: GradientRequest) -> list[OperatorDef]:
    if not g.op.has_input("B"):
        exponent = float(g.op.exponent)
        if g.in_place("A") and exponent:
            return _gradient_from_power(g, exponent)
        steps = g.emit("Pow", [g.A], [g.dA], exponent=exponent - 1) + g.emit("Mul", [g.dA, g.dC], [g.dA])
        return steps + g.emit("Scale", [g.dA], [g.dA], scale=exponent)
    axis: dict[str, Any] = {name: g.op.arguments[name] for name in ("axis", "axis_str", "order")}
    spread: dict[str, Any] = {"broadcast": g.op.broadcast, **axis} if g.op.broadcast else {}
    unsummed = f"{g.dB}_autogen_pre_red"
    return [
        *g.emit("ConstantFill", [g.B], [g.dB], value=1.0),  # dB holds B - 1 for a while
        *g.emit("Sub", [g.B, g.dB], [g.dB]),
        *g.emit("Pow", [g.A, g.dB], [g.dA], **spread),
        *g.emit("Mul", [g.dA, g.dC], [g.dA]),
        *g.emit("Mul", [g.dA, g.B], [g.dA], **spread),
        *g.emit("Log", [g.A], [unsummed]),
        *g.emit("Mul", [unsummed, g.C], [unsummed]),
        *g.emit("Mul", [unsummed, g.dC], [unsummed if g.op.broadcast else g.dB]),
        *(g.emit("SumReduceLike", [unsummed, g.B], [g.dB], **axis) if g.op.broadcast else ()),
    ]


def _gradient_from_power(g: GradientRequest, exponent: float) -> list[OperatorDef]:
    """A is gone: A^(e - 1) is taken from C = A^e, as C^((e - 1) / e), which holds where A is not negative.

    Where it is, an odd exponent gives NaN; an even one gives the slope at -A, and nobody can tell: hence the warning.
    """
    if exponent % 2 == 0:
        logger.warning("gradient of Pow in place: %r is taken for positive, its sign is lost", g.definition.input[0])
    return [
        *g.emit("Pow", [g.C], [g.dA], exponent=(exponent - 1) / exponent),
        *g.emit("Mul", [g.dA, g.dC], [g.dA]),
        *g.emit("Scale", [g.dA], [g.dA], scale=exponent),
    ]


POW.gradient(pow_gradient, copy_arguments=False)


@kernel(POW)
def pow_(op: OpView, A: Array, B: Array | None, C: Array) -> None:
    exponents = np.asarray(op.exponent, A.dtype) if B is None else lying(op, A, B)
    np.power(A, exponents, out=C)
