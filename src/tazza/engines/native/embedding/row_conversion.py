"""Rows that are kept in few bits as numbers, and numbers as such rows, whole vectors at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tazza.codegen.block import BlockLaunch
from tazza.codegen.emit import Lines, Vector
from tazza.codegen.fields import Fields
from tazza.codegen.kernel import threads_of
from tazza.codegen.loop import KINDS, each_vector, lanes_of, sweep
from tazza.codegen.rows import ROWS, each_row, element
from tazza.engines.native import SOURCES, native
from tazza.engines.native.embedding.codes import Codes, Row
from tazza.operator import Launch, OpView, Unsupported
from tazza.ops.embedding.row_conversion import decodings, encodings
from tazza.ops.embedding.row_format import LARGEST, RowFormat
from tazza.tensor import DataType, TensorSpec

FLOAT = DataType.FLOAT
BLOCK = Fields(addresses="X Y", after=ROWS)


def write_decoding(lines: Lines, codes: Codes, dtype: DataType) -> None:
    """Write Y[n, d] = code * scale + bias."""
    v, at = lanes_of(lines), BLOCK.read(lines)
    width, table, target = at.D, at.X, at.Y

    def row(n: str) -> None:
        own = Row(table, "", n, width)
        nbytes = lines.let(f"mul i64 {lines.let(f'mul i64 {n}, {width}')}, {dtype.itemsize}")
        y = element(lines, target, nbytes, "i8")

        each_vector(
            v, "0", width, lambda i, mask: v.store(codes.decoded(v, own, i, 1, mask)[0], y, i, mask, dtype=dtype)
        )

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
    v, at = lanes_of(lines), BLOCK.read(lines)
    width, source, target = at.D, at.X, at.Y
    scalars = DataType.FLOAT if format.exact else DataType.FLOAT16
    coded = lines.let(f"udiv i64 {width}, {format.in_byte}")
    made = lines.let(f"add i64 {coded}, {format.behind}")

    def row(n: str) -> None:
        begin = lines.let(f"mul i64 {lines.let(f'mul i64 {n}, {width}')}, {dtype.itemsize}")
        x = element(lines, source, begin, "i8")
        y = element(lines, target, lines.let(f"mul i64 {n}, {made}"), "i8")
        numbers = _scalars(Vector(lines, 1), format, *_bounds(v, dtype, x, width))
        bias, inverse = (v.splat(lines.let(f"extractelement <1 x float> {one}, i32 0")) for one in numbers[1:])

        def some(i: str, mask: str | None) -> None:
            found = v.intrinsic("rint", v.mul(v.sub(v.load(x, i, mask, dtype=dtype), bias), inverse))
            finite = v.compare("olt", v.intrinsic("fabs", found), v.constant(math.inf))
            code = v.ceiling(v.floor_at(v.select(finite, found, v.constant(0.0)), 0.0), format.top)
            place = element(lines, y, lines.let(f"udiv i64 {i}, {format.in_byte}"), "i8")
            _store_codes(v, code, place, mask, format)

        each_vector(v, "0", width, some)
        behind, kind = element(lines, y, coded, "i8"), KINDS[scalars]
        for place, value in enumerate(numbers[:2]):
            kept = lines.let(f"extractelement <1 x float> {value}, i32 0")
            kept = kept if scalars is FLOAT else lines.let(f"fptrunc float {kept} to half")
            lines.do(f"store {kind} {kept}, ptr {element(lines, behind, str(place), kind)}, align 1")

    each_row(lines, row)


def _scalars(v: Vector, format: RowFormat, low: str, high: str) -> tuple[str, str, str]:
    """Return scale, bias, and what differences from the bias are multiplied by, as `RowFormat` has them."""
    one, top = v.constant(1.0), v.constant(format.top)
    if format.exact:
        spread = v.sub(high, low)
        inverse = v.div(top, v.add(spread, v.constant(float(np.float32(1e-8)))))
        return v.div(spread, top), low, inverse
    bias = _half(v, low)
    spread = v.sub(high, bias)
    scale = _half(v, v.select(v.compare("oeq", spread, v.constant(0.0)), one, v.div(spread, top)))
    scale = v.select(v.compare("oeq", scale, v.constant(0.0)), one, scale)
    return scale, bias, v.div(one, scale)


def _half(v: Vector, value: str) -> str:
    return v.widened(DataType.FLOAT16, v.narrowed(DataType.FLOAT16, value))


def _bounds(v: Vector, dtype: DataType, x: str, width: str) -> tuple[str, str]:
    """Return the least and the greatest number of a row, as vectors of one lane; NaN does not count."""

    def more(i: str, mask: str | None, carried: Sequence[str]) -> Sequence[str]:
        low, high = carried
        least, most = (v.load(x, i, mask, v.constant(bound), dtype=dtype) for bound in (LARGEST, -LARGEST))
        return (
            v.select(v.compare("olt", least, low), least, low),
            v.select(v.compare("ogt", most, high), most, high),
        )

    low, high = sweep(v, "0", width, more, (v.constant(LARGEST), v.constant(-LARGEST)))
    one = Vector(v.lines, 1)
    return one.neg(one.splat(v.largest(v.neg(low)))), one.splat(v.largest(high))


def _store_codes(v: Vector, value: str, at: str, mask: str | None, format: RowFormat) -> None:
    """Write floats that are codes, the first of a byte in its lowest bits."""
    lines, count, each = v.lines, v.count // format.in_byte, format.in_byte
    kind = f"<{count} x i8>"
    short = lines.let(f"trunc {v.integer} {lines.let(f'fptosi {v.type} {value} to {v.integer}')} to <{v.count} x i8>")
    if each > 1:
        # Codes of a byte lie in bytes of a word, which are joined pair by pair: 8 bits apart become `room` apart.
        word = f"<{count} x i{8 * each}>"
        short = lines.let(f"bitcast <{v.count} x i8> {short} to {word}")
        apart = 8 - format.room
        while apart < 8 * (each - 1):
            moved = lines.let(f"lshr {word} {short}, splat (i{8 * each} {apart})")
            short, apart = lines.let(f"or {word} {short}, {moved}"), 2 * apart
        short = lines.let(f"trunc {word} {short} to {kind}")
    first = None if mask is None else lines.shuffle(v.mask, range(0, each * count, each), mask)
    lines.store_lanes(kind, short, at, 1, first)


@native(*(encodings[type] for type, row in encodings.rows.items() if not row.format.mimics))
def prepare_encoding(op: OpView, X: TensorSpec) -> Launch | Unsupported:
    """Compile the conversion to this format."""
    row = encodings.rows[op.type]
    if row.searching(op):
        return Unsupported("bounds are searched by the reference kernel")
    rows, width = math.prod(X.shape[:-1]), X.shape[-1]
    kind = f"encoding of {row.dtype.label} in {row.format.room} bits{'' if row.format.exact else ', half'}"
    address = SOURCES.compiled(kind, lambda lines: write_encoding(lines, row.format, row.dtype))
    return _launch(address, threads_of(X.size, 8, 5, rows), rows, width)
