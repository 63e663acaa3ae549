"""The machine code of the gradient of filters that read images with few channels; dY has its channels last.

Letters as in `code`. Each thread, for the bands of its own, with P as in `packing`, adds up

    G[panel][ky][j][2 L] = sum over images, rows i and pixels x of P[i * down + ky][x * across * C + j] * dY[i][x]

for a row at a time, which stays in the cache: sums of R numbers j and a panel stay in registers along a row. With a
bias there is one more line of sums, those of dY. Threads wait for each other, and share the sum of their G, which is
dW and db.
"""

from __future__ import annotations

from collections.abc import Sequence

from tazza.codegen.fields import Fields
from tazza.codegen.loop import count_loop, lanes_below, share
from tazza.codegen.term import Lines, Term
from tazza.codegen.writer import LINE, scatter
from tazza.data_class import dataclass
from tazza.engines.native.few_channels.packing import PACKING, Packing, PackingWriter

BLOCK = Fields("oW K y_image y_row y_pixel w_k w_c w_y w_x packed_floats", addresses="dY dW db", after=PACKING)
"""y_image ... w_x: steps, in elements. packed_floats: of P, behind which G lies."""


@dataclass(frozen=True)
class WeightsCode:
    """What tells the code of one kernel from that of another; `numbers` is R."""

    packing: Packing
    numbers: int
    bias: bool

    @property
    def description(self) -> str:
        """A text that only equal codes have."""
        return f"few channels, dW {self.packing.description} {self.numbers} {self.bias}"

    @property
    def run(self) -> int:
        """Numbers in a row of a window, filled up to whole register tiles."""
        return -(-self.packing.kW * self.packing.C // self.numbers) * self.numbers

    def write(self, lines: Lines) -> None:
        """Write the work of one thread."""
        _Writer(self, lines).write()


class _Writer(PackingWriter):
    """Writes one kernel."""

    def __init__(self, code: WeightsCode, lines: Lines) -> None:
        super().__init__(lines, BLOCK, code.packing)
        self.code = code
        self.panels = self.w.K.pieces(self.panel)
        self.lines_of_panel = self.w.kH * code.run + int(code.bias)
        self.sums = self.panels * self.lines_of_panel * self.panel
        self.G = self.P.at(self.w.packed_floats)

    def write(self) -> None:
        v, lines = self.v, self.lines
        # G of this thread, all lines of all panels, is 0 at first.
        count_loop(lines, 0, self.sums // v.count, lambda i: self.put(v.constant(0.0), self.G, i * v.count))
        self.each_band(self.band)
        self.wait()
        # Behind all bands of all threads: dW and db, lines of G shared among them.
        count_loop(lines, *share(lines, self.panels * self.lines_of_panel), self.finish)

    def band(self, image: Term, row: Term, count: Term) -> None:
        """Add what a band of rows gives."""
        w, lines = self.w, self.lines

        # For each row i of dY in the band: its windows begin i * down rows into P.
        def line(i: Term) -> None:
            windows = self.P.at(i * w.down * w.pitch)
            at = image * w.y_image + (row + i) * w.y_row
            # For each panel of output channels.
            count_loop(lines, 0, self.panels, lambda p: self.row(p, windows, w.dY.at(at)))

        count_loop(lines, 0, count, line)

    def row(self, panel: Term, windows: Term, row: Term) -> None:
        """Add what a row of dY gives to the sums of a panel."""
        v, code = self.v, self.code
        k = panel * self.panel
        sums = self.G.at(panel * self.lines_of_panel * self.panel)
        masks = [lanes_below(v, self.w.K - (k + half * v.count)) for half in range(2)]
        dY = row.at(k)

        # For each row ky of the windows: P[i * down + ky] and G[panel][ky].
        def window_row(ky: Term) -> None:
            self.expect(row, panel * self.w.kH + ky)
            source = windows.at(ky * self.w.pitch)
            target = sums.at(ky * (code.run * self.panel))

            # For each R numbers j of the row of a window, filled up to whole tiles.
            def tile(t: Term) -> None:
                j = t * code.numbers
                self.tile(source.at(j), dY, masks, target.at(j * self.panel))

            count_loop(self.lines, 0, code.run // code.numbers, tile)

        count_loop(self.lines, 0, self.w.kH, window_row)
        # One line more, kH: the sum of dY itself.
        if code.bias:
            self.tile(None, dY, masks, sums.at(self.w.kH * (code.run * self.panel)))

    def expect(self, row: Term, turn: Term) -> None:
        """Ask for a part of the next row of dY, in one of the turns that this one takes: it comes from memory."""
        w = self.w
        count = (w.oW * w.y_pixel).pieces(LINE)
        some = count.pieces(self.panels * w.kH)
        first, following = turn * some, row.at(w.y_row)
        count_loop(self.lines, first, count.at_most(first + some), lambda i: following.at(i * LINE).prefetch(0))

    def tile(self, windows: Term | None, dY: Term, masks: Sequence[Term], target: Term) -> None:
        """Add the products of R numbers of each window and a panel of dY; or dY itself."""
        v, count = self.v, 1 if windows is None else self.code.numbers

        # For each pixel x of the row: dY[i][x], two vectors of output channels.
        def pixel(x: Term, sums: Sequence[Term]) -> Sequence[Term]:
            here = dY.at(x * self.w.y_pixel)
            pair = [v.load(here, half * v.count, mask) for half, mask in enumerate(masks)]
            if windows is None:
                return [one + value for one, value in zip(sums, pair, strict=True)]
            numbers = windows.at(x * self.step)
            # G[ky][j + r] += P[ky][x * across * C + j + r] * dY[i][x].
            return self.add_outer(sums, (numbers.at(r) for r in range(count)), pair)

        # The sums are in registers along a row, and in the cache between rows.
        self.add_to((target, 2 * count), self.w.oW, pixel, begin=False)

    def finish(self, line: Term) -> None:
        """Write one line of sums, over all threads: a number of a window and a panel, or part of db."""
        w, v = self.w, self.v
        run, C = self.code.run, self.code.packing.C
        number = line % self.lines_of_panel
        # Line number = ky * run + j of a panel; j = kx * C + c. What is filled up is no tap, and line kH * run is db.
        ky, j = number // run, number % run
        inside, filters = j < self.code.packing.kW * C, ky < w.kH
        within = ky * w.w_y + j // C * w.w_x + j % C * w.w_c
        # For each vector k of the panel.
        for half in range(2):
            k = line // self.lines_of_panel * self.panel + half * v.count
            at = line * self.panel + half * v.count
            # The sum over threads, whose G lie scratch_floats apart.
            total = self.over_threads(self.G, w.scratch_floats, at)
            left = w.K - k
            some = lanes_below(v, filters.choose(inside.choose(left, 0), 0))
            scatter(v, total, w.dW.at(within + k * w.w_k), w.w_k, some)
            if self.code.bias:
                v.store(total, w.db, k, lanes_below(v, filters.choose(0, left)))
