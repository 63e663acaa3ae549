"""cuBLAS: the library, and its handle for a context.

A handle is made at the first use in a context, queues on the stream of that context, and ends with it. It
adds parts of sums up in float32, where factors have 16 bits: by itself it may round them first.

Source: cuBLAS library documentation; declarations are those of its header.
"""

from __future__ import annotations

from tazza.device.cuda.vendor import Facts, VendorLibrary
from tazza.engines.cublas._declarations import FUNCTIONS, NUMBERS

WORKSPACE_BYTES = 32 << 20
"""What the library takes by itself on the largest devices."""

CUBLAS = VendorLibrary(
    Facts(
        "cuBLAS",
        ("libcublas.so.13", "libcublas.so.12"),
        FUNCTIONS,
        "cublasGetStatusString",
        frozenset({NUMBERS["CUBLAS_STATUS_ALLOC_FAILED"]}),
        "pip install nvidia-cublas",
        ("cublasCreate_v2", "cublasSetStream_v2", "cublasDestroy_v2"),
        ("cublasSetWorkspace_v2", WORKSPACE_BYTES),
        ("cublasSetMathMode", NUMBERS["CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION"]),
    )
)


def version() -> str:
    """Return what tells one version of the library from another, as far as its file does."""
    return str(getattr(CUBLAS.functions(), "_name", ""))
