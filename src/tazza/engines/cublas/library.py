"""cuBLAS: the library, and its handle for a context.

A handle is made at the first use in a context, queues on the stream of that context, and ends with it.

Source: cuBLAS library documentation; declarations are those of its header.
"""

from __future__ import annotations

import ctypes
from functools import partial

from tazza.device import Context
from tazza.device.cuda import CUDADevice, CUDAStream
from tazza.device.cuda.vendor import Facts, VendorLibrary
from tazza.engines.cublas._declarations import FUNCTIONS, NUMBERS

CUBLAS = VendorLibrary(
    Facts(
        "cuBLAS",
        ("libcublas.so.13", "libcublas.so.12"),
        FUNCTIONS,
        "cublasGetStatusString",
        frozenset({NUMBERS["CUBLAS_STATUS_ALLOC_FAILED"]}),
        "pip install nvidia-cublas",
    )
)


def version() -> str:
    """Return what tells one version of the library from another, as far as its file does."""
    return str(getattr(CUBLAS.functions(), "_name", ""))


def device_of(context: Context) -> CUDADevice:
    """Return the device that a context queues on."""
    queue = context.stream
    assert isinstance(queue, CUDAStream), "contexts of CUDA have one"
    return queue.device


def handle_of(context: Context) -> int:
    """Return the handle of a context.

    Raises:
        KernelError, OutOfMemoryError: the library refuses.
    """
    return context.resource("cublas", partial(_made, context), partial(_end, device_of(context)))


def _made(context: Context) -> int:
    device, queue, handle = device_of(context), context.stream, ctypes.c_void_p()
    assert isinstance(queue, CUDAStream), "contexts of CUDA have one"
    CUBLAS.call(device, "cublasCreate_v2", ctypes.byref(handle))
    assert handle.value is not None, "the library made it"
    CUBLAS.call(device, "cublasSetStream_v2", handle, queue.handle)
    return handle.value


def _end(device: CUDADevice, handle: int) -> None:
    CUBLAS.call(device, "cublasDestroy_v2", handle)
