"""Numbers from codes: QuantDecode looks them up, ByteWeightDequant takes bytes for places on a line.

Letters: K entries of a codebook of any shape; n tensors of codes C0, C1 ..., each of any shape, Y0, Y1 ... of the same.

Source: Caffe2.
"""

from __future__ import annotations

import numpy as np

from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    Effects,
    GradientRequest,
    OpView,
    Role,
    arg,
    as_many,
    blob,
    ends,
    kernel,
    not_written,
    schema,
    streamed,
)
from tazza.ops.shape.axis import RANK_MAX, product, require_as_many
from tazza.ops.sparse.segment import check_rows
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec

CODES = frozenset({DataType.UINT8, DataType.UINT16, DataType.INT32})

QUANT_DECODE = schema(
    "QuantDecode",
    "Yi = codebook[Ci], the codebook as a list.",
    inputs=[
        blob("codebook", FLOAT, role=Role.PARAMETER, doc="K entries, of any shape"),
        blob(
            "C",
            CODES,
            variadic=True,
            role=Role.INDEX,
            doc="codes in [0, K), each tensor of a type and shape of its own",
        ),
    ],
    outputs=[blob("Y", FLOAT, variadic=True, doc="of the shapes of C")],
    effects=Effects.PURE,
    relations=[as_many("Y", "C")],
    source="Caffe2",
    example="""
    >>> run("QuantDecode", [0.5, -1.0, 2.0], np.array([[2, 0]], np.uint8), outputs=1)
    array([[2. , 0.5]], dtype=float32)
    """,
)
QUANT_DECODE_GRADIENT = schema(
    "QuantDecodeGradient",
    "dcodebook[k] = the sum of all dYi where Ci is k.",
    inputs=[
        blob("codebook", FLOAT, role=Role.SHAPE, doc="its shape counts alone"),
        blob("C", CODES, variadic=True, role=Role.INDEX, doc="codes in [0, K)"),
        blob("dY", FLOAT, variadic=True, doc="a gradient for each code"),
    ],
    outputs=[blob("dcodebook", like="codebook")],
    effects=Effects.PURE,
    relations=[as_many("dY", "C")],
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> run("QuantDecodeGradient", np.zeros(3, "f"), np.array([2, 0, 2], np.uint8), [1.0, 5.0, 10.0])
    array([ 5.,  0., 11.], dtype=float32)
    """,
)
BYTE_WEIGHT_DEQUANT = schema(
    "ByteWeightDequant",
    """Y = min + X * (max - min) / 255, in the given shape.

    X may have more elements, which are not read.""",
    inputs=[blob("X", frozenset({DataType.UINT8}))],
    outputs=[blob("Y", DataType.FLOAT)],
    args=[
        arg("min", float, -3.0, doc="what 0 stands for"),
        arg("max", float, 3.0, doc="what 255 stands for"),
        arg("shape", list[int], [], minimum=1, doc="of Y"),
    ],
    effects=Effects.PURE,
    no_gradient=not_written("Caffe2 has none"),
    source="Caffe2",
    example="""
    >>> run("ByteWeightDequant", np.array([0, 255], np.uint8), shape=[2, 1])
    array([[-3.],
           [ 3.]], dtype=float32)
    """,
)


@QUANT_DECODE.infer
def quant_decode_infer(op: OpView, codebook: TensorSpec, C: tuple[TensorSpec, ...]) -> tuple[TensorSpec, ...]:
    del op
    return tuple(TensorSpec(spec.dims, codebook.dtype) for spec in C)


@QUANT_DECODE.cost
def quant_decode_cost(op: OpView, codebook: TensorSpec, C: tuple[TensorSpec, ...], Y: tuple[TensorSpec, ...]) -> Cost:
    del op
    return streamed((codebook, *C), Y)


@QUANT_DECODE.gradient
def quant_decode_gradient(g: GradientRequest) -> list[OperatorDef]:
    count = len(g.definition.output)
    codes, slopes = [g.I(i + 1) for i in range(count)], [g.GO(i) for i in range(count)]
    return g.emit("QuantDecodeGradient", [g.like("codebook"), *codes, *slopes], [g.dcodebook])


@kernel(QUANT_DECODE)
def quant_decode(op: OpView, codebook: Array, C: tuple[Array, ...], Y: tuple[Array, ...]) -> None:
    for i, (codes, y) in enumerate(zip(C, Y, strict=True)):
        check_rows(op, codes, codebook.size, f"C{i}")
        y[...] = codebook.reshape(-1)[codes]


@QUANT_DECODE_GRADIENT.infer
def quant_decode_gradient_infer(
    op: OpView, codebook: TensorSpec, C: tuple[TensorSpec, ...], dY: tuple[TensorSpec, ...]
) -> TensorSpec:
    for i, (codes, slopes) in enumerate(zip(C, dY, strict=True)):
        require_as_many(op, f"C{i}", codes.dims, **{f"dY{i}": slopes.dims})
    return codebook


@QUANT_DECODE_GRADIENT.cost
def quant_decode_gradient_cost(
    op: OpView, codebook: TensorSpec, C: tuple[TensorSpec, ...], dY: tuple[TensorSpec, ...], dcodebook: TensorSpec
) -> Cost:
    del op, codebook
    return streamed((*C, *dY), (dcodebook,), flops=sum(spec.size for spec in dY))


@kernel(QUANT_DECODE_GRADIENT)
def quant_decode_gradient_kernel(op: OpView, C: tuple[Array, ...], dY: tuple[Array, ...], dcodebook: Array) -> None:
    total = np.zeros(dcodebook.size)
    for i, (codes, slopes) in enumerate(zip(C, dY, strict=True)):
        check_rows(op, codes, total.size, f"C{i}")
        total += np.bincount(codes.reshape(-1), weights=slopes.reshape(-1), minlength=total.size)
    dcodebook[...] = total.reshape(dcodebook.shape)


@BYTE_WEIGHT_DEQUANT.infer
def byte_weight_dequant_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    op.require(
        len(op.shape) <= RANK_MAX, f"shape has {len(op.shape)} sizes, a tensor has at most {RANK_MAX} dimensions"
    )
    count, wanted = None if X.dims is None else product(X.dims), product(op.shape)
    assert wanted is not None, "the argument has no unknown extents"
    op.require(count is None or count >= wanted, f"X has {count} elements, shape = {op.shape} asks for {wanted}")
    return TensorSpec(tuple(op.shape), DataType.FLOAT)


@BYTE_WEIGHT_DEQUANT.cost
def byte_weight_dequant_cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
    del op, X
    return Cost(2 * Y.size, Y.size, Y.nbytes)


@kernel(BYTE_WEIGHT_DEQUANT)
def byte_weight_dequant(op: OpView, X: Array, Y: Array) -> None:
    step = np.float32((np.float32(op.max) - np.float32(op.min)) / np.float32(255))
    Y[...] = (X.reshape(-1)[: Y.size] * step + np.float32(op.min)).reshape(Y.shape)
