"""Images in another size: ResizeNearest, UpsampleBilinear.

Letters: N images, C channels, H and W height and width, `h` and `w` those of Y, sh and sw the scales. With order NCHW

    X (N, C, H, W)    Y (N, C, h, w)    h = floor(H * sh)    w = floor(W * sw)

and with NHWC, which only ResizeNearest knows, the channels stand last. An input scales (sh, sw) takes the place of the
arguments. Sizes and places are computed in float32, as in Caffe2, so that they come out equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tazza.errors import ArgumentError
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
    kernel,
    schema,
    show_dims,
    streamed,
)
from tazza.ops.nn.channel import ORDER
from tazza.ops.nn.window import channels_first, channels_first_dims
from tazza.ops.shape.axis import shapes_agree
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec

SCALE_ARGS = (
    arg("width_scale", float, 1.0, doc="sw, above 0; without effect beside an input scales"),
    arg("height_scale", float, 1.0, doc="sh, above 0; without effect beside an input scales"),
)
SCALES = blob("scales", FLOAT, "2", optional=True, host=True, role=Role.SHAPE, doc="(sh, sw)")


def order_of(op: OpView) -> str:
    """Return where the channels stand."""
    order: str = op.arguments.get("order", "NCHW")
    return order


def resize_validate(op: OpView) -> None:
    """Refuse scales that are not above 0."""
    for name in ("width_scale", "height_scale"):
        if not op.arguments[name] > 0:
            raise op.error(ArgumentError, f"{name} = {op.arguments[name]} must be above 0")


def scales_of(op: OpView, scales: Array | None) -> tuple[np.float32, np.float32]:
    """Return (sh, sw).

    Raises:
        ShapeError: one in the input scales is not above 0.
    """
    values = [op.height_scale, op.width_scale] if scales is None else scales.tolist()
    op.require(all(value > 0 for value in values), f"scales = {values} must be above 0")
    return np.float32(values[0]), np.float32(values[1])


def resize_infer(op: OpView, X: TensorSpec, scales: TensorSpec | None) -> TensorSpec:
    if X.dims is None:
        return TensorSpec(None, X.dtype)
    relation = f"X has {len(X.dims)} dimensions {show_dims(X.dims)}, images have 4"
    op.require(len(X.dims) == 4, relation)
    N, C, H, W = channels_first_dims(order_of(op), X.dims)
    given = None if scales is None else op.value_of("scales")
    h = w = None
    if scales is None or given is not None:
        sh, sw = scales_of(op, given)
        h, w = (None if n is None else scaled(op, n, s) for n, s in ((H, sh), (W, sw)))
    return TensorSpec((N, h, w, C) if order_of(op).upper() == "NHWC" else (N, C, h, w), X.dtype)


def scaled(op: OpView, extent: int, scale: np.float32) -> int:
    """Return how many elements an extent becomes.

    Raises:
        ShapeError: that is no number.
    """
    with np.errstate(over="ignore"):
        found = np.float32(extent) * scale
    op.require(bool(np.isfinite(found)), f"{extent} elements times the scale {scale} are {found}")
    return int(found)


def resize_gradient(g: GradientRequest) -> list[OperatorDef]:
    scales = [g.scales] if g.op.has_input("scales") else []
    return g.emit(f"{g.op.type}Gradient", [g.dY, g.X, *scales], [g.dX])


def resize_gradient_infer(op: OpView, dY: TensorSpec, X: TensorSpec, scales: TensorSpec | None) -> TensorSpec:
    Y = resize_infer(op, X, scales)
    if dY.dims is not None and Y.dims is not None:
        relation = f"dY has the shape {show_dims(dY.dims)}, resizing X gives {show_dims(Y.dims)}"
        op.require(shapes_agree(dY.dims, Y.dims), relation)
    return TensorSpec(X.dims, dY.dtype)


def resize_cost(flops: int) -> Callable[..., Cost]:
    """Return the cost inference of an operator with that many operations an element of Y."""

    def cost(op: OpView, X: TensorSpec, scales: TensorSpec | None, Y: TensorSpec) -> Cost:
        del op
        return streamed((X, scales), (Y,), flops=flops * Y.size)

    return cost


def resize_gradient_cost(flops: int) -> Callable[..., Cost]:
    """Return the cost inference of a gradient with that many operations an element of dY."""

    def cost(op: OpView, dY: TensorSpec, X: TensorSpec, scales: TensorSpec | None, dX: TensorSpec) -> Cost:
        del op, X
        return streamed((dY, scales), (dX,), flops=flops * dY.size)

    return cost


def add_at(images: Array, rows: Array, columns: Array, values: Array) -> None:
    """Add values (N, C, h, w) to images (N, C, H, W) at rows (h, 1) and columns (w); a place may come up often."""
    places: Any = (slice(None), slice(None), rows, columns)
    np.add.at(images, places, values)


def nearest(count: int, extent: int, scale: np.float32) -> Array:
    """Return the place among `extent` elements that each of `count` takes."""
    places = (np.arange(count, dtype=np.float32) / scale).astype(np.int64)
    return np.minimum(places, extent - 1)


def resize_nearest(op: OpView, X: Array, scales: Array | None, Y: Array) -> None:
    sh, sw = scales_of(op, scales)
    x, y = channels_first(order_of(op), X), channels_first(order_of(op), Y)
    rows, columns = nearest(y.shape[2], x.shape[2], sh), nearest(y.shape[3], x.shape[3], sw)
    y[...] = x[:, :, rows[:, None], columns]


def resize_nearest_gradient(op: OpView, dY: Array, scales: Array | None, dX: Array) -> None:
    """Every element of dY is added where its element of Y came from."""
    sh, sw = scales_of(op, scales)
    dx, dy = channels_first(order_of(op), dX), channels_first(order_of(op), dY)
    rows, columns = nearest(dy.shape[2], dx.shape[2], sh), nearest(dy.shape[3], dx.shape[3], sw)
    dx[...] = 0
    add_at(dx, rows[:, None], columns, dy)


def between(count: int, extent: int) -> list[tuple[Array, Array]]:
    """Return for `count` places that are spread over `extent` elements the two neighbours of each, with their weights.

    The first and the last place lie on the first and the last element; a single place lies on the first.
    """
    step = np.float32(extent - 1) / np.float32(count - 1) if count > 1 else np.float32(0)
    at = np.arange(count, dtype=np.float32) * step
    low = np.minimum(at.astype(np.int64), max(extent - 1, 0))
    behind = at - low.astype(np.float32)
    return [(low, 1 - behind), (np.minimum(low + 1, extent - 1), behind)]


def corners(image: Sequence[int], resized: Sequence[int]) -> list[tuple[Array, Array, Array]]:
    """Return rows (h, 1), columns (w) and weights (h, w) of the four elements that each one of Y is made of."""
    vertical, horizontal = (between(n, extent) for n, extent in zip(resized, image, strict=True))
    return [(rows[:, None], columns, a[:, None] * b) for rows, a in vertical for columns, b in horizontal]


def upsample_bilinear(X: Array, Y: Array) -> None:
    Y[...] = 0
    for rows, columns, weights in corners(X.shape[2:], Y.shape[2:]):
        np.add(Y, X[:, :, rows, columns] * weights.astype(X.dtype), out=Y)


def upsample_bilinear_gradient(dY: Array, dX: Array) -> None:
    """Every element of dY is added to the four that its element of Y was made of, by their weights."""
    dX[...] = 0
    for rows, columns, weights in corners(dX.shape[2:], dY.shape[2:]):
        add_at(dX, rows, columns, dY * weights.astype(dY.dtype))


def _complete(declared: OpSchema, infers: Callable[..., TensorSpec], costs: Callable[..., Cost]) -> None:
    declared.validate(resize_validate)
    declared.infer(infers)
    declared.cost(costs)


RESIZE_NEAREST = schema(
    "ResizeNearest",
    """Y[n, c, i, j] = X[n, c, floor(i / sh), floor(j / sw)], the last element where that lies behind the image.""",
    inputs=[blob("X", FLOAT, doc="(N, C, H, W), NHWC: (N, H, W, C)"), SCALES],
    outputs=[blob("Y", "X", doc="(N, C, h, w), NHWC: (N, h, w, C)")],
    args=[*SCALE_ARGS, ORDER],
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("ResizeNearest", [[[[1.0, 2.0]]]], width_scale=2.0)
    array([[[[1., 1., 2., 2.]]]], dtype=float32)
    """,
)
RESIZE_NEAREST.batched("X")
RESIZE_NEAREST.gradient(resize_gradient)
_complete(RESIZE_NEAREST, resize_infer, resize_cost(0))
kernel(RESIZE_NEAREST)(resize_nearest)

