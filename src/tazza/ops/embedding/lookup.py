"""Sums and means of rows that are picked from a table in few bits.

    Y[m] = R over the rows DATA[i] of the INDICES i in segment m

Letters: DATA has V rows of B bytes for D numbers; INDICES (I) pick rows, LENGTHS (M) say how many each segment takes,
WEIGHTS (I) multiply them. A pruned table lacks rows: MAPPING (W) says for each row of the whole one which row of DATA
it is, or -1 for one that is left out and counts as zeros; a MAPPING of [0] alone says that nothing was left out.

A row of `lookups` is a reducer (see `ops.sparse.reducer`) and how rows are kept. Source: Caffe2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from tazza.data_class import dataclass
from tazza.errors import NumericError, SchemaError
from tazza.operator import (
    FLOAT,
    INDEX,
    Array,
    BlobSpec,
    Cost,
    DynamicOutput,
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
from tazza.operator.by_letter import by_letter
from tazza.ops.embedding.row_conversion import columns_of
from tazza.ops.embedding.row_format import EIGHT, FOUR, TWO, RowFormat
from tazza.ops.embedding.row_scale import check_pairs, decoded
from tazza.ops.sparse.reducer import MEAN, NOTHING, SUM, WEIGHTED_SUM, Reducer, SegmentRows
from tazza.ops.sparse.segment import check_rows, starts_of
from tazza.tensor import DataType, TensorSpec

NO_GRADIENT = ends("tables in few bits are not trained")


def _weighted_mean(s: SegmentRows) -> Array:
    return (s.w * s.x).sum(0) / np.float32(s.n)


WEIGHTED_MEAN = replace(
    WEIGHTED_SUM,
    name="WeightedMean",
    text="the sum of w * x, divided by how many there are,",
    reduce=_weighted_mean,
    finish="y / n",
    example=(2.5, 3.0),
)
INDICES = blob("INDICES", INDEX, "I", role=Role.INDEX, doc="which row")
LENGTHS = blob("LENGTHS", DataType.INT32, "M", role=Role.INDEX, doc="rows of each segment, one behind the other")
MAPPING = blob("MAPPING", DataType.INT32, role=Role.INDEX, doc="W elements: the row of DATA, or -1")
WEIGHTS = blob("WEIGHTS", FLOAT, "I", role=Role.DATA, doc="of each row that is taken")


@dataclass(frozen=True, slots=True)
class Rows:
    """How a table keeps its rows: in a format, or as codes beside `scale_bias`; whether some are left out."""

    format: RowFormat | None
    pruned: bool = False

    def inputs(self, reducer: Reducer) -> list[BlobSpec]:
        """Return the inputs of a lookup."""
        weights = [WEIGHTS] if reducer.weighted else []
        if self.format is None:
            pairs = blob("scale_bias", FLOAT, "V P", role=Role.PARAMETER, doc="P = 2: scale and bias of each row")
            more = [replace(one, dims="J", doc="of each row that is taken; more may follow") for one in weights]
            return [blob("DATA", DataType.UINT8, "V *S", role=Role.PARAMETER), *more, INDICES, LENGTHS, pairs]
        table = blob("DATA", DataType.UINT8, "V B", role=Role.PARAMETER, doc=self.format.text)
        return [table, *weights, INDICES, LENGTHS, *([MAPPING] if self.pruned else [])]

    def dims(self, op: OpView, given: Mapping[str, TensorSpec]) -> tuple[int | None, ...] | None:
        """Return the extents of a row of Y.

        Raises:
            ShapeError: rows of DATA are too short, or there are other than two scalars for each.
        """
        data = given["DATA"].dims
        if self.format is None:
            check_pairs(op, given["scale_bias"])
            check_weights(op, given)
            return None if data is None else tuple(data[1:])
        return (None if data is None else columns_of(op, self.format, data[1], "DATA"),)

    def numbers(self, op: OpView, given: Mapping[str, Any]) -> Array:
        """Return the rows that INDICES pick, in float32.

        Raises:
            NumericError: an index is not that of a row, or MAPPING leads to none.
        """
        DATA, indices = given["DATA"], given["INDICES"]
        if self.pruned and given["MAPPING"].reshape(-1).tolist() != [0]:
            return self.left(op, given)
        check_rows(op, indices, len(DATA))
        if self.format is None:
            return decoded(DATA[indices], given["scale_bias"][indices])
        return self.format.decode(DATA[indices])

    def left(self, op: OpView, given: Mapping[str, Any]) -> Array:
        """Return the rows that INDICES pick of a pruned table; zeros for those that are left out."""
        DATA, indices, mapping = given["DATA"], given["INDICES"], given["MAPPING"].reshape(-1)
        assert self.format is not None
        check_rows(op, indices, mapping.size)
        rows = mapping[indices]
        wrong = (rows < -1) | (rows >= len(DATA))
        if wrong.any():
            i = int(wrong.argmax())
            message = f"MAPPING[{indices[i]}] is {rows[i]}, and DATA has {len(DATA)} rows"
            raise op.error(NumericError, message, "-1 says that a row is left out")
        there = rows >= 0
        found = np.zeros((rows.size, self.format.columns(DATA.shape[1])), np.float32)
        found[there] = self.format.decode(DATA[rows[there]])
        return found


@dataclass(frozen=True, slots=True)
class Lookup:
    """A reducer of rows, and how these are kept."""

    reducer: Reducer
    rows: Rows


def check_weights(op: OpView, given: Mapping[str, TensorSpec]) -> None:
    """Check that each row that is taken has a weight, where there are weights.

    Raises:
        ShapeError: one has not.
    """
    weights, indices = (given[letter].dims if letter in given else None for letter in ("WEIGHTS", "INDICES"))
    if weights and indices and weights[0] is not None and indices[0] is not None:
        relation = f"there are {indices[0]} INDICES and {weights[0]} WEIGHTS"
        op.require(weights[0] >= indices[0], relation, "one of each row that is taken")


def _reduce(op: OpView, row: Lookup, given: Mapping[str, Any]) -> None:
    Y, indices = given["Y"], given["INDICES"]
    starts = starts_of(op, "LENGTHS", given["LENGTHS"], indices.size, "INDICES")
    x = row.rows.numbers(op, given)
    w = given["WEIGHTS"][: len(x)].reshape(-1, *[1] * (x.ndim - 1)) if row.reducer.weighted else NOTHING
    for m, (begin, end) in enumerate(pairwise(starts)):
        n = int(end - begin)
        Y[m] = row.reducer.reduce(SegmentRows(n, x[begin:end], w[begin:end], NOTHING, NOTHING)) if n else 0


def _example(type: str, row: Lookup) -> str:
    """Return an example whose table has the rows 0 and 1, 2, 3 times the largest code."""
    format = row.rows.format
    codes = [[0, top := 255 if format is None else format.top], [top, 0], [0, 0], [top, top]]
    if format is None:
        table, pairs = codes, ", [[1.0, 0.0]] * 4"
    else:
        wide = np.repeat(np.array(codes, np.float32), format.in_byte, axis=1)
        table, pairs = format.encode(wide).tolist(), ""
    weights = ", [1.0, 2.0, 1.0]" if row.reducer.weighted else ""
    mapping = ", [3, -1, 0, 1]" if row.rows.pruned else ""
    picked = [3, 0, 2] if row.rows.pruned else [1, 3, 0]
    chosen = np.array([codes[1], codes[3], codes[0]], np.float32)
    w = np.array([[1.0], [2.0], [1.0]], np.float32)
    parts = [SegmentRows(e - b, chosen[b:e], w[b:e], NOTHING, NOTHING) for b, e in ((0, 2), (2, 3))]
    first, last = (row.reducer.reduce(part).tolist() for part in parts)
    columns = "" if format is None else f"[:, ::{format.in_byte}]"
    return f"""
    >>> table = np.array({table}, np.uint8)
    >>> run("{type}", table{weights}, {picked}, [2, 0, 1]{pairs}{mapping}){columns}.tolist()
    {[first, [0.0, 0.0], last]}
    """


BESIDE = Rows(None)


@family(
    {
        "SparseLengthsSum8BitsRowwise": Lookup(SUM, BESIDE),
        "SparseLengthsSumFused8BitRowwise": Lookup(SUM, Rows(EIGHT)),
        "SparseLengthsSum8BitRowwiseSparse": Lookup(SUM, Rows(EIGHT, pruned=True)),
        "SparseLengthsSumFused4BitRowwise": Lookup(SUM, Rows(FOUR)),
        "SparseLengthsSum4BitRowwiseSparse": Lookup(SUM, Rows(FOUR, pruned=True)),
        "SparseLengthsSumFused2BitRowwise": Lookup(SUM, Rows(TWO)),
        "SparseLengthsSum2BitRowwiseSparse": Lookup(SUM, Rows(TWO, pruned=True)),
        "SparseLengthsWeightedSum8BitsRowwise": Lookup(WEIGHTED_SUM, BESIDE),
        "SparseLengthsWeightedSumFused8BitRowwise": Lookup(WEIGHTED_SUM, Rows(EIGHT)),
        "SparseLengthsWeightedSum8BitRowwiseSparse": Lookup(WEIGHTED_SUM, Rows(EIGHT, pruned=True)),
        "SparseLengthsWeightedSumFused4BitRowwise": Lookup(WEIGHTED_SUM, Rows(FOUR)),
        "SparseLengthsWeightedSum4BitRowwiseSparse": Lookup(WEIGHTED_SUM, Rows(FOUR, pruned=True)),
        "SparseLengthsWeightedSumFused2BitRowwise": Lookup(WEIGHTED_SUM, Rows(TWO)),
        "SparseLengthsWeightedSum2BitRowwiseSparse": Lookup(WEIGHTED_SUM, Rows(TWO, pruned=True)),
        "SparseLengthsMean8BitsRowwise": Lookup(MEAN, BESIDE),
        "SparseLengthsMeanFused8BitRowwise": Lookup(MEAN, Rows(EIGHT)),
        "SparseLengthsMean8BitRowwiseSparse": Lookup(MEAN, Rows(EIGHT, pruned=True)),
        "SparseLengthsMeanFused4BitRowwise": Lookup(MEAN, Rows(FOUR)),
        "SparseLengthsMean4BitRowwiseSparse": Lookup(MEAN, Rows(FOUR, pruned=True)),
        "SparseLengthsMeanFused2BitRowwise": Lookup(MEAN, Rows(TWO)),
        "SparseLengthsMean2BitRowwiseSparse": Lookup(MEAN, Rows(TWO, pruned=True)),
        "SparseLengthsWeightedMean8BitsRowwise": Lookup(WEIGHTED_MEAN, BESIDE),
    }
)
def lookups(type: str, row: Lookup) -> OpSchema:
    """A reduction of picked rows."""
    reducer = row.reducer
    weights = " and their WEIGHTS w" if reducer.weighted else ""
    made = schema(
        type,
        f"Y[m] = {reducer.text} for the rows x = DATA[i] of the INDICES i{weights} in segment m; 0 without any.",
        inputs=row.rows.inputs(reducer),
        outputs=[blob("Y", FLOAT)],
        effects=Effects.PURE,
        no_gradient=NO_GRADIENT,
        source="Caffe2",
        example=_example(type, row),
    )

    @made.infer
    def infer(op: OpView, **given: TensorSpec) -> TensorSpec:
        M = None if (lengths := given["LENGTHS"].dims) is None else lengths[0]
        dims = row.rows.dims(op, given)
        return TensorSpec(None if dims is None else (M, *dims), DataType.FLOAT)

    @made.cost
    def cost(op: OpView, Y: TensorSpec, **given: TensorSpec) -> Cost:
        del op
        DATA, taken = given["DATA"], given["INDICES"].size
        width = DATA.size // DATA.shape[0] if DATA.shape[0] else 0
        read = taken * width + sum(one.nbytes for letter, one in given.items() if letter != "DATA")
        return Cost(taken * width * (reducer.flops + 2), read, Y.nbytes)

    def compute(op: OpView, given: Mapping[str, Any]) -> None:
        _reduce(op, row, given)

    kernel(made)(by_letter(made, compute))
    return made


SPARSE_LENGTHS_SUM_SPARSE_LOOKUP = schema(
    "SparseLengthsSumSparseLookup",
    """Y = MAPPING[i] of the INDICES i that are not left out, with lengths and weights of what stays.

    LENGTHS may add up to less than there are INDICES: those behind are dropped.""",
    inputs=[
        blob("INDICES", INDEX, "I", role=Role.INDEX, doc="each in [0, W)"),
        LENGTHS,
        MAPPING,
        replace(WEIGHTS, optional=True),
    ],
    outputs=[
        blob("Y", "INDICES", dynamic=True),
        blob("lengths", DataType.INT32),
        blob("weights", FLOAT, optional=True, dynamic=True),
    ],
    effects=Effects.PURE,
    no_gradient=ends("whole numbers have no gradient"),
    source="Caffe2",
    example="""
    >>> run("SparseLengthsSumSparseLookup", [1, 0, 2], [2, 1], [7, -1, 5], outputs=2)
    (array([7, 5], dtype=int32), array([1, 1], dtype=int32))
    """,
)


@SPARSE_LENGTHS_SUM_SPARSE_LOOKUP.validate
def sparse_lookup_validate(op: OpView) -> None:
    if len(op.output_letters) != (3 if op.has_input("WEIGHTS") else 2):
        message = f"{len(op.input_letters)} inputs and {len(op.output_letters)} outputs"
        raise op.error(SchemaError, message, "there are weights where there are WEIGHTS")


@SPARSE_LENGTHS_SUM_SPARSE_LOOKUP.infer
def sparse_lookup_infer(op: OpView, INDICES: TensorSpec, LENGTHS: TensorSpec, **others: Any) -> tuple[TensorSpec, ...]:
    del others
    found = (TensorSpec((None,), INDICES.dtype), LENGTHS, TensorSpec((None,), DataType.FLOAT))
    return found[: len(op.output_letters)]


@SPARSE_LENGTHS_SUM_SPARSE_LOOKUP.cost
def sparse_lookup_cost(op: OpView, INDICES: TensorSpec, LENGTHS: TensorSpec, Y: TensorSpec, **others: Any) -> Cost:
    del op, others
    return streamed((INDICES, INDICES, LENGTHS), (Y,), flops=INDICES.size)


@kernel(SPARSE_LENGTHS_SUM_SPARSE_LOOKUP)
def sparse_lookup(
    op: OpView,
    INDICES: Array,
    LENGTHS: Array,
    MAPPING: Array,
    WEIGHTS: Array | None,
    Y: DynamicOutput,
    lengths: Array,
    weights: DynamicOutput | None,
) -> None:
    used = min(int(LENGTHS.sum(dtype=np.int64)), INDICES.size)
    starts = starts_of(op, "LENGTHS", LENGTHS, max(used, 0), "INDICES")
    indices = INDICES[: max(used, 0)]
    check_rows(op, indices, MAPPING.size)
    rows = MAPPING.reshape(-1)[indices]
    stays = rows != -1
    before = np.concatenate([[0], np.cumsum(stays)])[starts]
    lengths[...] = np.diff(before)
    Y.allocate((int(stays.sum()),))[...] = rows[stays]
    if WEIGHTS is not None and weights is not None:
        weights.allocate((int(stays.sum()),))[...] = WEIGHTS[: indices.size][stays]
