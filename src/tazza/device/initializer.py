"""The devices of this machine: found once, described, and set up with what belongs to a device and not to a thread.

A device has properties and handles of libraries, which are made when they are first asked for. What belongs to a thread
on a device (streams, scratch memory, handles that are not thread-safe) is a `Context`'s.

State: `_found` is made once under `_lock`; a device's handles change under its own lock. A kind of device is brought by
the module of this package that is named like it, which registers a finder in `FINDERS`.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeVar, cast

from tazza.data_class import dataclass
from tazza.errors import UnavailableError
from tazza.registry import Registry
from tazza.runtime.fork import freed_in_child
from tazza.tensor import Place
from tazza.tensor.place import PLACE_KINDS

R = TypeVar("R")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DeviceProperties:
    """What a device is. `parallel_units` are CPUs that the process may use, or multiprocessors; None is not known."""

    place: Place
    name: str
    memory_bytes: int | None
    parallel_units: int
    features: tuple[str, ...] = ()
    cache_bytes: Mapping[str, int] = field(default_factory=dict[str, int])

    def __str__(self) -> str:
        memory = "memory not known" if self.memory_bytes is None else f"{self.memory_bytes / 2**30:.1f} GiB"
        caches = (f"{level} {size // 1024} KiB" for level, size in self.cache_bytes.items())
        return ", ".join((self.name if self.name else "unnamed", f"{self.parallel_units} units", memory, *caches))


class Device:
    """A device that is there: its properties and library handles. Thread-safe."""

    def __init__(self, properties: DeviceProperties) -> None:
        """Handles are made on first use."""
        self.properties = properties
        self._lock = freed_in_child(threading.RLock())  # making one handle may need another
        self._handles: dict[str, tuple[Any, Callable[[Any], None] | None]] = {}

    @property
    def place(self) -> Place:
        """Where its memory is."""
        return self.properties.place

    def handle(self, key: str, create: Callable[[], R], close: Callable[[R], None] | None = None) -> R:
        """Return the device's handle of that name, made by `create` once, and ended by `close` with `Device.close`."""
        with self._lock:
            if key not in self._handles:
                self._handles[key] = (create(), close)
            return cast("R", self._handles[key][0])

    def close(self) -> None:
        """End all handles, the last one made first; they are made anew when asked for again."""
        with self._lock:
            while self._handles:
                _, (handle, close) = self._handles.popitem()
                if close is not None:
                    close(handle)

    def __repr__(self) -> str:
        return f"Device({self.place}: {self.properties})"


@dataclass(frozen=True, slots=True)
class Devices:
    """What was found: devices by place, and for each kind of which there is none, the reason."""

    present: Mapping[Place, Device]
    absent: Mapping[str, str]


def _module_of(kind: str) -> str | None:
    name = f"{__package__}.{kind}"
    return None if importlib.util.find_spec(name) is None else name


def load_kind(kind: str) -> None:
    """Import what tazza brings for a kind of place, which fills the registries by kind; nothing where it has none."""
    name = _module_of(kind) if kind in PLACE_KINDS else None
    if name is not None:
        importlib.import_module(name)


def listed_kinds() -> frozenset[str]:
    """Return the kinds of places that `load_kind` brings something for."""
    return frozenset(kind for kind in PLACE_KINDS if _module_of(kind) is not None)


FINDERS: Registry[str, Callable[[], Sequence[DeviceProperties]]] = Registry(
    "kind of device", loader=load_kind, listed=listed_kinds
)
"""Lists the devices of a kind (`Place.kind`); raises `UnavailableError` with the reason when there is none."""

_lock = freed_in_child(threading.Lock())
_found: Devices | None = None


def initialize_devices() -> Devices:
    """Find and set up all devices at the first call, in whatever thread; return them.

    >>> [str(place) for place in initialize_devices().present if place.kind == "cpu"]
    ['cpu']
    """
    global _found
    if _found is None:
        with _lock:
            if _found is None:
                _found = _find_devices()
    return _found


def _find_devices() -> Devices:
    present: dict[Place, Device] = {}
    absent: dict[str, str] = {}
    for kind in FINDERS:
        try:
            listed = FINDERS[kind]()
        except UnavailableError as error:
            absent[kind] = error.message
            _log.debug("no device of kind %s: %s", kind, error.message)
        else:
            present.update((properties.place, Device(properties)) for properties in listed)
    return Devices(present, absent)


def device_of(place: Place) -> Device:
    """Return the device whose memory is at `place`.

    Raises:
        UnavailableError: it is not there; says why, or which of its kind are.

    >>> device_of(Place.parse("cpu")) is device_of(Place.parse("cpu"))
    True
    """
    devices = initialize_devices()
    found = devices.present.get(place)
    if found is not None:
        return found
    reason = devices.absent.get(place.kind)
    if reason is None:
        near = [str(each) for each in devices.present if each.kind == place.kind]
        reason = f"there are {', '.join(near)}" if near else f"nothing finds devices of kind {place.kind!r}"
    raise UnavailableError(f"no device {place} here: {reason}", hint=f"devices: {', '.join(map(str, devices.present))}")
