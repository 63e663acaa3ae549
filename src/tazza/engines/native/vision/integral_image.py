"""IntegralImage and its gradient: sums in float64 over all rows above, and what stands before in the row."""

from __future__ import annotations

import math

from tazza.codegen.block import BlockLaunch, Slot, all_float32
from tazza.codegen.fields import Fields
from tazza.codegen.kernel import threads_of
from tazza.codegen.loop import count_loop
from tazza.codegen.rows import ROWS, each_row
from tazza.codegen.term import Lines, Term
from tazza.engines.native import SOURCES, native
from tazza.operator import Launch, Unsupported
from tazza.ops.vision.integral_image import INTEGRAL_IMAGE, INTEGRAL_IMAGE_GRADIENT
from tazza.tensor import TensorSpec

BLOCK = Fields("height read written stride", addresses="source target scratch:double", after=ROWS)
"""N planes, D columns that are added up, rows, the columns of a row that is read and of one that is written, the
doubles between the scratch rows of threads."""
LINE = 8
"""Doubles of a line of the cache."""


def write_sums(lines: Lines, border: int) -> None:
    """Write the sums up to each pixel, behind `border` rows and columns of zeros."""
    at = BLOCK.lazily(lines)
    height, width, read, written, source, target = at.height, at.D, at.read, at.written, at.source, at.target
    sums = at.scratch.at(lines.who * at.stride)
    # A row is read with one more element, the sum so far, which stands behind those of the columns.
    total = sums.at(width)

    def plane(p: Term) -> None:
        rows_read = height if border else height + 1
        rows_written = height + border
        x = source.at(p * rows_read * read)
        y = target.at(p * rows_written * written)
        count_loop(lines, 0, width, lambda i: sums.at(i).store(0.0))
        if border:
            count_loop(lines, 0, written, lambda i: y.at(i).store(0.0))

        def row(h: Term) -> None:
            own, made = x.at(h * read), y.at((h + border) * written)
            total.store(0.0)
            if border:
                made.store(0.0)

            def column(w: Term) -> None:
                value = own[w]
                along = total.load() + value.to("double")
                total.store(along)
                above = sums.at(w)
                both = above.load() + along
                above.store(both)
                made.at(w + border).store(both.to("float"))

            count_loop(lines, 0, width, column)

        count_loop(lines, 0, height, row)

    each_row(lines, plane)


def _prepare(read: TensorSpec, written: TensorSpec, source: str, target: str) -> Launch:
    if not all_float32(read, written):
        raise Unsupported("it is compiled for float32")
    border = int(written.shape[-1] > read.shape[-1])
    height, width = (min(pair) for pair in zip(read.shape[2:], written.shape[2:], strict=True))
    planes, stride = math.prod(read.shape[:2]), -(-(width + 1) // LINE) * LINE
    threads = threads_of(planes * height * width, 4, 8, planes)
    address = SOURCES.compiled(f"integral image {border}", lambda lines: write_sums(lines, border))
    lines = {"height": height, "read": read.shape[-1], "written": written.shape[-1], "stride": stride}
    words = BLOCK.words(threads=threads, N=planes, D=width, **lines, source=Slot(source), target=Slot(target))
    return BlockLaunch(address, words, scratch_bytes=8 * threads * stride)


@native(INTEGRAL_IMAGE)
def prepare_integral_image(X: TensorSpec, Y: TensorSpec) -> Launch:
    """Compile the sums; a row and a column of zeros stand before them."""
    return _prepare(X, Y, "X", "Y")


@native(INTEGRAL_IMAGE_GRADIENT)
def prepare_integral_image_gradient(dY: TensorSpec, dX: TensorSpec) -> Launch:
    """Compile the sums, without the last row and column."""
    return _prepare(dY, dX, "dY", "dX")
