"""Two kernels for tests of what launches them: one pointwise, one that reduces rows by threads that meet."""

from __future__ import annotations

from collections.abc import Sequence

from tazza.codegen.function import Emission
from tazza.codegen.loop import when
from tazza.codegen.nvptx import GridKernel, barrier, place, shared
from tazza.codegen.term import Lines
from tazza.codegen.vector import Vector
from tazza.tensor import DataType
from tazza.tensor.expression import Expression
from tests.launching import pointer_at, word_at


def elementwise(result: Expression, names: Sequence[str], threads: int, *, bits: int = 32) -> GridKernel:
    """Return the kernel of Y = a formula over arrays of n floats: the words are their addresses, that of Y, and n."""
    dtype = DataType.FLOAT if bits == 32 else DataType.DOUBLE

    def write(lines: Lines) -> None:
        v = Vector(lines, 1, dtype)
        thread, block = place(lines)
        i = block * threads + thread

        def one() -> None:
            values = {name: v.load(pointer_at(lines, k), i, None) for k, name in enumerate(names)}
            Y = pointer_at(lines, len(names))
            v.store(Emission(v, values).write(result), Y, i, None)

        when(i < word_at(lines, len(names) + 1), one)

    return GridKernel(len(names) + 2, write)


def row_sums(threads: int) -> GridKernel:
    """Return the kernel of Y[r] = the sum of X[r, :threads], all of float64; a block for each row. Words: X, Y."""

    def write(lines: Lines) -> None:
        v = Vector(lines, 1, DataType.DOUBLE)
        thread, row = place(lines)
        S = shared(lines)
        i = row * threads + thread
        v.store(v.load(pointer_at(lines, 0), i, None), S, thread, None)
        step = threads // 2
        while step:

            def halve(step: int = step) -> None:
                other = v.load(S, thread + step, None)
                v.store(v.load(S, thread, None) + other, S, thread, None)

            barrier(lines)
            when(thread < step, halve)
            step //= 2

        when(thread.equals(0), lambda: v.store(v.load(S, 0, None), pointer_at(lines, 1), row, None))

    return GridKernel(2, write, threads)
