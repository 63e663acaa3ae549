"""Convolution with its gradients: all names, both orders, groups, dilation, one to three dimensions; ConvRelu.

Bias and rectifier are part of the plan that convolves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from tazza.codegen.block import accepts_rows
from tazza.device import Context
from tazza.engines.cudnn import KIND, NAME
from tazza.engines.cudnn.graph import Behind, Direction
from tazza.engines.cudnn.image import image_of, refusal
from tazza.engines.cudnn.works import Convolution, joined, sums_of, works_of
from tazza.operator import Launch, OpView, Spec, Unsupported, launcher
from tazza.ops.nn.conv import conv_gradients, conv_window, convs
from tazza.ops.nn.conv_relu import CONV_RELU
from tazza.tensor import TensorSpec


def _forward(behind: tuple[Behind, ...]) -> Callable[..., Launch | Unsupported]:
    """Return what prepares Y of X, W and b, with something behind it."""

    def prepare(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launch | Unsupported:
        X, W, Y = cast("TensorSpec", inputs[0]), cast("TensorSpec", inputs[1]), cast("TensorSpec", outputs[0])
        window, _ = conv_window(op, X.shape, W.shape)
        reason = refusal([*inputs, *outputs], window)
        if reason is not None:
            return reason
        letters = {letter: letter for letter in ("X", "W", "Y", "b") if letter != "b" or len(inputs) > 2}
        biased = (Behind.BIAS,) if "b" in letters or behind else ()
        task = Convolution(Direction.FORWARD, letters, (*biased, *behind))
        return joined(works_of(op, context, image_of(op, X, W, Y.shape, window), task))

    return prepare


def prepare_gradient(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launch | Unsupported:
    """Return dW, db and dX from X, W and dY."""
    X, W, dY = (cast("TensorSpec", spec) for spec in inputs)
    window, _ = conv_window(op, X.shape, W.shape)
    reason = refusal([*inputs, *outputs], window)
    if reason is not None:
        return reason
    image = image_of(op, X, W, dY.shape, window)
    filters = Convolution(Direction.BACKWARD_FILTER, {"X": "X", "W": "dW", "Y": "dY"})
    parts = [works_of(op, context, image, filters)]
    if "db" in op.output_letters:
        parts.append(sums_of(context, image, image.Y, ("dY", "db")))
    if "dX" in op.output_letters:
        data = Convolution(Direction.BACKWARD_DATA, {"X": "dX", "W": "W", "Y": "dY"})
        parts.append(works_of(op, context, image, data))
    return joined(*parts)


def _register(schemas: Sequence[object], prepare: Callable[..., Launch | Unsupported]) -> None:
    prepare.__module__ = __name__
    for schema in schemas:
        launcher(schema, engine=NAME, device=KIND, accepts=accepts_rows)(prepare)  # pyright: ignore[reportArgumentType]


_register(convs.schemas, _forward(()))
_register([CONV_RELU], _forward((Behind.RELU,)))
_register(conv_gradients.schemas, prepare_gradient)
