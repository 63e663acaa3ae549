"""Indices of a large range in a smaller one: IndexHash. X and Y have one shape S. Source: Caffe2."""

from __future__ import annotations

import numpy as np

from tazza.errors import ArgumentError, DTypeError
from tazza.operator import (
    INDEX,
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
)
from tazza.tensor import TensorSpec
from tazza.tensor.dtype import numpy_dtype

FACTOR = 65537
SEED_FACTOR = 0xDEADBEEF

INDEX_HASH = schema(
    "IndexHash",
    """Y = h mod `modulo`, where h is a hash of the bytes of an element of X, lowest first.

    It begins as seed * 0xDEADBEEF, and each byte b, from -128 to 127, makes it h * 65537 + b, in as many bits as X
    has; it counts as negative where its highest bit is set, and the remainder is of [0, modulo).""",
    inputs=[blob("X", INDEX, "*S", role=Role.INDEX)],
    outputs=[blob("Y", like="X")],
    args=[
        arg("seed", int, 0, doc="other seeds, other hashes"),
        arg("modulo", int, None, minimum=1, doc="Y is below; no more than what X can hold; needed to run"),
    ],
    in_place={"Y": "X"},
    effects=Effects.PURE,
    no_gradient=forbidden("whole numbers have no gradient"),
    source="Caffe2",
    example="""
    >>> run("IndexHash", np.array([0, 1, 5]), modulo=100)
    array([ 0, 29, 45])
    """,
)


@INDEX_HASH.infer
def index_hash_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    most = int(np.iinfo(X.dtype.numpy).max)
    if op.modulo is not None and op.modulo > most:
        raise op.error(DTypeError, f"modulo = {op.modulo}, an element of X is at most {most}", "take int64 for X")
    return X


@INDEX_HASH.cost
def index_hash_cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return Cost(2 * X.nbytes + X.size, X.nbytes, Y.nbytes)


@kernel(INDEX_HASH)
def index_hash(op: OpView, X: Array, Y: Array) -> None:
    if op.modulo is None:  # nets whose shapes alone are asked for may leave it out, as in Caffe2
        raise op.error(ArgumentError, "modulo has to be given", "Y is below it")
    bits = 8 * X.dtype.itemsize
    word = numpy_dtype(f"u{X.dtype.itemsize}")
    flat = np.ascontiguousarray(X, X.dtype.newbyteorder("<")).reshape(-1)
    each = flat.view(np.int8).reshape(flat.size, X.dtype.itemsize)  # (elements, bytes)
    found = np.full(flat.size, op.seed * SEED_FACTOR % 2**bits, word)
    for byte in each.T.astype(word):  # wraps around, as the sums do
        found = found * word.type(FACTOR) + byte
    Y[...] = (found.view(X.dtype) % X.dtype.type(op.modulo)).reshape(X.shape)
