"""The axes of a tensor in another order: a thread for each element of Y, which finds its place in X."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import cast

from tazza.codegen.block import Slot, Word, accepts_rows
from tazza.device import Context
from tazza.engines.cuda import KIND
from tazza.engines.cuda.threads import Threads, each_launch
from tazza.operator import Launch, OpSchema, OpView, Spec, Unsupported, launcher
from tazza.ops.shape.transpose import NCHW2NHWC, NHWC2NCHW, TRANSPOSE, transpose_axes
from tazza.tensor import DataType, TensorSpec

Axes = Callable[[OpView, int], Sequence[int]]
"""Returns the axis of X for each axis of Y, of so many."""


def _launch(X: TensorSpec, axes: Sequence[int]) -> Launch:
    """Return the launch of the copy; words are the extent of each axis of Y, and how far it steps in X."""
    rank, nbytes = len(axes), X.dtype.itemsize
    words: dict[str, Word] = {}
    for k, axis in enumerate(axes):
        words |= {f"extent{k}": max(1, X.shape[axis]), f"step{k}": math.prod(X.shape[axis + 1 :])}

    def write(t: Threads, i: str) -> None:
        place, rest = "0", i
        for k in reversed(range(rank)):
            rest, number = t.split(rest, t.word(f"extent{k}"))
            place = t.add(place, t.mul(number, t.word(f"step{k}")))
        t.move(("X", place), ("Y", i), nbytes)

    return each_launch(f"transpose {rank} {nbytes}", X.size, {**words, "X": Slot("X"), "Y": Slot("Y")}, write)


def _register(schema: OpSchema, axes: Axes) -> None:
    @launcher(schema, engine=KIND, device=KIND, accepts=accepts_rows)
    def prepare(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launch | Unsupported:
        del context, outputs
        X = cast("TensorSpec", inputs[0])
        if X.dtype is DataType.STRING:
            return Unsupported("strings do not lie on a device")
        return _launch(X, axes(op, len(X.shape)))


_register(TRANSPOSE, transpose_axes)
_register(NCHW2NHWC, lambda op, rank: (0, *range(2, rank), 1))
_register(NHWC2NCHW, lambda op, rank: (0, rank - 1, *range(1, rank - 1)))
