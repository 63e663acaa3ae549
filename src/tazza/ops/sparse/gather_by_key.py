"""Rows put together again after they were divided by their keys: GatherByKey. Source: Caffe2."""

from __future__ import annotations

from tazza.errors import NumericError
from tazza.operator import INDEX, Array, Effects, GradientRequest, OpView, Role, blob, kernel, schema, show_dims
from tazza.ops.shape.axis import require_one_type, shapes_agree
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec

GATHER_BY_KEY = schema(
    "GatherByKey",
    """Y[n] = the next row of the part keys[n] mod P, of P parts X: what Partition divided in its order again.

    The rest is never negative, that of a negative key neither.""",
    inputs=[
        blob("keys", INDEX, "N", role=Role.INDEX, doc="any numbers, those below 0 too"),
        blob("X", variadic=True, role=Role.DATA, doc="(rows, ...): as many rows as keys belong to it; of one type"),
    ],
    outputs=[blob("Y")],
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("GatherByKey", [5, 2, 4], [1.0, 2.0], [7.0])
    array([7., 1., 2.], dtype=float32)
    """,
)


@GATHER_BY_KEY.infer
def gather_by_key_infer(op: OpView, keys: TensorSpec, X: tuple[TensorSpec, ...]) -> TensorSpec:
    first = X[0].dims
    for p, spec in enumerate(X):
        if spec.dims is not None and first is not None:
            op.require(len(spec.dims) > 0, f"X{p} has rank 0, it must have rows")
            relation = f"X{p} has the shape {show_dims(spec.dims)}, X0 {show_dims(first)}"
            op.require(shapes_agree(spec.dims[1:], first[1:]), relation, "rows must be alike")
    rows = None if keys.dims is None else keys.dims[0]
    return TensorSpec(None if first is None else (rows, *first[1:]), require_one_type(op, "X", X))


@GATHER_BY_KEY.gradient
def gather_by_key_gradient(g: GradientRequest) -> list[OperatorDef]:
    parts = [g.GI(p) for p in range(1, len(g.definition.input))]
    outputs = [name for part in parts for name in (f"_{part}_keys", part)]
    return g.emit("Partition", [g.keys, g.dY], outputs, pack_first_input=0)


@kernel(GATHER_BY_KEY)
def gather_by_key(op: OpView, keys: Array, X: tuple[Array, ...], Y: Array) -> None:
    parts = keys % len(X)
    for p, rows in enumerate(X):
        mine = parts == p
        if int(mine.sum()) != len(rows):
            message = f"{int(mine.sum())} keys belong to X{p}, which has {len(rows)} rows"
            raise op.error(NumericError, message, "each row has a key")
        Y[mine] = rows
