"""How values of one type become records and records become values again; the registry of those who know.

A record is a `BlobProto`. Most types need one, and keep what they have in its `content`; a tensor may need many, which
come back in any order and from several threads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Generic, Literal, TypeVar

import numpy.typing as npt

from tazza.errors import FormatError
from tazza.proto.caffe2_pb2 import BlobProto
from tazza.registry import Registry
from tazza.tensor.blob import Blob
from tazza.tensor.names import indexed
from tazza.tensor.tensor_proto import array_to_tensor_proto, tensor_proto_to_array

T = TypeVar("T")

NO_CHUNKS = 0
"""Chunk size that stands for one record per blob, however large."""


class Collector(ABC):
    """Gathers the records of one blob. `add` may be called from several threads."""

    @abstractmethod
    def add(self, record: BlobProto) -> None:
        """Take a record.

        Raises:
            FormatError: it contradicts itself or an earlier one.
        """

    @property
    @abstractmethod
    def complete(self) -> bool:
        """Whether nothing is missing."""

    @abstractmethod
    def write(self, blob: Blob) -> None:
        """Put the value into `blob`.

        Raises:
            FormatError: records are missing.
        """


class Serializer(ABC, Generic[T]):
    """Knows the stored form of one type."""

    @abstractmethod
    def records(self, value: T, name: str, chunk_size: int) -> Iterator[tuple[str, BlobProto]]:
        """Yield (key, record); at most `chunk_size` elements each where the type can be split, unless `NO_CHUNKS`."""

    @abstractmethod
    def collector(self, name: str) -> Collector:
        """Return what gathers the records of blob `name`."""


SERIALIZERS: Registry[str, Serializer[Any]] = indexed("serializers", "serializer of blob type")
"""By the name of the type in files (`Blob.type_name`)."""


class ContentSerializer(Serializer[T]):
    """Base for types that are one string of bytes in a single record under the bare name of the blob.

    A subclass writes `encode` and `decode` and is registered under its `type_name`:
    `SERIALIZERS.register(Mine.type_name, Mine())`.
    """

    type_name: str

    @abstractmethod
    def encode(self, value: T) -> bytes:
        """Return what is stored of `value`."""

    @abstractmethod
    def decode(self, content: bytes, name: str) -> T:
        """Return the value again; `name` is the blob's, for messages.

        Raises:
            FormatError: the bytes are not what `encode` writes.
        """

    def records(self, value: T, name: str, chunk_size: int) -> Iterator[tuple[str, BlobProto]]:
        """Yield the one record."""
        yield name, BlobProto(name=name, type=self.type_name, content=self.encode(value))

    def collector(self, name: str) -> Collector:
        """Return what takes the one record."""
        return OneRecord(name, "content", lambda record: self.decode(record.content, name))


class ArraySerializer(Serializer[T]):
    """Base for types that are one array and a string of bytes in a single record."""

    type_name: str

    @abstractmethod
    def encode(self, value: T) -> tuple[npt.NDArray[Any], bytes]:
        """Return what is stored of `value`."""

    @abstractmethod
    def decode(self, array: npt.NDArray[Any], content: bytes, name: str) -> T:
        """Return the value again; `name` is the blob's, for messages.

        Raises:
            FormatError: they are not what `encode` gives.
        """

    def records(self, value: T, name: str, chunk_size: int) -> Iterator[tuple[str, BlobProto]]:
        """Yield the one record."""
        array, content = self.encode(value)
        yield name, BlobProto(name=name, type=self.type_name, tensor=array_to_tensor_proto(array), content=content)

    def collector(self, name: str) -> Collector:
        """Return what takes the one record."""
        return OneRecord(
            name, "content", lambda record: self.decode(tensor_proto_to_array(record.tensor), record.content, name)
        )


class OneRecord(Collector, Generic[T]):
    """Gathers the records of a type that needs just one, in a field of its own.

    Args:
        name: the blob's.
        field: of the record.
        read: returns the value of a record.
        put: leaves it in a blob; by default the value itself.
    """

    def __init__(
        self,
        name: str,
        field: Literal["content", "qtensor"],
        read: Callable[[BlobProto], T],
        put: Callable[[Blob, T], None] = Blob.set,
    ) -> None:
        self._name, self._field = name, field
        self._read, self._put = read, put
        self._values: list[T] = []

    def add(self, record: BlobProto) -> None:
        """See `Collector.add`."""
        if not record.HasField(self._field):
            raise FormatError(f"blob {self._name!r} of type {record.type} has no {self._field}")
        self._values.append(self._read(record))
        if len(self._values) > 1:
            raise FormatError(f"blob {self._name!r} of type {record.type} is stored more than once")

    @property
    def complete(self) -> bool:
        """Whether it is there."""
        return bool(self._values)

    def write(self, blob: Blob) -> None:
        """See `Collector.write`."""
        if not self._values:
            raise FormatError(f"blob {self._name!r} has no record")
        self._put(blob, self._values[0])


class StringSerializer(ContentSerializer[bytes]):
    """A string blob: its bytes."""

    type_name = "std::string"

    def encode(self, value: bytes) -> bytes:
        """Return the string."""
        return value

    def decode(self, content: bytes, name: str) -> bytes:
        """Return the string."""
        return content


SERIALIZERS.register(StringSerializer.type_name, StringSerializer(), help="a string, as it is")
