"""What the kernels of this engine have in common: tiles of images, and the transform of a tile.

Images are channels-last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tazza.codegen.fields import Fields
from tazza.codegen.loop import count_loop, lanes_below
from tazza.codegen.rows import element
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

    pointer: str
    letter: str
    up: str = "0"
    left: str = "0"
    write: bool = False


@dataclass(frozen=True)
class Expected:
    """Tiles of m x m outputs that are used next: a part of them is asked for in each of so many turns.

    `sources` say where what a tile does not share with the one before begins: m x m pixels of each image.
    """

    begin: str
    count: str
    m: int
    sources: tuple[Source, ...]
    turns: str


class ImageWriter(Writer):
    """Writes a kernel whose words hold the steps of an image, in elements: x_image, x_row and x_pixel for X."""

    def each_tile(self, begin: str, count: str, m: int, body: Callable[[str, str, str, str], None]) -> None:
        """Run body(place, image, first output row, first output column) for tiles begin, begin + 1 ... of m x m."""
        # For each tile begin + i, with its place i.
        count_loop(self.lines, "0", count, lambda i: body(i, *self.locate(self.add(begin, i), m)))

    def locate(self, tile: str, m: int) -> tuple[str, str, str]:
        """Return the image of a tile, and its first output row and column."""
        # tile = (image * tiles_down + down) * tiles_across + across; outputs lie m apart.
        across, lines = self.rem(tile, self.w.tiles_across), self.div(tile, self.w.tiles_across)
        down, image = self.rem(lines, self.w.tiles_down), self.div(lines, self.w.tiles_down)
        return image, self.mul(down, m), self.mul(across, m)

    def expect(self, expected: Expected, turn: str) -> None:
        """Ask for a part of what is expected.

        Tiles lie far from each other in memory, and there are many products between one and the next: the processor
        does not foresee it.
        """
        lines, m = self.lines, expected.m
        # count * m rows of pixels in all, of which each turn has its part.
        rows = self.mul(expected.count, m)
        some = self.pieces(rows, expected.turns)
        first = self.mul(turn, some)

        # For each row number % m of tile number / m: m pixels of each source.
        def row_of_tile(number: str) -> None:
            image, row, column = self.locate(self.add(expected.begin, self.div(number, m)), m)
            for source in expected.sources:
                y, x = self.sub(self.add(row, self.rem(number, m)), source.up), self.sub(column, source.left)
                start = self.at(source.pointer, source.letter, image, y, x)
                count = self.pieces(self.mul(self.w[f"{source.letter}_pixel"], m), LINE)
                # For each line of the cache of these pixels.
                ask = partial(self.ask, start, source.write)
                count_loop(lines, "0", count, ask)

        count_loop(lines, first, self.least(rows, self.add(first, some)), row_of_tile)

    def ask(self, pointer: str, write: bool, line: str) -> None:
        """Ask for a line of the cache behind an address."""
        self.lines.prefetch(element(self.lines, pointer, self.mul(line, LINE)), 0, write=write)

    def inside(self, start: str, count: int, extent: str) -> list[str]:
        """Return for each of start + i whether it is within the extent: all bits of the lanes, or none."""
        found: list[str] = []
        # For each row (or column) of a tile: unsigned, so that one before 0 is too large as well.
        for i in range(count):
            valid = self.lines.let(f"icmp ult i64 {self.add(start, i)}, {extent}")
            found.append(self.lines.let(f"sext i1 {valid} to i{self.v.count}"))
        return found

    def masks(self, down: Sequence[str], across: Sequence[str], lanes: str) -> list[list[str]]:
        """Return the mask of each pixel, for those of the lanes that there are."""
        lines, bits = self.lines, f"i{self.v.count}"
        short = lines.let(f"bitcast {self.v.mask} {lanes} to {bits}")
        # Pixel (row, column) is read where both are inside, and of it the lanes that there are.
        rows = [lines.let(f"and {bits} {row}, {short}") for row in down]
        return [
            [
                lines.let(f"bitcast {bits} {lines.let(f'and {bits} {row}, {column}')} to {self.v.mask}")
                for column in across
            ]
            for row in rows
        ]

    def pixel(self, start: str, i: int, j: int, image: str) -> str:
        """Return the address of pixel (i, j) behind the one at `start`; it may lie outside."""
        step = self.add(self.mul(self.w[f"{image}_row"], i), self.mul(self.w[f"{image}_pixel"], j))
        return element(self.lines, start, step)

    def at(self, pointer: str, image: str, number: str, row: str, column: str) -> str:
        """Return the address of a pixel of an image."""
        w = self.w
        lines = self.add(self.mul(number, w[f"{image}_image"]), self.mul(row, w[f"{image}_row"]))
        return element(self.lines, pointer, self.add(lines, self.mul(column, w[f"{image}_pixel"])))

    def transform_tile(
        self,
        start: str,
        image: str,
        edges: tuple[Sequence[str], Sequence[str]],
        channels: str,
        matrix: Matrix,
        keep: Callable[[str, int, str], None],
    ) -> None:
        """Call keep(group, x, vector) for number x of matrix @ tile @ matrix^T, for each vector of channels.

        The tile begins at `start`; what `edges`, from `inside`, do not have counts as 0.
        """
        v, (down, across) = self.v, edges

        # For each vector of L channels: the tile d as vectors, one for each pixel.
        def lanes(group: str) -> None:
            c = self.mul(group, v.count)
            masks = self.masks(down, across, lanes_below(v, self.sub(channels, c)))
            pixels = [
                [v.load(self.pixel(start, i, j, image), c, mask) for j, mask in enumerate(row)]
                for i, row in enumerate(masks)
            ]
            # matrix d matrix^T, number = row * columns + column.
            for number, value in enumerate(one for line in apply_twice(v, matrix, pixels) for one in line):
                keep(group, number, value)

        count_loop(self.lines, "0", self.pieces(channels, v.count), lanes)
