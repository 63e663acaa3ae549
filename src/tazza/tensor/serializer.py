"""How values of one type become records and records become values again; the registry of those who know.

A record is a `BlobProto`. Most types need one, and keep what they have in its `content`; a tensor may need many, which
come back in any order and from several threads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

from tazza.errors import FormatError
from tazza.proto.caffe2_pb2 import BlobProto
from tazza.registry import Registry
from tazza.tensor.blob import Blob

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


SERIALIZERS: Registry[str, Serializer[Any]] = Registry("serializer of blob type")
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
        return _OneRecord(self, name)


class _OneRecord(Collector, Generic[T]):
    def __init__(self, serializer: ContentSerializer[T], name: str) -> None:
        self._serializer = serializer
        self._name = name
        self._records: list[BlobProto] = []

    def add(self, record: BlobProto) -> None:
        if not record.HasField("content"):
            raise FormatError(f"blob {self._name!r} of type {record.type} has no content")
        self._records.append(record)
        if len(self._records) > 1:
            raise FormatError(f"blob {self._name!r} of type {record.type} is stored more than once")

    @property
    def complete(self) -> bool:
        return bool(self._records)

    def write(self, blob: Blob) -> None:
        if not self._records:
            raise FormatError(f"blob {self._name!r} has no record")
        blob.set(self._serializer.decode(self._records[0].content, self._name))


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
