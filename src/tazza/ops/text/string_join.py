"""Texts of the elements of rows or columns: StringJoin. X has N rows and M columns, a vector has one column."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tazza.operator import Array, Cost, Effects, OpView, arg, blob, forbidden, kernel, schema
from tazza.tensor import DataType, TensorSpec

JOINED = frozenset(DataType) - {DataType.FLOAT16, DataType.BFLOAT16}


STRING_JOIN = schema(
    "StringJoin",
    """strings = the elements of each row as one text, with `delimiter` behind every element, the last one too.

    With axis = 1 these are the elements of each column. Numbers have six digits; of 8 bits they are bytes.""",
    inputs=[blob("input", JOINED)],
    outputs=[blob("strings", DataType.STRING)],
    args=[
        arg("delimiter", bytes, b",", doc="what stands behind each element"),
        arg("axis", int, 0, minimum=0, maximum=1, doc="0: a text for each row, 1: one for each column"),
    ],
    effects=Effects.PURE,
    no_gradient=forbidden("texts have no derivative"),
    source="Caffe2",
    example="""
    >>> run("StringJoin", [[1.5, 2.0], [1e6, 0.1]], delimiter=" ").tolist()
    [b'1.5 2 ', b'1e+06 0.1 ']
    """,
)


@STRING_JOIN.infer
def string_join_infer(op: OpView, input: TensorSpec) -> TensorSpec:
    rank = None if input.dims is None else len(input.dims)
    op.require(rank in (None, 1, 2), f"input has rank {rank}, it is 1 or 2")
    op.require(rank != 1 or op.axis == 0, f"axis = {op.axis} of an input of rank 1, it has no columns")
    return TensorSpec(None if input.dims is None else (input.dims[op.axis],), DataType.STRING)


@STRING_JOIN.cost
def string_join_cost(op: OpView, input: TensorSpec, strings: TensorSpec) -> Cost:
    return Cost(input.size * (1 + len(op.delimiter)), input.nbytes, strings.nbytes)


@kernel(STRING_JOIN)
def string_join(op: OpView, input: Array, strings: Array) -> None:
    rows = input[:, None] if input.ndim == 1 else input
    text = _writer(input.dtype)
    for n, row in enumerate((rows.T if op.axis else rows).tolist()):
        strings[n] = b"".join(text(element) + op.delimiter for element in row)


def _writer(dtype: np.dtype[Any]) -> Callable[[Any], bytes]:
    """Return what makes a text of one element."""
    if dtype.kind == "O":
        return bytes
    if dtype.kind == "f":
        return _number
    if dtype.kind in "iu" and dtype.itemsize == 1:
        return lambda element: bytes([element & 0xFF])
    return lambda element: b"%d" % element


def _number(element: float) -> bytes:
    return (b"-" if math.copysign(1, element) < 0 else b"") + b"%g" % abs(element)
