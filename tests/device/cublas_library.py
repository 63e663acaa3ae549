"""A cuBLAS that answers as its documentation says, over the fake driver: products of NumPy, queued on its streams."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Generator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tazza.device.cuda.vendor import TYPES
from tazza.engines.cublas._declarations import FUNCTIONS, NUMBERS
from tazza.engines.cublas.library import CUBLAS
from tests.device.cuda_driver import FakeCUDA, fake_cuda
from tests.device.cudnn_library import fake_cudnn

INVALID, NO_MEMORY, FAILED, TF32 = 7, 3, 13, 77
NARROW: dict[int, Any] = {74: np.float16, 75: ml_dtypes.bfloat16}
HALF_KINDS, EXACT_PARTS = (2, 14), 16
KINDS: dict[int, Any] = {0: np.float32, 1: np.float64, 2: np.float16, 14: ml_dtypes.bfloat16}


class FakeCublas:
    """The library; `library` has its functions, real C pointers of the declared types."""

    gpu: FakeCUDA

    def __init__(self) -> None:
        """Answer over the driver that `gpu` will be."""
        self.handles: dict[int, int | None] = {}
        self.modes: dict[int, int] = {}
        self.workspaces: dict[int, int] = {}
        """Addresses, by handle."""
        self.described: dict[int, dict[str, Any]] = {}
        self._numbers = itertools.count(5000)
        self.library: Any = SimpleNamespace(_name="fake")
        for name, letters in FUNCTIONS.items():
            kind = ctypes.CFUNCTYPE(TYPES[letters[0]], *(TYPES[letter] for letter in letters[1:]))
            setattr(self.library, name, kind(getattr(self, name)))

    def cublasCreate_v2(self, handle: int) -> int:
        """Make a handle in the current context."""
        made = next(self._numbers)
        ctypes.c_void_p.from_address(handle).value = made
        self.handles[made] = None
        return 0 if self.gpu.current is not None else INVALID

    def cublasDestroy_v2(self, handle: int | None) -> int:
        """End a handle."""
        known = handle in self.handles
        self.handles.pop(-1 if handle is None else handle, None)
        return 0 if known else INVALID

    def cublasGetStatusString(self, status: int) -> int | None:
        """Tell nothing."""
        return None

    def cublasGetVersion_v2(self, handle: int, version: int) -> int:
        """Tell a version."""
        ctypes.c_int.from_address(version).value = 130000
        return 0

    def cublasSetStream_v2(self, handle: int, stream: int) -> int:
        """Queue on a stream from now on."""
        self.handles[handle] = stream
        self.workspaces.pop(handle, None)  # it goes back to its own
        return 0

    def cublasSetMathMode(self, handle: int, mode: int) -> int:
        """Compute so from now on."""
        self.modes[handle] = mode
        return 0 if handle in self.handles else INVALID

    def cublasSetWorkspace_v2(self, handle: int, address: int, nbytes: int) -> int:
        """Work there until the stream is set again."""
        self.workspaces[handle] = address
        return 0 if nbytes and self.gpu.kind_at(address + nbytes - 1).startswith("device") else INVALID

    def cublasGemmEx(self, *args: Any) -> int:
        """Nobody calls it."""
        return INVALID

    def cublasGemmStridedBatchedEx(self, handle: int, *given: Any) -> int:
        """Queue products, of matrices that lie column by column."""
        (flip_a, flip_b, m, n, k, alpha, A, a_type, lda, step_a, B, b_type, ldb, step_b, beta, C, c_type, ldc, step_c,
         count, compute, _) = given  # fmt: skip
        if lda < max(1, k if flip_a else m) or ldb < max(1, n if flip_b else k) or ldc < max(1, m):
            return INVALID
        if {a_type, b_type, c_type} != {a_type} or (compute == 70) != (a_type == 1) or (compute == TF32 and a_type):
            return INVALID
        scalar = ctypes.c_double if compute == 70 else ctypes.c_float
        factors = scalar.from_address(alpha).value, scalar.from_address(beta).value
        stream = self.handles[handle]
        assert stream is not None, "it was set"
        parts = 2 if a_type in HALF_KINDS and not self.modes.get(handle, 0) & EXACT_PARTS else 1
        if stream in self.gpu.captures and handle not in self.workspaces:
            return NO_MEMORY

        def work() -> None:
            dtype = np.dtype(KINDS[a_type])
            wide = np.float64 if compute == 70 else np.float32
            for i in range(count):
                a = _columns(A + i * step_a * dtype.itemsize, (k, m) if flip_a else (m, k), lda, dtype)
                b = _columns(B + i * step_b * dtype.itemsize, (n, k) if flip_b else (k, n), ldb, dtype)
                c = _columns(C + i * step_c * dtype.itemsize, (m, n), ldc, dtype)
                a, b = (_rounded(one, compute).astype(wide) for one in (a, b))
                value = factors[0] * _in_parts(a.T if flip_a else a, b.T if flip_b else b, parts, dtype)
                c[...] = (value if factors[1] == 0 else value + factors[1] * c.astype(wide)).astype(dtype)

        return FAILED if self.gpu.launch(stream, work) else 0

    # -- cuBLASLt ------------------------------------------------------------------------------------------------------

    def _describe(self, descriptor: int, *given: int) -> int:
        made = next(self._numbers)
        ctypes.c_void_p.from_address(descriptor).value = made
        self.described[made] = {"given": given}
        return 0

    def _forget(self, descriptor: int) -> int:
        return 0 if self.described.pop(descriptor, None) is not None else INVALID

    cublasLtMatmulDescCreate = cublasLtMatrixLayoutCreate = _describe
    cublasLtMatmulDescDestroy = cublasLtMatrixLayoutDestroy = _forget

    def cublasLtMatmulDescSetAttribute(self, descriptor: int, name: int, value: int, nbytes: int) -> int:
        """Set an attribute, of four bytes, or eight for an address."""
        known = {
            NUMBERS[f"CUBLASLT_MATMUL_DESC_{one}"]: one for one in ("TRANSA", "TRANSB", "EPILOGUE", "BIAS_POINTER")
        }
        size = 8 if known.get(name) == "BIAS_POINTER" else 4
        if name not in known or nbytes != size:
            return INVALID
        kind = ctypes.c_uint64 if size == 8 else ctypes.c_uint32
        self.described[descriptor][known[name]] = kind.from_address(value).value
        return 0

    def cublasLtMatmul(self, handle: int, *given: Any) -> int:
        """Queue a product with what stands behind it."""
        asked, alpha, A, of_a, B, of_b, beta, C, of_c, D, of_d, algorithm, space, nbytes, stream = given
        found = self.described[asked]
        compute, scale = found["given"]
        layouts = [self.described[one]["given"] for one in (of_a, of_b, of_c, of_d)]
        kinds = {layout[0] for layout in layouts}
        addresses = (A, B, C, D, found["BIAS_POINTER"], *(() if space is None else (space, space + nbytes - 1)))
        if len(kinds) != 1 or scale != 0 or compute not in (68, TF32, *NARROW) or layouts[2] != layouts[3] or algorithm:
            return INVALID
        if handle not in self.handles or not all(self.gpu.kind_at(at).startswith("device") for at in addresses):
            return INVALID
        flips = found.get("TRANSA", 0), found.get("TRANSB", 0)
        (m, k), (k2, n) = (
            layout[2:0:-1] if flip else layout[1:3] for layout, flip in zip(layouts, flips, strict=False)
        )
        if (m, n) != layouts[3][1:3] or k != k2:
            return INVALID
        dtype = np.dtype(KINDS[kinds.pop()])
        factors = [ctypes.c_float.from_address(one).value for one in (alpha, beta)]

        def work() -> None:
            a, b, c, d = (
                _columns(at, layout[1:3], layout[3], dtype) for at, layout in zip((A, B, C, D), layouts, strict=True)
            )
            left, right = (_rounded(one, compute).astype(np.float32) for one in (a, b))
            value = factors[0] * ((left.T if flips[0] else left) @ (right.T if flips[1] else right))
            value = value + factors[1] * c.astype(np.float32) if factors[1] else value
            value = value + _columns(found["BIAS_POINTER"], (m, 1), m, dtype).astype(np.float32)
            relu = found["EPILOGUE"] == NUMBERS["CUBLASLT_EPILOGUE_RELU_BIAS"]
            d[...] = (np.maximum(value, 0) if relu else value).astype(dtype)

        return FAILED if self.gpu.launch(stream, work) else 0


def _in_parts(a: NDArray[Any], b: NDArray[Any], parts: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return a product, the sum of several, of which each is rounded first where it is no product by itself."""
    cuts = [part * a.shape[1] // parts for part in range(parts + 1)]
    products = [a[:, first:last] @ b[first:last] for first, last in itertools.pairwise(cuts)]
    if parts == 1:
        return products[0]
    return np.add.reduce([one.astype(dtype).astype(a.dtype) for one in products])


def _rounded(matrix: NDArray[Any], compute: int) -> NDArray[Any]:
    """Return a matrix as it is rounded for products of a kind: float32 without its last 13 bits, or in 16 bits."""
    if compute == TF32:
        return (np.ascontiguousarray(matrix).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return matrix.astype(NARROW.get(compute, matrix.dtype))


def _columns(address: int, shape: tuple[int, int], leading: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return a matrix whose columns lie `leading` elements apart."""
    rows, columns = shape
    if 0 in shape:
        return np.zeros(shape, dtype)
    memory: Any = (ctypes.c_uint8 * (((columns - 1) * leading + rows) * dtype.itemsize)).from_address(address)
    return np.ndarray(shape, dtype, memory, 0, (dtype.itemsize, leading * dtype.itemsize))


@contextmanager
def fake_gpu(memory_bytes: int = 1 << 34) -> Generator[FakeCublas]:
    """Let there be devices of a fake driver, and a cuBLAS and a cuDNN for them, until the block ends."""
    made = FakeCublas()
    CUBLAS.use(made.library)
    try:
        with fake_cudnn() as other, fake_cuda(memory_bytes) as gpu:
            made.gpu = other.gpu = gpu
            yield made
        assert made.handles == {}, "handles end with their contexts"
    finally:
        CUBLAS.use(None)
