"""Weighted sums in some rows of a tensor: ScatterWeightedSum.

Letters: X0 has R rows of any shape, `indices` says for each of K rows of X1, X2 ... which row of X0 it belongs to.
"""

from __future__ import annotations

import numpy as np

from tazza.operator import (
    FLOAT,
    INDEX,
    Array,
    Cost,
    Effects,
    OpView,
    Role,
    blob,
    forbidden,
    kernel,
    pairs,
    schema,
    show_dims,
)
from tazza.ops.shape.axis import agree, product, require_one_element
from tazza.ops.sparse.segment import check_rows
from tazza.tensor import TensorSpec

SCATTER_WEIGHTED_SUM = schema(
    "ScatterWeightedSum",
    """Y[i] = w0 * X0[i] + w1 * X1[k] + w2 * X2[k] + ... for i = indices[k], in place of X0; other rows stay.

    Inputs X0, w0, indices, X1, w1, X2, w2 ... An index that stands there twice takes both its rows, and w0 twice.""",
    inputs=[
        blob("X0", FLOAT, role=Role.PARAMETER, doc="(R, ...)"),
        blob("w0", FLOAT, role=Role.PARAMETER, doc="one element"),
        blob("indices", INDEX, role=Role.INDEX, doc="K indices of any shape, each in [0, R)"),
        blob("X", FLOAT, variadic=True, role=Role.DATA, doc="as many elements as K rows of X0"),
        blob("w", FLOAT, variadic=True, role=Role.PARAMETER, doc="one element each"),
    ],
    outputs=[blob("Y", like="X0")],
    must_in_place={"Y": "X0"},
    effects=Effects.PURE,
    relations=[pairs("X", "w")],
    no_gradient=forbidden("it changes a tensor in place, which is for updates of parameters"),
    source="Caffe2",
    example="""
    >>> from tazza.operator import LocalBlobs, Operator, operator_def
    >>> from tazza.tensor import Tensor
    >>> blobs = LocalBlobs()
    >>> values = {"X0": [1.0, 2.0, 3.0], "w0": [0.5], "i": [2, 0], "X1": [10.0, 20.0], "w1": [1.0]}
    >>> for name, value in values.items():
    ...     blobs.create_blob(name).set(Tensor.from_numpy(np.array(value, "i" if name == "i" else "f")))
    >>> Operator(operator_def("ScatterWeightedSum", list(values), ["X0"]), blobs).run()
    >>> blobs.blobs["X0"].tensor().numpy()
    array([20.5,  2. , 11.5], dtype=float32)
    """,
)


@SCATTER_WEIGHTED_SUM.infer
def scatter_weighted_sum_infer(
    op: OpView,
    X0: TensorSpec,
    w0: TensorSpec,
    indices: TensorSpec,
    X: tuple[TensorSpec, ...],
    w: tuple[TensorSpec, ...],
) -> TensorSpec:
    for i, weight in enumerate((w0, *w)):
        require_one_element(op, f"w{i}", weight.dims)
    if X0.dims is not None:
        op.require(len(X0.dims) > 0, "X0 has rank 0, it must have rows")
        if indices.dims is not None:
            wanted = product((*indices.dims, *X0.dims[1:]))
            for i, spec in enumerate(X, 1):
                count = None if spec.dims is None else product(spec.dims)
                rows = f"{show_dims(indices.dims)} indices of rows {show_dims(X0.dims[1:])}"
                relation = f"X{i} has {count} elements, {rows} take {wanted}"
                op.require(agree(count, wanted), relation, "one row for each index")
    return TensorSpec(X0.dims, X0.dtype)


@SCATTER_WEIGHTED_SUM.cost
def scatter_weighted_sum_cost(
    op: OpView,
    X0: TensorSpec,
    indices: TensorSpec,
    X: tuple[TensorSpec, ...],
    **others: TensorSpec | tuple[TensorSpec, ...],
) -> Cost:
    del op, others
    touched = sum(spec.size for spec in X[:1])
    moved = sum(spec.nbytes for spec in X[:1])  # the rows of X0 that are read and written
    read = indices.nbytes + moved + sum(spec.nbytes for spec in X)
    return Cost((1 + 2 * len(X)) * touched, read, moved, X0.nbytes)


@kernel(SCATTER_WEIGHTED_SUM)
def scatter_weighted_sum(
    op: OpView, X0: Array, w0: Array, indices: Array, X: tuple[Array, ...], w: tuple[Array, ...], Y: Array
) -> None:
    rows = indices.reshape(-1)
    check_rows(op, indices, len(X0), "indices")
    times = np.bincount(rows, minlength=len(X0)).reshape(-1, *[1] * (X0.ndim - 1))
    np.multiply(X0, w0.reshape(()) ** times, out=Y, casting="same_kind")
    for x, weight in zip(X, w, strict=True):
        np.add.at(Y, rows, weight.reshape(()) * x.reshape(rows.size, *X0.shape[1:]))
