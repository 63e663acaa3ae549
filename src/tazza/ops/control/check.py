"""What ends a run where values are not as they should be: Assert, EnforceFinite, NanCheck."""

from __future__ import annotations

import numpy as np

from tazza.errors import NumericError
from tazza.operator import (
    FLOAT,
    INDEX,
    Array,
    Cost,
    Effects,
    GradientRequest,
    OpView,
    Role,
    Spec,
    arg,
    blob,
    forbidden,
    host_kernel,
    not_written,
    schema,
)
from tazza.proto import OperatorDef
from tazza.tensor import Blob, DataType, Tensor, TensorSpec

LISTED = 5
"""Places that a message names."""


def at(places: Array) -> str:
    """Return the first of some places for a message; a place is an index of the flat tensor."""
    shown = ", ".join(str(place) for place in places[:LISTED])
    return f"{shown} ..." if len(places) > LISTED else shown


def refuse_infinite(op: OpView, X: Blob, hint: str | None = None) -> None:
    """Raise a `NumericError` that names the places of a tensor that are NaN or infinite, if there are any."""
    flat = X.get(Tensor).plain().reshape(-1)
    places = np.flatnonzero(~np.isfinite(flat))
    if len(places):
        relation = f"element {at(places)} of {X.name!r} with {flat.size} elements is not finite: {flat[places[0]]}"
        raise op.error(NumericError, relation, hint)


ASSERT = schema(
    "Assert",
    "Ends the run unless no element of X is 0.",
    inputs=[blob("X", INDEX | {DataType.BOOL}, doc="of any shape")],
    args=[arg("error_msg", str, "", doc="what the error says")],
    effects=Effects.STATE,
    no_gradient=not_written("it has no output"),
    source="Caffe2",
    example="""
    >>> run("Assert", [1, 2])
    ()
    """,
)


@ASSERT.cost
def assert_cost(op: OpView, X: TensorSpec) -> Cost:
    del op
    return Cost(X.size, X.nbytes)


@host_kernel(ASSERT)
def assert_(op: OpView, X: Blob) -> None:
    flat = X.get(Tensor).plain().reshape(-1)
    places = np.flatnonzero(flat == 0)
    if len(places):
        hint = op.error_msg if op.error_msg else None
        raise op.error(NumericError, f"element {at(places)} of {X.name!r} with {flat.size} elements is 0", hint)


ENFORCE_FINITE = schema(
    "EnforceFinite",
    "Ends the run where an element of X is NaN or infinite.",
    inputs=[blob("X", FLOAT | {DataType.DOUBLE}, doc="of any shape")],
    effects=Effects.STATE,
    no_gradient=forbidden("it has no output"),
    source="Caffe2",
    example="""
    >>> run("EnforceFinite", [1.0, 2.0])
    ()
    """,
)
ENFORCE_FINITE.cost(assert_cost)


@host_kernel(ENFORCE_FINITE)
def enforce_finite(op: OpView, X: Blob) -> None:
    refuse_infinite(op, X)


NAN_CHECK = schema(
    "NanCheck",
    """Y = X, unless an element of X is NaN or infinite, which ends the run.

    `others` are not looked at; the error tells their names, as what X was computed from.""",
    inputs=[
        blob("X", FLOAT, "*S"),
        blob("others", type_name="*", optional=True, variadic=True, role=Role.DATA),
    ],
    outputs=[blob("Y", like="X")],
    in_place={"Y": "X"},
    effects=Effects.STATE,
    source="Caffe2",
    example="""
    >>> run("NanCheck", [1.0, 2.0])
    array([1., 2.], dtype=float32)
    """,
)


@NAN_CHECK.cost
def nan_check_cost(op: OpView, X: Spec, others: tuple[Spec, ...], Y: Spec) -> Cost:
    del op, others, Y
    return Cost(X.size, X.nbytes, X.nbytes) if isinstance(X, TensorSpec) else Cost()


@NAN_CHECK.gradient
def nan_check_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("NanCheck", [g.dY], [g.dX])


@host_kernel(NAN_CHECK)
def nan_check(op: OpView, X: Blob, others: tuple[Blob, ...], Y: Blob) -> None:
    names = ", ".join(repr(one.name) for one in others)
    refuse_infinite(op, X, f"look at {names}" if names else None)
    if Y is not X:
        Y.tensor().assign(X.get(Tensor).plain())
