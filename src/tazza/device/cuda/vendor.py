"""NVIDIA's libraries beside the driver: found, loaded at the first use, declared, each status checked.

They lie in wheels (`nvidia-cublas`, `nvidia-cudnn-cu13` and those of CUDA 12), under the folder `nvidia` of the
environment, or where the system's loader looks. Declarations are generated from the vendor's headers
(`tools/generate_cuda.py`): a letter for the type of a result, and of each argument.

State: a library that was loaded stays for the life of the process; `_found` changes under `_lock`.
"""

from __future__ import annotations

import ctypes
import importlib.util
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tazza.data_class import dataclass
from tazza.device.context import Context
from tazza.device.cuda.context import queue_of
from tazza.device.cuda.device import CUDADevice
from tazza.device.cuda.driver import end_with, new_handle
from tazza.device.initializer import initialize_devices
from tazza.errors import KernelError, OutOfMemoryError, UnavailableError
from tazza.runtime.flags import flag
from tazza.runtime.fork import freed_in_child
from tazza.tensor import DataType, Tensor

TF32 = flag(
    "cuda_tf32", False, "products and convolutions of float32 on CUDA devices may round factors to TF32", kernels=True
)

TYPES: Mapping[str, Any] = {
    "p": ctypes.c_void_p,
    "i": ctypes.c_int,
    "q": ctypes.c_longlong,
    "z": ctypes.c_size_t,
    "f": ctypes.c_float,
    "d": ctypes.c_double,
    "s": ctypes.c_char_p,
}
"""What letters of declarations stand for."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What tells a library apart.

    Attributes:
        name: what people call it.
        files: names of the file, the newest version first.
        functions: name -> letters of its result and arguments.
        describe: the function that puts a status into words.
        out_of_memory: statuses that mean that there is no memory.
        remedy: how one gets it.
        handle: the functions that make a handle, let it queue on a stream, and end it.
        workspace: the function that gives a handle memory to work in, and how many bytes all handles of a stream share.
            What is recorded must not take any by itself, and takes other algorithms with another workspace.
        mode: the function that says how a handle computes, and the number of that.
    """

    name: str
    files: tuple[str, ...]
    functions: Mapping[str, str]
    describe: str
    out_of_memory: frozenset[int]
    remedy: str
    handle: tuple[str, str, str]
    workspace: tuple[str, int] | None = None
    mode: tuple[str, int] | None = None


