"""Convolution whose windows are bent: DeformConv, of images in the order NCHW.

Letters as in `ops.nn.conv`, for two dimensions: G groups of channels, D groups that are bent alike, K = kH * kW; the
last kernel elements are those of `kH`, then of `kW`.

    X (N, C, H, W)    offset (N, D*K*2, oH, oW)    W (M, C/G, kH, kW)    b (M)    Y (N, M, oH, oW)

Kernel element k of the window at (p, q) sees the image at a point, not at a pixel,

    y = p * stride + kh * dilation - pad + offset[n, (d, k, 0), p, q]        x alike, from offset[n, (d, k, 1), p, q]

    value = (1 - fy) (1 - fx) X[y0, x0] + (1 - fy) fx X[y0, x1] + fy (1 - fx) X[y1, x0] + fy fx X[y1, x1]

where y0 is the floor of y, fy = y - y0, y1 = y0 + 1. Points with y < 0, y >= H, x < 0 or x >= W see 0; beyond the last
row or column there is what is in it, y0 = y1 = H - 1 and fy = 0.

Sources: Dai and others 2017, Deformable convolutional networks, arXiv 1703.06211, sections 2.1 and 3; Caffe2.
"""

from __future__ import annotations

from itertools import product
from typing import cast

import numpy as np

from tazza.data_class import dataclass
from tazza.errors import ArgumentError
from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    Effects,
    GradientRequest,
    OpView,
    Role,
    arg,
    blob,
    ends,
    kernel,
    schema,
    show_dims,
)
from tazza.ops.nn.channel import CHANNELS_FIRST
from tazza.ops.nn.conv import CONV_ARGS, conv_window, require_bias
from tazza.ops.nn.window import half_pairs
from tazza.ops.shape.axis import shapes_agree
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec

POINT_FLOPS = 20
"""Operations for the value at a point, beside those of the convolution."""

ARGS = (
    *(spec for spec in CONV_ARGS if spec.name != "order"),
    CHANNELS_FIRST,
    arg("deformable_group", int, 1, minimum=1, doc="D: so many groups of channels are bent each in its own way"),
    arg("no_gradient_to_input", int, 0, doc="the gradient operator gives no dX"),
)
IMAGES = blob("X", FLOAT, "N C H W")
OFFSET = blob("offset", FLOAT, "N B h w", role=Role.DATA, doc="(N, D*kH*kW*2, oH, oW): pixels down, then right")
FILTER = blob("W", "X", role=Role.PARAMETER, doc="(M, C/G, kH, kW)")
EXAMPLE = """
>>> X, W = np.arange(6, dtype="f").reshape(1, 1, 2, 3), np.ones((1, 1, 1, 1), "f")
>>> offset = np.zeros((1, 2, 2, 3), "f") + np.array([0, 0.5], "f").reshape(1, 2, 1, 1)
"""

DEFORM_CONV = schema(
    "DeformConv",
    "Y[n, m, p, q] = b[m] + sum over c, k of W[m, c, k] * X[n, c] at the point of k that offset says.",
    inputs=[
        IMAGES,
        OFFSET,
        FILTER,
        blob("b", "X", optional=True, role=Role.PARAMETER, doc="(M)"),
    ],
    outputs=[blob("Y", "X", doc="(N, M, oH, oW)")],
    args=ARGS,
    effects=Effects.PURE,
    ineffective=half_pairs,
    source="Dai and others 2017, arXiv 1703.06211, section 2.1; Caffe2",
    example=EXAMPLE
    + """>>> run("DeformConv", X, offset, W, kernel=1).reshape(2, 3)
array([[0.5, 1.5, 2. ],
       [3.5, 4.5, 5. ]], dtype=float32)
""",
)
DEFORM_CONV_GRADIENT = schema(
    "DeformConvGradient",
    """doffset, dW, db and dX of a bent convolution, from X, offset, W and dY.

    Outputs: (doffset, dW, db, dX); without db when `no_bias`; without dX when `no_gradient_to_input`.""",
    inputs=[IMAGES, OFFSET, FILTER, blob("dY", "X", role=Role.DATA)],
    outputs=[
        blob("doffset", like="offset"),
        blob("dW", like="W"),
        blob("db", "X", optional=True),
        blob("dX", like="X", optional=True),
    ],
    args=[*ARGS, arg("no_bias", int, 0, doc="the convolution had no b")],
    effects=Effects.PURE,
    ineffective=half_pairs,
    no_gradient=ends("second derivatives are not built"),
    source="derivatives of the forward operator",
    example=EXAMPLE
    + """>>> dY = np.ones((1, 1, 2, 3), "f")
>>> run("DeformConvGradient", X, offset, W, dY, kernel=1, no_bias=1, outputs=3)[2].reshape(2, 3)
array([[0.5, 1. , 1.5],
       [0.5, 1. , 1.5]], dtype=float32)
""",
)


