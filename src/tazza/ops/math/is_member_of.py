"""Whether elements are among given ones: IsMemberOf. X and Y have one shape S."""

from __future__ import annotations

import numpy as np

from tazza.operator import Array, Cost, Effects, OpView, arg, blob, forbidden, kernel, schema
from tazza.tensor import DataType, TensorSpec

FEW = 16
"""So many values are compared one by one."""
MEMBERS = frozenset({DataType.BOOL, DataType.INT32, DataType.INT64, DataType.STRING})

IS_MEMBER_OF = schema(
    "IsMemberOf",
    "Y = whether X is among the values.",
    inputs=[blob("X", MEMBERS, "*S")],
    outputs=[blob("Y", DataType.BOOL)],
    args=[
        arg("value", list[int] | list[bytes], [], doc="whole numbers, truths as 0 and 1, or texts"),
        arg(
            "dtype",
            int,
            None,
            choices=(None, *sorted(dtype.proto for dtype in MEMBERS if dtype.proto is not None)),
            doc="number of TensorProto.DataType: of the values; X of another type is never among them",
        ),
    ],
    effects=Effects.PURE,
    no_gradient=forbidden("a step has no derivative"),
    source="Caffe2",
    example="""
    >>> run("IsMemberOf", [1, 2, 3], value=[3, 5])
    array([False, False,  True])
    """,
)


@IS_MEMBER_OF.infer
def is_member_of_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    del op
    return TensorSpec(X.dims, DataType.BOOL)


@IS_MEMBER_OF.cost
def is_member_of_cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
    return Cost(X.size * max(1, len(op.value)).bit_length(), X.nbytes, Y.nbytes)


@kernel(IS_MEMBER_OF)
def is_member_of(op: OpView, X: Array, Y: Array) -> None:
    numbers = np.dtype(object) != X.dtype
    members = [value for value in op.value if isinstance(value, int) == numbers]
    if op.dtype is not None and DataType.from_proto(op.dtype) is not DataType.of(X.dtype):
        members = []
    if numbers:
        kept = np.unique(np.array(members, bool if X.dtype == bool else np.int64))
        Y[...] = (
            np.isin(X, kept) if len(kept) > FEW else np.logical_or.reduce([X == one for one in kept], initial=False)
        )
    else:
        texts = set(members)
        Y[...] = np.array([x in texts for x in X.ravel().tolist()], bool).reshape(Y.shape)
