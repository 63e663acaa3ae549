"""Images with a border: PadImage.

Letters: N images, C channels, H and W height and width. With order NCHW the blobs are

    X (N, C, H, W)    Y (N, C, pad_t + H + pad_b, pad_l + W + pad_r)

and with NHWC the channels stand last. What a border element holds is up to `mode`: `value` (constant), the image
mirrored at its outermost element (reflect), or the nearest element of the image (edge). Negative pads cut off.
"""

from __future__ import annotations

import numpy as np

from tazza.errors import ArgumentError
from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    Dims,
    Effects,
    GradientRequest,
    OpView,
    arg,
    blob,
    ends,
    kernel,
    schema,
    show_dims,
    streamed,
)
from tazza.ops.nn.channel import ORDER
from tazza.ops.nn.window import PAIRS, channels_first, channels_first_dims, given_sizes, half_pairs
from tazza.ops.vision.resize import add_at
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec

SIDES = next(group for group in PAIRS if group[0].startswith("pad"))
"""pad_t, pad_l, pad_b, pad_r: the order of `pads` as well."""

PAD_ARGS = (
    arg("pad", int, None, doc="elements on all four sides"),
    arg("pads", list[int], [], doc="top, left, bottom, right; negative ones cut off"),
    *(arg(name, int, None, doc=f"counts together with {', '.join(SIDES)}") for name in SIDES),
    arg("mode", str, "constant", choices=("constant", "reflect", "edge"), doc="what the border holds"),
    arg("value", float, 0.0, doc="what it holds in the mode constant"),
    ORDER,
)


def half_sides(definition: OperatorDef) -> list[str]:
    """Return arguments for single sides when not all four are there; Caffe2 ignores them without a word."""
    return [name for name in half_pairs(definition) if name in SIDES]


def pads_of(op: OpView) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return (top, bottom) and (left, right).

    Raises:
        ArgumentError: there are not four.
    """
    given = given_sizes(op, "pad")
    top, left, bottom, right = (0, 0, 0, 0) if given is None else given
    return (top, bottom), (left, right)


def pad_validate(op: OpView) -> None:
    if op.pads and len(op.pads) != len(SIDES):
        raise op.error(ArgumentError, f"pads = {op.pads} has {len(op.pads)} elements, it needs {', '.join(SIDES)}")


def _image_dims(op: OpView, letter: str, spec: TensorSpec) -> Dims | None:
    """Return (N, C, H, W), or None where nothing is known."""
    if spec.dims is None:
        return None
    op.require(len(spec.dims) == 4, f"{letter} has {len(spec.dims)} dimensions {show_dims(spec.dims)}, images have 4")
    return channels_first_dims(op.order, spec.dims)


def _ordered(op: OpView, N: int | None, C: int | None, sizes: list[int | None]) -> Dims:
    """Return the extents of images in the operator's order."""
    return (N, *sizes, C) if op.order.upper() == "NHWC" else (N, C, *sizes)


def _check_border(op: OpView, extent: int, pads: tuple[int, int]) -> None:
    """Check that the border can be made from `extent` elements, and that something is left."""
    op.require(extent + sum(pads) >= 1, f"pads {pads[0]} and {pads[1]} leave nothing of {extent} elements")
    if op.mode == "reflect":
        relation = f"pads {pads[0]} and {pads[1]} mirror more than the {extent - 1} elements behind the outermost"
        op.require(max(pads) < extent, relation, "use the mode edge, or a border smaller than the image")
    elif op.mode == "edge":
        op.require(extent > 0, "an image without elements has no edge")


PAD_IMAGE = schema(
    "PadImage",
    "Y = X with a border around each image, or with parts cut off where a pad is negative.",
    inputs=[blob("X", FLOAT, doc="(N, C, H, W), NHWC: (N, H, W, C)")],
    outputs=[blob("Y", "X")],
    args=PAD_ARGS,
    effects=Effects.PURE,
    ineffective=half_sides,
    source="Caffe2",
    example="""
    >>> run("PadImage", [[[[1.0, 2.0, 3.0]]]], pads=[0, 2, 0, 1], mode="reflect")
    array([[[[3., 2., 1., 2., 3., 2.]]]], dtype=float32)
    """,
)
PAD_IMAGE.validate(pad_validate)


