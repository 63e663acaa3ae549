"""Int8Relu and Int8LeakyRelu: what each of the 256 bytes becomes, looked up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from tazza.codegen.block import accepts_rows
from tazza.device import Context
from tazza.engines.native.quantized.byte_table import table_launch
from tazza.operator import Launch, OpView, Spec, launcher
from tazza.ops.quantized.int8_relu import INT8_LEAKY_RELU, INT8_RELU, int8_leaky_relu, int8_relu
from tazza.tensor import PerTensor, TensorSpec


@launcher(INT8_RELU, engine="native", accepts=accepts_rows)
def prepare_int8_relu(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launch:
    """Look every byte up."""
    del op, context
    meanings = meanings_of(inputs[0], outputs[0])
    return table_launch(lambda x, y: int8_relu(x, y, meanings), cast("TensorSpec", inputs[0]).size)


@launcher(INT8_LEAKY_RELU, engine="native", accepts=accepts_rows)
def prepare_int8_leaky_relu(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launch:
    """Look every byte up."""
    del context
    meanings = meanings_of(inputs[0], outputs[0])
    return table_launch(lambda x, y: int8_leaky_relu(op, x, y, meanings), cast("TensorSpec", inputs[0]).size)


def meanings_of(X: Spec, Y: Spec) -> dict[str, PerTensor]:
    """Return what the bytes of X and Y mean."""
    return {letter: cast("PerTensor", cast("TensorSpec", one).quantization) for letter, one in (("X", X), ("Y", Y))}
