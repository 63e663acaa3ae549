"""CUDA devices through the NVIDIA driver's C interface: contexts, streams, events, memory, kernels.

Nothing is loaded before a CUDA place is asked for, or the devices are listed. Memory (the allocators `cuda` and
`pinned`) is there once devices were found.

Tests use a fake driver, which answers as the manual says, and where there is a device that too: `make test-gpu`.
`docs/cuda.md` says on which devices they have run.

Source: CUDA driver API reference manual.
"""

from __future__ import annotations

from collections.abc import Sequence

from tazza.device.context import CONTEXTS
from tazza.device.cuda import driver
from tazza.device.cuda.context import CUDAContext, queue_of
from tazza.device.cuda.device import CUDADevice, cuda_device
from tazza.device.cuda.event import CUDAEvent
from tazza.device.cuda.memory import CUDAAllocator, PagelockedAllocator, bring_memory
from tazza.device.cuda.properties import described_by
from tazza.device.cuda.stream import CUDAStream
from tazza.device.initializer import FINDERS, DeviceProperties
from tazza.device.stream import STREAMS

__all__ = [
    "CUDAAllocator",
    "CUDAContext",
    "CUDADevice",
    "CUDAEvent",
    "CUDAStream",
    "PagelockedAllocator",
    "cuda_device",
    "described_by",
    "find_cuda",
    "queue_of",
]

CONTEXTS.register("cuda", CUDAContext, help="a device of the NVIDIA driver")
STREAMS.register("cuda", CUDAStream, help="streams of the NVIDIA driver")


@FINDERS.registering("cuda", help="devices of the NVIDIA driver")
def find_cuda() -> Sequence[DeviceProperties]:
    """Return the properties of all CUDA devices, in the driver's order; makes no context on any of them.

    Raises:
        UnavailableError: there is no driver, or it refuses, or it has no device; says which.
    """
    found = described_by(driver.load_library())
    bring_memory()
    return found
