"""Concat and Split: a thread for each element of a part, one launch for each part that has any.

Letters: P places before the joined axis, each with A elements of a part and B of the whole, those behind the axis
included. `split_info` is written on the host.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tazza.codegen.block import Slot
from tazza.codegen.term import Term
from tazza.data_class import dataclass
from tazza.engines.cuda.threads import Threads, each_launch
from tazza.engines.cuda.translated import translated
from tazza.operator import Call, Launch, LaunchChain, Operands, OpView
from tazza.operator.split_call import SplitCall
from tazza.ops.shape.concat import adds_axis, concats, join_axis
from tazza.ops.shape.split import SPLIT_BY_LENGTHS, splits
from tazza.tensor import DataType, TensorSpec


@dataclass(frozen=True, slots=True)
class Joined:
    """How parts lie in the whole: P, B, elements of each of P in each part."""

    places: int
    whole: int
    parts: tuple[int, ...]

    def launches(self, kind: DataType, letters: tuple[str, str], *, apart: bool) -> LaunchChain:
        """Return what copies all parts from or to the whole; `letters` are those of the parts and of the whole."""

        def write(t: Threads, i: Term) -> None:
            p, a = t.split(i, t.w.of_part)
            ends = ("whole", p * t.w.of_whole + t.w.first + a), ("part", i)
            t.move(ends[0] if apart else ends[1], ends[1] if apart else ends[0], kind.itemsize)

        found: list[Launch] = []
        first = 0
        for k, part in enumerate(self.parts):
            if part and self.places:
                words = {"part": Slot(letters[0], k), "whole": Slot(letters[1]), "first": first}
                extents = {"of_part": part, "of_whole": self.whole}
                name = f"join {'apart' if apart else 'together'} {kind.itemsize}"
                found.append(each_launch(name, self.places * part, {**words, **extents}, write))
            first += part
        return LaunchChain(tuple(found))


@dataclass(frozen=True, slots=True)
class ConcatLaunch:
    """Copies all parts, and writes their extents on the host."""

    parts: LaunchChain
    extents: tuple[int, ...]
    capturable: bool = True

    @property
    def scratch_bytes(self) -> int:
        """None."""
        return self.parts.scratch_bytes

    def bind(self, operands: Operands) -> Call:
        """Return both as one."""
        told, extents = operands["split_info"], np.array(self.extents, np.int32)
        return SplitCall(lambda: told.assign(extents), self.parts.bind(operands))


def _joined(op: OpView, letter: str, whole: TensorSpec, parts: Sequence[TensorSpec]) -> Joined:
    axis = join_axis(op, letter, len(whole.shape))
    places = math.prod(whole.shape[:axis])
    return Joined(places, math.prod(whole.shape[axis:]), tuple(part.size // max(1, places) for part in parts))


@translated(*concats.schemas)
def concat(op: OpView, X: Sequence[TensorSpec], Y: TensorSpec) -> Launch:
    """Compile the copies of parts into Y."""
    axis = join_axis(op, "Y", len(Y.shape))
    extents = tuple(1 if adds_axis(op) else part.shape[axis] for part in X)
    return ConcatLaunch(_joined(op, "Y", Y, X).launches(Y.dtype, ("X", "Y"), apart=False), extents)


@translated(*splits.schemas, SPLIT_BY_LENGTHS)
def split(op: OpView, X: TensorSpec, Y: Sequence[TensorSpec]) -> Launch:
    """Compile the copies of X into parts."""
    return _joined(op, "X", X, Y).launches(X.dtype, ("Y", "X"), apart=True)
