"""Slice and its gradient: a thread for each element of Y, or of dX, where the numbers of the box are arguments."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

from tazza.codegen.block import Word
from tazza.codegen.term import Term
from tazza.engines.cuda.threads import Threads, each_launch
from tazza.engines.cuda.translated import addresses, translated
from tazza.operator import Launch, OpView, Unsupported
from tazza.ops.shape.slice import SLICE, SLICE_GRADIENT, box
from tazza.tensor import TensorSpec


def _words(op: OpView, whole: TensorSpec) -> dict[str, Word]:
    """Return for each axis its extents of the whole and of the part, where that begins, and its steps in both."""
    taken = box(op, whole.shape, op.starts, op.ends)
    part = [one.stop - one.start for one in taken]
    words: dict[str, Word] = {}
    for k, (extent, one) in enumerate(zip(whole.shape, taken, strict=True)):
        words |= {f"whole{k}": max(1, extent), f"part{k}": max(1, part[k]), f"start{k}": one.start}
        words |= {f"step{k}": math.prod(whole.shape[k + 1 :]), f"inner{k}": math.prod(part[k + 1 :])}
    return words


def _cut(rank: int, nbytes: int, t: Threads, i: Term) -> None:
    """Y[i] = X[start + i]."""
    place, rest = t.lines.number(0), i
    for k in reversed(range(rank)):
        rest, number = t.split(rest, t.w[f"part{k}"])
        place += (number + t.w[f"start{k}"]) * t.w[f"step{k}"]
    t.move(("X", place), ("Y", i), nbytes)


def _put_back(rank: int, nbytes: int, t: Threads, i: Term) -> None:
    """dX[i] = dY[i - start] where that is an element of dY, else 0."""
    kind, place, rest, inside = f"i{8 * nbytes}", t.lines.number(0), i, t.lines.number(True, "i1")
    for k in reversed(range(rank)):
        rest, number = t.split(rest, t.w[f"whole{k}"])
        number -= t.w[f"start{k}"]
        inside &= number.below(t.w[f"part{k}"])
        place += number * t.w[f"inner{k}"]
    value = t.where(inside, lambda: t.pointer("dY", kind)[place], 0)
    t.pointer("dX", kind)[i] = value


@translated(SLICE, SLICE_GRADIENT)
def slice_or_gradient(op: OpView, specs: Mapping[str, TensorSpec]) -> Launch:
    """Compile the copy, for the gradient with zeros around it."""
    if op.has_input("first"):
        raise Unsupported("inputs say where it is cut")
    back = op.type == SLICE_GRADIENT.type
    whole, made = specs["dX" if back else "X"], specs["dX" if back else "Y"]
    rank, nbytes, words = len(whole.shape), whole.dtype.itemsize, _words(op, whole)
    if not back:
        words |= addresses("X", "Y")
        return each_launch(f"slice {rank} {nbytes}", made.size, words, partial(_cut, rank, nbytes))
    if 0 in whole.shape or any(one.stop == one.start for one in box(op, whole.shape, op.starts, op.ends)):
        words |= {f"part{k}": 0 for k in range(rank)}  # no element is one of dY
    name = f"slice gradient {rank} {nbytes}"
    return each_launch(name, made.size, words | addresses("dY", "dX"), partial(_put_back, rank, nbytes))
