"""Pooling of whole row-major images, and gradients of pooling that tell each element its part of a window's gradient.

Every element that equals the maximum of a window gets that window's gradient, as in Caffe2. What else one gets of
a window is a `Part` (`lp_pool.py`).

Each element of dX is written once: it asks the windows that cover it, in ascending order, so that the result does not
depend on threads, nor on the layout. Which windows those are stands in a table per dimension.

Letters: N images, C channels, `D H W` extents of the image; those of fewer dimensions have 1 for the first ones. A
slice is an H x W part of X. Where the channels lie innermost there are N * D slices, and vectors run over channels; in
row-major NCHW there are N * C * D, and vectors run over W.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from tazza.codegen.block import BlockLaunch, Constant, Slot, Word, accepts_dense, accepts_known_orders, all_float32
from tazza.codegen.fields import Fields
from tazza.codegen.image import lies_as
from tazza.codegen.kernel import threads_of
from tazza.codegen.loop import count_loop, each_vector, fold_loop, lane_sums, lanes_below, lanes_of, share
from tazza.codegen.nest import nest_words
from tazza.codegen.rows import FLOAT, ROWS, each_row
from tazza.codegen.term import Lines, Number, Term
from tazza.codegen.vector import Vector
from tazza.codegen.writer import Writer
from tazza.data_class import dataclass
from tazza.engines.native import SOURCES, native
from tazza.engines.native.pointwise import kernel_address
from tazza.operator import Expression, LaidOut, Launch, OpView, Unsupported
from tazza.operator.kernel import Offered
from tazza.ops.nn.pool import MAX, clipped_pool_window, pool_gradients, pool_window, pools
from tazza.ops.nn.window import Window
from tazza.runtime.machine import machine
from tazza.tensor import ROW_MAJOR, DataType, Layout, TensorSpec, channels_last
from tazza.tensor.offer import Offer

MOST_SPATIAL = 3
Side = tuple[int, int, int, int, int]
"""Extent, kernel, stride, pad before, and windows along one dimension."""
VIEWS = Fields(
    "threads rows unit depth height width out_depth out_height out_width",
    addresses="X Y depths:i64 heights:i64 widths:i64",
)
"""`rows` are those of all slices, `unit` how many floats lie together for one place: C or 1. Tables tell for each place
along D, H and W what a window sees, or which windows cover it."""
BLOCK = Fields("most", addresses="dY dX shifts:i32 counts:i32", after=VIEWS)
"""`most` is how many windows cover a place along W at most, whose shifts and counts are for vectors of places."""
MEANS = Fields(addresses="X Y", after=ROWS)
PAIR = Fields("first last")
"""Of a table: the first of some places, and the one behind the last."""


# -- preparing ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Covering:
    """The windows that cover each place along one dimension: those from `first` up to `last`, which is not one."""

    first: NDArray[np.int64]
    last: NDArray[np.int64]

    @classmethod
    def of(cls, extent: int, kernel: int, stride: int, head: int, out: int) -> Covering:
        """Solve p * stride - head <= i < p * stride - head + kernel for p, for each place i."""
        places = np.arange(extent) + head
        first = np.clip(-((kernel - 1 - places) // stride), 0, out)
        return cls(first, np.maximum(first, np.clip(places // stride + 1, 0, out)))

    def table(self) -> Constant:
        """Return all pairs of `first` and `last`."""
        return Constant(np.stack([self.first, self.last], axis=1).tobytes())

    def lanes(self, count: int) -> tuple[Constant, Constant]:
        """Return two tables of int32 for vectors of `count` places.

        They tell for each place how far its first window lies behind that of the vector's first place, which is less
        than `count` as no stride is less than 1, and how many windows it has.
        """
        padding = (0, -len(self.first) % count)
        first = np.pad(self.first, padding, mode="edge") if len(self.first) else self.first
        shifts = first - np.repeat(first[::count], count)
        return Constant(shifts.astype(np.int32).tobytes()), Constant(
            np.pad(self.last - self.first, padding).astype(np.int32).tobytes()
        )

    @property
    def most(self) -> int:
        """The largest number of windows that any place has."""
        return int(np.max(self.last - self.first, initial=0))


def seen(extent: int, kernel: int, step: int, head: int, out: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first place of the image that each window sees along a dimension, and the one behind the last."""
    start = np.arange(out) * step - head
    first = np.clip(start, 0, extent)
    return first, np.clip(start + kernel, first, extent)