@DEFORM_CONV.infer
def deform_conv_infer(op: OpView, X: TensorSpec, offset: TensorSpec, W: TensorSpec, b: TensorSpec | None) -> TensorSpec:
    if X.dims is None or W.dims is None:
        return TensorSpec(None, X.dtype)
    window, out = conv_window(op, X.dims, W.dims)
    op.require(0 not in X.dims[2:], f"X has the shape {show_dims(X.dims)}, an image has pixels")
    pads = [*window.head, *window.tail]
    op.require(window.head == window.tail, f"pads {pads} are not the same before and behind")
    for letter, channels in (("X", X.dims[1]), ("W", W.dims[0])):
        told = f"{channels} channels of {letter} do not divide into {op.deformable_group} groups that are bent alike"
        op.require(channels is None or channels % op.deformable_group == 0, told)
    wanted = (X.dims[0], 2 * window.size * op.deformable_group, *out)
    if offset.dims is not None:
        relation = f"offset has the shape {show_dims(offset.dims)}, it must be {show_dims(wanted)}"
        op.require(shapes_agree(offset.dims, wanted), relation, "(N, deformable_group * kH * kW * 2, oH, oW)")
    require_bias(op, b, W.dims[0])
    return TensorSpec((X.dims[0], W.dims[0], *out), X.dtype)