@PAD_IMAGE.infer
def pad_image_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    dims = _image_dims(op, "X", X)
    if dims is None:
        return TensorSpec(None, X.dtype)
    N, C, *image = dims
    for extent, pads in zip(image, pads_of(op), strict=True):
        if extent is not None:
            _check_border(op, extent, pads)
    sizes = [None if n is None else n + sum(pads) for n, pads in zip(image, pads_of(op), strict=True)]
    return TensorSpec(_ordered(op, N, C, sizes), X.dtype)


PAD_IMAGE.batched("X")


@PAD_IMAGE.cost
def pad_image_cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return streamed((X,), (Y,))


@PAD_IMAGE.gradient
def pad_image_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("PadImageGradient", [g.dY], [g.dX])


def sources(mode: str, extent: int, pads: tuple[int, int]) -> tuple[Array, Array]:
    """Return for each place of Y along one dimension the place of X that it shows, and whether it shows any."""
    places = np.arange(-pads[0], extent + pads[1])
    inside = (places >= 0) & (places < extent)
    if mode == "reflect":
        places = np.abs(places)
        return extent - 1 - np.abs(extent - 1 - places), np.ones_like(inside)
    nearest = np.clip(places, 0, max(extent - 1, 0))
    return nearest, np.ones_like(inside) if mode == "edge" else inside


def _shown(op: OpView, image: tuple[int, ...]) -> tuple[Array, Array, Array]:
    """Return rows (h, 1) and columns (w) that Y shows of an image (H, W), and where it shows any (h, w)."""
    (rows, some_row), (columns, some_column) = (
        sources(op.mode, extent, pads) for extent, pads in zip(image, pads_of(op), strict=True)
    )
    return rows[:, None], columns, some_row[:, None] & some_column


@kernel(PAD_IMAGE)
def pad_image(op: OpView, X: Array, Y: Array) -> None:
    x, y = channels_first(op.order, X), channels_first(op.order, Y)
    if x.size == 0:
        y[...] = op.value
        return
    rows, columns, shown = _shown(op, x.shape[2:])
    y[...] = np.where(shown, x[:, :, rows, columns], op.value)


PAD_IMAGE_GRADIENT = schema(
    "PadImageGradient",
    "dX = sum of dY over all elements of Y that show one of X.",
    inputs=[blob("dY", FLOAT, doc="of the shape of Y")],
    outputs=[blob("dX", "dY", doc="of the shape of X")],
    args=PAD_ARGS,
    effects=Effects.PURE,
    ineffective=half_sides,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> run("PadImageGradient", [[[[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]]]], pads=[0, 2, 0, 1], mode="reflect")
    array([[[[ 3., 12.,  6.]]]], dtype=float32)
    """,
)
PAD_IMAGE_GRADIENT.validate(pad_validate)


@PAD_IMAGE_GRADIENT.infer
def pad_image_gradient_infer(op: OpView, dY: TensorSpec) -> TensorSpec:
    dims = _image_dims(op, "dY", dY)
    if dims is None:
        return TensorSpec(None, dY.dtype)
    N, C, *padded = dims
    sizes: list[int | None] = []
    for n, pads in zip(padded, pads_of(op), strict=True):
        relation = f"dY has {n} elements in a dimension that pads {pads[0]} and {pads[1]} made larger"
        op.require(n is None or n >= sum(pads), relation)
        sizes.append(None if n is None else n - sum(pads))
        if n is not None:
            _check_border(op, n - sum(pads), pads)
    return TensorSpec(_ordered(op, N, C, sizes), dY.dtype)


@PAD_IMAGE_GRADIENT.cost
def pad_image_gradient_cost(op: OpView, dY: TensorSpec, dX: TensorSpec) -> Cost:
    del op
    return streamed((dY,), (dX,), flops=dY.size)


@kernel(PAD_IMAGE_GRADIENT)
def pad_image_gradient_kernel(op: OpView, dY: Array, dX: Array) -> None:
    dx, dy = channels_first(op.order, dX), channels_first(op.order, dY)
    dx[...] = 0
    if dx.size > 0:
        rows, columns, shown = _shown(op, dx.shape[2:])
        add_at(dx, rows, columns, np.where(shown, dy, 0))
