"""Slice and its gradient: a thread for each element of Y, or of dX, where the numbers of the box are arguments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from tazza.codegen.block import Slot, Word, accepts_rows_but
from tazza.codegen.rows import element
from tazza.device import Context
from tazza.engines.cuda import KIND
from tazza.engines.cuda.threads import Threads, Write, each_launch
from tazza.operator import Launch, OpView, Spec, Unsupported, launcher
from tazza.ops.shape.slice import SLICE, SLICE_GRADIENT, box
from tazza.tensor import DataType, TensorSpec

NUMBERS = {"first", "behind"}
"""Inputs of the host that say where it is cut; no kernel asks for them."""


def _words(op: OpView, whole: TensorSpec) -> dict[str, Word]:
    """Return for each axis its extents of the whole and of the part, where that begins, and its steps in both."""
    taken = box(op, whole.shape, op.starts, op.ends)
    part = [one.stop - one.start for one in taken]
    words: dict[str, Word] = {}
    for k, (extent, one) in enumerate(zip(whole.shape, taken, strict=True)):
        words |= {f"whole{k}": max(1, extent), f"part{k}": max(1, part[k]), f"start{k}": one.start}
        words |= {f"step{k}": math.prod(whole.shape[k + 1 :]), f"inner{k}": math.prod(part[k + 1 :])}
    return words


def _cut(rank: int, nbytes: int) -> Write:
    """Y[i] = X[start + i]."""

    def write(t: Threads, i: str) -> None:
        place, rest = "0", i
        for k in reversed(range(rank)):
            rest, number = t.split(rest, t.word(f"part{k}"))
            place = t.add(place, t.mul(t.add(number, t.word(f"start{k}")), t.word(f"step{k}")))
        t.move(("X", place), ("Y", i), nbytes)

    return write


def _put_back(rank: int, nbytes: int) -> Write:
    """dX[i] = dY[i - start] where that is an element of dY, else 0."""

    def write(t: Threads, i: str) -> None:
        lines, kind, place, rest, inside = t.lines, f"i{8 * nbytes}", "0", i, "true"
        for k in reversed(range(rank)):
            rest, number = t.split(rest, t.word(f"whole{k}"))
            number = t.two("sub", number, t.word(f"start{k}"))
            inside = lines.let(f"and i1 {inside}, {t.below(number, t.word(f'part{k}'))}")
            place = t.add(place, t.mul(number, t.word(f"inner{k}")))

        def read() -> str:
            return lines.let(f"load {kind}, ptr {element(lines, t.pointer('dY'), place, kind)}")

        value = t.where(inside, read, "0", kind)
        lines.do(f"store {kind} {value}, ptr {element(lines, t.pointer('dX'), i, kind)}")

    return write


def _unsupported(op: OpView, dtype: DataType) -> Unsupported | None:
    if op.has_input("first"):
        return Unsupported("inputs say where it is cut")
    return Unsupported("strings do not lie on a device") if dtype is DataType.STRING else None


@launcher(SLICE, engine=KIND, device=KIND, accepts=accepts_rows_but(NUMBERS))
def prepare_slice(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launch | Unsupported:
    """Compile the copy."""
    del context
    X, Y = cast("tuple[TensorSpec, TensorSpec]", (inputs[0], outputs[0]))
    if (refused := _unsupported(op, X.dtype)) is not None:
        return refused
    rank, nbytes = len(X.shape), X.dtype.itemsize
    words = {**_words(op, X), "X": Slot("X"), "Y": Slot("Y")}
    return each_launch(f"slice {rank} {nbytes}", Y.size, words, _cut(rank, nbytes))


@launcher(SLICE_GRADIENT, engine=KIND, device=KIND, accepts=accepts_rows_but(NUMBERS))
def prepare_slice_gradient(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launch | Unsupported:
    """Compile zeros, and the copy between them."""
    del context, inputs
    dX = cast("TensorSpec", outputs[0])
    if (refused := _unsupported(op, dX.dtype)) is not None:
        return refused
    rank, nbytes = len(dX.shape), dX.dtype.itemsize
    given = _words(op, dX)
    if 0 in dX.shape or any(one.stop == one.start for one in box(op, dX.shape, op.starts, op.ends)):
        given |= {f"part{k}": 0 for k in range(rank)}  # no element is one of dY
    words = {**given, "dY": Slot("dY"), "dX": Slot("dX")}
    return each_launch(f"slice gradient {rank} {nbytes}", dX.size, words, _put_back(rank, nbytes))
