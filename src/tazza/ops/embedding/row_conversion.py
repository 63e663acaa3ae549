"""Rows of numbers to bytes and back, and rows picked from bytes. D numbers of a row take B bytes, see `row_format`."""

from __future__ import annotations

import numpy as np

from tazza.data_class import dataclass
from tazza.operator import (
    FLOAT,
    INDEX,
    Array,
    Cost,
    Effects,
    OpSchema,
    OpView,
    Role,
    blob,
    ends,
    family,
    kernel,
    schema,
    streamed,
)
from tazza.operator.engine import asked_engines
from tazza.ops.embedding.row_format import EIGHT, EIGHT_HALF, FOUR, FOUR_IN_EIGHT, TWO, TWO_IN_EIGHT, RowFormat
from tazza.ops.sparse.segment import check_rows
from tazza.tensor import DataType, TensorSpec

NO_GRADIENT = ends("codes are whole numbers")
SEARCH = "GREEDY"
"""The engine that Caffe2 named its search for narrower bounds: it gives other numbers, so here it is no engine."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """An operator that makes bytes: format, type of X."""

    format: RowFormat
    dtype: DataType = DataType.FLOAT

    @property
    def searches(self) -> bool:
        """Whether there is a search for bounds."""
        return self.format.bits < 8

    def searching(self, op: OpView) -> bool:
        """Whether an operator asks for it."""
        return self.searches and SEARCH in asked_engines(op.definition.engine)


@dataclass(frozen=True, slots=True)
class Decoding:
    """An operator that makes numbers: format, type of Y."""

    format: RowFormat
    dtype: DataType = DataType.FLOAT


def columns_of(op: OpView, format: RowFormat, width: int | None, letter: str) -> int | None:
    """Return how many numbers rows of so many bytes hold.

    Raises:
        ShapeError: they are shorter than scale and bias.
    """
    if width is None:
        return None
    found = format.columns(width)
    op.require(found >= 0, f"rows of {letter} have {width} bytes", f"scale and bias take {format.behind}")
    return found


@family(
    {
        "FloatToFused8BitRowwiseQuantized": Encoding(EIGHT),
        "FloatToFused8BitRowwiseQuantizedHalfScaleBias": Encoding(EIGHT_HALF),
        "HalfFloatToFused8BitRowwiseQuantized": Encoding(EIGHT, DataType.FLOAT16),
        "HalfFloatToFused8BitRowwiseQuantizedHalfScaleBias": Encoding(EIGHT_HALF, DataType.FLOAT16),
        "FloatToFused4BitRowwiseQuantized": Encoding(FOUR),
        "FloatToFused2BitRowwiseQuantized": Encoding(TWO),
        "HalfToFused4BitRowwiseQuantized": Encoding(FOUR, DataType.FLOAT16),
        "HalfToFused2BitRowwiseQuantized": Encoding(TWO, DataType.FLOAT16),
        "FloatToFused4BitFakeRowwiseQuantized": Encoding(FOUR_IN_EIGHT),
        "FloatToFused2BitFakeRowwiseQuantized": Encoding(TWO_IN_EIGHT),
        "HalfToFused4BitFakeRowwiseQuantized": Encoding(FOUR_IN_EIGHT, DataType.FLOAT16),
        "HalfToFused2BitFakeRowwiseQuantized": Encoding(TWO_IN_EIGHT, DataType.FLOAT16),
    }
)
def encodings(type: str, row: Encoding) -> OpSchema:
    """Rows to bytes."""
    format = row.format
    search = f'\n\n    `engine: "{SEARCH}"` searches bounds with smaller errors.' if row.searches else ""
    rank = "(N, D)" if format.mimics else "(..., D)"
    example = [0, 1, format.top, format.top]
    coded = format.encode(np.array(example, np.float32)).tolist()
    made = schema(
        type,
        f"Y = rows of X in few bits: {format.text}.{search}",
        inputs=[blob("X", row.dtype, doc=f"{rank}, D a multiple of {format.in_byte}")],
        outputs=[blob("Y", DataType.UINT8, doc="B bytes instead of D numbers")],
        effects=Effects.PURE,
        no_gradient=NO_GRADIENT,
        source="Caffe2",
        example=f"""
    >>> run("{type}", np.array([{example}], "{row.dtype.numpy.char}"))[0].tolist()
    {coded}
    """,
    )

    @made.infer
    def infer(op: OpView, X: TensorSpec) -> TensorSpec:
        if X.dims is None:
            return TensorSpec(None, DataType.UINT8)
        op.require(len(X.dims) == 2 if format.mimics else len(X.dims) > 0, f"X has rank {len(X.dims)}", f"X is {rank}")
        D = X.dims[-1]
        if D is None:
            return TensorSpec((*X.dims[:-1], None), DataType.UINT8)
        op.require(D % format.in_byte == 0, f"rows of X have {D} numbers", f"a multiple of {format.in_byte}")
        if format.mimics or row.searching(op):
            op.require(D > 0 or 0 in X.dims[:-1], "rows of X have no numbers", "the least of none is not known")
        return TensorSpec((*X.dims[:-1], format.width(D)), DataType.UINT8)

    @made.cost
    def cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
        del op
        return streamed((X,), (Y,), flops=6 * X.size)

    @kernel(made)
    def encode(op: OpView, X: Array, Y: Array) -> None:
        if Y.size:
            Y[...] = format.encode(X.astype(np.float32), search=row.searching(op))

    return made


@family(
    {
        "Fused8BitRowwiseQuantizedToFloat": Decoding(EIGHT),
        "Fused8BitRowwiseQuantizedToHalfFloat": Decoding(EIGHT, DataType.FLOAT16),
        "Fused8BitRowwiseQuantizedHalfScaleBiasToFloat": Decoding(EIGHT_HALF),
        "Fused8BitRowwiseQuantizedHalfScaleBiasToHalfFloat": Decoding(EIGHT_HALF),  # float32 in Caffe2 too
        "Fused4BitRowwiseQuantizedToFloat": Decoding(FOUR),
        "Fused4BitRowwiseQuantizedToHalf": Decoding(FOUR, DataType.FLOAT16),
        "Fused2BitRowwiseQuantizedToFloat": Decoding(TWO),
        "Fused2BitRowwiseQuantizedToHalf": Decoding(TWO, DataType.FLOAT16),
    }
)
def decodings(type: str, row: Decoding) -> OpSchema:
    """Bytes to rows."""
    format = row.format
    example = [0.0, *[float(format.top)] * (8 // format.room - 1)]
    made = schema(
        type,
        f"Y = the numbers of rows that X keeps in few bits: {format.text}.",
        inputs=[blob("X", DataType.UINT8, doc="(..., B)")],
        outputs=[blob("Y", row.dtype, doc="(..., D)")],
        effects=Effects.PURE,
        no_gradient=NO_GRADIENT,
        source="Caffe2",
        example=f"""
    >>> run("{type}", np.array([{format.encode(np.array(example, np.float32)).tolist()}], np.uint8))[0].tolist()
    {example}
    """,
    )

    @made.infer
    def infer(op: OpView, X: TensorSpec) -> TensorSpec:
        if X.dims is None:
            return TensorSpec(None, row.dtype)
        op.require(len(X.dims) > 0, "X has rank 0, it must have rows")
        return TensorSpec((*X.dims[:-1], columns_of(op, format, X.dims[-1], "X")), row.dtype)

    @made.cost
    def cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
        del op
        return streamed((X,), (Y,), flops=2 * Y.size)

    @kernel(made)
    def decode(op: OpView, X: Array, Y: Array) -> None:
        del op
        with np.errstate(over="ignore"):
            Y[...] = format.decode(X)

    return made


GATHER_FUSED_8BIT_ROWWISE = schema(
    "GatherFused8BitRowwise",
    "Y[i] = the numbers of row INDICES[i] of DATA.",
    inputs=[
        blob("DATA", DataType.UINT8, "V B", role=Role.PARAMETER, doc=EIGHT.text),
        blob("INDICES", INDEX, "I", role=Role.INDEX, doc="each in [0, V)"),
    ],
    outputs=[blob("Y", FLOAT, doc="(I, D)")],
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example=f"""
    >>> table = np.array([{EIGHT.encode(np.array([0, 255], np.float32)).tolist()}], np.uint8)
    >>> run("GatherFused8BitRowwise", table, [0, 0])
    array([[  0., 255.],
           [  0., 255.]], dtype=float32)
    """,
)


@GATHER_FUSED_8BIT_ROWWISE.infer
def gather_fused_8bit_rowwise_infer(op: OpView, DATA: TensorSpec, INDICES: TensorSpec) -> TensorSpec:
    D = None if DATA.dims is None else columns_of(op, EIGHT, DATA.dims[1], "DATA")
    return TensorSpec((None if INDICES.dims is None else INDICES.dims[0], D), DataType.FLOAT)


@GATHER_FUSED_8BIT_ROWWISE.cost
def gather_fused_8bit_rowwise_cost(op: OpView, DATA: TensorSpec, INDICES: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return Cost(2 * Y.size, INDICES.size * DATA.shape[1] + INDICES.nbytes, Y.nbytes)


@kernel(GATHER_FUSED_8BIT_ROWWISE)
def gather_fused_8bit_rowwise(op: OpView, DATA: Array, INDICES: Array, Y: Array) -> None:
    check_rows(op, INDICES, len(DATA))
    Y[...] = EIGHT.decode(DATA[INDICES])
