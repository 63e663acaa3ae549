"""What the NVIDIA driver tells of its devices.

Source: CUDA driver API, sections "Initialization" and "Device Management"; attributes are numbered in cuda.h.
"""

from __future__ import annotations

import ctypes
from typing import Any

from tazza.device.cuda.driver import Driver
from tazza.device.initializer import DeviceProperties
from tazza.errors import TazzaError, UnavailableError
from tazza.tensor import CUDAPlace

_MULTIPROCESSORS = 16  # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
_L2_BYTES = 38  # CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE
_CAPABILITY = (75, 76)  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR
_NAME_BYTES = 256


def described_by(driver: Driver | Any) -> list[DeviceProperties]:
    """Return what the driver (or a library that answers like it) says of its devices.

    Raises:
        UnavailableError: it refuses, or has no device.
    """
    asked = driver if isinstance(driver, Driver) else Driver(driver)
    try:
        return _all_described(asked)
    except UnavailableError:
        raise
    except TazzaError as error:
        raise UnavailableError(error.message, hint=error.hint) from error


def _all_described(driver: Driver) -> list[DeviceProperties]:
    driver.call("cuInit", 0)
    count = ctypes.c_int()
    driver.call("cuDeviceGetCount", ctypes.byref(count))
    if count.value == 0:
        raise UnavailableError("the NVIDIA driver lists no device", hint="look at CUDA_VISIBLE_DEVICES")
    return [_described(driver, index) for index in range(count.value)]


def _described(driver: Driver, index: int) -> DeviceProperties:
    device, memory_bytes = ctypes.c_int(), ctypes.c_size_t()
    name = ctypes.create_string_buffer(_NAME_BYTES)
    driver.call("cuDeviceGet", ctypes.byref(device), index)
    driver.call("cuDeviceGetName", name, _NAME_BYTES, device)
    driver.call("cuDeviceTotalMem_v2", ctypes.byref(memory_bytes), device)
    major, minor = (_attribute(driver, device, number) for number in _CAPABILITY)
    return DeviceProperties(
        place=CUDAPlace(index),
        name=name.value.decode(errors="replace"),
        memory_bytes=memory_bytes.value,
        parallel_units=_attribute(driver, device, _MULTIPROCESSORS),
        features=(f"compute capability {major}.{minor}",),
        cache_bytes={"L2": _attribute(driver, device, _L2_BYTES)},
    )


def _attribute(driver: Driver, device: ctypes.c_int, number: int) -> int:
    value = ctypes.c_int()
    driver.call("cuDeviceGetAttribute", ctypes.byref(value), number, device)
    return value.value
