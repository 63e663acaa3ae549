"""Low precision: tensors of n-bit integers as planes of bits, with a scale and a bias, and their exact products.

>>> import numpy as np
>>> from tazza.array.quantized import quantize
>>> q = quantize(np.float32([-1.5, 0.5, 0.75]), 3); q
QTensor([3], 3 bits and a sign, scale 0.214286, bias 0)
>>> q.integers(), q.nbytes
(Tensor([-7,  2,  4], dtype=int8), 4)

The names are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tazza.runtime.lazy_names import lazy_names

if TYPE_CHECKING:
    from tazza.array.quantized.conversion import dequantize, error_bound, quantize
    from tazza.array.quantized.matrix import explain_quantized_matmul, integer_matmul, quantized_matmul
    from tazza.array.quantized.product import INTEGER_PRODUCTS, IntegerProduct
    from tazza.array.quantized.proto import qtensor_from_proto, qtensor_proto_to_array, qtensor_to_proto
    from tazza.array.quantized.qtensor import QTensor
    from tazza.array.quantized.rounding import ROUNDINGS

__all__ = [
    "INTEGER_PRODUCTS",
    "ROUNDINGS",
    "IntegerProduct",
    "QTensor",
    "dequantize",
    "error_bound",
    "explain_quantized_matmul",
    "integer_matmul",
    "qtensor_from_proto",
    "qtensor_proto_to_array",
    "qtensor_to_proto",
    "quantize",
    "quantized_matmul",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".conversion": ("dequantize", "error_bound", "quantize"),
        ".matrix": ("explain_quantized_matmul", "integer_matmul", "quantized_matmul"),
        ".product": ("INTEGER_PRODUCTS", "IntegerProduct"),
        ".proto": ("qtensor_from_proto", "qtensor_proto_to_array", "qtensor_to_proto"),
        ".qtensor": ("QTensor",),
        ".rounding": ("ROUNDINGS",),
    },
)
