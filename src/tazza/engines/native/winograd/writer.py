"""What the kernels of this engine have in common: tiles of images, and the transform of a tile.

Images are channels-last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tazza.codegen.fields import Fields
from tazza.codegen.loop import count_loop, lanes_below
from tazza.codegen.term import Number, Term
from tazza.codegen.writer import LINE, Writer
from tazza.data_class import dataclass
from tazza.engines.native.winograd.algorithm import Matrix
from tazza.engines.native.winograd.transform import apply_twice

TILES = Fields(
    "threads H W C oH oW K top left tiles_down tiles_across tiles x_image x_row x_pixel y_image y_row y_pixel",
    addresses="scratch",
)
"""top, left: padding. x_image ... y_pixel: steps in elements."""
GAP = 16
"""Floats between matrices, so that equal places of all of them do not fall into one set of the cache."""


@dataclass(frozen=True)
class Source:
    """An image by the letter of its words; what tiles use of it begins so far above and left of their outputs."""

    pointer: Term
    letter: str
    up: Number = 0
    left: Number = 0
    write: bool = False


@dataclass(frozen=True)
class Expected:
    """Tiles of m x m outputs that are used next: a part of them is asked for in each of so many turns.

    `sources` say where what a tile does not share with the one before begins: m x m pixels of each image.
    """

    begin: Term
    count: Term
    m: int
    sources: tuple[Source, ...]
    turns: Number


class ImageWriter(Writer):
    """Writes a kernel whose words hold the steps of an image, in elements: x_image, x_row and x_pixel for X."""

    def each_tile(self, begin: Term, count: Term, m: int, body: Callable[[Term, Term, Term, Term], None]) -> None:
        """Run body(place, image, first output row, first output column) for tiles begin, begin + 1 ... of m x m."""
        # For each tile begin + i, with its place i.
        count_loop(self.lines, 0, count, lambda i: body(i, *self.locate(begin + i, m)))

    def locate(self, tile: Term, m: int) -> tuple[Term, Term, Term]:
        """Return the image of a tile, and its first output row and column."""
        # tile = (image * tiles_down + down) * tiles_across + across; outputs lie m apart.
        across, lines = tile % self.w.tiles_across, tile // self.w.tiles_across
        down, image = lines % self.w.tiles_down, lines // self.w.tiles_down
        return image, down * m, across * m

    def expect(self, expected: Expected, turn: Term) -> None:
        """Ask for a part of what is expected.

        Tiles lie far from each other in memory, and there are many products between one and the next: the processor
        does not foresee it.
        """
        m = expected.m
        # count * m rows of pixels in all, of which each turn has its part.
        rows = expected.count * m
        some = rows.pieces(expected.turns)
        first = turn * some

        # For each row number % m of tile number / m: m pixels of each source.
        def row_of_tile(number: Term) -> None:
            image, row, column = self.locate(expected.begin + number // m, m)
            for source in expected.sources:
                y, x = row + number % m - source.up, column - source.left
                start = self.at(source.pointer, source.letter, image, y, x)
                count = (self.w[f"{source.letter}_pixel"] * m).pieces(LINE)
                # For each line of the cache of these pixels.
                count_loop(self.lines, 0, count, partial(self.ask, start, source.write))

        count_loop(self.lines, first, rows.at_most(first + some), row_of_tile)

    def ask(self, pointer: Term, write: bool, line: Term) -> None:
        """Ask for a line of the cache behind an address."""
        pointer.at(line * LINE).prefetch(0, write=write)

    def inside(self, start: Term, count: int, extent: Term) -> list[Term]:
        """Return for each of start + i whether it is within the extent: all bits of the lanes, or none."""
        # For each row (or column) of a tile: unsigned, so that one before 0 is too large as well.
        return [(start + i).below(extent).filled(f"i{self.v.count}") for i in range(count)]

    def masks(self, down: Sequence[Term], across: Sequence[Term], lanes: Term) -> list[list[Term]]:
        """Return the mask of each pixel, for those of the lanes that there are."""
        short = lanes.bitcast(f"i{self.v.count}")
        # Pixel (row, column) is read where both are inside, and of it the lanes that there are.
        rows = [row & short for row in down]
        return [[(row & column).bitcast(self.v.mask) for column in across] for row in rows]

    def pixel(self, start: Term, i: int, j: int, image: str) -> Term:
        """Return the address of pixel (i, j) behind the one at `start`; it may lie outside."""
        return start.at(self.w[f"{image}_row"] * i + self.w[f"{image}_pixel"] * j)

    def at(self, pointer: Term, image: str, number: Term, row: Term, column: Term) -> Term:
        """Return the address of a pixel of an image."""
        w = self.w
        return pointer.at(number * w[f"{image}_image"] + row * w[f"{image}_row"] + column * w[f"{image}_pixel"])

    def transform_tile(
        self,
        start: Term,
        image: str,
        edges: tuple[Sequence[Term], Sequence[Term]],
        channels: Term,
        matrix: Matrix,
        keep: Callable[[Term, int, Term], None],
    ) -> None:
        """Call keep(group, x, vector) for number x of matrix @ tile @ matrix^T, for each vector of channels.

        The tile begins at `start`; what `edges`, from `inside`, do not have counts as 0.
        """
        v, (down, across) = self.v, edges

        # For each vector of L channels: the tile d as vectors, one for each pixel.
        def lanes(group: Term) -> None:
            c = group * v.count
            masks = self.masks(down, across, lanes_below(v, channels - c))
            pixels = [
                [v.load(self.pixel(start, i, j, image), c, mask) for j, mask in enumerate(row)]
                for i, row in enumerate(masks)
            ]
            # matrix d matrix^T, number = row * columns + column.
            for number, value in enumerate(one for line in apply_twice(matrix, pixels) for one in line):
                keep(group, number, value)

        count_loop(self.lines, 0, channels.pieces(v.count), lanes)
