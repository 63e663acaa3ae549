"""A named slot that holds a tensor, a string or an object of a registered type, or nothing yet.

`BLOB_TYPES` maps Python classes to the names that Caffe2 has for their C++ counterparts; the floors that bring such
classes register them with `@blob_type`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from tazza.errors import BlobTypeError
from tazza.registry import Registry
from tazza.tensor.tensor import Tensor

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BlobType:
    """Names of a type: as texts about a blob show it, and as files store it."""

    native: str
    serialized: str


BLOB_TYPES: Registry[type, BlobType] = Registry("blob type")


def blob_type(native: str, *, serialized: str | None = None) -> Callable[[type[T]], type[T]]:
    """Return a class decorator: blobs may hold such objects. `serialized` is the name in files where that differs.

    >>> @blob_type("std::unique_ptr<Spoon>")
    ... class Spoon: ...
    >>> blob = Blob("s"); blob.set(Spoon()); blob.describe()
    's, a C++ native class of type std::unique_ptr<Spoon>.'
    """

    def decorate(cls: type[T]) -> type[T]:
        BLOB_TYPES.register(cls, BlobType(native, native if serialized is None else serialized))
        return cls

    return decorate


BLOB_TYPES.register(Tensor, BlobType("caffe2::Tensor", "Tensor"))
BLOB_TYPES.register(bytes, BlobType("std::string", "std::string"))
_EMPTY = BlobType("nullptr (uninitialized)", "")


def type_of(value: object) -> BlobType | None:
    """Return the names of the type of a blob's value, or of the nearest base class that has some; None if none has."""
    for cls in type(value).__mro__:
        found = BLOB_TYPES.get(cls)
        if found is not None:
            return found
    return None


class Blob:
    """A slot called `name`; empty until something is set.

    >>> blob = Blob("x"); blob.type_name, blob.tensor().spec.dtype.label, blob.type_name
    ('', 'float32', 'Tensor')
    """

    __slots__ = ("__weakref__", "_type", "_value", "name")

    def __init__(self, name: str, value: object = None) -> None:
        self.name = name
        self._value: object = None
        self._type = _EMPTY
        if value is not None:
            self.set(value)

    @property
    def value(self) -> object:
        """What it holds (a string is `bytes`); None when it is empty."""
        return self._value

    @property
    def type_name(self) -> str:
        """Name of the type in files (`Tensor`, `std::string` ...); empty when the blob is."""
        return self._type.serialized

    @property
    def is_tensor(self) -> bool:
        """Whether it holds a tensor."""
        return isinstance(self._value, Tensor)

    @property
    def is_empty(self) -> bool:
        """Whether it holds nothing."""
        return self._value is None

    def tensor(self) -> Tensor:
        """Return the tensor, which is created when the blob is empty.

        Raises:
            BlobTypeError: it holds something else.
        """
        value = self._value
        if type(value) is Tensor:
            return value
        if value is None:
            created = Tensor(holder=self.name)
            self.set(created)
            return created
        return self.get(Tensor)

    def get(self, cls: type[T]) -> T:
        """Return the value, which must be a `cls`.

        Raises:
            BlobTypeError: it holds something else, or nothing.
        """
        if not isinstance(self._value, cls):
            names = BLOB_TYPES.get(cls)
            wanted = cls.__name__ if names is None else names.native
            raise BlobTypeError(
                f"blob {self.name!r} holds {self._type.native}, wanted {wanted}",
                hint="an operator before this one must write that type, or the input is another blob",
            )
        return self._value

    def set(self, value: object) -> None:
        """Hold `value` instead of what was there; text is stored as UTF-8 bytes.

        Raises:
            BlobTypeError: the class of the value is not registered.
        """
        held = value.encode() if isinstance(value, str) else value
        names = type_of(held)
        if names is None:
            raise BlobTypeError(
                f"blob {self.name!r} cannot hold a {type(value).__name__}",
                hint="give a Tensor, str or bytes, or register the class with @blob_type",
            )
        if isinstance(held, Tensor) and not held.storage.holder:
            held.storage.holder = self.name
        self._value = held
        self._type = names

    def reset(self) -> None:
        """Become empty."""
        self._value = None
        self._type = _EMPTY

    def describe(self) -> str:
        """Return the text that stands for a value that is no array: it names the C++ type, as old scripts expect.

        >>> Blob("e").describe()
        'e, a C++ native class of type nullptr (uninitialized).'
        """
        return f"{self.name}, a C++ native class of type {self._type.native}."

    def __repr__(self) -> str:
        if self._value is None:
            return f"Blob({self.name!r}, empty)"
        return (
            f"Blob({self.name!r}, {self._value!r})" if self.is_tensor else f"Blob({self.name!r}, {self._type.native})"
        )
