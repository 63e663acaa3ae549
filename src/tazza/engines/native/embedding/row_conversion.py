"""Rows that are kept in few bits as numbers, and numbers as such rows, whole vectors at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tazza.codegen.block import BlockLaunch
from tazza.codegen.fields import Fields
from tazza.codegen.kernel import threads_of
from tazza.codegen.loop import each_vector, lanes_of, sweep
from tazza.codegen.rows import ROWS, each_row
from tazza.codegen.term import Lines, Term
from tazza.codegen.vector import KINDS, Vector
from tazza.engines.native import SOURCES, native
from tazza.engines.native.embedding.codes import Codes, Row
from tazza.operator import Launch, OpView, Unsupported
from tazza.ops.embedding.row_conversion import decodings, encodings
from tazza.ops.embedding.row_format import LARGEST, RowFormat
from tazza.tensor import DataType, TensorSpec

FLOAT = DataType.FLOAT
BLOCK = Fields(addresses="X:i8 Y:i8", after=ROWS)


def write_decoding(lines: Lines, codes: Codes, dtype: DataType) -> None:
    """Write Y[n, d] = code * scale + bias."""
    v, at = lanes_of(lines), BLOCK.lazily(lines)
    width, table, target = at.D, at.X, at.Y

    def row(n: Term) -> None:
        own, y = Row(table, table, n, width), target.at(n * width * dtype.itemsize)
        each_vector(v, 0, width, lambda i, mask: v.store(codes.decoded(v, own, i, 1, mask)[0], y, i, mask, dtype=dtype))

    each_row(lines, row)


@native(*decodings.schemas)
def prepare_decoding(op: OpView, Y: TensorSpec) -> Launch:
    """Compile the conversion of rows of this format."""
    format = decodings.rows[op.type].format
    codes = Codes(format.room, DataType.FLOAT if format.scalars is np.float32 else DataType.FLOAT16)
    rows, width = math.prod(Y.shape[:-1]), Y.shape[-1]
    address = SOURCES.compiled(f"decoding {codes} {Y.dtype}", lambda lines: write_decoding(lines, codes, Y.dtype))
    return _launch(address, threads_of(Y.size, 4, 5, rows), rows, width)


def _launch(address: int, threads: int, rows: int, width: int) -> Launch:
    return BlockLaunch(address, BLOCK.words(threads=threads, N=rows, D=width))


def write_encoding(lines: Lines, format: RowFormat, dtype: DataType) -> None:
    """Write for each row its codes, rint((x - bias) / scale), then scale and bias."""
    v, at = lanes_of(lines), BLOCK.lazily(lines)
    width, source, target = at.D, at.X, at.Y
    kind = KINDS[DataType.FLOAT if format.exact else DataType.FLOAT16]
    coded = width // format.in_byte
    made = coded + format.behind

    def row(n: Term) -> None:
        x, y = source.at(n * width * dtype.itemsize), target.at(n * made)
        numbers = _scalars(Vector(lines, 1), format, *_bounds(v, dtype, x, width))
        bias, inverse = (v.full(one.lane(0)) for one in numbers[1:])

        def some(i: Term, mask: Term | None) -> None:
            found = ((v.load(x, i, mask, dtype=dtype) - bias) * inverse).intrinsic("rint")
            finite = abs(found) < math.inf
            code = finite.choose(found, 0.0).at_least(0.0).at_most(format.top)
            _store_codes(v, code, y.at(i // format.in_byte), mask, format)

        each_vector(v, 0, width, some)
        behind = y.at(coded).of(kind)
        for place, value in enumerate(numbers[:2]):
            kept = value.lane(0).to(kind)
            behind.at(place).store(kept, 1)

    each_row(lines, row)


def _scalars(v: Vector, format: RowFormat, low: Term, high: Term) -> tuple[Term, Term, Term]:
    """Return scale, bias, and what differences from the bias are multiplied by, as `RowFormat` has them."""
    if format.exact:
        spread = high - low
        inverse = format.top / (spread + float(np.float32(1e-8)))
        return spread / format.top, low, inverse
    bias = _half(v, low)
    spread = high - bias
    scale = _half(v, spread.equals(0.0).choose(1.0, spread / format.top))
    scale = scale.equals(0.0).choose(1.0, scale)
    return scale, bias, 1.0 / scale


def _half(v: Vector, value: Term) -> Term:
    return v.widened(DataType.FLOAT16, v.narrowed(DataType.FLOAT16, value))


def _bounds(v: Vector, dtype: DataType, x: Term, width: Term) -> tuple[Term, Term]:
    """Return the least and the greatest number of a row, as vectors of one lane; NaN does not count."""

    def more(i: Term, mask: Term | None, carried: Sequence[Term]) -> Sequence[Term]:
        low, high = carried
        least, most = (v.load(x, i, mask, bound, dtype=dtype) for bound in (LARGEST, -LARGEST))
        return (least < low).choose(least, low), (most > high).choose(most, high)

    low, high = sweep(v, 0, width, more, (v.constant(LARGEST), v.constant(-LARGEST)))
    return -(-low).largest().splat(1), high.largest().splat(1)


def _store_codes(v: Vector, value: Term, at: Term, mask: Term | None, format: RowFormat) -> None:
    """Write floats that are codes, the first of a byte in its lowest bits."""
    each = format.in_byte
    short = value.to("i32").to("i8")
    if each > 1:
        # Codes of a byte lie in bytes of a word, which are joined pair by pair: 8 bits apart become `room` apart.
        short = short.bitcast(f"<{v.count // each} x i{8 * each}>")
        apart = 8 - format.room
        while apart < 8 * (each - 1):
            short, apart = short | short.shifted_down(apart), 2 * apart
        short = short.to("i8")
    at.store_lanes(short, 1, None if mask is None else mask.shuffle(range(0, v.count, each)))


@native(*(encodings[type] for type, row in encodings.rows.items() if not row.format.mimics))
def prepare_encoding(op: OpView, X: TensorSpec) -> Launch:
    """Compile the conversion to this format."""
    row = encodings.rows[op.type]
    if row.searching(op):
        raise Unsupported("bounds are searched by the reference kernel")
    rows, width = math.prod(X.shape[:-1]), X.shape[-1]
    kind = f"encoding of {row.dtype.label} in {row.format.room} bits{'' if row.format.exact else ', half'}"
    address = SOURCES.compiled(kind, lambda lines: write_encoding(lines, row.format, row.dtype))
    return _launch(address, threads_of(X.size, 8, 5, rows), rows, width)
