"""Regions as images of one size: RoIAlign, for boxes that may be turned RoIAlignRotated, and their gradients.

R regions (`ops.vision.region`) of X (N, C, H, W) become Y (R, C, pooled_h, pooled_w): a region is cut into
pooled_h x pooled_w bins, each element of Y is the mean of X at g_h x g_w places that lie evenly in a bin. Between
elements X is interpolated linearly along both axes; up to one element outside it goes on as at its border, further
outside it is 0. g is `sampling_ratio`, or where that is not above 0 the extent of a bin, rounded up.

An element of X lies at its place, with `aligned` half an element behind it. Without `aligned` no region is smaller
than one element.

Y is linear in X: for each region there is a matrix M (pooled_h pooled_w, h w), over the h x w elements of X that it
reaches, so that Y = M X, and dX is the sum of all M' dY. Of a box that is not turned M is the product of a factor
along each axis, (pooled_h, h) and (pooled_w, w).

Source: He, Gkioxari, Dollar, Girshick 2017, arXiv 1703.06870, section 3; Ma and others 2018, arXiv 1703.01086.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tazza.data_class import dataclass
from tazza.errors import ArgumentError, NumericError
from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    Effects,
    GradientRequest,
    OpSchema,
    OpView,
    Role,
    arg,
    blob,
    ends,
    family,
    gradients_of,
    kernel,
    schema,
    show_dims,
)
from tazza.ops.nn.channel import ORDER
from tazza.ops.nn.window import channels_first
from tazza.ops.shape.axis import shapes_agree
from tazza.ops.vision.region import SCALE, pooled_dims, regions
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec

MOST_PLACES = 2**26
"""Of a region that X is looked at; Caffe2 made a table of them, and ended where it did not fit into memory."""

ARGS = (
    SCALE,
    arg("pooled_h", int, 1, minimum=0, doc="height of Y"),
    arg("pooled_w", int, 1, minimum=0, doc="width of Y"),
    arg("sampling_ratio", int, -1, doc="places in a bin along each axis; 0 and less: as many elements as it covers"),
    arg("aligned", bool, False, doc="the middle of an element is its place"),
    ORDER,
)


@dataclass(frozen=True, slots=True)
class BoxForm:
    """What tells boxes from boxes that may be turned; `columns` is how many numbers a region has with its image."""

    columns: int
    box: str

    @property
    def turned(self) -> bool:
        """Whether a box has an angle."""
        return self.columns == 6

    @property
    def doc(self) -> str:
        """What the rows of `rois` are."""
        return f"(R, {self.columns}): number of the image, {self.box}; or without that number"

    @property
    def example(self) -> str:
        """A region two pixels wide and one high, not turned."""
        return "[[0.0, 1.0, 0.5, 2.0, 1.0, 0.0]]" if self.turned else "[[0.0, 0.0, 0.0, 2.0, 1.0]]"


REGIONS = {
    "RoIAlign": BoxForm(5, "x1, y1, x2, y2"),
    "RoIAlignRotated": BoxForm(6, "x and y of the center, width, height, and degrees counter-clockwise"),
}


def _check_scale(op: OpView) -> None:
    if not np.isfinite(op.spatial_scale):
        raise op.error(ArgumentError, f"spatial_scale is {op.spatial_scale}, it must be finite")


@family(REGIONS)
def aligned_regions(type: str, row: BoxForm) -> OpSchema:
    """Means of regions."""
    made = schema(
        type,
        "Y[r] = region r of X, in pooled_h x pooled_w bins: the mean of each, interpolated between elements.",
        inputs=[
            blob("X", FLOAT, doc="(N, C, H, W), NHWC: (N, H, W, C)"),
            blob("rois", FLOAT, "R D", role=Role.DATA, doc=row.doc),
        ],
        outputs=[blob("Y", "X")],
        args=ARGS,
        effects=Effects.PURE,
        source="He, Gkioxari, Dollar, Girshick 2017, arXiv 1703.06870",
        example=f"""
        >>> run("{type}", [[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]]], {row.example}, pooled_w=2)
        array([[[[3., 4.]]]], dtype=float32)
        """,
    )

    made.validate(_check_scale)

    @made.infer
    def infer(op: OpView, X: TensorSpec, rois: TensorSpec) -> TensorSpec:
        return TensorSpec(pooled_dims(op, X, rois, (row.columns - 1, row.columns)), X.dtype)

    @made.cost
    def cost(op: OpView, X: TensorSpec, rois: TensorSpec, Y: TensorSpec) -> Cost:
        del X
        return Cost(8 * places_of_a_bin(op) * Y.size, 16 * places_of_a_bin(op) * Y.size + rois.nbytes, Y.nbytes)

    @made.gradient
    def gradient(g: GradientRequest) -> list[OperatorDef]:
        return g.emit(f"{type}Gradient", [g.like("X"), g.rois, g.dY], [g.dX])

    @kernel(made)
    def align(op: OpView, X: Array, rois: Array, Y: Array) -> None:
        x, y = channels_first(op.order, X), channels_first(op.order, Y)
        for r, look in enumerate(looks(op, row, x, rois)):
            y[r] = look.means(x).reshape(y.shape[1:])

    return made


@family(gradients_of(aligned_regions))
def aligned_region_gradients(type: str, row: BoxForm) -> OpSchema:
    """What the elements of X get from the bins that they are in."""
    made = schema(
        type,
        "dX = what each element of X gives to dY, summed over all regions.",
        inputs=[
            blob("X", role=Role.SHAPE, doc="only its shape is used"),
            blob("rois", FLOAT, "R D", role=Role.DATA, doc=row.doc),
            blob("dY", FLOAT, role=Role.DATA, doc="(R, C, pooled_h, pooled_w), NHWC: (R, pooled_h, pooled_w, C)"),
        ],
        outputs=[blob("dX", "dY")],
        args=ARGS,
        effects=Effects.PURE,
        no_gradient=ends("second derivatives are not built"),
        source="derivative of the forward operator",
        example=f"""
        >>> run("{type}", np.zeros((1, 1, 2, 3), "f"), {row.example}, [[[[8.0, 0.0]]]], pooled_w=2)
        array([[[[2., 2., 0.],
                 [2., 2., 0.]]]], dtype=float32)
        """,
    )

    made.validate(_check_scale)

    @made.infer
    def infer(op: OpView, X: TensorSpec, rois: TensorSpec, dY: TensorSpec) -> TensorSpec:
        Y = pooled_dims(op, X, rois, (row.columns - 1, row.columns))
        if dY.dims is not None:
            relation = f"dY has the shape {show_dims(dY.dims)}, the regions of X have {show_dims(Y)}"
            op.require(shapes_agree(dY.dims, Y), relation)
        return TensorSpec(X.dims, dY.dtype)

    @made.cost
    def cost(op: OpView, X: TensorSpec, rois: TensorSpec, dY: TensorSpec, dX: TensorSpec) -> Cost:
        del X
        return Cost(8 * places_of_a_bin(op) * dY.size, dY.nbytes + rois.nbytes, dX.nbytes)

    @kernel(made)
    def align_gradient(op: OpView, X: Array, rois: Array, dY: Array, dX: Array) -> None:
        dx, dy = channels_first(op.order, dX), channels_first(op.order, dY)
        dx[...] = 0
        for r, look in enumerate(looks(op, row, channels_first(op.order, X), rois)):
            look.give_back(dy[r], dx)

    return made


def places_of_a_bin(op: OpView) -> int:
    """Return at about how many places a bin is looked at."""
    return op.sampling_ratio**2 if op.sampling_ratio > 0 else 4


@dataclass(frozen=True, slots=True)
class Look:
    """How the bins of a region look at the h x w elements of image n that it reaches.

    `down` (pooled_h, h) and `across` (pooled_w, w) are the factors of M; of a turned box `down` is M itself
    (pooled_h pooled_w, h w), and there is no other factor.
    """

    n: int
    rows: slice
    columns: slice
    down: Array
    across: Array | None = None

    def means(self, images: Array) -> Array:
        """Return the means of all bins, (C, pooled_h, pooled_w) or (C, pooled_h pooled_w)."""
        seen = images[self.n, :, self.rows, self.columns]
        if self.across is None:
            return seen.reshape(len(seen), self.down.shape[1]) @ self.down.T
        return self.down @ seen @ self.across.T

    def give_back(self, means: Array, images: Array) -> None:
        """Add what elements gave to the means (C, pooled_h, pooled_w)."""
        target = images[self.n, :, self.rows, self.columns]
        if self.across is None:
            target += (means.reshape(len(means), len(self.down)) @ self.down).reshape(target.shape)
        else:
            target += self.down.T @ means @ self.across


def looks(op: OpView, row: BoxForm, images: Array, rois: Array) -> Iterator[Look]:
    """Yield how each region looks at its image.

    Raises:
        NumericError: a region is smaller than nothing, or too large to be looked at; or there are images of nothing.
    """
    H, W = images.shape[2:]
    if len(rois) and 0 in (H, W):
        raise op.error(NumericError, f"X has images of {H} by {W} elements", "a region is a mean of some")
    for r, (n, box) in enumerate(zip(*regions(op, images, rois, row.columns), strict=True)):
        y, x = _looked_at(op, row, r, box)
        share = rois.dtype.type(1 / max(1, y.shape[2] * x.shape[3]))
        if row.turned:
            rows, columns, M = _matrix(op, y, x, H, W)
            yield Look(int(n), rows, columns, M * share)
        else:
            (rows, down), (columns, across) = _factor(y[:, 0, :, 0], H), _factor(x[0, :, 0], W)
            yield Look(int(n), rows, columns, down * share, across)


def _inside(at: Array, extent: int) -> Array:
    return (at >= -1) & (at <= extent)


def _factor(at: Array, extent: int) -> tuple[slice, Array]:
    """Return which elements along an axis bins look at, from their places (bins, g), and how much of each is summed."""
    inside = _inside(at, extent)
    bins = np.nonzero(inside)[0]
    if not bins.size:
        return slice(0), np.zeros((len(at), 0), at.dtype)
    (low, _), (high, _) = ends = _between(at[inside], extent)
    reach = slice(int(low.min()), int(high.max()) + 1)
    found = np.zeros((len(at), reach.stop - reach.start), at.dtype)
    for i, part in ends:
        np.add.at(found, (bins, i - reach.start), part)
    return reach, found


def _matrix(op: OpView, y: Array, x: Array, H: int, W: int) -> tuple[slice, slice, Array]:
    """Return which rows and columns bins look at, and how much of each element is summed, (bins, h w)."""
    inside = _inside(y, H) & _inside(x, W)
    bins = np.nonzero(inside)
    count = op.pooled_h * op.pooled_w
    if not len(bins[0]):
        return slice(0), slice(0), np.zeros((count, 0), y.dtype)
    down, across = _between(y[inside], H), _between(x[inside], W)
    rows, columns = (slice(int(low.min()), int(high.max()) + 1) for (low, _), (high, _) in (down, across))
    M = np.zeros((count, rows.stop - rows.start, columns.stop - columns.start), y.dtype)
    for i, high in down:
        for j, wide in across:
            np.add.at(M, (bins[0] * op.pooled_w + bins[1], i - rows.start, j - columns.start), high * wide)
    return rows, columns, M.reshape(count, -1)


def _between(at: Array, extent: int) -> list[tuple[Array, Array]]:
    """Return the two elements, of so many, that each place lies between, and what it takes of each."""
    at = np.clip(at, 0, extent - 1)
    low = at.astype(np.int64)
    return [(low, 1 - (at - low)), (np.minimum(low + 1, extent - 1), at - low)]


def _looked_at(op: OpView, row: BoxForm, r: int, box: Array) -> tuple[Array, Array]:
    """Return rows and columns of the places in all bins of a region, (pooled_h, pooled_w, g_h, g_w).

    Of a box that is not turned those of rows are (pooled_h, 1, g_h, 1), and those of columns (1, pooled_w, 1, g_w).

    Raises:
        NumericError: it is smaller than nothing, or too large to be looked at.
    """
    scale, offset = np.float32(op.spatial_scale), np.float32(0.5 if op.aligned else 0)
    first, second = box[:2] * scale - offset, box[2:4] * scale
    size = second if row.turned else second - offset - first  # (width, height)
    if op.aligned and (size < 0).any():
        raise op.error(NumericError, f"rois[{r}] is {size[0]} wide and {size[1]} high", "x2 and y2 come last")
    size = size if op.aligned else np.maximum(size, 1)
    begin = -size / 2 if row.turned else first
    bins = (op.pooled_w, op.pooled_h)
    step = size / np.maximum(bins, 1).astype(np.float32)
    counts = [op.sampling_ratio] * 2 if op.sampling_ratio > 0 else [int(n) for n in np.ceil(step)]
    if counts[0] * counts[1] * bins[0] * bins[1] > MOST_PLACES:
        relation = f"rois[{r}] is {size[0]} by {size[1]} elements, at {counts[0]} x {counts[1]} places a bin"
        raise op.error(NumericError, f"{relation} of {bins[0]} x {bins[1]}", f"at most {MOST_PLACES} are looked at")
    x, y = (
        begin[i] + np.arange(bins[i], dtype=np.float32)[:, None] * step[i] + _evenly(counts[i], step[i]) for i in (0, 1)
    )
    x, y = x[None, :, None, :], y[:, None, :, None]
    if not row.turned:
        return y, x
    angle = np.float32(box[4] * np.pi / 180)
    along, across = np.cos(angle), np.sin(angle)
    return y * along - x * across + first[1], x * along + y * across + first[0]


def _evenly(count: int, extent: np.float32) -> Array:
    """Return the middles of so many equal parts of an extent."""
    return (np.arange(count, dtype=np.float32) + np.float32(0.5)) * extent / np.float32(max(1, count))
