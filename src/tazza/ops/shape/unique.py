"""The different elements of a list, and places of elements: Unique, Find, FindDuplicateElements. Source: Caffe2."""

from __future__ import annotations

import numpy as np

from tazza.operator import (
    INDEX,
    Array,
    Cost,
    DynamicOutput,
    Effects,
    OpView,
    Role,
    arg,
    blob,
    ends,
    forbidden,
    kernel,
    not_written,
    schema,
    streamed,
)
from tazza.tensor import DataType, TensorSpec

UNIQUE = schema(
    "Unique",
    "Y = the different elements of X, the smallest first; X[n] = Y[place[n]].",
    inputs=[blob("X", INDEX, "N", role=Role.DATA)],
    outputs=[blob("Y", INDEX, dynamic=True), blob("place", DataType.INT32, optional=True)],
    effects=Effects.PURE,
    no_gradient=ends("whole numbers have no gradient"),
    source="Caffe2",
    example="""
    >>> run("Unique", [3, 1, 3, 2], outputs=2)
    (array([1, 2, 3], dtype=int32), array([2, 0, 2, 1], dtype=int32))
    """,
)


@UNIQUE.infer
def unique_infer(op: OpView, X: TensorSpec) -> tuple[TensorSpec, ...]:
    return (TensorSpec((None,), X.dtype), TensorSpec(X.dims, DataType.INT32))[: len(op.output_letters)]


@kernel(UNIQUE)
def unique(X: Array, Y: DynamicOutput, place: Array | None) -> None:
    found, places = np.unique(X, return_inverse=True)
    Y.allocate(found.shape)[...] = found
    if place is not None:
        place[...] = places.reshape(-1)


FIND = schema(
    "Find",
    "Y[n] = where in X the element query[n] stands, counted from 0; the last place of several.",
    inputs=[
        blob("X", INDEX, doc="of any shape, read as a list"),
        blob("query", "X", "*S", role=Role.DATA),
    ],
    outputs=[blob("Y", like="query")],
    args=[arg("missing_value", int, -1, minimum=-(2**31), maximum=2**31 - 1, doc="Y where X does not have it")],
    effects=Effects.PURE,
    no_gradient=not_written("Caffe2 has none"),
    source="Caffe2",
    example="""
    >>> run("Find", [5, 7, 5], [[7, 5, 6]])
    array([[ 1,  2, -1]], dtype=int32)
    """,
)
FIND_DUPLICATE_ELEMENTS = schema(
    "FindDuplicateElements",
    "Y = the places of all elements that stood in X before, sorted; NaN differs from NaN.",
    inputs=[
        blob(
            "X",
            INDEX | {DataType.FLOAT, DataType.DOUBLE, DataType.STRING},
            "N",
            role=Role.DATA,
        )
    ],
    outputs=[blob("Y", DataType.INT64, dynamic=True)],
    effects=Effects.PURE,
    no_gradient=forbidden("places have none"),
    source="Caffe2",
    example="""
    >>> run("FindDuplicateElements", [5, 7, 5, 1, 5])
    array([2, 4])
    """,
)


@FIND.cost
def find_cost(op: OpView, X: TensorSpec, query: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return streamed((X, query), (Y,), flops=X.size + query.size)


@kernel(FIND)
def find(op: OpView, X: Array, query: Array, Y: Array) -> None:
    values, behind = np.unique(X.reshape(-1)[::-1], return_index=True)
    at = np.minimum(np.searchsorted(values, query), max(values.size - 1, 0))
    if values.size:
        Y[...] = np.where(values[at] == query, X.size - 1 - behind[at], op.missing_value)
    else:
        Y[...] = op.missing_value


@FIND_DUPLICATE_ELEMENTS.infer
def find_duplicate_elements_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    del op, X
    return TensorSpec((None,), DataType.INT64)


@kernel(FIND_DUPLICATE_ELEMENTS)
def find_duplicate_elements(X: Array, Y: DynamicOutput) -> None:
    again = np.ones(X.size, bool)
    again[np.unique(X, return_index=True, equal_nan=False)[1]] = False
    places = np.flatnonzero(again)
    Y.allocate(places.shape)[...] = places
