"""Transposed convolution with its gradients, by the directions of the convolution that has Y as its image.

Y is the gradient of that image, dX its result, dW that of its filters. Elements that `adj` adds, and no window reaches,
are the end of an image behind the last window; so there may be fewer than a further window would need.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tazza.device import Context
from tazza.engines.cudnn import cudnn_kernel
from tazza.engines.cudnn.graph import Direction, Problem
from tazza.engines.cudnn.image import check_image, image_of
from tazza.engines.cudnn.works import Convolution, bias_on, gradient_launch, joined, works_of
from tazza.operator import Launch, OpView, Spec, Unsupported
from tazza.ops.nn.conv_transpose import CONV_TRANSPOSE, CONV_TRANSPOSE_GRADIENT, conv_transpose_window
from tazza.tensor import TensorSpec


def _image(op: OpView, specs: Sequence[Spec | None], X: TensorSpec, W: TensorSpec, Y: TensorSpec) -> Problem:
    """Return the convolution of Y with W that has the shape of X."""
    window, _ = conv_transpose_window(op, X.shape, W.shape)
    ends = extents_of(op, Y.shape), extents_of(op, X.shape)
    sides = zip(*ends, window.kernel, window.stride, window.head, strict=True)
    needed = tuple((places - 1) * s + k - head - extent for extent, places, k, s, head in sides)
    final = replace(window, tail=tuple(max(tail, 0) for tail in needed))
    check_image(specs, final)
    if any(-tail >= s for tail, s in zip(needed, window.stride, strict=True)):
        raise Unsupported(f"adj leaves room for further windows: {op.adjs} and strides {window.stride}")
    return image_of(op, Y, W, X.shape, final)


def extents_of(op: OpView, dims: Sequence[int]) -> Sequence[int]:
    """Return the extents of an image without images and channels."""
    return dims[1:-1] if op.order.upper() == "NHWC" else dims[2:]


@cudnn_kernel(CONV_TRANSPOSE)
def conv_transpose(
    op: OpView, context: Context, X: TensorSpec, W: TensorSpec, b: TensorSpec | None, Y: TensorSpec
) -> Launch:
    image = _image(op, [X, W, b, Y], X, W, Y)
    task = Convolution(Direction.BACKWARD_DATA, {"X": "Y", "W": "W", "Y": "X"})
    bias = [] if b is None or 0 in image.X.dims else bias_on(context, image, image.X, "Y")
    return joined(works_of(op, context, image, task), bias)


@cudnn_kernel(CONV_TRANSPOSE_GRADIENT)
def conv_transpose_gradient(
    op: OpView, context: Context, X: TensorSpec, W: TensorSpec, dY: TensorSpec, specs: Mapping[str, TensorSpec]
) -> Launch:
    filters = Convolution(Direction.BACKWARD_FILTER, {"X": "dY", "W": "dW", "Y": "X"})
    data = Convolution(Direction.FORWARD, {"X": "dY", "W": "W", "Y": "dX"})
    return gradient_launch(op, context, _image(op, [*specs.values()], X, W, dY), filters, data)
