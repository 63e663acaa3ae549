"""Kernels that are called with arrays, without a net: how arrays lie, and what calls the kernel."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from tazza.array.evaluator import Array
from tazza.array.program import ElementProgram, types_of
from tazza.codegen.block import Word
from tazza.codegen.term import Number, Term
from tazza.codegen.vector import Vector
from tazza.data_class import dataclass
from tazza.runtime.cache import remembered
from tazza.runtime.fork import PROCESS, note_threads
from tazza.runtime.native_code import processor
from tazza.tensor import DataType
from tazza.tensor.allocation import address_of

AHEAD_BYTES = 2048
"""How far ahead operands are asked for: processors do not look beyond a page of 4096 bytes by themselves."""

Kind = Literal["one", "dense", "step"]
"""How an operand lies along a row: one element for all, one after the other, or with a step between."""
Lay = tuple[tuple[int, ...], tuple[int, ...], int]
"""Shape, strides and size of an element of an array, in bytes."""


@dataclass(frozen=True, slots=True)
class Runner:
    """Calls a kernel with its block, which lives as long as this, and so does what is `kept`."""

    function: Callable[..., int]
    block: Array
    kept: object

    def __post_init__(self) -> None:
        """Note the threads, which the first word counts, here and not at each call, which is too short for that."""
        if self.block[0] > 1:
            note_threads()

    def __call__(self) -> None:
        """Run, alone where the threads were lost in a fork; such kernels report nothing."""
        if PROCESS.lost:
            self.block[0] = 1
        self.function(address_of(self.block), 0, 0, 0)


def runner(address: int, words: Sequence[Word], kept: object) -> Runner:
    """Return what calls a kernel with a block of these words."""
    return Runner(native(address), np.array(words, np.int64), kept)


@remembered("callers of kernels", entries=4096)
def native(address: int) -> Callable[..., int]:
    """Return what calls the function at an address, without the GIL."""
    return ctypes.CFUNCTYPE(*[ctypes.c_int64] * 5)(address)


def lay_of(array: Array) -> Lay:
    """Return how an array lies."""
    return array.shape, array.strides, array.itemsize


def steps_of(lay: Lay, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the distance in bytes between neighbours along each axis of a shape; 0 where an array is repeated."""
    extents, strides, _ = lay
    own = tuple([0 if extent == 1 else step for extent, step in zip(extents, strides, strict=True)])
    return (0,) * (len(shape) - len(extents)) + own


def kind_along(step: int, itemsize: int) -> Kind:
    """Return how an array lies along an axis."""
    return "one" if step == 0 else "dense" if step == itemsize else "step"


def read(vector: Vector, pointer: Term, i: Number, step: Number | None, mask: Term | None) -> Term:
    """Return elements i, i + 1 ... that are dense, or `step` bytes apart."""
    if step is None:
        return vector.load(pointer, i, mask, ahead_bytes=AHEAD_BYTES)
    return vector.gather(pointer, i, step, mask)


def lane_count(program: ElementProgram) -> int:
    """Return how many lanes fill a register of 64-bit numbers, if all values that move are, else of 32-bit ones."""
    wide = {DataType.DOUBLE, DataType.INT64, DataType.BOOL}
    bits = 64 if set(types_of(program)) | set(program.targets) <= wide else 32
    return processor().vector_bytes * 8 // bits
