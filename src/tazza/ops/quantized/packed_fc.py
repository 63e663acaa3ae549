"""Fully connected layers whose weights are kept in half precision: FbGemmPack, FbGemmPackTranspose, FbFCPacked.

Letters as in `ops.nn.fc`: N rows, K inner size, M output features.

    X (lead..., K)    W (M, K) in float16    b (M)    Y (lead..., M) in float32
"""

from __future__ import annotations

import numpy as np

from tazza.data_class import dataclass
from tazza.errors import ShapeError
from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    Effects,
    OpSchema,
    OpView,
    Role,
    Spec,
    arg,
    blob,
    family,
    host_kernel,
    not_written,
    schema,
)
from tazza.ops.shape.axis import cut, matrix, product
from tazza.tensor import Blob, Tensor, TensorSpec
from tazza.tensor.blob import blob_type

PACKED = "std::unique_ptr<fbgemm::PackedGemmMatrixB<short unsigned int> >"
LARGEST = np.float32(np.finfo(np.float16).max)
NO_GRADIENT = not_written("Caffe2 has none either: it is made for running alone")


@blob_type(PACKED)
@dataclass(frozen=True, slots=True)
class PackedMatrix:
    """The weights of a layer, rounded: (M, K) in float16."""

    weights: Array


@dataclass(frozen=True, slots=True)
class Packing:
    """Which way the weights come."""

    doc: str
    transposed: bool


@family(
    {
        "FbGemmPack": Packing("packed = W (M, K) in float16.", transposed=False),
        "FbGemmPackTranspose": Packing("packed = W (K, M), transposed, in float16.", transposed=True),
    }
)
def packings(type: str, row: Packing) -> OpSchema:
    """An operator that rounds weights."""
    made = schema(
        type,
        f"""{row.doc}

        Numbers beyond the range become the largest ones.""",
        inputs=[blob("W", FLOAT, role=Role.PARAMETER, doc="both extents possibly spread over several dimensions")],
        outputs=[blob("packed", type_name=PACKED)],
        args=[
            arg("axis_w", int, 1, doc="W is cut here"),
            arg("no_packing", int, 0, doc="has no effect: Caffe2 kept the order of the weights"),
        ],
        in_place={"packed": "W"},
        effects=Effects.STATE,
        no_gradient=NO_GRADIENT,
        source="Caffe2",
        example=f"""
        >>> run("{type}", [[1.0, 1.0004], [70000.0, 0.0]]).weights.dtype
        dtype('float16')
        """,
    )

    @host_kernel(made)
    def pack(op: OpView, W: Blob, packed: Blob) -> None:
        given = W.get(Tensor).plain()
        cut(op, "axis_w", "W", given.shape)
        weights = matrix(op, "axis_w", given)
        with np.errstate(invalid="ignore"):
            rounded = np.clip(weights.T if row.transposed else weights, -LARGEST, LARGEST).astype(np.float16)
        packed.set(PackedMatrix(rounded))

    return made


FB_FC_PACKED = schema(
    "FbFCPacked",
    """Y = X W^T + b, with X as a matrix (N, K).

    Y keeps the dimensions of X before `axis`. Sums are formed in float32.""",
    inputs=[
        blob("X", FLOAT, doc="(lead..., K), K possibly spread over several dimensions"),
        blob("W", type_name=PACKED, role=Role.STATE, doc="(M, K)"),
        blob("b", FLOAT, "M", role=Role.PARAMETER),
    ],
    outputs=[blob("Y", FLOAT)],
    args=[
        arg("axis", int, 1, doc="X is cut here: rows before it, K from it on"),
        arg("axis_w", int, 1, doc="has no effect: W is a matrix"),
    ],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> W = run("FbGemmPack", [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> run("FbFCPacked", [[1.0, 2.0]], W, [10.0, 20.0, 30.0])
    array([[11., 22., 33.]], dtype=float32)
    """,
)


@FB_FC_PACKED.infer
def fb_fc_packed_infer(op: OpView, X: TensorSpec, W: Spec, b: TensorSpec) -> TensorSpec:
    del W
    if X.dims is None:
        return X
    lead, _ = cut(op, "axis", "X", X.dims)
    return TensorSpec((*lead, None if b.dims is None else b.dims[0]), X.dtype)


@FB_FC_PACKED.cost
def fb_fc_packed_cost(op: OpView, X: TensorSpec, W: Spec, b: TensorSpec, Y: TensorSpec) -> Cost:
    del W
    K = product(cut(op, "axis", "X", X.shape)[1])
    weights = 2 * b.size * (0 if K is None else K)
    return Cost(Y.size * (2 * (0 if K is None else K) + 1), X.nbytes + b.nbytes + weights, Y.nbytes, weights)


@host_kernel(FB_FC_PACKED)
def fb_fc_packed(op: OpView, X: Blob, W: Blob, b: Blob, Y: Blob) -> None:
    given, bias, weights = X.get(Tensor).plain(), b.get(Tensor).plain(), W.get(PackedMatrix).weights
    cut(op, "axis", "X", given.shape)
    rows = matrix(op, "axis", given)
    if rows.shape[1] != weights.shape[1] or len(bias) != len(weights):
        relation = f"X gives K = {rows.shape[1]} and b M = {len(bias)}, the weights {W.name!r} are {weights.shape}"
        raise op.error(ShapeError, relation, "the weights must be (M, K)")
    with np.errstate(all="ignore"):
        Y.tensor().assign((rows @ weights.astype(np.float32).T + bias).reshape(*given.shape[: op.axis], len(bias)))
