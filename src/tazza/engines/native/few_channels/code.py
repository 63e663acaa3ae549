"""The machine code of a convolution of images with few channels, whose Y has its channels last.

Letters: N images of H x W with C channels give oH x oW with K channels; L lanes of a vector, panels of 2 L outputs.
Windows of kH x kW pixels lie `down` rows and `across` pixels apart.

Threads share bands of output rows. For each of them a thread copies the rows that its windows read into P (see
`packing`). Then, for R neighbouring pixels of a row and a panel,

    Y[r] = epilogue(b + sum over ky, j of P[ky][r * across * C + j] * U[panel][ky][j])       j < kW * C

with the filters U[panel][ky][kx][c][2 L]: 2 R vectors of sums stay in registers, P and U in the caches of the core.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tazza.codegen.fields import Fields
from tazza.codegen.function import finished
from tazza.codegen.loop import carry_loop, count_loop, lanes_below, when
from tazza.codegen.term import Lines, Term
from tazza.data_class import dataclass
from tazza.engines.native.few_channels.packing import PACKING, Packing, PackingWriter
from tazza.operator import Expression

BLOCK = Fields("oW K y_image y_row y_pixel", addresses="U b Y", after=PACKING)
"""Behind them stand the addresses of S. y_image ... y_pixel: steps, in elements."""


@dataclass(frozen=True)
class Code:
    """What tells the code of one kernel from that of another."""

    packing: Packing
    rows: int
    bias: bool
    epilogue: Expression | None
    operands: int

    @property
    def description(self) -> str:
        """A text that only equal codes have."""
        after = "" if self.epilogue is None else self.epilogue.text()
        return f"few channels {self.packing.description} {self.rows} {self.bias} {self.operands} {after}"

    def write(self, lines: Lines) -> None:
        """Write the work of one thread."""
        _Writer(self, lines).write()


class _Writer(PackingWriter):
    """Writes one kernel."""

    def __init__(self, code: Code, lines: Lines) -> None:
        super().__init__(lines, BLOCK, code.packing)
        self.code = code
        self.S = self.tail.take(code.operands, "ptr")
        self.run = code.packing.kW * code.packing.C

    def write(self) -> None:
        # For each panel of output channels, over the rows of a band: U[panel] stays in the cache meanwhile.
        def band(image: Term, row: Term, count: Term) -> None:
            count_loop(self.lines, 0, self.w.K.pieces(self.panel), lambda p: self.outputs(p, image, row, count))

        self.each_band(band)

    # -- Y -------------------------------------------------------------------------------------------------------------

    def outputs(self, panel: Term, image: Term, row: Term, count: Term) -> None:
        """Write a panel of Y for output rows row, row + 1 ..."""
        w, v, code = self.w, self.v, self.code
        k = panel * self.panel
        ks = [k + half * v.count for half in range(2)]
        masks = [lanes_below(v, w.K - one) for one in ks]
        bias = [v.load(w.b, *pair) if code.bias else v.constant(0.0) for pair in zip(ks, masks, strict=True)]
        # U[panel]: kH rows of kW * C numbers, each with 2 L filters.
        filters = w.U.at(panel * w.kH * (self.run * self.panel))

        # For each output row of the band: its windows begin i * down rows into P.
        def line(i: Term) -> None:
            windows = self.P.at(i * w.down * w.pitch)
            within = image * w.y_image + (row + i) * w.y_row

            # For each R pixels x ... x + R of the row: their windows begin x * across * C numbers into a row of P.
            def tile(t: Term) -> None:
                x = t * code.rows
                here = windows.at(x * self.step)
                self.expect(w.Y.at(within + x * w.y_pixel), ks)
                sums = self.register_tile(here, filters, bias)
                # Y[r] = epilogue(sums) for those of the R pixels that the row has; both halves of the panel.
                for r in range(code.rows):
                    pixel = x + r
                    at = within + pixel * w.y_pixel
                    halves = list(zip([at + one for one in ks], masks, sums[2 * r : 2 * r + 2], strict=True))
                    when(pixel < w.oW, partial(self.keep, halves))

            count_loop(self.lines, 0, w.oW.pieces(code.rows), tile)

        count_loop(self.lines, 0, count, line)

    def expect(self, start: Term, columns: Sequence[Term]) -> None:
        """Ask for where the outputs of a tile go, which takes as long as computing them."""
        # For each pixel, and each half of the panel.
        for r in range(self.code.rows):
            pixel = start.at(self.w.y_pixel * r)
            for column in columns:
                pixel.at(column).prefetch(0, write=True)

    def register_tile(self, windows: Term, filters: Term, bias: Sequence[Term]) -> list[Term]:
        """Return two vectors of sums for each of R pixels.

        The numbers of a row of a window are a loop, not text: windows overlap, and a compiler that sees which loads
        are the same keeps what they gave, for which there are no registers.
        """

        # For each row ky of a window: P[ky] and U[panel][ky].
        def window_row(ky: Term, sums: Sequence[Term]) -> Sequence[Term]:
            source, taps = windows.at(ky * self.w.pitch), filters.at(ky * (self.run * self.panel))

            # For each number j of that row: the pixel j / C of the window, its channel j % C.
            def number(j: Term, sums: Sequence[Term]) -> Sequence[Term]:
                here, tap = source.at(j), taps.at(j * self.panel)
                # Y[r] += P[ky][r * across * C + j] * U[panel][ky][j], for R pixels and both vectors.
                return self.add_outer(sums, (here.at(r * self.step) for r in range(self.code.rows)), self.pair(tap))

            return carry_loop(0, self.run, sums, number)

        # The sums begin with b.
        return carry_loop(0, self.w.kH, list(bias) * self.code.rows, window_row)

    def keep(self, halves: Sequence[tuple[Term, Term, Term]]) -> None:
        """Write a pixel: for each half where it goes, its mask and its value before the epilogue."""
        for at, mask, value in halves:
            others = [self.v.load(S, at, mask) for S in self.S]
            self.v.store(finished(self.v, self.code.epilogue, value, others), self.w.Y, at, mask)
