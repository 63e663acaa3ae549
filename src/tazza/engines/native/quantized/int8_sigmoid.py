"""Int8Sigmoid: what each of the 256 bytes becomes, looked up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from tazza.codegen.block import accepts_rows
from tazza.device import Context
from tazza.engines.native.quantized.byte_table import table_launch
from tazza.engines.native.quantized.int8_relu import meanings_of
from tazza.operator import Launch, OpView, Spec, launcher
from tazza.ops.quantized.int8_sigmoid import INT8_SIGMOID, int8_sigmoid
from tazza.tensor import TensorSpec


@launcher(INT8_SIGMOID, engine="native", accepts=accepts_rows)
def prepare_int8_sigmoid(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launch:
    """Look every byte up."""
    del op, context
    meanings = meanings_of(inputs[0], outputs[0])
    return table_launch(lambda x, y: int8_sigmoid(x, y, meanings), cast("TensorSpec", inputs[0]).size)