@DEFORM_CONV.cost
def deform_conv_cost(
    op: OpView, X: TensorSpec, offset: TensorSpec, W: TensorSpec, b: TensorSpec | None, Y: TensorSpec
) -> Cost:
    parameters = W.nbytes + (0 if b is None else b.nbytes)
    flops = 2 * Y.size * (W.size // max(W.shape[0], 1)) + (0 if b is None else Y.size)
    return Cost(flops + _point_flops(op, X, offset), X.nbytes + offset.nbytes + parameters, Y.nbytes, parameters)


@DEFORM_CONV.gradient
def deform_conv_gradient(g: GradientRequest) -> list[OperatorDef]:
    no_bias = {} if g.op.has_input("b") else {"no_bias": 1}
    outputs = [g.doffset, g.dW, *([g.db] if g.op.has_input("b") else [])]
    outputs += [] if g.op.no_gradient_to_input else [g.dX]
    return g.emit("DeformConvGradient", [g.X, g.offset, g.W, g.dY], outputs, **no_bias)


@kernel(DEFORM_CONV)
def deform_conv(op: OpView, X: Array, offset: Array, W: Array, b: Array | None, Y: Array) -> None:
    seen = Points.of(op, X, offset, W).values(X)
    y = np.einsum("gmck,ngckp->ngmp", _filters(op, W), _by_group(op, seen, W), optimize=True)
    y = y.reshape(Y.shape)  # (N, G, M/G, P) -> (N, M, oH, oW)
    Y[...] = y if b is None else y + b.reshape(-1, 1, 1)


@DEFORM_CONV_GRADIENT.name_outputs
def deform_conv_gradient_outputs(op: OpView, count: int) -> tuple[str, ...]:
    letters = ("doffset", "dW") if op.no_bias else ("doffset", "dW", "db")
    most = letters if op.no_gradient_to_input else (*letters, "dX")
    if count not in (len(letters), len(most)):
        wanted = " or ".join(f"({', '.join(form)})" for form in dict.fromkeys((letters, most)))
        raise op.error(ArgumentError, f"{count} outputs, with no_bias = {op.no_bias} they are {wanted}")
    return most[:count]


@DEFORM_CONV_GRADIENT.infer
def deform_conv_gradient_infer(
    op: OpView, X: TensorSpec, offset: TensorSpec, W: TensorSpec, dY: TensorSpec
) -> tuple[TensorSpec, ...]:
    Y = deform_conv_infer(op, X, offset, W, None)
    if Y.dims is not None and dY.dims is not None:
        relation = f"dY has the shape {show_dims(dY.dims)}, Y has {show_dims(Y.dims)}"
        op.require(shapes_agree(dY.dims, Y.dims), relation)
    db = TensorSpec((None if W.dims is None else W.dims[0],), X.dtype)
    specs = {"doffset": offset, "dW": W, "db": db, "dX": X}
    return tuple(specs[letter] for letter in op.output_letters)


@DEFORM_CONV_GRADIENT.cost
def deform_conv_gradient_cost(op: OpView, dY: TensorSpec, **specs: TensorSpec | None) -> Cost:
    X, offset, W = (cast("TensorSpec", specs[letter]) for letter in ("X", "offset", "W"))
    written = [spec for letter, spec in specs.items() if letter.startswith("d") and spec is not None]
    flops = 4 * dY.size * (W.size // max(W.shape[0], 1)) + 3 * _point_flops(op, X, offset)
    read = X.nbytes + offset.nbytes + W.nbytes + dY.nbytes
    return Cost(flops, read, sum(spec.nbytes for spec in written), W.nbytes)


@kernel(DEFORM_CONV_GRADIENT)
def deform_conv_gradient_kernel(
    op: OpView,
    X: Array,
    offset: Array,
    W: Array,
    dY: Array,
    doffset: Array,
    dW: Array,
    db: Array | None,
    dX: Array | None,
) -> None:
    """Multiply dY with what is seen for dW; W^T dY with slopes at the points for doffset, with weights for dX."""
    points, w, N = Points.of(op, X, offset, W), _filters(op, W), len(X)
    D, K, P = points.y.shape[1:]
    dy = dY.reshape(N, op.group, w.shape[1], P)  # (N, M, oH, oW) -> (N, G, M/G, P)
    dW[...] = np.einsum("ngmp,ngckp->gmck", dy, _by_group(op, points.values(X), W), optimize=True).reshape(dW.shape)
    if db is not None:
        db[...] = dY.sum(axis=(0, 2, 3))
    pulled = np.einsum("gmck,ngmp->ngckp", w, dy, optimize=True).reshape(N, D, X.shape[1] // D, K, P)
    slopes = [(pulled * slope).sum(axis=2) for slope in points.slopes(X)]  # each (N, D, K, P)
    doffset[...] = np.stack(slopes, axis=3).reshape(doffset.shape)
    if dX is not None:
        points.spread(pulled, dX)


@dataclass(frozen=True, slots=True)
class Points:
    """The points that windows see: y, x and whether they lie in the image, each (N, D, K, P); H and W of the image."""

    y: Array
    x: Array
    inside: Array
    H: int
    W: int

    @classmethod
    def of(cls, op: OpView, X: Array, offset: Array, W: Array) -> Points:
        """Return the points of an operator."""
        window, out = conv_window(op, X.shape, W.shape)
        (N, _, height, width), D, (oH, oW) = X.shape, op.deformable_group, cast("tuple[int, int]", out)
        bent = offset.reshape(N, D, window.size, 2, oH * oW)
        grid = [
            np.add.outer(np.arange(k) * d - head, np.arange(n) * s)
            for k, d, head, n, s in zip(
                window.kernel, window.dilation, window.head, (oH, oW), window.stride, strict=True
            )
        ]  # (kH, oH) and (kW, oW)
        kH, kW = window.kernel
        rows = np.broadcast_to(grid[0][:, np.newaxis, :, np.newaxis], (kH, kW, oH, oW)).reshape(kH * kW, oH * oW)
        columns = np.broadcast_to(grid[1][np.newaxis, :, np.newaxis], (kH, kW, oH, oW)).reshape(kH * kW, oH * oW)
        y, x = bent[:, :, :, 0] + rows.astype(X.dtype), bent[:, :, :, 1] + columns.astype(X.dtype)
        inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
        return cls(np.where(inside, y, 0), np.where(inside, x, 0), inside, height, width)

    def corners(self) -> list[tuple[Array, Array, Array, Array, Array]]:
        """Return for each of four pixels its row and column, its weight, and the slopes of that by y and x."""
        sides: list[list[tuple[Array, Array, Array]]] = []
        for at, extent in ((self.y, self.H), (self.x, self.W)):
            low = np.floor(at)
            last = low >= extent - 1
            rest = np.where(last, 0, at - low)
            first, slope = low.astype(np.int64), np.where(last, 0, 1).astype(at.dtype)
            sides.append([(first, 1 - rest, -slope), (np.where(last, first, first + 1), rest, slope)])
        found: list[tuple[Array, Array, Array, Array, Array]] = []
        for (row, by_y, dy), (column, by_x, dx) in product(*sides):
            found.append((row, column, by_y * by_x, dy * by_x, by_y * dx))
        return found

    def values(self, X: Array) -> Array:
        """Return (N, D, C/D, K, P): what is seen."""
        seen = (weight[:, :, np.newaxis] * self._pixels(X, row, column) for row, column, weight, _, _ in self.corners())
        return self._within(sum(seen, np.zeros((), X.dtype)))

    def slopes(self, X: Array) -> tuple[Array, Array]:
        """Return the derivatives of the values by y and x."""
        by_y, by_x = np.zeros((), X.dtype), np.zeros((), X.dtype)
        for row, column, _, dy, dx in self.corners():
            pixels = self._pixels(X, row, column)
            by_y, by_x = by_y + dy[:, :, np.newaxis] * pixels, by_x + dx[:, :, np.newaxis] * pixels
        return self._within(by_y), self._within(by_x)

    def spread(self, pulled: Array, dX: Array) -> None:
        """Write dX: the sum of what is pulled (N, D, C/D, K, P) at the pixels that were seen, by their weights."""
        N, D, channels, K, P = pulled.shape
        total = np.zeros((N * D * self.H * self.W, channels), dX.dtype)
        planes: Array = np.arange(N * D, dtype=np.int64)
        for row, column, weight, _, _ in self.corners():
            shares = np.moveaxis(self._within(weight[:, :, np.newaxis] * pulled), 2, -1)  # (N, D, K, P, C/D)
            places = (planes.reshape(N, D, 1, 1) * self.H + row) * self.W + column
            np.add.at(total, places.reshape(-1), shares.reshape(N * D * K * P, channels))
        dX[...] = np.moveaxis(total.reshape(N, D, self.H * self.W, channels), -1, 2).reshape(dX.shape)

    def _within(self, values: Array) -> Array:
        """Return values (N, D, C/D, K, P), 0 at points that lie outside of the image."""
        return np.where(self.inside[:, :, np.newaxis], values, 0)

    def _pixels(self, X: Array, row: Array, column: Array) -> Array:
        """Return (N, D, C/D, K, P): pixels of all channels at rows and columns (N, D, K, P)."""
        N, D, K, P = row.shape
        flat = X.reshape(N, D, X.shape[1] // D, self.H * self.W)
        places = (row * self.W + column).reshape(N, D, 1, K * P)
        return np.take_along_axis(flat, places, axis=3).reshape(*flat.shape[:3], K, P)


def _filters(op: OpView, W: Array) -> Array:
    """Return (G, M/G, C/G, K)."""
    return W.reshape(op.group, W.shape[0] // op.group, W.shape[1], W.shape[2] * W.shape[3])


def _by_group(op: OpView, seen: Array, W: Array) -> Array:
    """Return (N, G, C/G, K, P) of what is seen, (N, D, C/D, K, P)."""
    return seen.reshape(len(seen), op.group, W.shape[1], *seen.shape[3:])


def _point_flops(op: OpView, X: TensorSpec, offset: TensorSpec) -> int:
    return POINT_FLOPS * offset.size // 2 * (X.shape[1] // op.deformable_group)
