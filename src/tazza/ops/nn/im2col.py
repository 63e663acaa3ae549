"""Im2Col and Col2Im: what a convolution's windows see, as columns, and the sum of columns back into an image.

Letters: N images, C channels, `H W` the image, `kH kW` the kernel, `oH oW` the number of windows.

    NCHW    image (N, C, H, W)    columns (N, C*kH*kW, oH, oW)
    NHWC    image (N, H, W, C)    columns (N, oH, oW, kH*kW*C)

These two read their arguments otherwise than convolutions do: `kernel_h` overrides `kernel` by itself, without
`kernel_w`, and so on; there is one `pad` for all sides, no `legacy_pad`, and always two dimensions.
"""

from __future__ import annotations

from typing import cast

from tazza.errors import ArgumentError
from tazza.operator import FLOAT, Array, Effects, GradientRequest, OpView, Role, arg, blob, kernel, schema, show_dims
from tazza.ops.nn.channel import ORDER
from tazza.ops.nn.window import Window, channels_first, channels_first_dims
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec

IM2COL_ARGS = (
    arg("kernel", int, None, minimum=1, doc="kernel size in both dimensions"),
    arg("kernel_h", int, None, minimum=1, doc="kH, where it differs from `kernel`"),
    arg("kernel_w", int, None, minimum=1, doc="kW, where it differs from `kernel`"),
    arg("stride", int, 1, minimum=1, doc="step between windows in both dimensions"),
    arg("stride_h", int, None, minimum=1, doc="vertical step, where it differs from `stride`"),
    arg("stride_w", int, None, minimum=1, doc="horizontal step, where it differs from `stride`"),
    arg("dilation", int, 1, minimum=1, doc="step between kernel elements in both dimensions"),
    arg("dilation_h", int, None, minimum=1, doc="vertical step, where it differs from `dilation`"),
    arg("dilation_w", int, None, minimum=1, doc="horizontal step, where it differs from `dilation`"),
    arg("pad", int, 0, minimum=0, doc="zeros on all four sides"),
    ORDER,
)

IM2COL = schema(
    "Im2Col",
    """Y[n, (c, i, j), p, q] = X[n, c, p * stride + i * dilation - pad, q * stride + j * dilation - pad], or 0 outside.

    With order NHWC the columns stand last, and in them the channels: Y[n, p, q, (i, j, c)].""",
    inputs=[blob("X", FLOAT, doc="(N, C, H, W), NHWC: (N, H, W, C)")],
    outputs=[blob("Y", "X", doc="(N, C*kH*kW, oH, oW), NHWC: (N, oH, oW, kH*kW*C)")],
    args=IM2COL_ARGS,
    effects=Effects.PURE,
    source="Chellapilla, Puri, Simard 2006; Caffe2",
    example="""
    >>> run("Im2Col", np.arange(6, dtype="f").reshape(1, 1, 2, 3), kernel=2).reshape(4, 2)
    array([[0., 1.],
           [1., 2.],
           [3., 4.],
           [4., 5.]], dtype=float32)
    """,
)


def im2col_window(op: OpView, dims: tuple[int | None, ...]) -> tuple[Window, tuple[int | None, ...]]:
    """Return the window over an image of these extents (in the operator's order), and oH, oW."""
    op.require(len(dims) == 4, f"X has {len(dims)} dimensions {show_dims(dims)}, it must have 4")
    kernel, stride, dilation = (_both(op, name) for name in ("kernel", "stride", "dilation"))
    pads = (op.pad, op.pad)
    return Window(kernel, stride, dilation, pads, pads).over(op, channels_first_dims(op.order, dims)[2:])


@IM2COL.infer
def im2col_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    return TensorSpec(None if X.dims is None else columns_dims(op, tuple(X.dims)), X.dtype)


@IM2COL.gradient
def im2col_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("Col2Im", [g.dY, g.X], [g.dX])


@kernel(IM2COL)
def im2col(op: OpView, X: Array, Y: Array) -> None:
    window, sizes = im2col_window(op, X.shape)
    patches = window.patches(channels_first(op.order, X), cast("tuple[int, int]", sizes))  # (N, C, oH, oW, kH, kW)
    axes = (0, 2, 3, 4, 5, 1) if op.order.upper() == "NHWC" else (0, 1, 4, 5, 2, 3)
    Y[...] = patches.transpose(axes).reshape(Y.shape)


COL2IM = schema(
    "Col2Im",
    """Z = the sum of all columns Y where Im2Col took them from an image of X's shape; 0 where it took nothing.

    Only the shape of X counts. Y may have any shape with as many elements as Im2Col gives.""",
    inputs=[
        blob("Y", FLOAT, doc="(N, C*kH*kW, oH, oW), NHWC: (N, oH, oW, kH*kW*C)"),
        blob("X", role=Role.SHAPE, doc="its shape counts"),
    ],
    outputs=[blob("Z", "Y", doc="like X")],
    args=IM2COL_ARGS,
    effects=Effects.PURE,
    source="the transposed of Im2Col; Caffe2",
    example="""
    >>> run("Col2Im", np.ones((1, 4, 1, 2), "f"), np.zeros((1, 1, 2, 3), "f"), kernel=2)
    array([[[[1., 2., 1.],
             [1., 2., 1.]]]], dtype=float32)
    """,
)


@COL2IM.infer
def col2im_infer(op: OpView, Y: TensorSpec, X: TensorSpec) -> TensorSpec:
    if X.dims is None:
        return TensorSpec(None, Y.dtype)
    columns = TensorSpec(columns_dims(op, tuple(X.dims)), Y.dtype)
    if columns.shape_known and Y.shape_known:
        op.require(
            Y.size == columns.size,
            f"Y has {Y.size} elements {show_dims(Y.shape)}, Im2Col of X {show_dims(X.dims)} gives {columns.size}",
        )
    return TensorSpec(X.dims, Y.dtype)


@COL2IM.gradient
def col2im_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("Im2Col", [g.dZ], [g.dY])


@kernel(COL2IM)
def col2im(op: OpView, Y: Array, Z: Array) -> None:
    window, sizes = im2col_window(op, Z.shape)
    out = cast("tuple[int, int]", sizes)
    z = channels_first(op.order, Z)
    N, C = z.shape[:2]
    if op.order.upper() == "NHWC":
        patches = Y.reshape(N, *out, *window.kernel, C).transpose(0, 5, 1, 2, 3, 4)
    else:
        patches = Y.reshape(N, C, *window.kernel, *out).transpose(0, 1, 4, 5, 2, 3)
    window.scatter(patches, z)  # (N, C, oH, oW, kH, kW) -> (N, C, H, W)


def columns_dims(op: OpView, image: tuple[int | None, ...]) -> tuple[int | None, ...]:
    """Return the shape of the columns of an image."""
    window, out = im2col_window(op, image)
    C = channels_first_dims(op.order, image)[1]
    column = None if C is None else C * window.size
    return (image[0], *out, column) if op.order.upper() == "NHWC" else (image[0], column, *out)


def _both(op: OpView, name: str) -> tuple[int, int]:
    """Return the values of an argument for height and width."""
    height, width = (op.arguments[name if op.arguments[side] is None else side] for side in (f"{name}_h", f"{name}_w"))
    if height is None or width is None:
        raise op.error(ArgumentError, f"no {name} size", hint=f"give {name}, or {name}_h and {name}_w")
    return height, width