RESIZE_NEAREST_GRADIENT = schema(
    "ResizeNearestGradient",
    "dX = sum of dY over all elements of Y that were taken from one of X.",
    inputs=[blob("dY", FLOAT), blob("X", role=Role.SHAPE, doc="of any type"), SCALES],
    outputs=[blob("dX", "dY")],
    args=[*SCALE_ARGS, ORDER],
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> run("ResizeNearestGradient", [[[[1.0, 2.0, 3.0, 4.0]]]], [[[[0.0, 0.0]]]], width_scale=2.0)
    array([[[[3., 7.]]]], dtype=float32)
    """,
)
_complete(RESIZE_NEAREST_GRADIENT, resize_gradient_infer, resize_gradient_cost(1))
kernel(RESIZE_NEAREST_GRADIENT)(resize_nearest_gradient)

UPSAMPLE_BILINEAR = schema(
    "UpsampleBilinear",
    """Y[n, c, i, j] = X[n, c] at the place (i * (H - 1) / (h - 1), j * (W - 1) / (w - 1)), linear between neighbours.

    The corners of Y lie on those of X. Scales below 1 make the image smaller. The order is NCHW.""",
    inputs=[blob("X", FLOAT, doc="(N, C, H, W)"), SCALES],
    outputs=[blob("Y", "X", doc="(N, C, h, w)")],
    args=SCALE_ARGS,
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("UpsampleBilinear", [[[[1.0, 4.0]]]], width_scale=2.0)
    array([[[[1., 2., 3., 4.]]]], dtype=float32)
    """,
)
UPSAMPLE_BILINEAR.batched("X")
UPSAMPLE_BILINEAR.gradient(resize_gradient)
_complete(UPSAMPLE_BILINEAR, resize_infer, resize_cost(8))
kernel(UPSAMPLE_BILINEAR)(upsample_bilinear)

UPSAMPLE_BILINEAR_GRADIENT = schema(
    "UpsampleBilinearGradient",
    "dX = sum of dY over all elements of Y that are made of one of X, by its weight in each.",
    inputs=[blob("dY", FLOAT), blob("X", role=Role.SHAPE, doc="of any type"), SCALES],
    outputs=[blob("dX", "dY")],
    args=SCALE_ARGS,
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> run("UpsampleBilinearGradient", [[[[3.0, 3.0, 3.0, 6.0]]]], [[[[0.0, 0.0]]]], width_scale=2.0)
    array([[[[6., 9.]]]], dtype=float32)
    """,
)
_complete(UPSAMPLE_BILINEAR_GRADIENT, resize_gradient_infer, resize_gradient_cost(8))
kernel(UPSAMPLE_BILINEAR_GRADIENT)(upsample_bilinear_gradient)
