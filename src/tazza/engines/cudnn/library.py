"""cuDNN: the library, its handle for a context, and tensors for its older functions.

Source: NVIDIA cuDNN documentation; declarations are those of its headers.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence

from tazza.device.cuda import CUDADevice
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
        ("cudnnCreate", "cudnnSetStream", "cudnnDestroy"),
    )
)


def version() -> str:
    """Return the number of the library's version."""
    return str(CUDNN.functions().cudnnGetVersion())


class TensorDescriptor:
    """How a tensor lies, for the few functions of the library that are older than its graphs."""

    def __init__(self, device: CUDADevice, type: int, dims: Sequence[int], steps: Sequence[int]) -> None:
        """Describe it: the number of its type, extents, and steps in elements."""
        handle = ctypes.c_void_p()
        CUDNN.call(device, "cudnnCreateTensorDescriptor", ctypes.byref(handle))
        assert handle.value is not None, "the library made it"
        self.handle = handle.value
        weakref.finalize(self, _forget, device, self.handle).atexit = False
        given = self.handle, type, len(dims), integers(dims), integers(steps)
        CUDNN.call(device, "cudnnSetTensorNdDescriptor", *given)


def _forget(device: CUDADevice, handle: int) -> None:
    try:
        CUDNN.call(device, "cudnnDestroyTensorDescriptor", handle)
    except TazzaError as error:  # garbage may be collected when the device is gone
        logger.debug("a descriptor of cuDNN cannot be ended: %s", error)


def integers(values: Sequence[int]) -> ctypes.Array[ctypes.c_int]:
    """Return an array of C."""
    return (ctypes.c_int * len(values))(*values)
