"""Rows that are kept in few bits as numbers, whole vectors of codes at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import numpy as np

from tazza.codegen.block import BlockLaunch, Slot, accepts_rows
from tazza.codegen.emit import Lines
from tazza.codegen.kernel import threads_for
from tazza.codegen.loop import lanes_of, store, sweep
from tazza.codegen.rows import FIRST, D, each_row, element
from tazza.device import Context
from tazza.engines.native import SOURCES
from tazza.engines.native.embedding.codes import Codes, Row
from tazza.operator import Launch, OpView, Spec, launcher
from tazza.ops.embedding.row_conversion import Decoding, decodings
from tazza.runtime.threads import thread_count
from tazza.tensor import DataType, TensorSpec


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


for _type, _row in decodings.rows.items():
    _register(_type, _row)
