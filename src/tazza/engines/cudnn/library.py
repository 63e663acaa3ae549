"""cuDNN: the library, its handle for a context, and its descriptors as objects that end by themselves.

Source: NVIDIA cuDNN documentation, legacy API; declarations are those of its headers.
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
