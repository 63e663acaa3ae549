"""Matrices as trains of tensors, multiplied or looked up: TT, TTSparseLengthsSum.

A matrix with prod(i) rows and prod(j) columns is a product of cores G_k, one for each factor; a row has a digit a_k for
each factor i_k, a column one for each j_k:

    W[a, b] = G_0[a_0, :, b_0, :] G_1[a_1, :, b_1, :] ...    a product of matrices (r_k, r_k+1), with r = 1 at both ends

TT multiplies rows by it: digits count from the left, and the last core comes first in its list, each as
(i_k, r_k+1, r_k, j_k). TTSparseLengthsSum looks rows up and adds those of each segment: it has three cores
(i_k, r_k, j_k, r_k+1), and the digits of a row count from the right: a_0 = row mod i_0.

Source: Oseledets 2011, "Tensor-Train Decomposition"; Novikov et al. 2015, arXiv 1509.06569, section 4; Yin et al. 2021,
arXiv 2101.11714 for rows of embeddings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tazza.errors import ArgumentError, NumericError
from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    Effects,
    GradientRequest,
    OpView,
    Role,
    arg,
    blob,
    ends,
    kernel,
    not_written,
    schema,
)
from tazza.ops.shape.axis import agree, product, require_within
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec

Specs = tuple[TensorSpec, ...]

TT = schema(
    "TT",
    "Y = X W + b, for a matrix W that is a train of cores.",
    inputs=[
        blob("X", FLOAT, doc="(N, ...), with as many elements a row as the product of inp_sizes"),
        blob("b", FLOAT, "_", role=Role.PARAMETER, doc="as many elements as the product of out_sizes, or more"),
        blob("cores", FLOAT, "_", role=Role.PARAMETER, doc="all cores, the last one first"),
    ],
    outputs=[blob("Y", FLOAT)],
    args=[
        arg("inp_sizes", list[int], doc="factors of the number of rows of W"),
        arg("out_sizes", list[int], doc="factors of the number of columns of W, as many"),
        arg("tt_ranks", list[int], doc="extents between the cores, from 1 to 1"),
    ],
    effects=Effects.PURE,
    no_gradient=not_written("Caffe2 has none either"),
    source="Novikov et al. 2015, arXiv 1509.06569",
    example="""
    >>> run("TT", [[1.0, 2.0]], [10.0], [3.0, 4.0, 1.0], inp_sizes=[2, 1], out_sizes=[1, 1], tt_ranks=[1, 1, 1])
    array([[28.]], dtype=float32)
    """,
)


def _require_factors(op: OpView, ranks: str, *factors: str) -> None:
    """Check that factors are as many, at least one, and that ranks stand between them."""
    count = len(op.arguments[factors[0]])
    for name, wanted in ((factors[0], max(count, 1)), (factors[1], count), (ranks, count + 1)):
        found: list[int] = op.arguments[name]
        if len(found) != wanted:
            message = f"{name} has {len(found)} numbers, it must have {wanted}"
            raise op.error(ArgumentError, message, "a number of each core, and of ranks one more")
        if min(found) < 1:
            raise op.error(ArgumentError, f"{name} holds {min(found)}, extents are at least 1")
    ends_at = op.arguments[ranks]
    if (ends_at[0], ends_at[-1]) != (1, 1):
        raise op.error(ArgumentError, f"{ranks} begins with {ends_at[0]} and ends with {ends_at[-1]}, both are 1")


@TT.validate
def tt_validate(op: OpView) -> None:
    _require_factors(op, "tt_ranks", "inp_sizes", "out_sizes")


def _train(op: OpView) -> list[tuple[int, int, int, int]]:
    """Return the extents (i, r of the next one, r, j) of each core of TT."""
    ranks: list[int] = op.tt_ranks
    return list(zip(op.inp_sizes, ranks[1:], ranks[:-1], op.out_sizes, strict=True))


@TT.infer
def tt_infer(op: OpView, X: TensorSpec, b: TensorSpec, cores: TensorSpec) -> TensorSpec:
    rows, columns = math.prod(op.inp_sizes), math.prod(op.out_sizes)
    if X.dims is not None:
        op.require(len(X.dims) >= 2, f"X has rank {len(X.dims)}, it has a row for each example")
        found = product(X.dims[1:])
        op.require(agree(found, rows), f"a row of X has {found} elements, inp_sizes have the product {rows}")
    for letter, spec, least in (("b", b, columns), ("cores", cores, sum(map(math.prod, _train(op))))):
        size = None if spec.dims is None else product(spec.dims)
        op.require(size is None or size >= least, f"{letter} has {size} elements, {least} are read")
    return TensorSpec((None if X.dims is None else X.dims[0], columns), DataType.FLOAT)


@TT.cost
def tt_cost(op: OpView, X: TensorSpec, b: TensorSpec, cores: TensorSpec, Y: TensorSpec) -> Cost:
    rows, columns, products = math.prod(op.inp_sizes), 1, 0
    for core in reversed(_train(op)):
        rows //= core[0]
        products += rows * math.prod(core) * columns
        columns *= core[3]
    read = X.nbytes + b.nbytes + cores.nbytes
    return Cost(2 * X.shape[0] * products + Y.size, read, Y.nbytes, cores.nbytes)


@kernel(TT)
def tt(op: OpView, X: Array, b: Array, cores: Array, Y: Array) -> None:
    N, at = len(X), 0
    done = X.reshape(N, math.prod(op.inp_sizes), 1, 1)  # (N, rows that are left, r, columns that are there)
    for i, after, before, j in reversed(_train(op)):
        core = cores[at : at + i * after * before * j].reshape(i, after, before, j)
        at += core.size
        parts = done.reshape(N, done.shape[1] // i, i, after, done.shape[3])
        done = np.einsum("naird,irsj->nasjd", parts, core).reshape(N, parts.shape[1], before, j * parts.shape[4])
    Y[...] = done.reshape(Y.shape) + b[: Y.shape[1]]


# -- rows of a train ---------------------------------------------------------------------------------------------------

ARGS = (
    arg("factor_i", list[int], [1, 1, 1], doc="i: factors of the number of rows"),
    arg("factor_j", list[int], [1, 1, 1], doc="j: factors of the number of columns"),
    arg("ranks", list[int], [1, 1, 1, 1], doc="r: extents between the cores, from 1 to 1"),
    arg("emb_size", int, 64, minimum=1, doc="columns of Y: those of a row, behind them 0, or the first of them"),
)
CORES = ("core0", "core1", "core2")
CORE = [blob(name, FLOAT, role=Role.PARAMETER, doc="as many elements as (i, r, j, r)") for name in CORES]
LENGTHS = blob("lengths", DataType.INT32, "S", role=Role.INDEX, doc="rows of each segment, one behind the other")

SUM = schema(
    "TTSparseLengthsSum",
    """Y[s] = the sum of the rows that `index` picks for segment s, of a matrix that is a train of three cores.

    core0_output and core1_output are what the products of the first one and two cores are for each row, indices the
    digits of each row, for the gradient.""",
    inputs=[*CORE, blob("index", DataType.INT64, "I", role=Role.INDEX, doc="rows"), LENGTHS],
    outputs=[
        blob("Y", FLOAT),
        blob("core0_output", FLOAT),
        blob("core1_output", FLOAT),
        blob("indices", DataType.INT64),
    ],
    args=ARGS,
    effects=Effects.PURE,
    source="Yin et al. 2021, arXiv 2101.11714",
    example="""
    >>> cores, sizes = [[1.0, 2.0], [3.0], [5.0, 7.0]], {"factor_i": [2, 1, 2], "emb_size": 1}
    >>> run("TTSparseLengthsSum", *cores, np.array([1, 2, 3]), [2, 1], **sizes)[0]
    array([[51.],
           [42.]], dtype=float32)
    """,
)
GRADIENT = schema(
    "TTSparseLengthsSumGradient",
    "dcore = the gradient of each core, from dY of each segment.",
    inputs=[
        blob("core0", role=Role.SHAPE, doc="of any type: as many elements as (i, r, j, r)"),
        *CORE[1:],
        LENGTHS,
        blob("core0_output", FLOAT, "I j0 r1", role=Role.DATA),
        blob("core1_output", FLOAT, "I j01 r2", role=Role.DATA),
        blob("indices", DataType.INT64, "I 3", role=Role.INDEX, doc="the digits of each row"),
        blob("dY", FLOAT, "S E", role=Role.DATA),
    ],
    outputs=[blob("dcore0", FLOAT), *(blob(f"d{name}", like=name) for name in CORES[1:])],
    args=ARGS,
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of TTSparseLengthsSum",
    example="""
    >>> cores, sizes = [[1.0, 2.0], [3.0], [5.0, 7.0]], {"factor_i": [2, 1, 2], "emb_size": 1}
    >>> _, *kept = run("TTSparseLengthsSum", *cores, np.array([1, 2, 3]), [2, 1], **sizes)
    >>> run("TTSparseLengthsSumGradient", *cores, [2, 1], *kept, [[1.0], [10.0]], **sizes)[0]
    array([ 21., 225.], dtype=float32)
    """,
)


@SUM.validate
@GRADIENT.validate
def rows_validate(op: OpView) -> None:
    _require_factors(op, "ranks", "factor_i", "factor_j")
    if len(op.factor_i) != len(CORES):
        raise op.error(ArgumentError, f"factor_i has {len(op.factor_i)} numbers, there are {len(CORES)} cores")


class Sizes(NamedTuple):
    """The factors j of the columns, and the ranks r between the cores."""

    j: Sequence[int]
    r: Sequence[int]

    @property
    def widths(self) -> list[tuple[int, int]]:
        """The extents of a row of each core: r, and j times the next r."""
        return [(self.r[k], self.j[k] * self.r[k + 1]) for k in range(len(CORES))]


def _told(op: OpView) -> Sizes:
    return Sizes(op.factor_j, op.ranks)


def _of_cores(op: OpView, cores: Sequence[Sequence[int | None] | None]) -> Sizes:
    """Return the sizes that arguments say, or else cores (i, r, j, r).

    Raises:
        ShapeError: the ranks of one core are not those of the next.
    """
    known = [dims for dims in cores if dims is not None and len(dims) == 4 and None not in dims]
    if any(argument.name == "ranks" for argument in op.definition.arg) or len(known) < len(CORES):
        return _told(op)
    ranks = [1, *(int(dims[3] or 0) for dims in known)]
    for k, dims in enumerate(known):
        op.require(dims[1] == ranks[k], f"{CORES[k]} has the extents {dims}, the second must be {ranks[k]}")
    op.require(ranks[-1] == 1, f"{CORES[-1]} has the extents {known[-1]}, the last must be 1")
    return Sizes([int(dims[2] or 0) for dims in known], ranks)


def _require_cores(op: OpView, sizes: Sizes, cores: Sequence[TensorSpec]) -> None:
    for name, spec, width in zip(CORES, cores, map(math.prod, sizes.widths), strict=True):
        size = None if spec.dims is None else product(spec.dims)
        op.require(size is None or size % width == 0, f"{name} has {size} elements, its rows have {width}")


@SUM.infer
def rows_infer(op: OpView, index: TensorSpec, lengths: TensorSpec, **cores: TensorSpec) -> Specs:
    _require_cores(op, _told(op), [cores[name] for name in CORES])
    picked, segments = (None if spec.dims is None else spec.dims[0] for spec in (index, lengths))
    j, r = op.factor_j, op.ranks
    made = ((segments, op.emb_size), (picked, j[0], r[1]), (picked, j[0] * j[1], r[2]))
    return *(TensorSpec(dims, DataType.FLOAT) for dims in made), TensorSpec((picked, len(CORES)), DataType.INT64)


@SUM.cost
def rows_cost(op: OpView, core0: TensorSpec, index: TensorSpec, Y: TensorSpec, **others: TensorSpec) -> Cost:
    del others, core0
    return _cost(_told(op), index.shape[0], Y, 1)


def _cost(sizes: Sizes, picked: int, Y: TensorSpec, times: int) -> Cost:
    """Return the cost of so many passes over the cores of each row that is picked."""
    j, widths = sizes.j, sizes.widths
    products = j[0] * math.prod(widths[1]) + j[0] * j[1] * math.prod(widths[2])
    moved = 4 * picked * sum(map(math.prod, widths))
    return Cost(2 * times * picked * products, moved, Y.nbytes + moved, moved)


@SUM.gradient
def rows_gradient(g: GradientRequest) -> list[OperatorDef]:
    kept = [g.O(k) for k in (1, 2, 3)]
    inputs = [g.like("core0"), g.core1, g.core2, g.lengths, *kept, g.dY]
    return g.emit("TTSparseLengthsSumGradient", inputs, [g.dcore0, g.dcore1, g.dcore2])


def _digits(op: OpView, index: Array) -> Array:
    """Return the digits of each row: (I, 3)."""
    i0, i1, _ = op.factor_i
    return np.stack([index % i0, index // i0 % i1, index // min(i0 * i1, 2**63 - 1)], axis=1)


def _check_digits(op: OpView, sizes: Sizes, digits: Array, elements: Sequence[int], shown: Array) -> None:
    """Check that each core has a row for its digits.

    Raises:
        NumericError: one has not.
    """
    rows = [size // width for size, width in zip(elements, map(math.prod, sizes.widths), strict=True)]
    wrong = (digits < 0) | (digits >= rows)
    if wrong.any():
        place, k = (int(one) for one in np.argwhere(wrong)[0])
        message = f"index {shown[place]} at {place} is row {digits[place, k]} of {CORES[k]}, which has {rows[k]}"
        raise op.error(NumericError, message)


def _segments(op: OpView, lengths: Array, picked: int) -> Array:
    """Return the segment of each row that belongs to one."""
    require_within(op, "lengths", lengths, 0)
    total = int(lengths.sum(dtype=np.int64))
    if total > picked:
        raise op.error(NumericError, f"lengths add up to {total}, and there are {picked} rows")
    return np.repeat(np.arange(lengths.size), lengths)


def _rows_of(sizes: Sizes, k: int, core: Array, digits: Array) -> Array:
    """Return the rows of a core that digits pick: (I, r, j * r)."""
    return core.reshape(-1, *sizes.widths[k])[digits[:, k]]


@kernel(SUM)
def tt_sparse_lengths_sum(
    op: OpView,
    core0: Array,
    core1: Array,
    core2: Array,
    index: Array,
    lengths: Array,
    Y: Array,
    core0_output: Array,
    core1_output: Array,
    indices: Array,
) -> None:
    digits, sizes = _digits(op, index), _told(op)
    _check_digits(op, sizes, np.where(index[:, None] < 0, -1, digits), [core0.size, core1.size, core2.size], index)
    segments = _segments(op, lengths, index.size)
    one = _rows_of(sizes, 0, core0, digits).reshape(core0_output.shape)
    two = (one @ _rows_of(sizes, 1, core1, digits)).reshape(core1_output.shape)
    rows = (two @ _rows_of(sizes, 2, core2, digits)).reshape(index.size, math.prod(op.factor_j))
    sums, width = np.zeros(Y.shape, np.float32), min(op.emb_size, math.prod(op.factor_j))
    np.add.at(sums[:, :width], segments, rows[: segments.size, :width])
    Y[...], core0_output[...], core1_output[...], indices[...] = sums, one, two, digits


@GRADIENT.infer
def rows_gradient_infer(
    op: OpView, core0: TensorSpec, core1: TensorSpec, core2: TensorSpec, dY: TensorSpec, **others: TensorSpec
) -> Specs:
    j, r = sizes = _of_cores(op, [core0.dims, core1.dims, core2.dims])
    _require_cores(op, sizes, (core0, core1, core2))
    columns = None if dY.dims is None else dY.dims[1]
    told = sizes == _told(op)
    op.require(not told or agree(columns, op.emb_size), f"dY has {columns} columns, emb_size is {op.emb_size}")
    for letter, wanted in (("core0_output", (j[0], r[1])), ("core1_output", (j[0] * j[1], r[2]))):
        dims = others[letter].dims
        alike = dims is None or all(map(agree, dims[1:], wanted))
        op.require(alike, f"{letter} has the extents {dims}, those behind the first must be {wanted}")
    return TensorSpec(core0.dims, DataType.FLOAT), core1, core2


@GRADIENT.cost
def rows_gradient_cost(
    op: OpView,
    core0: TensorSpec,
    core1: TensorSpec,
    core2: TensorSpec,
    indices: TensorSpec,
    dY: TensorSpec,
    **others: TensorSpec,
) -> Cost:
    del others
    return _cost(_of_cores(op, [core0.dims, core1.dims, core2.dims]), indices.shape[0], dY, 2)


@kernel(GRADIENT)
def tt_sparse_lengths_sum_gradient(
    op: OpView,
    core1: Array,
    core2: Array,
    lengths: Array,
    core0_output: Array,
    core1_output: Array,
    indices: Array,
    dY: Array,
    dcore0: Array,
    dcore1: Array,
    dcore2: Array,
) -> None:
    sizes = _of_cores(op, [dcore0.shape, core1.shape, core2.shape])
    _check_digits(op, sizes, indices, [dcore0.size, core1.size, core2.size], indices)
    picked, columns = len(indices), math.prod(sizes.j)
    segments, width = _segments(op, lengths, picked), min(dY.shape[1], columns)
    drows = np.zeros((picked, columns), np.float32)
    drows[: segments.size, :width] = dY[segments, :width]
    own = drows.reshape(picked, columns // sizes.j[2], sizes.j[2])
    back = own @ _rows_of(sizes, 2, core2, indices).swapaxes(1, 2)
    back = back.reshape(picked, sizes.j[0], sizes.widths[1][1])
    parts = (
        back @ _rows_of(sizes, 1, core1, indices).swapaxes(1, 2),
        core0_output.swapaxes(1, 2) @ back,
        core1_output.swapaxes(1, 2) @ own,
    )
    for k, (dcore, part) in enumerate(zip((dcore0, dcore1, dcore2), parts, strict=True)):
        total = np.zeros((dcore.size // math.prod(sizes.widths[k]), math.prod(sizes.widths[k])), np.float32)
        np.add.at(total, indices[:, k], part.reshape(picked, total.shape[1]))
        dcore[...] = total.reshape(dcore.shape)