def sides_of(window: Window, image: Sequence[int], outs: Sequence[int | None]) -> list[Side]:
    """Return extent, kernel, stride, pad before and windows along D, H and W; those that there are not have 1 place."""
    there = zip(image, window.kernel, window.stride, window.head, (n or 0 for n in outs), strict=True)
    return [(1, 1, 1, 0, 1)] * (MOST_SPATIAL - window.rank) + list(there)


def extents_of(sides: Sequence[Side], tables: Iterable[Constant]) -> dict[str, Word]:
    """Return the words of VIEWS that say of what extents X and Y are, and what there is for each place."""
    words: dict[str, Word] = {}
    for name, (extent, *_, out), table in zip(("depth", "height", "width"), sides, tables, strict=True):
        words |= {name: extent, f"out_{name}": out, f"{name}s": table}
    return words


def views_of(sides: Sequence[Side]) -> tuple[int, dict[str, Word]]:
    """Return how many places the largest window sees, and words with tables of first and last ones."""
    tables = [seen(*side) for side in sides]
    taps = math.prod(int(np.max(last - first, initial=0)) for first, last in tables)
    return taps, extents_of(sides, [Constant(np.stack(one, axis=1).astype(np.int64).tobytes()) for one in tables])


@dataclass(frozen=True, slots=True)
class Part:
    """What an element gets of the gradient of a window.

    Attributes:
        name: names the kernel.
        told: of an element, what `add` is told.
        add: `add(v, sum so far, what is told, Y and dY of the window)` gives the sum with this window.
        flops: of a window.
    """

    name: str
    told: Callable[[Vector, Term], Term]
    add: Callable[[Vector, Term, Term, Term, Term], Term]
    flops: float = 2


@native(*(pool_gradients[type] for type, row in pool_gradients.rows.items() if row is MAX), accepts=accepts_dense)
def prepare_max_pool_gradient(op: OpView, X: TensorSpec, Y: TensorSpec, dY: TensorSpec) -> LaidOut:
    """Compile for channels that lie innermost, or for row-major NCHW; other layouts of X become channels-last."""
    found = gradient_layouts(op, X, Y, dY)
    layouts, by_channel = found
    first = op.order.upper() != "NHWC"
    whole = op.global_pooling and not by_channel and lies_as(Y, ROW_MAJOR) and lies_as(dY, ROW_MAJOR) and first
    return LaidOut(_whole_gradient(X) if whole else gradient_launch(op, X, EQUAL, by_channel=by_channel), layouts)


def gradient_layouts(op: OpView, X: TensorSpec, Y: TensorSpec, dY: TensorSpec) -> tuple[dict[str, Layout], bool]:
    """Return the layouts that are read and written, and whether channels lie innermost in them."""
    window, _ = pool_window(op, X.shape)
    if window.rank > MOST_SPATIAL:
        raise Unsupported(f"X has {window.rank} spatial dimensions, at most {MOST_SPATIAL} are compiled")
    by_channel, dense = lying(op, X)
    layouts: dict[str, Layout] = {"dX": dense(X.shape)}
    for letter, spec in (("X", X), ("Y", Y), ("dY", dY)):
        if not lies_as(spec, dense(spec.shape)):
            layouts[letter] = dense(spec.shape)
    return layouts, by_channel


def lying(op: OpView, X: TensorSpec) -> tuple[bool, Callable[[Sequence[int]], Layout]]:
    """Return whether channels lie innermost, and the layout of blobs of any extents that lie so."""
    last = op.order.upper() == "NHWC"
    dense: Callable[[Sequence[int]], Layout] = (lambda dims: ROW_MAJOR) if last else channels_last
    by_channel = not lies_as(X, ROW_MAJOR) or lies_as(X, dense(X.shape))
    return by_channel, dense if by_channel else lambda dims: ROW_MAJOR


def _rows_of(X: TensorSpec) -> tuple[int, int]:
    """Return how many images of one channel there are, and the elements of one."""
    return math.prod(X.shape[:2]), math.prod(X.shape[2:])


def _whole_gradient(X: TensorSpec) -> Launch:
    """Where the window is the whole image, a row has one maximum and one gradient."""
    rows, width = _rows_of(X)
    kinds = [(FLOAT, True), (FLOAT, False), (FLOAT, False)]
    address = kernel_address([Expression.parse("where(a0 == a1, a2, 0)")], kinds, [FLOAT], 1)
    operands = [(Slot(letter), (step,)) for letter, step in (("X", 4 * width), ("Y", 4), ("dY", 4), ("dX", 4 * width))]
    return BlockLaunch(address, nest_words(threads_of(X.size, 2, 8, rows), ([rows], width), operands, by_rows=True))


