"""Convolution of images with few channels: Conv, Conv2D, and FusedConv with any epilogue."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from tazza.codegen.block import BlockLaunch, Slot
from tazza.codegen.image import accepts_images, conv_layouts, image_layout, image_problem, image_words
from tazza.codegen.kernel import lane_count
from tazza.data_class import dataclass
from tazza.device import Context
from tazza.engines.native.few_channels import SOURCES
from tazza.engines.native.few_channels.code import BLOCK, Code
from tazza.engines.native.few_channels.filters import ENGINE, Filters
from tazza.engines.native.few_channels.packing import Packing
from tazza.operator import LaidOut, OpView, Spec, Unsupported, kernel_key, launcher
from tazza.operator.choice import VARIANTS, Variant
from tazza.operator.kernel import Offered
from tazza.ops.nn.conv import CONV, CONV2D, conv_window
from tazza.ops.nn.fused import FUSED_CONV, epilogue_of
from tazza.ops.nn.window import Window
from tazza.runtime.machine import machine
from tazza.runtime.threads import thread_count
from tazza.tensor import ROW_MAJOR, Layout, TensorSpec
from tazza.tensor.offer import Offer

ROWS = {16: (14, 13, 12, 11, 10, 9, 8), 8: (6, 5, 4), 4: (6, 5, 4)}
"""L -> neighbouring pixels in a register tile: as many as there are registers for, or fewer that leave less over."""
MOST_CHANNELS = 8
"""With more of them a library's kernels fill most lanes."""
SHARE = 0.87
"""Part of the rate at which cores compute that full register tiles reach."""
BANDS = range(1, 17)
BAND_BYTES = 1 << 19
"""Of P, which should stay in the cache of a core beside the filters."""
THREAD_FLOPS = 250_000
"""What a thread must have to do at the least: some microseconds."""
PACK_CYCLES = 0.5
"""Of a number in P."""


