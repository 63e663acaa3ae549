"""NVIDIA's libraries from their wheels where there is no GPU and no driver: cuDNN for devices that are described.

cuDNN links to a driver; one that answers each call with "no device" takes its place.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tazza.engines.cudnn.descriptor import AttributeValue, Maker
from tazza.engines.cudnn.library import CUDNN
from tazza.errors import TazzaError
from tests.cuda_there import why_no_device
from tests.wheels.shared_object import shared_object

NO_DEVICE = 100
DRIVER = """
    cuGetErrorString cuGetErrorName cuModuleGetFunction cuModuleLoadData cuModuleUnload cuTensorMapEncodeIm2col
    cuTensorMapEncodeTiled cuCtxGetCurrent cuCtxGetLimit cuCtxPopCurrent cuCtxPushCurrent cuStreamGetCtx
    cuDriverGetVersion cuLinkCreate cuLinkAddData cuLinkComplete cuLinkDestroy cuLaunchKernel cuLaunchKernelEx
    cuLaunchCooperativeKernel cuDeviceGetCount cuDeviceGet cuLibraryLoadData cuLibraryLoadFromFile cuLibraryGetKernel
    cuLibraryUnload cuKernelSetAttribute cuKernelGetAttribute cuKernelGetFunction cuOccupancyMaxPotentialClusterSize
"""
"""What cuDNN looks for in a driver when it is loaded."""

_COMMON = {
    "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536,
    "smCountOrigin": 0, "warpSize": 32, "maxSharedMemoryPerBlock": 49152, "reservedSharedMemoryPerBlock": 1024,
    "oversizedSharedMemoryPerBlock": 0, "maxRegistersPerSM": 65536, "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024,
    "maxThreadsPerSM": 2048, "pciDeviceId": 0, "isTccDriver": 0, "supportCoopLaunch": 1, "cudaDeviceId": 0,
    "driverVer": 13000,
}  # fmt: skip
DEVICES: Mapping[str, Mapping[str, object]] = {
    "NVIDIA A100": _COMMON | {
        "deviceVer": 800, "multiProcessorCount": 108, "maxSharedMemoryPerBlockOptin": 166912,
        "totalGlobalMem": 42_298_834_944, "smClockRateKHz": 1_410_000, "memClockRateKHz": 1_215_000,
        "memoryBusWidth": 5120, "l2CacheSize": 41_943_040,
    },
    "NVIDIA H200": _COMMON | {
        "deviceVer": 900, "multiProcessorCount": 132, "maxSharedMemoryPerBlockOptin": 232448,
        "totalGlobalMem": 150_754_820_096, "smClockRateKHz": 1_980_000, "memClockRateKHz": 3_201_000,
        "memoryBusWidth": 6144, "l2CacheSize": 62_914_560,
    },
    "NVIDIA B200": _COMMON | {
        "deviceVer": 1000, "multiProcessorCount": 148, "maxSharedMemoryPerBlockOptin": 232448,
        "totalGlobalMem": 191_000_000_000, "smClockRateKHz": 1_965_000, "memClockRateKHz": 3_996_000,
        "memoryBusWidth": 8192, "l2CacheSize": 132_644_864,
    },
}  # fmt: skip
"""What the library asks of a device, as it writes it down."""


@functools.cache
def why_not() -> str | None:
    """Return why no device can be described here, or None."""
    if why_no_device() is None:
        return "there is a device, whose driver cuDNN is linked to"
    if importlib.util.find_spec("nvidia") is None or importlib.util.find_spec("nvidia.cudnn") is None:
        return "the wheel nvidia-cudnn-cu13 is not installed"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "libcuda.so.1"
        path.write_bytes(shared_object(path.name, DRIVER.split(), NO_DEVICE))
        ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    try:
        CUDNN.functions()
    except TazzaError as error:
        return error.message
    return None


def maker_for(name: str) -> Maker:
    """Return whom plans are made for: a device of a name, which is described."""
    text = json.dumps({**DEVICES[name], "deviceName": name}).encode()
    letters = tuple(text[n : n + 1] for n in range(len(text)))
    described = Maker(CUDNN.call_anywhere).make(
        "DEVICEPROP", DEVICEPROP_JSON_REPRESENTATION=AttributeValue("CHAR", letters)
    )
    return Maker(CUDNN.call_anywhere, properties=described)
