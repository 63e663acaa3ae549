"""What the kernels of this engine have in common: whole numbers, tiles of images, and the transform of a tile.

Images are channels-last; the words of a block are read once, and stand in `w` by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tazza.engines.jit.emit import Lanes, Lines
from tazza.engines.jit.loop import count_loop, lanes_below, lanes_of, load, store
from tazza.engines.jit.rows import element
from tazza.engines.winograd.algorithm import Matrix
from tazza.engines.winograd.transform import apply_twice
from tazza.tensor import DataType

FLOAT = DataType.FLOAT
GAP = 16
"""Floats between matrices, so that equal places of all of them do not fall into one set of the cache."""
IMAGE = ("image", "row", "pixel")
"""Words for the steps of an image, in elements, behind its letter: x_image, x_row, x_pixel."""


class Writer:
    """Writes a kernel whose block has the words `names`, addresses among them, and behind them more addresses."""

    def __init__(self, lines: Lines, names: Sequence[str], addresses: Sequence[str]) -> None:
        """Read the words."""
        self.lines = lines
        self.v: Lanes = lanes_of(lines)
        self.w = {
            name: (lines.load_pointer if name in addresses else lines.load_word)("%block", i)
            for i, name in enumerate(names)
        }
        lines.declare("i64 @llvm.smin.i64(i64, i64)")

    @property
    def panel(self) -> int:
        """Output channels of a panel."""
        return 2 * self.v.count

    # -- whole numbers -------------------------------------------------------------------------------------------------

    def add(self, a: str, b: str | int) -> str:
        """A + b."""
        return self.lines.let(f"add i64 {a}, {b}")

    def sub(self, a: str, b: str | int) -> str:
        """A - b."""
        return self.lines.let(f"sub i64 {a}, {b}")

    def mul(self, a: str, b: str | int) -> str:
        """A * b."""
        return self.lines.let(f"mul i64 {a}, {b}")

    def div(self, a: str, b: str | int) -> str:
        """A / b without the rest, of numbers that are not negative."""
        return self.lines.let(f"udiv i64 {a}, {b}")

    def rem(self, a: str, b: str | int) -> str:
        """The rest of a / b."""
        return self.lines.let(f"urem i64 {a}, {b}")

    def pieces(self, a: str, b: str | int) -> str:
        """How many pieces of b cover a."""
        return self.div(self.sub(self.add(a, b), 1), b)

    def least(self, a: str, b: str) -> str:
        """The smaller one."""
        return self.lines.let(f"call i64 @llvm.smin.i64(i64 {a}, i64 {b})")

    # -- tiles ---------------------------------------------------------------------------------------------------------

    def each_tile(self, begin: str, count: str, m: int, body: Callable[[str, str, str, str], None]) -> None:
        """Run body(place, image, first output row, first output column) for tiles begin, begin + 1 ... of m x m."""
        w = self.w

        def tile(i: str) -> None:
            t = self.add(begin, i)
            across = self.rem(t, w["tiles_across"])
            lines = self.div(t, w["tiles_across"])
            down, image = self.rem(lines, w["tiles_down"]), self.div(lines, w["tiles_down"])
            body(i, image, self.mul(down, m), self.mul(across, m))

        count_loop(self.lines, "0", count, tile)

    def inside(self, start: str, count: int, extent: str) -> list[str]:
        """Return for each of start + i whether it is within the extent: all bits of the lanes, or none."""
        found: list[str] = []
        for i in range(count):
            valid = self.lines.let(f"icmp ult i64 {self.add(start, i)}, {extent}")
            found.append(self.lines.let(f"sext i1 {valid} to i{self.v.count}"))
        return found

    def masks(self, down: Sequence[str], across: Sequence[str], lanes: str) -> list[list[str]]:
        """Return the mask of each pixel, for those of the lanes that there are."""
        lines, bits = self.lines, f"i{self.v.count}"
        short = lines.let(f"bitcast {self.v.mask} {lanes} to {bits}")
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

        def lanes(group: str) -> None:
            c = self.mul(group, v.count)
            masks = self.masks(down, across, lanes_below(v, self.sub(channels, c)))
            pixels = [
                [load(v, FLOAT, self.pixel(start, i, j, image), c, mask) for j, mask in enumerate(row)]
                for i, row in enumerate(masks)
            ]
            for number, value in enumerate(one for line in apply_twice(v, matrix, pixels) for one in line):
                keep(group, number, value)

        count_loop(self.lines, "0", self.pieces(channels, v.count), lanes)

    def put(self, value: str, pointer: str, index: str) -> None:
        """Write a whole vector."""
        store(self.v, FLOAT, value, pointer, index, None)


def places(v: Lanes, start: str, step: str) -> str:
    """Return the addresses of every `step`th float from `start` on, one for each lane."""
    lines, kind = v.lines, f"<{v.count} x i64>"
    numbers = f"<{', '.join(f'i64 {lane}' for lane in range(v.count))}>"
    one = lines.let(f"insertelement {kind} poison, i64 {step}, i32 0")
    steps = lines.let(f"shufflevector {kind} {one}, {kind} poison, <{v.count} x i32> zeroinitializer")
    return lines.let(f"getelementptr float, ptr {start}, {kind} {lines.let(f'mul {kind} {steps}, {numbers}')}")


def gather(v: Lanes, start: str, step: str, mask: str) -> str:
    """Return every `step`th float from `start` on; lanes outside of the mask are 0."""
    name = f"@llvm.masked.gather.v{v.count}f32.v{v.count}p0"
    v.lines.declare(f"{v.type} {name}(<{v.count} x ptr>, i32, {v.mask}, {v.type})")
    operands = f"<{v.count} x ptr> {places(v, start, step)}, i32 4, {v.mask} {mask}, {v.type} zeroinitializer"
    return v.lines.let(f"call {v.type} {name}({operands})")


def scatter(v: Lanes, value: str, start: str, step: str, mask: str) -> None:
    """Write lanes to every `step`th float from `start` on."""
    name = f"@llvm.masked.scatter.v{v.count}f32.v{v.count}p0"
    v.lines.declare(f"void {name}({v.type}, <{v.count} x ptr>, i32, {v.mask})")
    operands = f"{v.type} {value}, <{v.count} x ptr> {places(v, start, step)}, i32 4, {v.mask} {mask}"
    v.lines.do(f"call void {name}({operands})")
