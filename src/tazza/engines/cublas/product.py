"""Products of matrices that lie row by row, and the launch that queues them.

cuBLAS takes matrices column by column: what lies row by row is the transposed one to it, so C = A B becomes
C^T = B^T A^T, with the factors in turn and each as it lies.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, TypeAlias

from tazza.codegen.block import Slot
from tazza.data_class import dataclass
from tazza.device.cuda import queue_of
from tazza.device.cuda.vendor import TF32, vector_of
from tazza.engines.cublas._declarations import NUMBERS
from tazza.engines.cublas.library import CUBLAS
from tazza.operator import Call, Operands
from tazza.runtime.fpmath import FPMATH
from tazza.tensor import DataType, Tensor

TYPES = {
    DataType.FLOAT: NUMBERS["CUDA_R_32F"],
    DataType.DOUBLE: NUMBERS["CUDA_R_64F"],
    DataType.FLOAT16: NUMBERS["CUDA_R_16F"],
    DataType.BFLOAT16: NUMBERS["CUDA_R_16BF"],
}
_N, _T = NUMBERS["CUBLAS_OP_N"], NUMBERS["CUBLAS_OP_T"]
_DEFAULT = NUMBERS["CUBLAS_GEMM_DEFAULT"]
_SINGLE, _DOUBLE = NUMBERS["CUBLAS_COMPUTE_32F"], NUMBERS["CUBLAS_COMPUTE_64F"]
_NARROW = {"bf16": NUMBERS["CUBLAS_COMPUTE_32F_FAST_16BF"], "f16": NUMBERS["CUBLAS_COMPUTE_32F_FAST_16F"]}
"""Values of the flag `fpmath` -> in what products of float32 are computed; they are added up in float32."""
_TF32 = NUMBERS["CUBLAS_COMPUTE_32F_FAST_TF32"]
LARGEST = (1 << 31) - 1
"""The largest extent, and the largest step from row to row."""


@dataclass(frozen=True, slots=True)
class Ones:
    """A vector of ones."""

    count: int


Factor: TypeAlias = Slot | Ones


@dataclass(frozen=True, slots=True)
class Batch:
    """How many products there are, and the steps in elements from one A, B and C to the next."""

    count: int = 1
    steps: tuple[int, int, int] = (0, 0, 0)


@dataclass(frozen=True, slots=True)
class Product:
    """C (M, N) = A B, added to what C holds where `added`; A is (M, K), or lies as (K, M), B is (K, N), or (N, K)."""

    A: Factor
    B: Factor
    C: Slot
    extents: tuple[int, int, int]  # M, N, K
    transposed: tuple[bool, bool] = (False, False)
    added: bool = False
    batch: Batch = Batch()


@dataclass(frozen=True, slots=True)
class ProductLaunch:
    """Queues products of one element type, one behind the other."""

    dtype: DataType
    products: Sequence[Product]
    scratch_bytes: int = 0
    capturable: bool = True

    def bind(self, operands: Operands) -> Call:
        """Return what queues them on the stream of the context."""
        context = operands.context
        calls = [_arguments(one, self.dtype, operands) for one in self.products if 0 not in one.extents[:2]]
        device, handle = queue_of(context).device, CUBLAS.handle_of(context)

        def call() -> None:
            for arguments, _kept in calls:
                CUBLAS.call(device, "cublasGemmStridedBatchedEx", handle, *arguments)

        return call


def _arguments(product: Product, dtype: DataType, operands: Operands) -> tuple[tuple[object, ...], list[Any]]:
    """Return what the library is called with, and what has to live as long."""
    M, N, K = product.extents
    scalar = ctypes.c_double if dtype is DataType.DOUBLE else ctypes.c_float
    alpha, beta = scalar(1.0), scalar(float(product.added))
    kept = [_tensor(one, dtype, operands) for one in (product.A, product.B, product.C)]
    A, B, C = (tensor.address for tensor in kept)
    (flip_a, flip_b), steps, kind = product.transposed, product.batch.steps, TYPES[dtype]
    arguments = (
        *(_T if flip_b else _N, _T if flip_a else _N, N, M, K, ctypes.addressof(alpha)),
        *(B, kind, max(1, K if flip_b else N), steps[1]),
        *(A, kind, max(1, M if flip_a else K), steps[0]),
        *(ctypes.addressof(beta), C, kind, max(1, N), steps[2], product.batch.count),
        *(compute_of(dtype), _DEFAULT),
    )
    return arguments, [alpha, beta, *kept]


def compute_of(dtype: DataType) -> int:
    """Return in what products are made and added up."""
    if dtype is DataType.DOUBLE:
        return _DOUBLE
    return _NARROW.get(FPMATH.value, _TF32 if TF32.value else _SINGLE) if dtype is DataType.FLOAT else _SINGLE


def _tensor(factor: Factor, dtype: DataType, operands: Operands) -> Tensor:
    return factor.of(operands) if isinstance(factor, Slot) else vector_of(operands.context, 1, dtype, factor.count)
