"""Packing rows of an image with few channels, for kernels whose windows read it number by number.

Threads share bands of output rows. For each of them a thread copies the rows of the image that its windows read into

    P[row][pixel][C]      with the padding, and zeros behind the last window

so that a row of a window is kW * C numbers in a row. Windows of kH x kW pixels lie `down` rows and `across` pixels
apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tazza.codegen.fields import Fields
from tazza.codegen.loop import count_loop, each_vector, lanes_below, share, when
from tazza.codegen.term import Lines, Term
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
        self.P = self.w.scratch.at(lines.who * self.w.scratch_floats)

    @property
    def step(self) -> int:
        """Floats of P from one window to its neighbour."""
        return self.packing.across * self.packing.C

    def each_band(self, body: Callable[[Term, Term, Term], None]) -> None:
        """Pack, and run body(image, first output row, number of rows), for the bands of this thread."""
        w = self.w
        bands = w.oH.pieces(w.band)

        # For each band of an image.
        def item(i: Term) -> None:
            image, row = i // bands, i % bands * w.band
            count = (w.oH - row).at_most(w.band)
            self.pack(image, row, count)
            body(image, row, count)

        count_loop(self.lines, *share(self.lines, w.N * bands), item)

    def pack(self, image: Term, row: Term, count: Term) -> None:
        """Write P for output rows row, row + 1 ..."""
        w, v = self.w, self.v
        copy = self.copy_planes if self.packing.planes else self.copy_row
        start = w.X.at(image * w.x_image)
        top, left = row * w.down - w.top, w.left * self.packing.C

        # For each row P[i], which is row y = top + i of the image: zeros, and behind the padding its pixels.
        def one(i: Term) -> None:
            target, y = self.P.at(i * w.pitch), top + i
            each_vector(v, 0, w.pitch, lambda at, mask: v.store(v.constant(0.0), target, at, mask))
            source = start.at(y * w.x_row)
            when(y.below(w.H), lambda: copy(source, target.at(left)))  # unsigned: a row above the image is too large

        count_loop(self.lines, 0, (count - 1) * w.down + w.kH, one)

    def copy_row(self, source: Term, target: Term) -> None:
        """Copy a row whose channels are dense."""
        v, floats = self.v, self.w.W * self.packing.C
        each_vector(v, 0, floats, lambda i, mask: v.store(v.load(source, i, mask), target, i, mask))

    def copy_planes(self, source: Term, target: Term) -> None:
        """Copy a row whose channels lie in planes: L pixels of each make C vectors."""
        v, C = self.v, self.packing.C
        planes = [source.at(self.w.x_plane * c) for c in range(C)]
        floats = self.w.W * C

        # For each L pixels: a vector of each channel, and of these C vectors with the channels of a pixel side by side.
        def some(i: Term, mask: Term | None) -> None:
            pixels = [v.load(plane, i, mask) for plane in planes]
            for part in range(C):
                at = i * C + part * v.count
                within = None if mask is None else lanes_below(v, floats - at)
                v.store(self.interleaved(pixels, part), target, at, within)

        each_vector(v, 0, self.w.W, some)

    def interleaved(self, pixels: Sequence[Term], part: int) -> Term:
        """Return vector `part` of those that hold the channels of a pixel side by side."""
        v, C = self.v, len(pixels)
        places = [divmod(part * v.count + lane, C) for lane in range(v.count)]
        found = self.lines.poison(self.v.type)
        for c, plane in enumerate(pixels):
            taken = [v.count + pixel if channel == c else lane for lane, (pixel, channel) in enumerate(places)]
            found = found.shuffle(taken, plane)
        return found
