"""Int8Sigmoid: what each of the 256 bytes becomes, looked up."""

from __future__ import annotations

from tazza.engines.native import native
from tazza.engines.native.quantized.byte_table import table_launch
from tazza.engines.native.quantized.int8_relu import meanings_of
from tazza.operator import Launch
from tazza.ops.quantized.int8_sigmoid import INT8_SIGMOID, int8_sigmoid
from tazza.tensor import TensorSpec


@native(INT8_SIGMOID)
def prepare_int8_sigmoid(X: TensorSpec, Y: TensorSpec) -> Launch:
    """Look every byte up."""
    meanings = meanings_of(X, Y)
    return table_launch(lambda x, y: int8_sigmoid(x, y, meanings), X.size)