AVERAGES = [pools[type] for type, row in pools.rows.items() if row is not MAX]


@native(*AVERAGES, accepts=accepts_known_orders, batch_invariant=True)
def prepare_whole_average(op: OpView, X: TensorSpec) -> Offered:
    """Compile means over whole images; all else is oneDNN's."""
    if not op.global_pooling or op.order.upper() == "NHWC" or X.layout != ROW_MAJOR or not all_float32(X):
        raise Unsupported("it pools whole row-major images of float32, NCHW")

    def make() -> Launch:
        rows, width = _rows_of(X)
        words = MEANS.words(threads=threads_of(X.size, 1, 4, rows), N=rows, D=width)
        return BlockLaunch(SOURCES.compiled("means of whole images", _means), words)

    return Offer(make, estimate_ns=X.nbytes / machine().memory_bytes_per_ns)


def gradient_launch(op: OpView, X: TensorSpec, part: Part, *, by_channel: bool) -> Launch:
    """Return what writes dX."""
    _, outs = pool_window(op, X.shape)
    window = clipped_pool_window(op, X.shape)
    N, C, *image = images_of(op, X)
    sides = sides_of(window, image, outs)
    (D, *_, deep_out), (H, *_), _ = sides
    coverings = [Covering.of(*side) for side in sides]
    along = coverings[-1]
    lanes = lanes_of(Lines()).count
    slices, unit = (N * D, C) if by_channel else (N * C * D, 1)
    flops = part.flops * math.prod(one.most for one in coverings)
    shifts, counts = along.lanes(lanes)
    words = BLOCK.words(
        **{"threads": threads_of(X.size, flops, 12, slices * H), "rows": slices * H, "unit": unit},
        **extents_of(sides, [one.table() for one in coverings]),
        **{"most": along.most, "shifts": shifts, "counts": counts},
    )
    apart = not by_channel and along.most <= 1
    body = functools.partial(_channels if by_channel else functools.partial(_columns, apart=apart), part=part)
    deep = D > 1 or deep_out > 1  # pads around a single slice make several windows
    kind = f"{part.name} pool gradient by {'channels' if by_channel else 'columns'} of {lanes}"
    kind += f"{', deep' if deep else ''}{', apart' if apart else ''}"
    return BlockLaunch(SOURCES.compiled(kind, functools.partial(_write, row=body, deep=deep)), words)


def images_of(op: OpView, X: TensorSpec) -> list[int]:
    """Return N, C and the extents of the image."""
    dims = list(X.shape)
    return [dims[0], dims[-1], *dims[1:-1]] if op.order.upper() == "NHWC" else dims


# -- writing -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Row:
    """What is known where a row of X is taken: addresses, the windows over its slice and over the row, lines of Y."""

    x: Term
    dx: Term
    y: Term
    dy: Term
    depths: tuple[Term, Term] | None
    heights: tuple[Term, Term]
    out_height: Term
    out_length: Term


WriteRow = Callable[[Vector, Row], None]


