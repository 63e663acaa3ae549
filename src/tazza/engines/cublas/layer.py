"""Layers by one call of cuBLASLt: a product, a bias, an operand that is added, and a rectifier.

cuBLASLt takes matrices column by column, so Y (N, M) that lies row by row is D (M, N) to it, W^T its first factor and
X^T its second; a bias has an element for each row of D. It needs no handle of its own: that of cuBLAS is one.

Source: cuBLAS library documentation, "Using the cublasLt API".
"""

from __future__ import annotations

import ctypes
from functools import partial

from tazza.codegen.block import Slot
from tazza.data_class import dataclass
from tazza.device.cuda import CUDADevice, queue_of
from tazza.device.cuda.vendor import Owned
from tazza.engines.cublas._declarations import NUMBERS
from tazza.engines.cublas.library import CUBLAS
from tazza.engines.cublas.product import TYPES, compute_of
from tazza.operator import Call, Operands
from tazza.tensor import DataType

ROOM_BYTES = 4 << 20
"""Scratch memory that a call may work in."""


class Described(Owned):
    """A descriptor of cuBLASLt, `MatmulDesc` or `MatrixLayout`, which ends by itself."""

    def __init__(self, device: CUDADevice, kind: str, *given: int) -> None:
        """Make it."""
        call = partial(CUBLAS.call, device)
        super().__init__(call, f"cublasLt{kind}Create", f"cublasLt{kind}Destroy", *given)

    def set(self, name: str, value: ctypes.c_int32 | ctypes.c_uint32 | ctypes.c_void_p) -> None:
        """Set an attribute of a product."""
        number, size = NUMBERS[f"CUBLASLT_MATMUL_DESC_{name}"], ctypes.sizeof(value)
        self._call("cublasLtMatmulDescSetAttribute", self.handle, number, ctypes.byref(value), size)


@dataclass(frozen=True, slots=True)
class LayerLaunch:
    """Y (N, M) = X W^T + b, with an operand added and a rectifier behind where these are asked for.

    Attributes:
        dtype: of all.
        extents: N, M, K.
        features_first: whether W is (M, K), and not (K, M).
        operand: what is added beside the bias.
        rectified: whether what is below 0 becomes 0.
    """

    dtype: DataType
    extents: tuple[int, int, int]
    features_first: bool = True
    operand: Slot | None = None
    rectified: bool = False
    scratch_bytes: int = ROOM_BYTES
    capturable: bool = True

    def bind(self, operands: Operands) -> Call:
        """Return what queues it on the stream of the context."""
        context, (N, M, K), kind = operands.context, self.extents, TYPES[self.dtype]
        queue, handle = queue_of(context), CUBLAS.handle_of(context)
        X, W, b, Y = (operands[letter] for letter in ("X", "W", "b", "Y"))
        added = Y if self.operand is None else self.operand.of(operands)
        asked = Described(queue.device, "MatmulDesc", compute_of(self.dtype), NUMBERS["CUDA_R_32F"])
        asked.set("TRANSA", ctypes.c_int32(NUMBERS["CUBLAS_OP_T" if self.features_first else "CUBLAS_OP_N"]))
        epilogue = NUMBERS["CUBLASLT_EPILOGUE_RELU_BIAS" if self.rectified else "CUBLASLT_EPILOGUE_BIAS"]
        asked.set("EPILOGUE", ctypes.c_uint32(epilogue))
        asked.set("BIAS_POINTER", ctypes.c_void_p(b.address))
        first = (K, M) if self.features_first else (M, K)
        sizes = (first, (K, N), (M, N))
        of_w, of_x, of_y = (Described(queue.device, "MatrixLayout", kind, *size, size[0]) for size in sizes)
        alpha, beta = ctypes.c_float(1.0), ctypes.c_float(float(self.operand is not None))
        scratch = operands.scratch
        space, nbytes = (None, 0) if scratch is None else (scratch.address, self.scratch_bytes)
        arguments = (
            *(asked.handle, ctypes.addressof(alpha), W.address, of_w.handle, X.address, of_x.handle),
            *(ctypes.addressof(beta), added.address, of_y.handle, Y.address, of_y.handle),
            *(None, space, nbytes, queue.handle),
        )
        kept = (alpha, beta, X, W, b, Y, added, scratch, asked, of_w, of_x, of_y)

        def call(_kept: object = kept) -> None:
            CUBLAS.call(queue.device, "cublasLtMatmul", handle, *arguments)

        return call
