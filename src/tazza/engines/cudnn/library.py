"""cuDNN: the library, its handle for a context, and tensors for its older functions.

Source: NVIDIA cuDNN documentation; declarations are those of its headers.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import partial

from tazza.device.cuda import CUDADevice
from tazza.device.cuda.vendor import Facts, Owned, VendorLibrary
from tazza.engines.cudnn._declarations import FUNCTIONS, NUMBERS

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


class TensorDescriptor(Owned):
    """How a tensor lies, for the few functions of the library that are older than its graphs."""

    def __init__(self, device: CUDADevice, type: int, dims: Sequence[int], steps: Sequence[int]) -> None:
        """Describe it: the number of its type, extents, and steps in elements."""
        call = partial(CUDNN.call, device)
        super().__init__(call, "cudnnCreateTensorDescriptor", "cudnnDestroyTensorDescriptor")
        self._call("cudnnSetTensorNdDescriptor", self.handle, type, len(dims), integers(dims), integers(steps))


def integers(values: Sequence[int]) -> ctypes.Array[ctypes.c_int]:
    """Return an array of C."""
    return (ctypes.c_int * len(values))(*values)