class VendorLibrary:
    """One library; thread-safe.

    State, under the lock: what was loaded, or why it could not be, which is not tried again: to look for it takes
    milliseconds, and every operator asks.
    """

    def __init__(self, facts: Facts) -> None:
        """Load nothing yet."""
        self.facts = facts
        self._lock = freed_in_child(threading.Lock())
        self._found: Any = None
        self._failed = ""

    def functions(self) -> Any:
        """Return the loaded library.

        Raises:
            UnavailableError: it cannot be found or loaded, or lacks a function.
        """
        found = self._found
        if found is None:
            with self._lock:
                if self._found is None:
                    self._found = self._loaded()
                found = self._found
        return found

    def _loaded(self) -> Any:
        if not self._failed:
            try:
                return self._declared(self._load())
            except UnavailableError as error:
                self._failed = error.message
        raise UnavailableError(self._failed, hint=self.facts.remedy)

    def use(self, library: Any) -> None:
        """Let `library`, which answers like it, be the one that was loaded; None: load it at the next use."""
        self._found, self._failed = library, ""

    def unavailable(self) -> str | None:
        """Return why it cannot be used, or None."""
        try:
            self.functions()
        except UnavailableError as error:
            return error.message
        return None

    def missing(self) -> str | None:
        """Return why there is no device, or no library for it, or None."""
        reason = initialize_devices().absent.get("cuda")
        return self.unavailable() if reason is None else reason

    def _load(self) -> Any:
        reasons: list[str] = []
        for candidate in (*_in_wheels(self.facts.files), *self.facts.files):
            try:
                return ctypes.CDLL(str(candidate))
            except OSError as error:
                reasons.append(str(error))
        raise UnavailableError(f"{self.facts.name} cannot be loaded: {reasons[0]}", hint=self.facts.remedy)

    def _declared(self, library: Any) -> Any:
        for name, letters in self.facts.functions.items():
            function = getattr(library, name, None)
            if function is None:
                raise UnavailableError(f"this {self.facts.name} has no {name}", hint=self.facts.remedy)
            function.restype = TYPES[letters[0]]
            function.argtypes = [TYPES[letter] for letter in letters[1:]]
        return library

    def call(self, device: CUDADevice, name: str, *args: object) -> None:
        """Call a function with the device's context as the thread's current one.

        Raises:
            OutOfMemoryError, KernelError: the status is not success.
        """
        device.enter()
        try:
            self.call_anywhere(name, *args)
        finally:
            device.leave()

    def call_anywhere(self, name: str, *args: object) -> None:
        """Call a function for which it does not matter what the current context is.

        Raises:
            OutOfMemoryError, KernelError: the status is not success.
        """
        status = getattr(self.functions(), name)(*args)
        if status != 0:
            self._raise(name, status)

    def handle_of(self, context: Context) -> int:
        """Return the handle of a context: made at the first use, it queues on the context's stream, and ends with it.

        Raises:
            KernelError, OutOfMemoryError: the library refuses.
        """
        return context.resource(
            self.facts.name, partial(self._made, context), partial(self._end, queue_of(context).device)
        )

    def _made(self, context: Context) -> int:
        make, let_queue, _ = self.facts.handle
        queue = queue_of(context)
        handle = new_handle(partial(self.call, queue.device), make)
        self.call(queue.device, let_queue, handle, queue.handle)
        if self.facts.mode is not None:
            choose, mode = self.facts.mode
            self.call(queue.device, choose, handle, mode)
        if self.facts.workspace is not None:
            give, nbytes = self.facts.workspace
            self.call(queue.device, give, handle, queue.workspace(self.facts.name, nbytes).address, nbytes)
        return handle

    def _end(self, device: CUDADevice, handle: int) -> None:
        self.call(device, self.facts.handle[2], handle)

    def _raise(self, name: str, status: int) -> None:
        words: bytes | None = getattr(self.functions(), self.facts.describe)(status)
        told = "no text for it" if words is None else words.decode(errors="replace")
        kind = OutOfMemoryError if status in self.facts.out_of_memory else KernelError
        raise kind(f"{self.facts.name} answers {name} with status {status}: {told}")


class Owned:
    """Something that a library made, of which there is a handle; it ends with this object."""

    def __init__(
        self, call: Callable[..., None], make: str, end: str, *behind: object, before: Sequence[object] = ()
    ) -> None:
        """Make it by one function, which another undoes; arguments stand before and behind the handle's place."""
        self._call = call
        self.handle = new_handle(call, make, *behind, before=before)
        end_with(self, call, end, self.handle)


def vector_of(context: Context, value: int, dtype: DataType, count: int) -> Tensor:
    """Return a vector of one number on the device of a context, which keeps the longest that was asked for."""
    longest: dict[DataType, Tensor] = context.resource(f"vectors of {value}", dict[DataType, Tensor])
    found = longest.get(dtype)
    if found is None or found.size < count:
        length = 1 << max(10, (count - 1).bit_length())
        found = longest[dtype] = Tensor.from_numpy(np.full(length, value, dtype.numpy)).to_device(context.place)
    return found


def _in_wheels(files: Sequence[str]) -> list[Path]:
    """Return where wheels have put files of these names, in their order."""
    spec = importlib.util.find_spec("nvidia")
    folders = [] if spec is None or spec.submodule_search_locations is None else spec.submodule_search_locations
    return [found for file in files for folder in folders for found in sorted(Path(folder).glob(f"*/lib/{file}"))]
