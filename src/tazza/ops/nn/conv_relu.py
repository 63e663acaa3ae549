"""A convolution with a rectifier behind it: ConvRelu, which rewriting of trained nets makes.

As in Caffe2, what is no number gives 0 here, where Relu hands it on.
"""

from __future__ import annotations

import numpy as np

from tazza.operator import Array, OpView, Tail, fused, not_written
from tazza.operator.fused import Values
from tazza.ops.nn.conv import CONV


def rectified(op: OpView, y: Array, values: Values, Y: Array) -> None:
    del op, values
    np.fmax(y, 0, out=Y)


def one_operation(op: OpView) -> int:
    del op
    return 1


CONV_RELU = fused(
    "ConvRelu",
    CONV,
    Tail(one_operation, rectified),
    doc="Y = max(X * W + b, 0), convolved; 0 where that is NaN.",
    no_gradient=not_written("Caffe2 has none: it is made when a net is trained"),
    example="""
    >>> run("ConvRelu", [[[1.0, -2.0, 3.0]]], [[[1.0, 1.0]]], kernels=[2])
    array([[[0., 1.]]], dtype=float32)
    """,
)
