"""Kernels on a CUDA device: code that the driver has assembled and loaded, and how one is launched.

Code is PTX, which the driver's own assembler makes code of the device of; so no toolkit is needed. What was loaded for
a device is kept by its text, as long as the process lives.

Source: CUDA driver API, sections "Module Management" and "Execution Control".
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from tazza.device.cuda.device import CUDADevice
from tazza.device.cuda.driver import new_handle
from tazza.errors import KernelError

INFO_LOG, INFO_BYTES, ERROR_LOG, ERROR_BYTES = 3, 4, 5, 6  # CU_JIT_INFO_LOG_BUFFER and those that follow it
LOG_BYTES = 1 << 14
_BUFFER_POINTER, _BUFFER_SIZE, _END = 1, 2, 0  # CU_LAUNCH_PARAM_BUFFER_POINTER and those that follow it


class CUDAModule:
    """Code of one device."""

    def __init__(self, device: CUDADevice, image: bytes) -> None:
        """Assemble and load `image`, which is PTX, or code of the device that was assembled before.

        Raises:
            KernelError: the driver's assembler refuses; says what it said.
            OutOfMemoryError: the device has no memory for it.
        """
        self.device = device
        logs = [ctypes.create_string_buffer(LOG_BYTES) for _ in range(2)]
        options = (ctypes.c_int * 4)(INFO_LOG, INFO_BYTES, ERROR_LOG, ERROR_BYTES)
        room = ctypes.c_void_p(LOG_BYTES)
        values = (ctypes.c_void_p * 4)(ctypes.addressof(logs[0]), room, ctypes.addressof(logs[1]), room)
        handle = ctypes.c_void_p()
        text = ctypes.create_string_buffer(image)  # with a 0 at its end
        status = device.ask("cuModuleLoadDataEx", ctypes.byref(handle), text, len(options), options, values)
        said = "; ".join(found for log in reversed(logs) if (found := log.value.decode(errors="replace").strip()))
        try:
            device.check("cuModuleLoadDataEx", status)
        except KernelError as error:
            raise KernelError(error.message, hint=f"its assembler says: {said}" if said else error.hint) from error
        self._handle = handle

    def function(self, name: str) -> int:
        """Return the handle of a kernel.

        Raises:
            KernelError: there is none of that name.
        """
        return new_handle(self.device.call, "cuModuleGetFunction", self._handle, name.encode())


class Arguments:
    """The arguments of a kernel, one behind the other as they are handed over: eight bytes each."""

    def __init__(self, words: npt.NDArray[np.int64]) -> None:
        """Refer to the words, which are read by each launch."""
        self.words = words
        self._nbytes = ctypes.c_size_t(words.nbytes)
        size = ctypes.addressof(self._nbytes)
        self._extra = (ctypes.c_void_p * 5)(_BUFFER_POINTER, words.ctypes.data, _BUFFER_SIZE, size, _END)
        self._bound: dict[tuple[int, tuple[int, int], int], Callable[[], int]] = {}

    def launch(self, device: CUDADevice, function: int, grid: tuple[int, int], stream: int) -> Callable[[], int]:
        """Return the driver's call that launches a kernel with these arguments: its own have the types of C already."""
        key = function, grid, stream
        found = self._bound.get(key)
        if found is None:
            one, (blocks, threads) = ctypes.c_uint(1), map(ctypes.c_uint, grid)
            words = ctypes.cast(self._extra, ctypes.POINTER(ctypes.c_void_p))
            found = self._bound[key] = device.bound(
                "cuLaunchKernel", ctypes.c_void_p(function), blocks, one, one, threads, one, one, ctypes.c_uint(0),
                ctypes.c_void_p(stream), None, words,
            )  # fmt: skip
        return found


def launch(device: CUDADevice, function: int, grid: tuple[int, int], stream: int, arguments: Arguments) -> None:
    """Queue a kernel on a stream: `grid` are the numbers of blocks, and of threads of each.

    The driver copies the arguments before it returns.

    Raises:
        KernelError: the driver refuses the launch, or work that was queued before has failed.
    """
    device.make("cuLaunchKernel", arguments.launch(device, function, grid, stream))


def loaded(device: CUDADevice, name: str, ptx: str) -> int:
    """Return the handle of a kernel of the device, by its name, which tells its code from all others.

    Raises:
        KernelError, OutOfMemoryError: as `CUDAModule` says.
    """
    found = device.functions.get(name)
    if found is None:
        found = device.functions[name] = CUDAModule(device, ptx.encode()).function(name)
    return found
