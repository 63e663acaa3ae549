"""Packing rows of an image with few channels, for kernels whose windows read it number by number.

Threads share bands of output rows. For each of them a thread copies the rows of the image that its windows read into

    P[row][pixel][C]      with the padding, and zeros behind the last window

so that a row of a window is kW * C numbers in a row. Windows of kH x kW pixels lie `down` rows and `across` pixels
apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tazza.codegen.emit import Lines
from tazza.codegen.fields import Fields
from tazza.codegen.loop import count_loop, each_vector, lanes_below, share
from tazza.codegen.rows import element, when
from tazza.codegen.writer import Writer
from tazza.data_class import dataclass

PACKING = Fields(
    "threads N H W oH kH top left down x_image x_row x_plane band pitch scratch_floats", addresses="X scratch"
)
"""Words of a block that packing reads.

top, left: padding. x_image ... x_plane: steps in elements; x_plane is the one from channel to channel. band: output
rows of a band. pitch: floats of a row of P. scratch_floats: of one thread; P is what it begins with.
"""


@dataclass(frozen=True)
class Packing:
    """What the code depends on; `planes` says that the image has its channels first."""

    C: int
    kW: int
    across: int
    planes: bool

    @property
    def description(self) -> str:
        """A text that only equal ones have."""
        return f"{self.C} {self.kW} {self.across} {self.planes}"


class PackingWriter(Writer):
    """Writes a kernel that packs an image; `fields` are those of PACKING and others behind them."""

    def __init__(self, lines: Lines, fields: Fields, packing: Packing) -> None:
        """Read the words."""
        super().__init__(lines, fields)
        self.packing = packing
        self.P = element(lines, self.w.scratch, self.mul("%who", self.w.scratch_floats))

    @property
    def step(self) -> int:
        """Floats of P from one window to its neighbour."""
        return self.packing.across * self.packing.C

    def each_band(self, body: Callable[[str, str, str], None]) -> None:
        """Pack, and run body(image, first output row, number of rows), for the bands of this thread."""
        w, lines = self.w, self.lines
        bands = self.pieces(w.oH, w.band)

        def item(i: str) -> None:
            image, row = self.div(i, bands), self.mul(self.rem(i, bands), w.band)
            count = self.least(self.sub(w.oH, row), w.band)
            self.pack(image, row, count)
            body(image, row, count)

        count_loop(lines, *share(lines, self.mul(w.N, bands)), item)

    def pack(self, image: str, row: str, count: str) -> None:
        """Write P for output rows row, row + 1 ..."""
        w, lines = self.w, self.lines
        start = element(lines, w.X, self.mul(image, w.x_image))
        top = self.sub(self.mul(row, w.down), w.top)
        left = self.mul(w.left, self.packing.C)

        def one(i: str) -> None:
            target, y = element(lines, self.P, self.mul(i, w.pitch)), self.add(top, i)

            def clear(at: str, mask: str | None) -> None:
                self.v.store(self.v.constant(0.0), target, at, mask)

            each_vector(self.v, "0", w.pitch, clear)
            source = element(lines, start, self.mul(y, w.x_row))
            copy = self.copy_planes if self.packing.planes else self.copy_row
            valid = lines.let(f"icmp ult i64 {y}, {w.H}")  # unsigned: a row above the image is too large
            when(lines, valid, lambda: copy(source, element(lines, target, left)))

        rows = self.add(self.mul(self.sub(count, 1), w.down), w.kH)
        count_loop(lines, "0", rows, one)

    def copy_row(self, source: str, target: str) -> None:
        """Copy a row whose channels are dense."""

        def some(i: str, mask: str | None) -> None:
            self.v.store(self.v.load(source, i, mask), target, i, mask)

        each_vector(self.v, "0", self.mul(self.w.W, self.packing.C), some)

    def copy_planes(self, source: str, target: str) -> None:
        """Copy a row whose channels lie in planes: L pixels of each make C vectors."""
        v, C = self.v, self.packing.C
        planes = [element(self.lines, source, self.mul(self.w.x_plane, c)) for c in range(C)]
        floats = self.mul(self.w.W, C)

        def some(i: str, mask: str | None) -> None:
            pixels = [v.load(plane, i, mask) for plane in planes]
            for part in range(C):
                at = self.add(self.mul(i, C), part * v.count)
                within = None if mask is None else lanes_below(v, self.sub(floats, at))
                v.store(self.interleaved(pixels, part), target, at, within)

        each_vector(v, "0", self.w.W, some)

    def interleaved(self, pixels: Sequence[str], part: int) -> str:
        """Return vector `part` of those that hold the channels of a pixel side by side."""
        v, C = self.v, len(pixels)
        places = [divmod(part * v.count + lane, C) for lane in range(v.count)]
        found = "poison"
        for c, plane in enumerate(pixels):
            taken = [v.count + pixel if channel == c else lane for lane, (pixel, channel) in enumerate(places)]
            found = self.lines.shuffle(v.type, taken, found, plane)
        return found
