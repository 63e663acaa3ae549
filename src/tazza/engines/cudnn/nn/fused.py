"""Convolution with an epilogue: what is a rectifier, an operand that is added, or both, is part of the plan.

A convolution without a bias has one of zeros: the library's engines for this add one always.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from tazza.codegen.block import accepts_rows
from tazza.device import Context
from tazza.engines.cudnn import KIND, NAME
from tazza.engines.cudnn.graph import Behind, Direction
from tazza.engines.cudnn.image import image_of, refusal
from tazza.engines.cudnn.works import Convolution, joined, works_of
from tazza.operator import Launch, OpView, Spec, Unsupported, kernel_key, launcher
from tazza.operator.choice import EPILOGUES
from tazza.ops.nn.conv import conv_window
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


@launcher(FUSED_CONV, engine=NAME, device=KIND, accepts=accepts_rows)
def prepare_fused_conv(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launch | Unsupported:
    steps = translated(epilogue_of(op))
    if steps is None or op.operands != (Behind.OPERAND in steps):
        return Unsupported(f"no plan has the epilogue {op.epilogue!r}")
    X, W, Y = cast("TensorSpec", inputs[0]), cast("TensorSpec", inputs[1]), cast("TensorSpec", outputs[0])
    window, _ = conv_window(op, X.shape, W.shape)
    reason = refusal([*inputs, *outputs], window)
    if reason is not None:
        return reason
    letters = {letter: letter for letter in ("X", "W", "Y", *op.input_letters)}
    return joined(
        works_of(op, context, image_of(op, X, W, Y.shape, window), Convolution(Direction.FORWARD, letters, steps))
    )


EPILOGUES.register(
    kernel_key(FUSED_CONV.type, NAME, KIND), lambda found: translated(found) is not None, help="rectifiers"
)
