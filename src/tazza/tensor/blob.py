"""A named place that holds a tensor, a string or an object of a registered type, or nothing yet.

`BLOB_TYPES` maps Python classes to the names that Caffe2 has for their C++ counterparts; the floors that bring such
classes register them with `@blob_type`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy.typing as npt

from tazza.data_class import dataclass
from tazza.errors import BlobTypeError
from tazza.registry import Registry
from tazza.tensor.spec import Content, TensorSpec, TypeSpec
from tazza.tensor.tensor import Tensor

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BlobType:
    """Names of a type: as texts about a blob show it, and as files store it; and what says what is in a value."""

    native: str
    serialized: str
    content: Callable[[Any], Content | None] | None = None


BLOB_TYPES: Registry[type, BlobType] = Registry("blob type")


def blob_type(
    native: str, *, serialized: str | None = None, content: Callable[[Any], Content | None] | None = None
) -> Callable[[type[T]], type[T]]:
    """Return a class decorator: blobs may hold such objects. `serialized` is the name in files where that differs.

    `content(value)` says what is in a value: capacity and fields of a queue, columns of a reader.

    >>> @blob_type("std::unique_ptr<Spoon>")
    ... class Spoon: ...
    >>> blob = Blob("s"); blob.set(Spoon()); blob.describe()
    's, a C++ native class of type std::unique_ptr<Spoon>.'
    """

    def decorate(cls: type[T]) -> type[T]:
        BLOB_TYPES.register(cls, BlobType(native, native if serialized is None else serialized, content))
        return cls

    return decorate


BLOB_TYPES.register(Tensor, BlobType("caffe2::Tensor", "Tensor"))
_INT8 = BlobType("caffe2::int8::Int8TensorCPU", "Int8TensorCPU")
"""Tensors that Caffe2 had another class for: those with scale and zero point."""
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
    """A blob called `name`; empty until something is set.

    >>> blob = Blob("x"); blob.type_name, blob.tensor().spec.dtype.label, blob.type_name
    ('', 'float32', 'Tensor')
    """

    __slots__ = ("__weakref__", "_emptied", "_type", "name", "value")

    def __init__(self, name: str, value: object = None) -> None:
        self.name = name
        self.value: object = None
        """What it holds (a string is `bytes`); None when it is empty. To be read: `set` changes it."""
        self._type = _EMPTY
        self._emptied = ""
        if value is not None:
            self.set(value)

    @property
    def type_name(self) -> str:
        """Name of the type in files (`Tensor`, `std::string` ...); empty when the blob is."""
        return self._names.serialized

    @property
    def _names(self) -> BlobType:
        value = self.value
        if isinstance(value, Tensor) and value.spec.quantization is not None:
            return _INT8 if value.spec.quantization.type_name == _INT8.serialized else self._type
        return self._type

    @property
    def spec(self) -> TensorSpec | TypeSpec | None:
        """What it holds, without elements; None when it is empty."""
        value = self.value
        if value is None or isinstance(value, Tensor):
            return None if value is None else value.spec
        return TypeSpec(self._type.serialized, None if self._type.content is None else self._type.content(value))

    @property
    def is_tensor(self) -> bool:
        """Whether it holds a tensor."""
        return isinstance(self.value, Tensor)

    @property
    def is_empty(self) -> bool:
        """Whether it holds nothing."""
        return self.value is None

    @property
    def is_freed(self) -> bool:
        """Whether it holds nothing any more, for a reason that was told: nobody may go on as if it were empty."""
        return self.value is None and bool(self._emptied)

    def tensor(self) -> Tensor:
        """Return the tensor, which is created when the blob is empty.

        Raises:
            BlobTypeError: it holds something else.
        """
        value = self.value
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
        if not isinstance(self.value, cls):
            names = BLOB_TYPES.get(cls)
            wanted = cls.__name__ if names is None else names.native
            raise BlobTypeError(
                f"blob {self.name!r} holds {self._names.native}, wanted {wanted}",
                hint=self._emptied
                if self.value is None and self._emptied
                else "an operator before this one must write that type, or the input is another blob",
            )
        return self.value

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
        self.value = held
        self._type = names

    def put(self, array: npt.NDArray[Any]) -> None:
        """Hold a tensor with a copy of the elements of `array`, whatever it held.

        >>> import numpy as np
        >>> blob = Blob("x", b"text"); blob.put(np.arange(2)); blob.tensor().numpy()
        array([0, 1])

        Raises:
            DTypeError: no tensor holds such elements.
        """
        if not self.is_tensor:
            self.reset()
        self.tensor().assign(array)

    def reset(self, why: str = "") -> None:
        """Become empty; who asks for the value afterwards is told why, and what to do."""
        self.value = None
        self._type = _EMPTY
        self._emptied = why

    @property
    def remedy(self) -> str:
        """What to do where a value is needed and it is empty."""
        return self._emptied or "feed it, or run the operator that makes it first"

    def describe(self) -> str:
        """Return the text that stands for a value that is no array: it names the C++ type, as old scripts expect.

        >>> Blob("e").describe()
        'e, a C++ native class of type nullptr (uninitialized).'
        """
        return f"{self.name}, a C++ native class of type {self._names.native}."

    def __repr__(self) -> str:
        if self.value is None:
            return f"Blob({self.name!r}, empty)"
        return f"Blob({self.name!r}, {self.value!r})" if self.is_tensor else f"Blob({self.name!r}, {self._type.native})"