def _write(lines: Lines, row: WriteRow, *, deep: bool) -> None:
    """Loop over the slices, and over the rows of each, that are this thread's."""
    v, w = lanes_of(lines), BLOCK.loaded(lines)
    out_length, length = (width * w.unit for width in (w.out_width, w.width))
    out_size = w.out_depth * w.out_height * out_length
    begin, end = share(lines, w.rows)
    some = w.height.at_least(1)  # no rows: no slices either
    after = end.pieces(some)

    def one_slice(s: Term) -> None:
        image, above, depths = s, s * w.height, None
        if deep:
            image = s // w.depth
            depths = pair_at(w.depths, s % w.depth)
        offset = image * out_size
        y, dy = w.Y.at(offset), w.dY.at(offset)
        top = (begin - above).at_least(0)
        bottom = (end - above).at_most(w.height)

        def one_row(h: Term) -> None:
            at = (above + h) * length
            row(v, Row(w.X.at(at), w.dX.at(at), y, dy, depths, pair_at(w.heights, h), w.out_height, out_length))

        count_loop(lines, top, bottom, one_row)

    count_loop(lines, begin // some, after, one_slice)


def _means(lines: Lines) -> None:
    """Add up each row, in one order whatever the threads."""
    v, w = lanes_of(lines), MEANS.loaded(lines)

    def row(n: Term) -> None:
        x = w.X.at(n * w.D)
        w.Y[n] = lane_sums(v, 0, w.D, lambda i, mask: v.load(x, i, mask)).sum() / w.D.to_unsigned("float")

    each_row(lines, row)


def _channels(v: Vector, row: Row, *, part: Part) -> None:
    """Take the places of a row one by one, each with all its channels."""
    w = BLOCK.loaded(v.lines)

    def place(i: Term) -> None:
        widths = pair_at(w.widths, i)
        here = i * w.unit
        x, dx = row.x.at(here), row.dx.at(here)

        def body(i: Term, mask: Term | None) -> None:
            told = part.told(v, v.load(x, i, mask))

            def line(start: Term, total: Term) -> Term:
                def one(p: Term, total: Term) -> Term:
                    at = start + p * w.unit + i
                    seen, given = v.load(row.y, at, mask), v.load(row.dy, at, mask)
                    return part.add(v, total, told, seen, given)

                return fold_loop(*widths, total, one)

            v.store(_over_lines(v, row, line), dx, i, mask)

        each_vector(v, 0, w.unit, body)

    count_loop(v.lines, 0, w.width, place)


def _columns(v: Vector, row: Row, *, part: Part, apart: bool) -> None:
    """Take a row in vectors; a vector of windows is spread over the places they cover by a permutation.

    With `apart` windows do not overlap along W.
    """
    w, places = BLOCK.loaded(v.lines), Vector(v.lines, v.count, DataType.INT32)

    def body(i: Term, mask: Term | None) -> None:
        told = part.told(v, v.load(row.x, i, mask))
        # The tables are filled up to whole vectors.
        shift, count = (places.load(table, i, None) for table in (w.shifts, w.counts))
        base, _ = pair_at(w.widths, i)

        def line(start: Term, total: Term) -> Term:
            def one(j: Number, total: Term) -> Term:
                first = base + j
                at = start + first
                inside = lanes_below(v, w.out_width - first)
                seen, given = (_permute(v, v.load(pointer, at, inside), shift) for pointer in (row.y, row.dy))
                return (places.full(j) < count).choose(part.add(v, total, told, seen, given), total)

            return one(0, total) if apart else fold_loop(0, w.most, total, one)

        v.store(_over_lines(v, row, line), row.dx, i, mask)

    each_vector(v, 0, w.width, body)


def _over_lines(v: Vector, row: Row, line: Callable[[Term, Term], Term]) -> Term:
    """Return the sum that `line(where it begins, sum so far)` makes over all lines of windows that cover the row."""

    def heights(above: Number, total: Term) -> Term:
        return fold_loop(*row.heights, total, lambda p, total: line((above + p) * row.out_length, total))

    if row.depths is None:
        return heights(0, v.constant(0.0))
    return fold_loop(*row.depths, v.constant(0.0), lambda p, total: heights(p * row.out_height, total))


def _add_equal(v: Vector, total: Term, value: Term, seen: Term, given: Term) -> Term:
    """Return total + given where value == seen; NaN equals nothing."""
    return value.equals(seen).choose(total + given, total)


EQUAL = Part("max", lambda v, value: value, _add_equal)


def _permute(v: Vector, value: Term, places: Term) -> Term:
    """Return lane places[i] of a float32 vector as lane i."""
    name = {16: "avx512.permvar.sf.512", 8: "avx2.permps"}.get(v.count)
    if name is not None:  # vectors are only that wide where the processor has these
        return v.lines.call(v.type, f"llvm.x86.{name}", value, places)
    result = v.lines.poison(v.type)
    for lane in range(v.count):
        place = places.lane(lane)
        result = result.with_lane(lane, value.lane(place))
    return result


@dataclass(frozen=True, slots=True)
class Seen:
    """Where a row of Y begins, and its image in X; the places along D and H that its windows see."""

    x: Term
    y: Term
    depths: tuple[Term, Term]
    heights: tuple[Term, Term]


def each_row_of_y(w: Writer, kind: str, row: Callable[[Seen], None]) -> None:
    """Run `row` for the rows of Y of this thread, in a block that begins with VIEWS."""
    word = w.w
    length, line = word.out_width * word.unit, word.width * word.unit
    image = word.depth * word.height * line

    def one(r: Term) -> None:
        above = r // word.out_height
        heights = pair_at(word.heights, r % word.out_height)
        depths = pair_at(word.depths, above % word.out_depth)
        x = word.X.of(kind).at(above // word.out_depth * image)
        row(Seen(x, word.Y.of(kind).at(r * length), depths, heights))

    count_loop(w.lines, *share(w.lines, word.rows), one)


def pair_at(table: Term, index: Number) -> tuple[Term, Term]:
    """Return both numbers of a place in a table of pairs."""
    at = PAIR.lazily(table.lines, block=table.at(index * len(PAIR)))
    return at.first, at.last
