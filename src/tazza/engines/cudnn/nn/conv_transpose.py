"""Transposed convolution with its gradients, by the directions of the convolution that has Y as its image.

Y is the gradient of that image, dX its result, dW that of its filters. Elements that `adj` adds, and no window reaches,
are the end of an image behind the last window; so there may be fewer than a further window would need.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from tazza.codegen.block import accepts_rows
from tazza.device import Context
from tazza.engines.cudnn import KIND, NAME
from tazza.engines.cudnn.graph import Direction
from tazza.engines.cudnn.image import Image, image_of, refusal
from tazza.engines.cudnn.works import Convolution, bias_on, joined, sums_of, works_of
from tazza.operator import Launch, OpView, Spec, Unsupported, launcher
from tazza.ops.nn.conv_transpose import CONV_TRANSPOSE, CONV_TRANSPOSE_GRADIENT, conv_transpose_window
from tazza.tensor import TensorSpec


def _image(op: OpView, specs: Sequence[Spec], X: TensorSpec, W: TensorSpec, Y: TensorSpec) -> Image | Unsupported:
    """Return the convolution of Y with W that has the shape of X."""
    window, _ = conv_transpose_window(op, X.shape, W.shape)
    ends = extents_of(op, Y.shape), extents_of(op, X.shape)
    sides = zip(*ends, window.kernel, window.stride, window.head, strict=True)
    needed = tuple((places - 1) * s + k - head - extent for extent, places, k, s, head in sides)
    final = replace(window, tail=tuple(max(tail, 0) for tail in needed))
    reason = refusal(specs, final)
    if reason is not None:
        return reason
    if any(-tail >= s for tail, s in zip(needed, window.stride, strict=True)):
        return Unsupported(f"adj leaves room for further windows: {op.adjs} and strides {window.stride}")
    return image_of(op, Y, W, X.shape, final)


def extents_of(op: OpView, dims: Sequence[int]) -> Sequence[int]:
    """Return the extents of an image without images and channels."""
    return dims[1:-1] if op.order.upper() == "NHWC" else dims[2:]


@launcher(CONV_TRANSPOSE, engine=NAME, device=KIND, accepts=accepts_rows)
def prepare_conv_transpose(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launch | Unsupported:
    X, W, Y = cast("TensorSpec", inputs[0]), cast("TensorSpec", inputs[1]), cast("TensorSpec", outputs[0])
    image = _image(op, [*inputs, *outputs], X, W, Y)
    if isinstance(image, Unsupported):
        return image
    task = Convolution(Direction.BACKWARD_DATA, {"X": "Y", "W": "W", "Y": "X"})
    parts = [works_of(op, context, image, task)]
    if len(inputs) > 2 and 0 not in image.X.dims:
        parts.append(bias_on(context, image, image.X, "Y"))
    return joined(*parts)


@launcher(CONV_TRANSPOSE_GRADIENT, engine=NAME, device=KIND, accepts=accepts_rows)
def prepare_conv_transpose_gradient(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launch | Unsupported:
    X, W, dY = (cast("TensorSpec", spec) for spec in inputs)
    image = _image(op, [*inputs, *outputs], X, W, dY)
    if isinstance(image, Unsupported):
        return image
    filters = Convolution(Direction.BACKWARD_FILTER, {"X": "dY", "W": "dW", "Y": "X"})
    parts = [works_of(op, context, image, filters)]
    if "db" in op.output_letters:
        parts.append(sums_of(context, image, image.X, ("dY", "db")))
    if "dX" in op.output_letters:
        parts.append(works_of(op, context, image, Convolution(Direction.FORWARD, {"X": "dY", "W": "W", "Y": "dX"})))
    return joined(*parts)