@dataclass(frozen=True)
class Problem:
    """A convolution: Y (N, oH, oW, K) from X (N, H, W, C)."""

    N: int
    C: int
    K: int
    image: tuple[int, int]
    out: tuple[int, int]
    window: Window

    @property
    def panels(self) -> int:
        """Panels of output channels."""
        return -(-self.K // (2 * lane_count()))

    @property
    def rows(self) -> int:
        """Pixels of a register tile: those that compute least beyond a row."""
        return min(ROWS[lane_count()], key=lambda rows: (-(-self.out[1] // rows) * rows, -rows))

    @property
    def pitch(self) -> int:
        """Floats of a row of P: what tiles read, and where the image ends."""
        covered = -(-self.out[1] // self.rows) * self.rows
        read = (covered - 1) * self.window.stride[1] + self.window.kernel[1]
        floats = max(read, self.window.head[1] + self.image[1]) * self.C
        return -(-floats // lane_count()) * lane_count()

    def packed_rows(self, band: int) -> int:
        """Return how many rows of P a band of output rows takes."""
        return (band - 1) * self.window.stride[0] + self.window.kernel[0]

    def bands(self, band: int) -> int:
        """Return how many bands there are."""
        return self.N * -(-self.out[0] // band)

    @property
    def flops(self) -> int:
        """Those of all outputs."""
        return 2 * self.N * math.prod(self.out) * self.K * math.prod(self.window.kernel) * self.C

    def threads(self, band: int) -> int:
        """Return how many threads share the bands, each with enough to do."""
        return max(1, min(thread_count(), self.bands(band), self.flops // THREAD_FLOPS))

    def band(self, threads: int) -> int:
        """Return the output rows of a band with which threads end soonest."""
        kH, kW = self.window.kernel
        row_cycles = self.panels * -(-self.out[1] // self.rows) * self.rows * kH * kW * self.C

        def cycles(band: int) -> float:
            turns = -(-self.bands(band) // threads)
            return turns * (band * row_cycles + self.packed_rows(band) * self.pitch * PACK_CYCLES)

        fit = [band for band in BANDS if 4 * self.packed_rows(band) * self.pitch <= BAND_BYTES]
        return min(fit, key=cycles, default=1)


MOST_BEYOND = 1 << 14
"""How far windows may reach beyond the image."""


def find_problem(op: OpView, X: TensorSpec, W: TensorSpec) -> Problem:
    """Return the convolution as a problem, or why it is none for this engine."""
    window, dims = conv_window(op, X.shape, W.shape)
    if window.rank != 2 or window.dilation != (1, 1) or op.group != 1:
        raise Unsupported("it takes two dimensions, dilation 1 and one group")
    if min(window.head) < 0:
        raise Unsupported(f"pads {window.head} before the image: it cuts nothing off")
    if window.far > MOST_BEYOND:
        raise Unsupported(f"{window} reaches far beyond the image, whose rows it packs with their pads")
    N, *rest = X.shape
    C, H, width = (rest[-1], *rest[:2]) if op.order.upper() == "NHWC" else tuple(rest)
    if C > MOST_CHANNELS:
        raise Unsupported(f"it takes up to {MOST_CHANNELS} channels, not {C}")
    return Problem(N, C, W.shape[0], (H, width), (int(dims[0] or 0), int(dims[1] or 0)), window)


def compute_ns(problem: Problem, used: float) -> float:
    """Return what the products take where that part of the register tiles has outputs."""
    return problem.flops / (machine().flops_per_ns * SHARE * used * thread_count())


def _estimate_ns(problem: Problem) -> float:
    """Return what it takes: register tiles at the end of a row, and of the channels, are not full."""
    tiles = -(-problem.out[1] // problem.rows)
    used = problem.K / (problem.panels * 2 * lane_count()) * problem.out[1] / (tiles * problem.rows)
    return compute_ns(problem, used)


def prepare_conv(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Offered:
    """Y = epilogue(conv(X, W, b), S ...)."""
    del context
    found = image_problem(find_problem, op, inputs, outputs)
    return Offer(partial(_answer, op, *found), estimate_ns=_estimate_ns(found[0]))


def variants(op: OpView, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> list[Variant]:
    """Return its only way, for who times it; however many register tiles stay empty."""
    return [Variant.only(_answer(op, *image_problem(find_problem, op, inputs, outputs)))]


def _answer(op: OpView, problem: Problem, X: TensorSpec, Y: TensorSpec) -> LaidOut:
    last, window = op.order.upper() == "NHWC", problem.window
    operands = op.operands if op.type == FUSED_CONV.type else 0
    source, planes = image_source(X, problem.C, last)
    epilogue = epilogue_of(op) if op.type == FUSED_CONV.type else None
    with_bias = "b" in op.input_letters
    packed = Packing(problem.C, window.kernel[1], window.stride[1], planes)
    code = Code(packed, problem.rows, with_bias, epilogue, operands)
    packing, scratch_floats = packing_words(problem, planes=planes)
    words = BLOCK.words(
        **packing,
        **{"oW": problem.out[1], "K": problem.K, "U": Slot("W")},
        **image_words("y", Y, last),
        **({} if with_bias else {"b": 0}),
    )
    words += tuple(Slot("S", i) for i in range(operands))
    address = SOURCES.compiled(code.description, code.write, rewrite=False)
    launch = BlockLaunch(address, words, 4 * scratch_floats * packing["threads"])
    kH, kW = window.kernel
    form = Filters(problem.C, problem.K, kH, kW, last).layout()
    return LaidOut(launch, conv_layouts(op, source, form, image_layout(Y, last), operands))


def image_source(X: TensorSpec, C: int, last: bool) -> tuple[Layout, bool]:
    """Return the layout in which an image is read, and whether its channels lie in planes then."""
    source = image_layout(X, last) if X.layout == image_layout(X, last) else ROW_MAJOR
    return source, not last and source == ROW_MAJOR and C > 1


def packing_words(problem: Problem, *, planes: bool) -> tuple[dict[str, int], int]:
    """Return the numbers of PACKING; and the floats of P for one thread."""
    band = problem.band(thread_count())
    (H, width), (oH, _), window = problem.image, problem.out, problem.window
    scratch_floats = problem.packed_rows(band) * problem.pitch + 2 * lane_count()
    pixel = 1 if planes else problem.C
    words = {
        **{"threads": problem.threads(band), "N": problem.N, "H": H, "W": width, "oH": oH, "kH": window.kernel[0]},
        **{"top": window.head[0], "left": window.head[1], "down": window.stride[0]},
        **{"x_image": H * width * problem.C, "x_row": width * pixel, "x_plane": H * width if planes else 1},
        **{"band": band, "pitch": problem.pitch, "scratch_floats": scratch_floats},
    }
    return words, scratch_floats


for _schema in (CONV, CONV2D, FUSED_CONV):
    launcher(_schema, engine=ENGINE, accepts=accepts_images)(prepare_conv)
    VARIANTS.register(kernel_key(_schema.type, ENGINE), variants, help="its only way")
