"""SpaceToBatch, BatchToSpace: for each place in a block, a move of the elements that lie a block apart.

Letters as in the family: N images, C channels, h and w rows and columns of a batch, b = `block_size`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tazza.engines.native import native
from tazza.engines.native.move import Box, Lie, frame, moved, row_major, steps_in
from tazza.operator import LaidOut, OpView
from tazza.operator.kernel import accepts_strided
from tazza.ops.shape.space_to_batch import BATCH_TO_SPACE, SPACE_TO_BATCH, pads
from tazza.tensor import TensorSpec


class Place(NamedTuple):
    """One of the places in a block: which of its elements lie within the image, and where they lie in either blob."""

    taken: tuple[range, range, range, range]
    image: Lie
    part: Lie

    @property
    def extents(self) -> tuple[int, ...]:
        """How many these are."""
        return tuple(map(len, self.taken))

    @property
    def batch(self) -> Lie:
        """Where they lie in the batch."""
        return Lie(self.part.start + _offset(self.taken, self.part.steps), self.part.steps)


def _offset(ranges: Sequence[range], steps: Sequence[int]) -> int:
    return sum(one.start * step for one, step in zip(ranges, steps, strict=True))


def _places(
    op: OpView, image: tuple[Sequence[int], Sequence[int]], batch: tuple[Sequence[int], Sequence[int]]
) -> Iterator[Place]:
    """Yield the places of a block, from the shape and the steps of the image and the batch."""
    (N, C, H, W), (by_n, by_c, by_y, by_x) = image
    (_, _, h, w), steps = batch
    b, (top, side) = op.block_size, pads(op)
    for i, j in itertools.product(range(b), repeat=2):
        rows, columns = _within(top - i, b, h, H), _within(side - j, b, w, W)
        corner = (rows.start * b + i - top) * by_y + (columns.start * b + j - side) * by_x
        part = Lie((i * b + j) * N * steps[0], tuple(steps))
        yield Place((range(N), range(C), rows, columns), Lie(corner, (by_n, by_c, b * by_y, b * by_x)), part)


def _within(before: int, b: int, count: int, extent: int) -> range:
    """Return the n below `count` for which n b - before is a place in the image.

    >>> _within(3, 2, 5, 4)
    range(2, 4)
    """
    first = min(max(0, -(-before // b)), count)
    return range(first, max(first, min(count, (extent - 1 + before) // b + 1)))


@native(SPACE_TO_BATCH, accepts=accepts_strided)
def prepare_space_to_batch(op: OpView, X: TensorSpec, Y: TensorSpec) -> LaidOut:
    """Compile the moves out of the image, and the zeros around them."""
    boxes: list[Box] = []
    for one in _places(op, (X.shape, steps_in(X)), (Y.shape, row_major(Y.shape))):
        boxes += frame((*X.shape[:2], *Y.shape[2:]), one.taken, one.part)
        boxes.append(Box(one.extents, one.batch, one.image))
    return moved(boxes, X)


@native(BATCH_TO_SPACE, accepts=accepts_strided)
def prepare_batch_to_space(op: OpView, X: TensorSpec, Y: TensorSpec) -> LaidOut:
    """Compile the moves into the image."""
    places = _places(op, (Y.shape, row_major(Y.shape)), (X.shape, steps_in(X)))
    return moved([Box(one.extents, one.image, one.batch) for one in places], X)
