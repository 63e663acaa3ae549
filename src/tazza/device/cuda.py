"""CUDA devices, as the NVIDIA driver lists them. Finding them makes no context on any of them.

Source: CUDA driver API, sections "Initialization" and "Device Management"; attributes are numbered in cuda.h.
"""

from __future__ import annotations

import ctypes
from typing import Any

from tazza.device.initializer import FINDERS, DeviceProperties
from tazza.errors import UnavailableError
from tazza.tensor import CUDAPlace

DRIVER = "libcuda.so.1"

_MULTIPROCESSORS = 16  # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
_L2_BYTES = 38  # CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE
_CAPABILITY = (75, 76)  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR
_NAME_BYTES = 256


@FINDERS.registering("cuda", help="devices of the NVIDIA driver")
def find_cuda() -> list[DeviceProperties]:
    """Return the properties of all CUDA devices, in the driver's order.

    Raises:
        UnavailableError: there is no driver, or it refuses, or it has no device; says which.
    """
    try:
        library = ctypes.CDLL(DRIVER)
    except OSError as error:
        raise UnavailableError(f"the NVIDIA driver cannot be loaded: {error}", hint="install the driver") from error
    return described_by(library)


def described_by(library: Any) -> list[DeviceProperties]:
    """Return what the driver `library` (or what answers like it) says of its devices.

    Raises:
        UnavailableError: it refuses, or has no device.
    """
    _check(library, "cuInit", 0)
    count = ctypes.c_int()
    _check(library, "cuDeviceGetCount", ctypes.byref(count))
    if count.value == 0:
        raise UnavailableError("the NVIDIA driver lists no device", hint="look at CUDA_VISIBLE_DEVICES")
    return [_described(library, index) for index in range(count.value)]


def _described(library: Any, index: int) -> DeviceProperties:
    device, memory_bytes = ctypes.c_int(), ctypes.c_size_t()
    name = ctypes.create_string_buffer(_NAME_BYTES)
    _check(library, "cuDeviceGet", ctypes.byref(device), index)
    _check(library, "cuDeviceGetName", name, _NAME_BYTES, device)
    _check(library, "cuDeviceTotalMem_v2", ctypes.byref(memory_bytes), device)
    major, minor = (_attribute(library, device, number) for number in _CAPABILITY)
    return DeviceProperties(
        place=CUDAPlace(index),
        name=name.value.decode(errors="replace"),
        memory_bytes=memory_bytes.value,
        parallel_units=_attribute(library, device, _MULTIPROCESSORS),
        features=(f"compute capability {major}.{minor}",),
        cache_bytes={"L2": _attribute(library, device, _L2_BYTES)},
    )


def _attribute(library: Any, device: ctypes.c_int, number: int) -> int:
    value = ctypes.c_int()
    _check(library, "cuDeviceGetAttribute", ctypes.byref(value), number, device)
    return value.value


def _check(library: Any, function: str, *args: object) -> None:
    """Call a function of the driver.

    Raises:
        UnavailableError: it answers with anything but CUDA_SUCCESS, or the library has no such function.
    """
    status = getattr(library, function)(*args) if hasattr(library, function) else None
    if status == 0:
        return
    if status is None:
        raise UnavailableError(f"the NVIDIA driver has no {function}", hint="install a newer one")
    text = ctypes.c_char_p()
    library.cuGetErrorString(status, ctypes.byref(text))
    reason = "no text for it" if text.value is None else text.value.decode(errors="replace")
    raise UnavailableError(f"the NVIDIA driver answers {function} with status {status}: {reason}")
