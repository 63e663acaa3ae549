"""Numbers by lines between bounds: PiecewiseLinearTransform.

Letters: G groups of F pieces: bounds are G * (F + 1), slopes and intercepts G * F numbers, one group behind the other.

Source: Caffe2.
"""

from __future__ import annotations

import numpy as np

from tazza.errors import ArgumentError
from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    Effects,
    OpView,
    Role,
    arg,
    blob,
    forbidden,
    kernel,
    schema,
    show_dims,
    streamed,
    together,
)
from tazza.ops.shape.axis import agree, product
from tazza.tensor import TensorSpec

NAMES = ("bounds", "slopes", "intercepts")
PIECEWISE_LINEAR_TRANSFORM = schema(
    "PiecewiseLinearTransform",
    """Y = slope * X + intercept of the piece that X lies in; below the first bound and above the last, as there.

    Column g of X goes by group g. With `binary` there is one group, for a list, a column, or the second of two
    columns, the first of which becomes 1 less that one's Y. A bound belongs to the piece below it.""",
    inputs=[
        blob("X", FLOAT, doc="(N, G), with `binary` (N), (N, 1) or (N, 2)"),
        *(blob(name, FLOAT, optional=True, role=Role.PARAMETER, doc="instead of the argument") for name in NAMES),
    ],
    outputs=[blob("Y", like="X")],
    args=[
        *(arg(name, list[float], [], doc="all three, or all as inputs") for name in NAMES),
        arg("binary", bool, False, doc="one group, for chances of two classes"),
    ],
    effects=Effects.PURE,
    relations=[together(*NAMES)],
    no_gradient=forbidden("Caffe2 forbids it"),
    source="Caffe2",
    example="""
    >>> line = {"bounds": [0.0, 1.0, 2.0], "slopes": [1.0, 2.0], "intercepts": [0.0, 1.0]}
    >>> run("PiecewiseLinearTransform", [[0.5], [1.5], [9.0]], **line)[:, 0]
    array([0.5, 4. , 5. ], dtype=float32)
    """,
)


def group_count(op: OpView, bounds: int, slopes: int, intercepts: int) -> int:
    """Return G.

    Raises:
        ShapeError: so many numbers make no groups.
    """
    relation = f"there are {bounds} bounds, {slopes} slopes and {intercepts} intercepts"
    G = bounds - slopes
    hint = "each group has as many slopes as intercepts, and one bound more"
    op.require(slopes == intercepts and G > 0 and slopes % G == 0 and slopes > 0, relation, hint)
    op.require(not op.binary or G == 1, relation, "with binary there is one group")
    return G


@PIECEWISE_LINEAR_TRANSFORM.validate
def piecewise_linear_validate(op: OpView) -> None:
    given = [len(op.arguments[name]) for name in NAMES]
    if op.has_input("bounds") == any(given):
        raise op.error(ArgumentError, "bounds, slopes and intercepts are arguments, or inputs", "give all three once")
    if any(given):
        G = group_count(op, *given)
        groups = np.reshape(op.bounds, (G, -1))
        if (np.diff(groups) < 0).any():
            raise op.error(ArgumentError, f"bounds = {op.bounds} are not sorted in each group")


@PIECEWISE_LINEAR_TRANSFORM.infer
def piecewise_linear_infer(op: OpView, X: TensorSpec, **given: TensorSpec | None) -> TensorSpec:
    counts = [len(op.arguments[name]) for name in NAMES]
    if op.has_input("bounds"):
        counts = [None if one is None or one.dims is None else product(one.dims) for one in given.values()]
    known = [count for count in counts if count is not None]
    G = group_count(op, *known) if len(known) == len(NAMES) else None
    if X.dims is not None:
        relation = f"X has the shape {show_dims(X.dims)}"
        if op.binary:
            fits = len(X.dims) == 1 or (len(X.dims) == 2 and X.dims[1] in (None, 1, 2))
            op.require(fits, relation, "with binary a list, one column or two")
        else:
            op.require(len(X.dims) == 2 and agree(X.dims[1], G), relation, f"one column for each of {G} groups")
    return X


@PIECEWISE_LINEAR_TRANSFORM.cost
def piecewise_linear_cost(op: OpView, X: TensorSpec, Y: TensorSpec, **given: TensorSpec | None) -> Cost:
    del op
    return streamed((X, *given.values()), (Y,), flops=6 * Y.size)


def transformed(bounds: Array, slopes: Array, intercepts: Array, x: Array) -> Array:
    """Return what one group makes of numbers."""
    piece = np.clip(np.searchsorted(bounds, x) - 1, 0, slopes.size - 1)
    return slopes[piece] * np.clip(x, bounds[0], bounds[-1]) + intercepts[piece]


@kernel(PIECEWISE_LINEAR_TRANSFORM)
def piecewise_linear(
    op: OpView, X: Array, bounds: Array | None, slopes: Array | None, intercepts: Array | None, Y: Array
) -> None:
    inputs = (bounds, slopes, intercepts)
    lists = [
        np.array(op.arguments[name], np.float32) if one is None else one.reshape(-1)
        for name, one in zip(NAMES, inputs, strict=True)
    ]
    if op.binary:
        made = transformed(lists[0], lists[1], lists[2], X if X.ndim == 1 else X[:, -1])
        Y[...] = np.stack([1 - made, made], axis=1) if X.ndim == 2 and X.shape[1] == 2 else made.reshape(X.shape)
        return
    groups = lists[0].size - lists[1].size
    for g, (b, s, i) in enumerate(zip(*(one.reshape(groups, -1) for one in lists), strict=True)):
        Y[:, g] = transformed(b, s, i, X[:, g])
