"""Circular and hyperbolic functions: Sin, Cos, Tan, Asin, Acos, Atan, Sinh, Cosh. All blobs have one shape S.

Angles are radians. The gradients of all are dX = dY times a slope that follows from X. The language of formulas has no
arc functions, so these have no formula.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from tazza.operator import FLOAT, Array, Cost, Effects, OpSchema, OpView, blob, ends, formula, kernel, schema
from tazza.ops.math.elementwise import formula_cost
from tazza.tensor import TensorSpec

Compute: TypeAlias = "Callable[[Array], Array]"

ARC_FLOPS = 25
"""Operations of an arc function or the like, where no formula says it."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A function of X: in words, as a text in the language of formulas (None: it has none), and in NumPy."""

    words: str
    text: str | None
    compute: Compute


def _declare(
    type: str, value: Rule, slope: Rule, example: str, *, twice_slope_at_0: str, dY_first: bool = False
) -> tuple[OpSchema, OpSchema]:
    """Declare an operator and its gradient operator, whose inputs are X and dY, or dY and X."""
    forward = schema(
        type,
        f"Y = {value.words}.",
        inputs=[blob("X", FLOAT, "*S")],
        outputs=[blob("Y", like="X")],
        effects=Effects.PURE,
        source="Abramowitz, Stegun 1964, chapter 4",
        example=example,
    )
    at_0 = "[2.0], [0.0]" if dY_first else "[0.0], [2.0]"
    pair = [blob("X", FLOAT, "*S"), blob("dY", FLOAT, "*S")]
    backward = schema(
        f"{type}Gradient",
        f"dX = dY * slope; the slope is {slope.words}.",
        inputs=pair[::-1] if dY_first else pair,
        outputs=[blob("dX", like="X")],
        effects=Effects.PURE,
        no_gradient=ends("second derivatives are not built"),
        example=f"""
        >>> run("{type}Gradient", {at_0})
        array([{twice_slope_at_0}], dtype=float32)
        """,
    )

    def compute_y(X: Array, Y: Array) -> None:
        np.copyto(Y, value.compute(X))

    def compute_dx(X: Array, dY: Array, dX: Array) -> None:
        np.multiply(dY, slope.compute(X), out=dX)

    kernel(forward)(compute_y)
    kernel(backward)(compute_dx)
    if value.text is None:
        forward.cost(_arc_cost)
    else:
        formula(forward, Y=value.text)
        forward.cost(formula_cost)
    if slope.text is not None:
        formula(backward, dX=f"dY * ({slope.text})")
        backward.cost(formula_cost)
    forward.gradient(lambda g: g.emit(backward.type, [g.dY, g.X] if dY_first else [g.X, g.dY], [g.dX]))
    return forward, backward


def _arc_cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return Cost(ARC_FLOPS * X.size, X.nbytes, Y.nbytes)


SIN, SIN_GRADIENT = _declare(
    "Sin",
    Rule("the sine of X", "sin(X)", np.sin),
    Rule("the cosine of X", "cos(X)", np.cos),
    """
    >>> run("Sin", [0.0])
    array([0.], dtype=float32)
    """,
    twice_slope_at_0="2.",
)
COS, COS_GRADIENT = _declare(
    "Cos",
    Rule("the cosine of X", "cos(X)", np.cos),
    Rule("minus the sine of X", "-sin(X)", lambda X: -np.sin(X)),
    """
    >>> run("Cos", [0.0])
    array([1.], dtype=float32)
    """,
    twice_slope_at_0="-0.",
)
TAN, TAN_GRADIENT = _declare(
    "Tan",
    Rule("the tangent of X", "sin(X) / cos(X)", np.tan),
    Rule("1 / cos(X)^2", "1 / square(cos(X))", lambda X: 1 / np.cos(X) ** 2),
    """
    >>> run("Tan", [0.0])
    array([0.], dtype=float32)
    """,
    twice_slope_at_0="2.",
)
ASIN, ASIN_GRADIENT = _declare(
    "Asin",
    Rule("the angle in [-pi/2, pi/2] whose sine is X; NaN beyond -1 and 1", None, np.arcsin),
    Rule("1 / sqrt(1 - X^2)", "rsqrt(1 - square(X))", lambda X: 1 / np.sqrt(1 - X * X)),
    """
    >>> run("Asin", [0.0])
    array([0.], dtype=float32)
    """,
    twice_slope_at_0="2.",
)
ACOS, ACOS_GRADIENT = _declare(
    "Acos",
    Rule("the angle in [0, pi] whose cosine is X; NaN beyond -1 and 1", None, np.arccos),
    Rule("-1 / sqrt(1 - X^2)", "-rsqrt(1 - square(X))", lambda X: -1 / np.sqrt(1 - X * X)),
    """
    >>> run("Acos", [0.0])
    array([1.5707964], dtype=float32)
    """,
    twice_slope_at_0="-2.",
)
ATAN, ATAN_GRADIENT = _declare(
    "Atan",
    Rule("the angle in (-pi/2, pi/2) whose tangent is X", None, np.arctan),
    Rule("1 / (1 + X^2)", "1 / (1 + square(X))", lambda X: 1 / (1 + X * X)),
    """
    >>> run("Atan", [0.0])
    array([0.], dtype=float32)
    """,
    twice_slope_at_0="2.",
)
SINH, SINH_GRADIENT = _declare(
    "Sinh",
    Rule("(e^X - e^-X) / 2", "(expm1(X) - expm1(-X)) / 2", np.sinh),
    Rule("the hyperbolic cosine of X", "(exp(X) + exp(-X)) / 2", np.cosh),
    """
    >>> run("Sinh", [0.0])
    array([0.], dtype=float32)
    """,
    twice_slope_at_0="2.",
    dY_first=True,
)
COSH, COSH_GRADIENT = _declare(
    "Cosh",
    Rule("(e^X + e^-X) / 2", "(exp(X) + exp(-X)) / 2", np.cosh),
    Rule("the hyperbolic sine of X", "(expm1(X) - expm1(-X)) / 2", np.sinh),
    """
    >>> run("Cosh", [0.0])
    array([1.], dtype=float32)
    """,
    twice_slope_at_0="0.",
    dY_first=True,
)
