"""A number that so many of all elements do not exceed: Quantile.

Source: Caffe2.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tazza.errors import ArgumentError, ShapeError
from tazza.operator import Array, Cost, Effects, OpView, arg, blob, forbidden, kernel, schema
from tazza.ops.shape.axis import require_one_type
from tazza.tensor import DataType, TensorSpec

QUANTILE = schema(
    "Quantile",
    """Y = a number that ceil(quantile * n) of the n elements of all X do not exceed.

    It is looked for by halving the interval of the elements: the first middle that does it, or, once the interval is no
    longer than `tol` times the sum of the sizes of its bounds, the upper bound.""",
    inputs=[blob("X", frozenset({DataType.FLOAT, DataType.DOUBLE}), variadic=True, doc="of any shapes, of one type")],
    outputs=[blob("Y", "X")],
    args=[
        arg("quantile", float, -1.0, doc="the share of the elements, in [0, 1]; has to be given"),
        arg("abs", bool, True, doc="look at the sizes of the elements"),
        arg("tol", float, 1e-3, doc="above 0"),
    ],
    effects=Effects.PURE,
    no_gradient=forbidden("it counts elements"),
    source="Caffe2",
    example="""
    >>> run("Quantile", [1.0, 5.0, 3.0, 2.0, 4.0, 0.5], quantile=0.5)
    array([2.75], dtype=float32)
    """,
)


@QUANTILE.validate
def quantile_validate(op: OpView) -> None:
    if not 0 <= op.quantile <= 1:
        raise op.error(ArgumentError, f"quantile = {op.quantile:g}, it must be in [0, 1]")
    if not op.tol > 0:
        raise op.error(ArgumentError, f"tol = {op.tol:g}, it must be above 0")


@QUANTILE.infer
def quantile_infer(op: OpView, X: tuple[TensorSpec, ...]) -> TensorSpec:
    return TensorSpec((1,), require_one_type(op, "X", X))


@QUANTILE.cost
def quantile_cost(op: OpView, X: tuple[TensorSpec, ...], Y: TensorSpec) -> Cost:
    elements = sum(spec.size for spec in X)
    rounds = max(1.0, -math.log2(op.tol))
    return Cost(math.ceil(elements * rounds), sum(spec.nbytes for spec in X), Y.nbytes)


@kernel(QUANTILE)
def quantile(op: OpView, X: tuple[Array, ...], Y: Array) -> None:
    given = np.concatenate([x.reshape(-1) for x in X])
    if given.size == 0:
        raise op.error(ShapeError, "no element in all of X, nothing has a quantile")
    ordered = np.sort(np.abs(given) if op.abs else given)
    ordered = ordered[~np.isnan(ordered)]
    count = math.ceil(np.float32(op.quantile) * np.float32(given.size))  # rounded: a tenth of 10 is 1
    Y[...] = halved(ordered, count, op.tol) if ordered.size else np.nan


def halved(ordered: Array, count: int, tol: float) -> float:
    """Return what `count` of some ordered numbers do not exceed, of their type."""
    low: np.floating[Any] = ordered[0]
    high: np.floating[Any] = ordered[-1]
    if np.searchsorted(ordered, low, side="right") >= count:
        return float(low)
    while float(high) - float(low) > tol * (abs(float(low)) + abs(float(high))):
        middle = low + (high - low) / 2
        found = int(np.searchsorted(ordered, middle, side="right"))
        if found == count:
            return float(middle)
        if not low < middle < high:  # neighbours around 0, where the interval does not get short beside its bounds
            break
        low, high = (middle, high) if found < count else (low, middle)
    return float(high)
