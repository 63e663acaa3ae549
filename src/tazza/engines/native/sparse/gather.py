"""BatchGather and its gradient: parts of each outer place, copied or added up in the order of indices.

Threads share the outer places: no element is written by two. All indices are looked at before anything is read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from tazza.codegen.block import BlockLaunch, Slot, accepts_rows
from tazza.codegen.emit import Lines
from tazza.codegen.kernel import threads_for
from tazza.codegen.loop import count_loop, lanes_of, store, sweep
from tazza.codegen.rows import FIRST, D, each_row, element, finish_status, index_at, row_at, stop_if
from tazza.device import Context
from tazza.engines.native import SOURCES
from tazza.operator import Launch, Operands, OpView, Spec, Unsupported, launcher
from tazza.ops.sparse.gather import BATCH_GATHER_GRADIENT, axis_of, gathers, places
from tazza.runtime.threads import thread_count
from tazza.tensor import DataType, TensorSpec

FLOAT = DataType.FLOAT
TAKEN, PARTS, INDICES, SOURCE, TARGET = range(FIRST, FIRST + 5)
"""Words behind N = A outer places, D = B elements of a part, and the status: I, V, and addresses."""


def write_gather(lines: Lines, bits: int, *, adds: bool) -> None:
    """Write target[a, i] = source[a, index i], or target[a, index i] += source[a, i] from zeros."""
    v = lanes_of(lines)
    width, taken, parts = (lines.load_word("%block", word) for word in (D, TAKEN, PARTS))
    indices, source, target = (lines.load_pointer("%block", word) for word in (INDICES, SOURCE, TARGET))

    def look(i: str) -> None:
        stop_if(lines, lines.let(f"icmp uge i64 {index_at(lines, indices, i, bits)}, {parts}"))  # -1 is too large

    written = lines.let(f"mul i64 {parts if adds else taken}, {width}")
    read = lines.let(f"mul i64 {taken if adds else parts}, {width}")

    def outer(a: str) -> None:
        from_, to = row_at(lines, source, a, read), row_at(lines, target, a, written)

        def zero(i: str, mask: str | None, carried: Sequence[str]) -> Sequence[str]:
            del carried
            store(v, FLOAT, v.constant(0.0), to, i, mask)
            return ()

        def part(i: str) -> None:
            place = index_at(lines, indices, i, bits)
            x, y = (row_at(lines, from_, i, width), row_at(lines, to, place, width))
            if not adds:
                x, y = row_at(lines, from_, place, width), row_at(lines, to, i, width)

            def elements(n: str) -> None:
                value = lines.let(f"load float, ptr {element(lines, x, n)}")
                if adds:
                    before = lines.let(f"load float, ptr {element(lines, y, n)}")
                    value = lines.let(f"fadd float {before}, {value}")
                lines.do(f"store float {value}, ptr {element(lines, y, n)}")

            count_loop(lines, "0", width, elements)

        if adds:
            sweep(v, "0", written, zero)
        count_loop(lines, "0", taken, part)

    count_loop(lines, "0", taken, look)
    each_row(lines, outer)


def _prepare(op: OpView, specs: dict[str, TensorSpec], source: str, target: str) -> Launch | Unsupported:
    DATA, own = specs["DATA"], specs["INDICES"]
    if op.match_outer:
        return Unsupported("each outer place has indices of its own")
    if DATA.dtype is not FLOAT:
        return Unsupported(f"it moves float32, not {DATA.dtype.label}")
    axis = axis_of(op, len(DATA.shape))
    A, V, B = math.prod(DATA.shape[:axis]), DATA.shape[axis], math.prod(DATA.shape[axis + 1 :])
    bits, adds = 8 * own.dtype.itemsize, target == "dDATA"
    address = SOURCES.compiled(
        f"gather {bits} {adds}", lambda lines: write_gather(lines, bits, adds=adds), finish_status
    )
    threads = threads_for(thread_count(), A * max(own.size, V if adds else 0), B, 12.0 * B)

    def check(operands: Operands) -> None:
        places(op, operands["INDICES"].array, V, wraps=False)

    words = (threads, A, B, 0, own.size, V, Slot("INDICES"), Slot(source), Slot(target))
    return BlockLaunch(address, words, check=check)


@launcher(gathers["BatchGather"], engine="native", accepts=accepts_rows)
def prepare_batch_gather(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launch | Unsupported:
    """Compile the copy."""
    del context, outputs
    return _prepare(op, _named(op, inputs), "DATA", "OUTPUT")


@launcher(BATCH_GATHER_GRADIENT, engine="native", accepts=accepts_rows)
def prepare_batch_gather_gradient(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launch | Unsupported:
    """Compile the sums."""
    del context, outputs
    return _prepare(op, _named(op, inputs), "dOUTPUT", "dDATA")


def _named(op: OpView, inputs: Sequence[Spec]) -> dict[str, TensorSpec]:
    return dict(zip(op.input_letters, cast("Sequence[TensorSpec]", inputs), strict=True))
