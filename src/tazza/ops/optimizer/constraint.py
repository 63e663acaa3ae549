"""Constraints on parameters, kept behind each update: elements in a range, rows of a norm, rows that shrink.

W is the parameter; with rows, R rows of any shape, of which `indices` (K, of any shape) picks some. A gradient beside
the indices is what the update before had; nobody reads its numbers. An index that stands there several times has its
row done as often, in turn. W is overwritten.

Source: Caffe2; Duchi, Singer: Efficient Online and Batch Learning Using Forward Backward Splitting, JMLR 10 (2009), for
rows that shrink.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tazza.data_class import dataclass
from tazza.errors import ArgumentError, SchemaError
from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    Effects,
    OpSchema,
    OpView,
    Role,
    arg,
    beside,
    blob,
    family,
    formula,
    kernel,
    schema,
)
from tazza.ops.optimizer.rows import INDICES, carried, occurrences
from tazza.ops.optimizer.update import NO_GRADIENT
from tazza.ops.shape.axis import agree, product
from tazza.ops.sparse.segment import check_rows
from tazza.tensor import DataType, TensorSpec

LARGEST = float(np.finfo(np.float32).max)
GRADIENT = blob("dW", None, optional=True, role=Role.SHAPE, doc="gradient of the rows, of any type; not read")
TINY = np.float32(1e-12)
"""What a norm is divided by at least: rows of zeros stay."""

ENSURE_CLIPPED = schema(
    "EnsureClipped",
    """W_next = min(max(W, min), max), for the rows that `indices` picks if they are given, with the gradient.""",
    inputs=[
        blob("W", FLOAT, role=Role.PARAMETER),
        replace(INDICES, optional=True),
        GRADIENT,
    ],
    outputs=[blob("W_next", like="W")],
    args=[
        arg("min", float, -LARGEST, doc="least value"),
        arg("max", float, LARGEST, doc="largest value, which wins where it is below the least"),
    ],
    in_place={"W_next": "W"},
    must_in_place={"W_next": beside("indices", "W")},
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> run("EnsureClipped", [-1.5, 0.5, 3.0], min=0.0, max=2.0)
    array([0. , 0.5, 2. ], dtype=float32)
    """,
)


@ENSURE_CLIPPED.validate
def ensure_clipped_validate(op: OpView) -> None:
    if len(op.definition.input) == 2:
        raise op.error(SchemaError, "indices come without a gradient", hint="give W alone, or W, indices and dW")


@ENSURE_CLIPPED.infer
def ensure_clipped_infer(
    op: OpView, W: TensorSpec, indices: TensorSpec | None = None, dW: TensorSpec | None = None
) -> TensorSpec:
    if W.dims is not None and indices is not None and dW is not None and None not in (indices.dims, dW.dims):
        row, given = product(W.dims[1:]), product((dW.dims or ())[len(indices.dims or ()) :])
        op.require(len(W.dims) > 0, "W has rank 0, it must have rows")
        op.require(agree(row, given), f"a row of W has {row} elements, one of dW has {given}")
    return TensorSpec(W.dims, W.dtype)


@ENSURE_CLIPPED.cost
def ensure_clipped_cost(op: OpView, W: TensorSpec, **others: TensorSpec | None) -> Cost:
    del op, others
    return Cost(2 * W.size, W.nbytes, W.nbytes)


def _each_row(op: OpView, W: Array, indices: Array, W_next: Array, change: Callable[[Array], Array]) -> None:
    """Let `change` make rows of others (K, elements of a row), all first occurrences of indices at once, and so on.

    Raises:
        NumericError: an index is none of a row.
    """
    at = indices.reshape(-1)
    check_rows(op, at, len(W), "indices")
    carried(W, W_next)
    for places in occurrences(at):
        rows = W_next[at[places]]
        flat = rows.reshape(len(rows), -1) if rows.size else rows.reshape(len(rows), 0)
        W_next[at[places]] = change(flat).reshape(rows.shape)


@kernel(ENSURE_CLIPPED)
def ensure_clipped(op: OpView, W: Array, W_next: Array, indices: Array | None = None, dW: Array | None = None) -> None:
    del dW
    least, largest = np.float32(op.min), np.float32(op.max)
    if indices is None:
        W_next[...] = np.minimum(np.maximum(W, least), largest)
    else:
        _each_row(op, W, indices, W_next, lambda rows: np.minimum(np.maximum(rows, least), largest))


def _clipped(op: OpView) -> dict[str, str]:
    """Return the formula of whole parameters; rows are the reference kernel's."""
    return {} if op.has_input("indices") else {"W_next": "min(max(W, min), max)"}


formula(ENSURE_CLIPPED, _clipped)


