"""Two kernels for tests of what launches them: one pointwise, one that reduces rows by threads that meet."""

from __future__ import annotations

from collections.abc import Sequence

from tazza.codegen.emit import Lines, Vector
from tazza.codegen.nvptx import GridKernel, barrier, place, shared
from tazza.codegen.rows import when
from tazza.codegen.vector import Emission
from tazza.tensor import DataType
from tazza.tensor.expression import Expression


def elementwise(result: Expression, names: Sequence[str], threads: int, *, bits: int = 32) -> GridKernel:
    """Return the kernel of Y = a formula over arrays of n floats: the words are their addresses, that of Y, and n."""
    dtype = DataType.FLOAT if bits == 32 else DataType.DOUBLE

    def write(lines: Lines) -> None:
        v = Vector(lines, 1, dtype)
        thread, block = place(lines)
        i = lines.let(f"add i64 {lines.let(f'mul i64 {block}, {threads}')}, {thread}")

        def one() -> None:
            values = {name: v.load(lines.load_pointer("%block", k), i, None) for k, name in enumerate(names)}
            Y = lines.load_pointer("%block", len(names))
            v.store(Emission(v, values).write(result), Y, i, None)

        when(lines, lines.let(f"icmp slt i64 {i}, {lines.load_word('%block', len(names) + 1)}"), one)

    return GridKernel(len(names) + 2, write)


def row_sums(threads: int) -> GridKernel:
    """Return the kernel of Y[r] = the sum of X[r, :threads], all of float64; a block for each row. Words: X, Y."""

    def write(lines: Lines) -> None:
        v = Vector(lines, 1, DataType.DOUBLE)
        thread, row = place(lines)
        S = shared(lines)
        i = lines.let(f"add i64 {lines.let(f'mul i64 {row}, {threads}')}, {thread}")
        v.store(v.load(lines.load_pointer("%block", 0), i, None), S, thread, None)
        step = threads // 2
        while step:

            def halve(step: int = step) -> None:
                other = v.load(S, lines.let(f"add i64 {thread}, {step}"), None)
                v.store(v.add(v.load(S, thread, None), other), S, thread, None)

            barrier(lines)
            when(lines, lines.let(f"icmp slt i64 {thread}, {step}"), halve)
            step //= 2

        def tell() -> None:
            v.store(v.load(S, "0", None), lines.load_pointer("%block", 1), row, None)

        when(lines, lines.let(f"icmp eq i64 {thread}, 0"), tell)

    return GridKernel(2, write, threads)
