"""Copies whose elements come from anywhere with even steps: axes in another order, or repeated."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tazza.codegen.block import Slot, Word
from tazza.codegen.term import Term
from tazza.engines.cuda.threads import Threads, each_launch
from tazza.operator import Launch


def strided_copy(nbytes: int, axes: Sequence[tuple[int, int]], places: tuple[str, str]) -> Launch:
    """Return the launch of a copy of elements of so many bytes, by a thread for each that is written.

    Args:
        nbytes: of an element.
        axes: of what is written, outermost first: its extent, and how far it steps in what is read.
        places: letters of what is read, and of what is written.
    """
    rank = len(axes)
    words: dict[str, Word] = {}
    for k, (extent, step) in enumerate(axes):
        words |= {f"extent{k}": max(1, extent), f"step{k}": step}

    def write(t: Threads, i: Term) -> None:
        place, rest = t.lines.number(0), i
        for k in reversed(range(rank)):
            rest, number = t.split(rest, t.w[f"extent{k}"])
            place += number * t.w[f"step{k}"]
        t.move(("source", place), ("target", i), nbytes)

    words |= {"source": Slot(places[0]), "target": Slot(places[1])}
    return each_launch(f"strided {rank} {nbytes}", math.prod(extent for extent, _ in axes), words, write)


def steps_of(shape: Sequence[int]) -> list[int]:
    """Return how far each axis of a row-major blob steps.

    >>> steps_of((2, 3, 5))
    [15, 5, 1]
    """
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