SPARSE_LP_REGULARIZER = schema(
    "SparseLpRegularizer",
    """Rows of W that `indices` picks shrink.

    For p = 1 by `reg_lambda`, to 0 at most; for p = 2 to (1 - reg_lambda) of what they were.""",
    inputs=[
        blob("W", FLOAT, role=Role.PARAMETER),
        INDICES,
        GRADIENT,
    ],
    outputs=[blob("W_next", like="W")],
    args=[
        arg("p", float, 2.0, choices=(1.0, 2.0), doc="1: by a constant, 2: by a share"),
        arg("reg_lambda", float, 1e-5, doc="how much, above 0 and below 1"),
    ],
    must_in_place={"W_next": "W"},
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Duchi and Singer 2009, section 5",
    example="""
    >>> W = np.array([[0.5, -2], [1, 1]], np.float32)
    >>> run("SparseLpRegularizer", W, np.array([0]), p=1.0, reg_lambda=0.75)
    array([[ 0.  , -1.25],
           [ 1.  ,  1.  ]], dtype=float32)
    """,
)


@SPARSE_LP_REGULARIZER.validate
def sparse_lp_regularizer_validate(op: OpView) -> None:
    if not 0 < op.reg_lambda < 1:
        raise op.error(ArgumentError, f"reg_lambda is {op.reg_lambda:g}, not above 0 and below 1")


def _declare(rows: OpSchema, flops: int) -> None:
    """Give an operator on rows its shapes, and its cost: so many operations for each element."""

    @rows.infer
    def infer(op: OpView, W: TensorSpec, indices: TensorSpec, dW: TensorSpec | None = None) -> TensorSpec:
        del indices, dW
        op.require(W.dims is None or len(W.dims) > 0, "W has rank 0, it must have rows")
        return TensorSpec(W.dims, W.dtype)

    @rows.cost
    def cost(op: OpView, W: TensorSpec, indices: TensorSpec, **others: TensorSpec | None) -> Cost:
        del op, others
        rows = (W.dims or (1,))[0] or 1
        done = W.nbytes * indices.size // rows
        return Cost(flops * done // W.dtype.itemsize, done + indices.nbytes, done)


_declare(SPARSE_LP_REGULARIZER, 3)


def sparse_normalize(op: OpView, W: Array, indices: Array, W_next: Array, dW: Array | None = None) -> None:
    del dW
    norm = np.float32(op.norm)

    def scaled(rows: Array) -> Array:
        lengths = np.sqrt(np.square(rows, dtype=np.float32).sum(axis=1, keepdims=True))  # (K, 1)
        done = rows * (norm / (lengths + TINY)).astype(rows.dtype)
        return np.where(lengths > norm, done, rows) if op.use_max_norm else done

    _each_row(op, W, indices, W_next, scaled)


@dataclass(frozen=True, slots=True)
class Normalize:
    """Element type of W, and its name."""

    dtype: DataType
    label: str


@family(
    {
        "SparseNormalize": Normalize(DataType.FLOAT, "float32"),
        "Float16SparseNormalize": Normalize(DataType.FLOAT16, "float16"),
    }
)
def sparse_normalizers(type: str, row: Normalize) -> OpSchema:
    """Rows of one element type that are scaled to a norm, which is summed in float32."""
    made = schema(
        type,
        "Rows of W that `indices` picks are scaled to a norm, or, with `use_max_norm`, those alone that are longer.",
        inputs=[blob("W", row.dtype, role=Role.PARAMETER), INDICES, GRADIENT],
        outputs=[blob("W_next", like="W")],
        args=[
            arg("use_max_norm", bool, True, doc="leave shorter rows as they are"),
            arg("norm", float, 1.0, minimum=0.0, doc="length of a row, the root of its sum of squares"),
        ],
        must_in_place={"W_next": "W"},
        effects=Effects.PURE,
        no_gradient=NO_GRADIENT,
        source="Caffe2",
        example=f"""
        >>> W = np.array([[3, 4], [0, 2], [6, 8]], np.{row.label})
        >>> run("{type}", W, np.array([0, 2]), norm=5.0)
        array([[3., 4.],
               [0., 2.],
               [3., 4.]], dtype={row.label})
        """,
    )
    _declare(made, 4)
    kernel(made)(sparse_normalize)
    return made


@kernel(SPARSE_LP_REGULARIZER)
def sparse_lp_regularizer(op: OpView, W: Array, indices: Array, W_next: Array, dW: Array | None = None) -> None:
    del dW
    by = np.float32(op.reg_lambda)

    def shrunk(rows: Array) -> Array:
        if op.p == 2:
            return rows * (np.float32(1) - by)
        return np.sign(rows) * np.maximum(np.abs(rows) - by, np.float32(0))

    _each_row(op, W, indices, W_next, shrunk)
