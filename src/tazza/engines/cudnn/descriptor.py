"""Descriptors of cuDNN's graph interface as objects that end by themselves, and for whom they are made.

A descriptor is made with all its attributes and then closed for changes; what it refers to lives as long as it.

Source: NVIDIA cuDNN documentation, backend API.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tazza.data_class import dataclass
from tazza.device.cuda.vendor import Owned
from tazza.engines.cudnn._declarations import NUMBERS

C_TYPES: Mapping[str, Any] = {
    "INT64": ctypes.c_int64,
    "INT32": ctypes.c_int32,
    "FLOAT": ctypes.c_float,
    "BOOLEAN": ctypes.c_bool,
    "CHAR": ctypes.c_char,
    "HANDLE": ctypes.c_void_p,
    "VOID_PTR": ctypes.c_void_p,
    "BACKEND_DESCRIPTOR": ctypes.c_void_p,
}
"""What the elements of an attribute are in C; those of all other types are numbers of enumerations."""


@dataclass(frozen=True, slots=True)
class AttributeValue:
    """What an attribute is set to: the name of its type, without `CUDNN_TYPE_`, and its elements."""

    type: str
    elements: Sequence[Any]


def whole(*numbers: int) -> AttributeValue:
    """Return whole numbers."""
    return AttributeValue("INT64", numbers)


def one_of(type: str, name: str) -> AttributeValue:
    """Return a number of an enumeration, by its name without `CUDNN_`."""
    return AttributeValue(type, (NUMBERS[f"CUDNN_{name}"],))


def nested(*descriptors: Descriptor) -> AttributeValue:
    """Return descriptors."""
    return AttributeValue("BACKEND_DESCRIPTOR", descriptors)


@dataclass(frozen=True, slots=True)
class Maker:
    """Whom descriptors are made for.

    Attributes:
        call: calls a function of the library, and raises what its status means.
        handle: that of a context; 0 for a device that is described, and not there.
        properties: the description of that device.
    """

    call: Callable[..., None]
    handle: int = 0
    properties: Descriptor | None = None

    def of_device(self, prefix: str) -> dict[str, AttributeValue]:
        """Return the attribute by which descriptors of a kind, such as `EXECUTION_PLAN`, learn of the device."""
        if self.properties is not None:
            return {f"{prefix}_DEVICEPROP": nested(self.properties)}
        return {f"{prefix}_HANDLE": AttributeValue("HANDLE", (self.handle,))}

    def make(self, kind: str, **attributes: AttributeValue) -> Descriptor:
        """Return a descriptor of a kind, with these attributes, whose names have no `CUDNN_ATTR_`.

        Raises:
            KernelError: the library refuses one of them, or what they are together.
        """
        made = self.empty(kind)
        for name, value in attributes.items():
            made.set(name, value)
        self.call("cudnnBackendFinalize", made.handle)
        return made

    def empty(self, kind: str) -> Descriptor:
        """Return a descriptor of a kind in which the library can write."""
        return Descriptor(self.call, kind)


class Descriptor(Owned):
    """A descriptor of one kind, such as `TENSOR`."""

    def __init__(self, call: Callable[..., None], kind: str) -> None:
        """Make it, with nothing set."""
        number = NUMBERS[f"CUDNN_BACKEND_{kind}_DESCRIPTOR"]
        super().__init__(call, "cudnnBackendCreateDescriptor", "cudnnBackendDestroyDescriptor", before=(number,))
        self._kept: list[object] = []

    def set(self, name: str, value: AttributeValue) -> None:
        """Set an attribute."""
        self._kept.append(value)
        found = [one.handle if isinstance(one, Descriptor) else one for one in value.elements]
        elements = _array(value.type, len(found))(*found)
        self._call("cudnnBackendSetAttribute", self.handle, *_names(name, value.type), len(found), elements)

    def get(self, name: str, type: str, most: int) -> list[Any]:
        """Return the elements of an attribute, as many as there are, and `most` at the most."""
        elements, count = _array(type, most)(), ctypes.c_int64()
        self._call(
            "cudnnBackendGetAttribute", self.handle, *_names(name, type), most, ctypes.byref(count), elements
        )  # fmt: skip
        return list(elements[: min(most, count.value)])

    def count(self, name: str, type: str) -> int:
        """Return how many elements an attribute has."""
        count = ctypes.c_int64()
        self._call("cudnnBackendGetAttribute", self.handle, *_names(name, type), 0, ctypes.byref(count), None)
        return count.value

    def get_text(self, name: str) -> str:
        """Return an attribute that is a text."""
        return bytes(self.get(name, "CHAR", self.count(name, "CHAR"))).rstrip(b"\0").decode()

    def get_into(self, name: str, found: Sequence[Descriptor]) -> int:
        """Let the library write an attribute into descriptors of its kind; return how many it wrote."""
        elements, count = (ctypes.c_void_p * len(found))(*[one.handle for one in found]), ctypes.c_int64()
        names = _names(name, "BACKEND_DESCRIPTOR")
        self._call("cudnnBackendGetAttribute", self.handle, *names, len(found), ctypes.byref(count), elements)
        return min(len(found), count.value)


def _names(name: str, type: str) -> tuple[int, int]:
    return NUMBERS[f"CUDNN_ATTR_{name}"], NUMBERS[f"CUDNN_TYPE_{type}"]


def _array(type: str, count: int) -> Any:
    return C_TYPES.get(type, ctypes.c_int) * count
