"""Scatter: one element after the other, in the order of indices; threads share what stands before the axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from tazza.codegen.block import BlockLaunch, Slot, accepts_rows
from tazza.codegen.emit import Lines
from tazza.codegen.kernel import threads_for
from tazza.codegen.loop import count_loop
from tazza.codegen.rows import FIRST, D, each_row, element, finish_status, index_at, stop_if, when
from tazza.device import Context
from tazza.engines.native import SOURCES
from tazza.operator import Launch, Operands, OpView, Spec, Unsupported, launcher
from tazza.ops.shape.scatter import SCATTER
from tazza.ops.sparse.segment import check_rows
from tazza.runtime.threads import thread_count
from tazza.tensor import DataType, TensorSpec

NAMES = ("places", "some", "along", "behind")
POINTERS = ("indices", "X", "updates", "Y")
"""Words behind N = A, D = B and the status: V; then the extents before, along and behind the axis that indices have."""


def write_scatter(lines: Lines, bits: int, itemsize: int, *, last: bool) -> None:
    """Write Y = X, but Y[a, index of (a, v, b), b] = updates[a, v, b] for the a, v and b of indices; `last`: b is 0."""
    kind, width = f"i{8 * itemsize}", lines.load_word("%block", D)
    number = {name: lines.load_word("%block", FIRST + n) for n, name in enumerate(NAMES)}
    at = {name: lines.load_pointer("%block", FIRST + len(NAMES) + n) for n, name in enumerate(POINTERS)}
    whole = lines.let(f"mul i64 {number['places']}, {width}")
    part = lines.let(f"mul i64 {number['along']}, {number['behind']}")

    def look(i: str) -> None:
        index = index_at(lines, at["indices"], i, bits)
        stop_if(lines, lines.let(f"icmp uge i64 {index}, {number['places']}"))  # -1 is too large

    def move(source: str, i: str, target: str, j: str) -> None:
        value = lines.let(f"load {kind}, ptr {element(lines, source, i, kind)}")
        lines.do(f"store {kind} {value}, ptr {element(lines, target, j, kind)}")

    def outer(a: str) -> None:
        start = lines.let(f"mul i64 {a}, {whole}")
        x, y = (element(lines, at[name], start, kind) for name in ("X", "Y"))
        apart = lines.let(f"icmp ne ptr {x}, {y}")
        when(lines, apart, lambda: count_loop(lines, "0", whole, lambda i: move(x, i, y, i)))

        def scattered() -> None:
            first = lines.let(f"mul i64 {a}, {part}")
            own = element(lines, at["indices"], first, f"i{bits}")
            updates = element(lines, at["updates"], first, kind)

            def place(v: str) -> None:
                row = lines.let(f"mul i64 {v}, {number['behind']}")

                def one(b: str) -> None:
                    i = lines.let(f"add i64 {row}, {b}")
                    to = lines.let(f"mul i64 {index_at(lines, own, i, bits)}, {width}")
                    move(updates, i, y, lines.let(f"add i64 {to}, {b}"))

                count_loop(lines, "0", "1" if last else number["behind"], one)

            count_loop(lines, "0", number["along"], place)

        when(lines, lines.let(f"icmp slt i64 {a}, {number['some']}"), scattered)

    count_loop(lines, "0", lines.let(f"mul i64 {number['some']}, {part}"), look)
    each_row(lines, outer)


@launcher(SCATTER, engine="native", accepts=accepts_rows)
def prepare_scatter(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launch | Unsupported:
    """Compile the copy and what is put into it."""
    del context, outputs
    X, indices, _ = cast("Sequence[TensorSpec]", inputs)
    if X.dtype is DataType.STRING:
        return Unsupported("text is not compiled")
    axis = op.axis % len(X.shape)
    (A, V, B), (a, v, b) = (_parted(shape, axis) for shape in (X.shape, indices.shape))
    bits, itemsize = 8 * indices.dtype.itemsize, X.dtype.itemsize
    address = SOURCES.compiled(
        f"scatter {bits} {itemsize} {b == 1}",
        lambda lines: write_scatter(lines, bits, itemsize, last=b == 1),
        finish_status,
    )
    threads = max(1, min(A, threads_for(thread_count(), A * V * B, 4, 4.0 * itemsize)))
    slots = [Slot(letter) for letter in POINTERS]

    def check(operands: Operands) -> None:
        check_rows(op, operands["indices"].array, V, "indices")

    return BlockLaunch(address, (threads, A, B, 0, V, a, v, b, *slots), check=check)


def _parted(shape: tuple[int, ...], axis: int) -> tuple[int, int, int]:
    """Return how many elements stand before, along and behind an axis."""
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])
