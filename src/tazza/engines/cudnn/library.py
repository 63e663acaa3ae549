"""cuDNN: the library, its handle for a context, and its descriptors as objects that end by themselves.

Source: NVIDIA cuDNN documentation, legacy API; declarations are those of its headers.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from functools import partial

from tazza.device import Context
from tazza.device.cuda import CUDADevice, CUDAStream
from tazza.device.cuda.vendor import Facts, VendorLibrary
from tazza.engines.cudnn._declarations import FUNCTIONS, NUMBERS
from tazza.errors import TazzaError
from tazza.runtime.log import logger

CUDNN = VendorLibrary(
    Facts(
        "cuDNN",
        ("libcudnn.so.9",),
        FUNCTIONS,
        "cudnnGetErrorString",
        frozenset({NUMBERS["CUDNN_STATUS_ALLOC_FAILED"]}),
        "pip install nvidia-cudnn-cu13",
    )
)


def version() -> str:
    """Return the number of the library's version."""
    return str(CUDNN.functions().cudnnGetVersion())


def device_of(context: Context) -> CUDADevice:
    """Return the device that a context queues on."""
    queue = context.stream
    assert isinstance(queue, CUDAStream), "contexts of CUDA have one"
    return queue.device


def handle_of(context: Context) -> int:
    """Return the handle of a context, which queues on its stream and ends with it.

    Raises:
        KernelError, OutOfMemoryError: the library refuses.
    """
    return context.resource("cudnn", partial(_made, context), partial(_end, device_of(context)))


def _made(context: Context) -> int:
    device, queue, handle = device_of(context), context.stream, ctypes.c_void_p()
    assert isinstance(queue, CUDAStream), "contexts of CUDA have one"
    CUDNN.call(device, "cudnnCreate", ctypes.byref(handle))
    assert handle.value is not None, "the library made it"
    CUDNN.call(device, "cudnnSetStream", handle, queue.handle)
    return handle.value


def _end(device: CUDADevice, handle: int) -> None:
    CUDNN.call(device, "cudnnDestroy", handle)


class Descriptor:
    """A descriptor of one kind: Tensor, Filter, Convolution."""

    def __init__(self, device: CUDADevice, kind: str) -> None:
        """Make it, with nothing set."""
        self._device, self._kind = device, kind
        handle = ctypes.c_void_p()
        CUDNN.call(device, f"cudnnCreate{kind}Descriptor", ctypes.byref(handle))
        assert handle.value is not None, "the library made it"
        self.handle = handle.value
        weakref.finalize(self, _forget, device, kind, self.handle).atexit = False

    def set(self, function: str, *args: object) -> Descriptor:
        """Call a function of the library on it."""
        CUDNN.call(self._device, function, self.handle, *args)
        return self


def _forget(device: CUDADevice, kind: str, handle: int) -> None:
    try:
        CUDNN.call(device, f"cudnnDestroy{kind}Descriptor", handle)
    except TazzaError as error:  # garbage may be collected when the device is gone
        logger.debug("a descriptor of cuDNN cannot be ended: %s", error)


def integers(values: Sequence[int]) -> ctypes.Array[ctypes.c_int]:
    """Return an array of C."""
    return (ctypes.c_int * len(values))(*values)
