"""Circular and hyperbolic functions: Sin, Cos, Tan, Asin, Acos, Atan, Sinh, Cosh. All blobs have one shape S.

Angles are radians. The gradients of all are dX = dY times a slope that follows from X.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tazza.data_class import dataclass
from tazza.operator import (
    FLOAT,
    Array,
    Effects,
    GradientRequest,
    OpSchema,
    blob,
    ends,
    family,
    formula,
    gradients_of,
    kernel,
    schema,
)
from tazza.ops.math.elementwise import formula_cost
from tazza.proto import OperatorDef


@dataclass(frozen=True, slots=True)
class Rule:
    """A function of X: in words, as a text in the language of formulas, and in NumPy."""

    words: str
    text: str
    compute: Callable[[Array], Array]


@dataclass(frozen=True, slots=True)
class Curve:
    """A function and its slope, and both at 0 in the examples; the gradient reads X and dY, or `dY_first`."""

    value: Rule
    slope: Rule
    value_at_0: str
    twice_slope_at_0: str
    dY_first: bool = False


@family(
    {
        "Sin": Curve(
            Rule("the sine of X", "sin(X)", np.sin),
            Rule("the cosine of X", "cos(X)", np.cos),
            value_at_0="0.",
            twice_slope_at_0="2.",
        ),
        "Cos": Curve(
            Rule("the cosine of X", "cos(X)", np.cos),
            Rule("minus the sine of X", "-sin(X)", lambda X: -np.sin(X)),
            value_at_0="1.",
            twice_slope_at_0="-0.",
        ),
        "Tan": Curve(
            Rule("the tangent of X", "sin(X) / cos(X)", np.tan),
            Rule("1 / cos(X)^2", "1 / square(cos(X))", lambda X: 1 / np.cos(X) ** 2),
            value_at_0="0.",
            twice_slope_at_0="2.",
        ),
        "Asin": Curve(
            Rule("the angle in [-pi/2, pi/2] whose sine is X; NaN beyond -1 and 1", "asin(X)", np.arcsin),
            Rule("1 / sqrt(1 - X^2)", "rsqrt(1 - square(X))", lambda X: 1 / np.sqrt(1 - X * X)),
            value_at_0="0.",
            twice_slope_at_0="2.",
        ),
        "Acos": Curve(
            Rule("the angle in [0, pi] whose cosine is X; NaN beyond -1 and 1", "acos(X)", np.arccos),
            Rule("-1 / sqrt(1 - X^2)", "-rsqrt(1 - square(X))", lambda X: -1 / np.sqrt(1 - X * X)),
            value_at_0="1.5707964",
            twice_slope_at_0="-2.",
        ),
        "Atan": Curve(
            Rule("the angle in (-pi/2, pi/2) whose tangent is X", "atan(X)", np.arctan),
            Rule("1 / (1 + X^2)", "1 / (1 + square(X))", lambda X: 1 / (1 + X * X)),
            value_at_0="0.",
            twice_slope_at_0="2.",
        ),
        "Sinh": Curve(
            Rule("(e^X - e^-X) / 2", "(expm1(X) - expm1(-X)) / 2", np.sinh),
            Rule("the hyperbolic cosine of X", "(exp(X) + exp(-X)) / 2", np.cosh),
            value_at_0="0.",
            twice_slope_at_0="2.",
            dY_first=True,
        ),
        "Cosh": Curve(
            Rule("(e^X + e^-X) / 2", "(exp(X) + exp(-X)) / 2", np.cosh),
            Rule("the hyperbolic sine of X", "(expm1(X) - expm1(-X)) / 2", np.sinh),
            value_at_0="1.",
            twice_slope_at_0="0.",
            dY_first=True,
        ),
    }
)
def curves(type: str, row: Curve) -> OpSchema:
    """A circular or hyperbolic function."""
    made = schema(
        type,
        f"Y = {row.value.words}.",
        inputs=[blob("X", FLOAT, "*S")],
        outputs=[blob("Y", like="X")],
        effects=Effects.PURE,
        source="Abramowitz, Stegun 1964, chapter 4",
        example=f"""
        >>> run("{type}", [0.0])
        array([{row.value_at_0}], dtype=float32)
        """,
    )
    formula(made, Y=row.value.text)
    made.cost(formula_cost)

    @made.gradient
    def curve_gradient(g: GradientRequest) -> list[OperatorDef]:
        return g.emit(f"{type}Gradient", [g.dY, g.X] if row.dY_first else [g.X, g.dY], [g.dX])

    @kernel(made)
    def curve(X: Array, Y: Array) -> None:
        np.copyto(Y, row.value.compute(X))

    return made


@family(gradients_of(curves))
def curve_gradients(type: str, row: Curve) -> OpSchema:
    """The gradient operator of a circular or hyperbolic function."""
    pair, at_0 = [blob("X", FLOAT, "*S"), blob("dY", FLOAT, "*S")], ["[0.0]", "[2.0]"]
    made = schema(
        type,
        f"dX = dY * slope; the slope is {row.slope.words}.",
        inputs=pair[::-1] if row.dY_first else pair,
        outputs=[blob("dX", like="X")],
        effects=Effects.PURE,
        no_gradient=ends("second derivatives are not built"),
        example=f"""
        >>> run("{type}", {", ".join(at_0[::-1] if row.dY_first else at_0)})
        array([{row.twice_slope_at_0}], dtype=float32)
        """,
    )
    formula(made, dX=f"dY * ({row.slope.text})")
    made.cost(formula_cost)

    @kernel(made)
    def curve_gradient_kernel(X: Array, dY: Array, dX: Array) -> None:
        np.multiply(dY, row.slope.compute(X), out=dX)

    return made
