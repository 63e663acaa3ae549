"""Convolution with its gradients: all names, both orders, groups, dilation, one to three dimensions; ConvRelu.

Bias and rectifier are part of the plan that convolves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tazza.device import Context
from tazza.engines.cudnn import cudnn_kernel
from tazza.engines.cudnn.graph import Behind, Direction, Problem
from tazza.engines.cudnn.image import check_image, image_of
from tazza.engines.cudnn.works import Convolution, forward_launch, gradient_launch
from tazza.operator import Launch, OpView, Spec
from tazza.ops.nn.conv import conv_gradients, conv_window, convs
from tazza.ops.nn.conv_relu import CONV_RELU
from tazza.tensor import TensorSpec


def conv_image(op: OpView, X: TensorSpec, W: TensorSpec, Y: TensorSpec, *others: Spec | None) -> Problem:
    """Return the convolution of an operator, which has others among its blobs, or why there is none."""
    window, _ = conv_window(op, X.shape, W.shape)
    check_image([X, W, Y, *others], window)
    return image_of(op, X, W, Y.shape, window)


def _forward(*behind: Behind) -> Callable[..., Launch]:
    """Return what prepares Y of X, W and b, with something behind it."""

    def prepare(
        op: OpView, context: Context, X: TensorSpec, W: TensorSpec, b: TensorSpec | None, Y: TensorSpec
    ) -> Launch:
        bias = () if b is None and not behind else (Behind.BIAS,)
        return forward_launch(op, context, conv_image(op, X, W, Y, b), (*bias, *behind))

    return prepare


cudnn_kernel(*convs.schemas)(_forward())
cudnn_kernel(CONV_RELU)(_forward(Behind.RELU))


@cudnn_kernel(*conv_gradients.schemas)
def conv_gradient(
    op: OpView, context: Context, X: TensorSpec, W: TensorSpec, dY: TensorSpec, specs: Mapping[str, TensorSpec]
) -> Launch:
    """Return dW, db and dX from X, W and dY."""
    filters = Convolution(Direction.BACKWARD_FILTER, {"X": "X", "W": "dW", "Y": "dY"})
    data = Convolution(Direction.BACKWARD_DATA, {"X": "dX", "W": "W", "Y": "dY"})
    return gradient_launch(op, context, conv_image(op, X, W, dY, *specs.values()), filters, data)
