"""The gradient of an image with few channels: dX of convolutions of stride 1, whose dY has its channels last.

    dX = conv(dY, W turned by 180 degrees with its channels exchanged), with pads of k - 1 - pad

Letters as in `code`, but that dY is what is packed, as P[row][pixel][K], and a row of a window is kW * K numbers. Lanes
are these numbers, since dX has too few channels to fill vectors. For T neighbouring pixels x of a row and each channel

    S[x][c]  = sum over ky, j of P[ky][x * K + j] * U[c][ky][j]      in each lane j mod L, j < kW * K
    dX[x][c] = sum over the lanes of S[x][c]

T * C <= L vectors S stay in registers, and are folded into one. Each thread turns the filters into a U of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tazza.codegen.block import BlockLaunch, Slot
from tazza.codegen.fields import Fields
from tazza.codegen.fold import fold_lanes
from tazza.codegen.image import filter_words, image_layout, image_words
from tazza.codegen.kernel import lane_count
from tazza.codegen.loop import carry_loop, count_loop, lanes_below
from tazza.codegen.term import Lines, Number, Term
from tazza.data_class import dataclass
from tazza.engines.native.few_channels import SOURCES
from tazza.engines.native.few_channels.conv import Problem, packing_words
from tazza.engines.native.few_channels.packing import PACKING, Packing, PackingWriter
from tazza.operator import LaidOut, OpView, Unsupported
from tazza.runtime.machine import machine
from tazza.runtime.threads import thread_count
from tazza.tensor import ROW_MAJOR, Strided, TensorSpec

BLOCK = Fields("oW y_image y_row y_pixel w_k w_c w_y w_x packed_floats", addresses="filters Y", after=PACKING)
"""X is dY, and Y is dX. packed_floats: of P, behind which U lies."""
SHARE = 0.3
"""Part of the rate at which cores compute that it reaches: each number of P is loaded once for each channel."""


@dataclass(frozen=True)
class ImageCode:
    """What tells the code of one kernel from that of another; `packing.C` is K, `channels` those of dX."""

    packing: Packing
    channels: int

    @property
    def description(self) -> str:
        """A text that only equal codes have."""
        return f"few channels, dX {self.packing.description} {self.channels}"

    @property
    def run(self) -> int:
        """Numbers in a row of a window."""
        return self.packing.kW * self.packing.C

    def write(self, lines: Lines) -> None:
        """Write the work of one thread."""
        _Writer(self, lines).write()


def pixels(channels: int) -> int:
    """Return T."""
    return lane_count() // channels


def row_floats(run: int) -> int:
    """Return the floats of a row of U: whole vectors."""
    return -(-run // lane_count()) * lane_count()


class _Writer(PackingWriter):
    """Writes one kernel."""

    def __init__(self, code: ImageCode, lines: Lines) -> None:
        super().__init__(lines, BLOCK, code.packing)
        self.code = code
        self.U = self.P.at(self.w.packed_floats)

    def write(self) -> None:
        self.turn()
        self.each_band(self.band)

    def turn(self) -> None:
        """U[c][ky][kx * K + k] = W[k][c][kH - 1 - ky][kW - 1 - kx], and zeros behind a row."""
        w, (K, kW) = self.w, (self.packing.C, self.packing.kW)
        width = row_floats(self.code.run)

        # For each row ky of U, of each channel c: the lanes behind kW * K numbers are 0.
        def row(ky: Term) -> None:
            y = (w.kH - 1 - ky) * w.w_y
            for c in range(self.code.channels):
                target = self.U.at((w.kH * c + ky) * width)
                self.put(self.v.constant(0.0), target, width - self.v.count)
                # For each tap kx: the numbers of all k.
                for kx in range(kW):
                    self.copy(w.filters.at(y + w.w_c * c + w.w_x * (kW - 1 - kx)), target.at(kx * K))

        count_loop(self.lines, 0, w.kH, row)

    def copy(self, source: Term, target: Term) -> None:
        """Copy one number for each k."""

        def one(k: Term) -> None:
            number = source.at(k * self.w.w_k).load(4)
            target.at(k).store(number, 4)

        count_loop(self.lines, 0, self.packing.C, one)

    def band(self, image: Term, row: Term, count: Term) -> None:
        """Write dX for rows row, row + 1 ..., T pixels of each at a time."""
        w, v, C = self.w, self.v, self.code.channels
        T = pixels(C)

        # For each row of dX in the band: its windows begin i rows into P.
        def line(i: Term) -> None:
            windows = self.P.at(i * w.pitch)
            within = image * w.y_image + (row + i) * w.y_row

            # For each T pixels x ... x + T of the row: dX[x][c] is the sum over the lanes of S[x][c], a vector of all.
            def tile(t: Term) -> None:
                x = t * T
                sums = self.register_tile(windows.at(x * self.packing.C))
                spare = [v.constant(0.0)] * (v.count - len(sums))
                numbers = ((w.oW - x) * C).at_most(T * C)
                at = within + x * w.y_pixel
                v.store(fold_lanes(v, [*sums, *spare]), w.Y, at, lanes_below(v, numbers))

            count_loop(self.lines, 0, w.oW.pieces(T), tile)

        count_loop(self.lines, 0, count, line)

    def register_tile(self, windows: Term) -> list[Term]:
        """Return S of T pixels with C channels each, the channels of a pixel side by side."""
        v, code = self.v, self.code
        T, width = pixels(code.channels), row_floats(code.run)

        # For each row ky of a window: P[ky] and U[c][ky].
        def window_row(ky: Term, sums: Sequence[Term]) -> Sequence[Term]:
            source = windows.at(ky * self.w.pitch)
            taps = [self.U.at((self.w.kH * c + ky) * width) for c in range(code.channels)]

            # For each L numbers j of that row: S[x][c] += P[ky][x * K + j] * U[c][ky][j].
            def numbers(j: Number, mask: Term | None, sums: Sequence[Term]) -> list[Term]:
                filters = [v.load(tap, j, None) for tap in taps]
                found: list[Term] = []
                for x in range(T):
                    here = v.load(source.at(x * code.packing.C), j, mask)
                    found += [here.fma(one, sums[x * code.channels + c]) for c, one in enumerate(filters)]
                return found

            whole, rest = divmod(code.run, v.count)
            sums = carry_loop(0, whole, sums, lambda n, some: numbers(n * v.count, None, some))
            # Behind a row of the window lie other pixels, which may be infinite: they are not multiplied by zero.
            return numbers(whole * v.count, lanes_below(v, self.lines.number(rest)), sums) if rest else sums

        return carry_loop(0, self.w.kH, [v.constant(0.0)] * (T * code.channels), window_row)


@dataclass(frozen=True)
class Turned(Problem):
    """The convolution that gives dX from dY: its `C` channels are those of dY, its `K` those of dX."""

    @property
    def rows(self) -> int:
        """T."""
        return pixels(self.K)

    @property
    def estimate_ns(self) -> float:
        """What it takes: the last vector of a row of a window, and the last pixels of a row of dX, are not full."""
        run = self.window.kernel[1] * self.C
        full = run / row_floats(run) * self.out[1] / (-(-self.out[1] // self.rows) * self.rows)
        return self.flops / (machine().flops_per_ns * SHARE * full * thread_count())


def turned(problem: Problem) -> Turned:
    """Return the convolution from dY to dX of one from X to Y, or why it is none for this kernel."""
    window = problem.window
    if set(window.stride) != {1}:
        raise Unsupported("it computes no gradient of the image where windows lie apart")
    if problem.C > lane_count():
        raise Unsupported(f"{problem.C} channels do not fit into a vector")
    head, tail = (
        tuple(k - 1 - pad for k, pad in zip(window.kernel, pads, strict=True)) for pads in (window.head, window.tail)
    )
    if min(head) < 0:
        raise Unsupported(f"pads {window.head} are wider than the window")
    return Turned(problem.N, problem.K, problem.C, problem.out, problem.image, replace(window, head=head, tail=tail))


def image_launch(op: OpView, problem: Turned, specs: dict[str, TensorSpec]) -> LaidOut:
    """Return the launch for dX, and the layouts that it asks for."""
    last = op.order.upper() == "NHWC"
    dY, W, dX = specs["dY"], specs["W"], specs["dX"]
    layout = W.layout if isinstance(W.layout, Strided) else ROW_MAJOR
    packing, packed = packing_words(problem, planes=False)
    kH, kW = problem.window.kernel
    own = packed + problem.K * kH * row_floats(kW * problem.C) + lane_count()
    words = BLOCK.words(
        **packing | {"scratch_floats": own, "packed_floats": packed},
        **{"X": Slot("dY"), "filters": Slot("W"), "Y": Slot("dX"), "oW": problem.out[1]},
        **image_words("y", dX, last),
        **filter_words(W, layout, last=last),
    )
    code = ImageCode(Packing(problem.C, kW, 1, planes=False), problem.K)
    address = SOURCES.compiled(code.description, code.write, rewrite=False)
    launch = BlockLaunch(address, words, 4 * own * packing["threads"])
    return LaidOut(launch, {"dY": image_layout(dY, last), "W": layout, "dX": image_layout(dX, last)})
