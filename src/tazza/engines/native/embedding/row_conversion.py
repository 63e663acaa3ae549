"""Rows that are kept in few bits as numbers, and numbers as rows of a byte each, whole vectors at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import numpy as np

from tazza.codegen.block import BlockLaunch, Slot, accepts_rows
from tazza.codegen.emit import Lanes, Lines
from tazza.codegen.kernel import threads_for
from tazza.codegen.loop import lanes_of, load, store, sweep
from tazza.codegen.rows import FIRST, D, each_row, element, first_lane, row_at
from tazza.device import Context
from tazza.engines.native import SOURCES
from tazza.engines.native.embedding.codes import Codes, Row
from tazza.operator import Launch, OpView, Spec, launcher
from tazza.ops.embedding.row_conversion import Decoding, decodings, encodings
from tazza.ops.embedding.row_format import EIGHT, LARGEST
from tazza.runtime.threads import thread_count
from tazza.tensor import DataType, TensorSpec

FLOAT = DataType.FLOAT


def write_decoding(lines: Lines, codes: Codes, dtype: DataType) -> None:
    """Write Y[n, d] = code * scale + bias."""
    v, width = lanes_of(lines), lines.load_word("%block", D)
    table, target = (lines.load_pointer("%block", FIRST + i) for i in (0, 1))

    def row(n: str) -> None:
        own = Row(table, "", n, width)
        nbytes = lines.let(f"mul i64 {lines.let(f'mul i64 {n}, {width}')}, {dtype.itemsize}")
        y = element(lines, target, nbytes, "i8")

        def some(i: str, mask: str | None, carried: Sequence[str]) -> Sequence[str]:
            del carried
            store(v, dtype, codes.decoded(v, own, i, 1, mask)[0], y, i, mask)
            return ()

        sweep(v, "0", width, some)

    each_row(lines, row)


def _register(type: str, row: Decoding) -> None:
    scalars = DataType.FLOAT if row.format.scalars is np.float32 else DataType.FLOAT16
    codes = Codes(row.format.room, scalars)

    @launcher(decodings[type], engine="native", accepts=accepts_rows)
    def prepare(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launch:  # pyright: ignore[reportUnusedFunction] -- registered
        """Compile the conversion of rows of this format."""
        del op, context, inputs
        Y = cast("TensorSpec", outputs[0])
        rows, width = math.prod(Y.shape[:-1]), Y.shape[-1]
        address = SOURCES.compiled(f"decoding {codes} {Y.dtype}", lambda lines: write_decoding(lines, codes, Y.dtype))
        threads = max(1, min(rows, threads_for(thread_count(), Y.size, 4, 5)))
        return BlockLaunch(address, (threads, rows, width, 0, Slot("X"), Slot("Y")))


def write_encoding(lines: Lines) -> None:
    """Write for each row its codes, rint((x - low) * 255 / (high - low)), then scale and low."""
    v, width = lanes_of(lines), lines.load_word("%block", D)
    source, target = (lines.load_pointer("%block", FIRST + i) for i in (0, 1))
    made = lines.let(f"add i64 {width}, {EIGHT.behind}")

    def row(n: str) -> None:
        x = row_at(lines, source, n, width)
        y = element(lines, target, lines.let(f"mul i64 {n}, {made}"), "i8")
        low, high = _bounds(v, x, width)
        spread = v.sub(high, low)
        inverse = v.div(v.constant(EIGHT.top), v.add(spread, v.constant(float(np.float32(1e-8)))))

        def some(i: str, mask: str | None, carried: Sequence[str]) -> Sequence[str]:
            del carried
            found = v.intrinsic("rint", v.mul(v.sub(load(v, FLOAT, x, i, mask), low), inverse))
            finite = v.compare("olt", v.intrinsic("fabs", found), v.constant(math.inf))
            code = v.select(finite, found, v.constant(0.0))
            code = v.select(v.compare("olt", code, v.constant(0.0)), v.constant(0.0), code)
            code = v.select(v.compare("ogt", code, v.constant(EIGHT.top)), v.constant(EIGHT.top), code)
            _store_bytes(v, code, element(lines, y, i, "i8"), mask)
            return ()

        sweep(v, "0", width, some)
        behind = element(lines, y, width, "i8")
        for place, value in enumerate((v.div(spread, v.constant(EIGHT.top)), low)):
            lines.do(f"store float {first_lane(v, value)}, ptr {element(lines, behind, str(place))}, align 1")

    each_row(lines, row)


def _bounds(v: Lanes, x: str, width: str) -> tuple[str, str]:
    """Return the least and the greatest number of a row, as full vectors; NaN does not count."""

    def more(i: str, mask: str | None, carried: Sequence[str]) -> Sequence[str]:
        low, high = carried
        least, most = (load(v, FLOAT, x, i, mask, v.constant(bound)) for bound in (LARGEST, -LARGEST))
        return (
            v.select(v.compare("olt", least, low), least, low),
            v.select(v.compare("ogt", most, high), most, high),
        )

    low, high = sweep(v, "0", width, more, (v.constant(LARGEST), v.constant(-LARGEST)))
    return v.neg(v.splat(v.largest(v.neg(low)))), v.splat(v.largest(high))


def _store_bytes(v: Lanes, value: str, at: str, mask: str | None) -> None:
    """Write floats between 0 and 255 as bytes."""
    lines, kind = v.lines, f"<{v.count} x i8>"
    whole = lines.let(f"fptosi {v.type} {value} to {v.integer}")
    short = lines.let(f"trunc {v.integer} {whole} to {kind}")
    if mask is None:
        lines.do(f"store {kind} {short}, ptr {at}, align 1")
        return
    lines.declare(f"void @llvm.masked.store.v{v.count}i8.p0({kind}, ptr, i32, {v.mask})")
    lines.do(f"call void @llvm.masked.store.v{v.count}i8.p0({kind} {short}, ptr {at}, i32 1, {v.mask} {mask})")


@launcher(encodings["FloatToFused8BitRowwiseQuantized"], engine="native", accepts=accepts_rows)
def prepare_encoding(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launch:
    """Compile the conversion to bytes."""
    del op, context, outputs
    X = cast("TensorSpec", inputs[0])
    rows, width = math.prod(X.shape[:-1]), X.shape[-1]
    threads = max(1, min(rows, threads_for(thread_count(), X.size, 8, 5)))
    address = SOURCES.compiled("encoding of bytes", write_encoding)
    return BlockLaunch(address, (threads, rows, width, 0, Slot("X"), Slot("Y")))


for _type, _row in decodings.rows.items():
    _register(_type, _row)
