"""Convolution with an epilogue: what is a rectifier, an operand that is added, or both, is part of the plan.

A convolution without a bias has one of zeros: the library's engines for this add one always.
"""

from __future__ import annotations

from collections.abc import Mapping

from tazza.codegen.prepare import flat
from tazza.device import Context
from tazza.engines.cudnn import KIND, NAME, cudnn_kernel
from tazza.engines.cudnn.graph import Behind
from tazza.engines.cudnn.nn.conv import conv_image
from tazza.engines.cudnn.works import forward_launch
from tazza.operator import Launch, OpView, Unsupported, kernel_key
from tazza.operator.choice import EPILOGUES
from tazza.ops.nn.fused import FUSED_CONV, epilogue_of, sum_and_relu
from tazza.tensor import TensorSpec
from tazza.tensor.expression import Expression


def translated(epilogue: Expression) -> tuple[Behind, ...] | None:
    """Return the steps of an epilogue, a bias among them, or None where it is none of those that plans have.

    >>> [step.name for step in translated(Expression.parse("relu(y + s0)"))]
    ['OPERAND', 'BIAS', 'STRICT_RELU']
    """
    found = sum_and_relu(epilogue)
    if found is None:
        return None
    return (*(Behind.OPERAND,) * found.operands, Behind.BIAS, *(Behind.STRICT_RELU,) * found.rectified)


@cudnn_kernel(FUSED_CONV)
def fused_conv(
    op: OpView, context: Context, X: TensorSpec, W: TensorSpec, Y: TensorSpec, specs: Mapping[str, TensorSpec]
) -> Launch:
    steps = translated(epilogue_of(op))
    if steps is None or op.operands != (Behind.OPERAND in steps):
        raise Unsupported(f"no plan has the epilogue {op.epilogue!r}")
    return forward_launch(op, context, conv_image(op, X, W, Y, *flat(specs)), steps)


EPILOGUES.register(
    kernel_key(FUSED_CONV.type, NAME, KIND), lambda found: translated(found) is not None, help="rectifiers"
)
