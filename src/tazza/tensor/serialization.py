"""Blobs to bytes and back.

`serialize` makes one string of a blob; `serialize_blob` makes the records of a database, tensors in chunks;
`deserialize` reads both. What a type looks like is the business of its serializer (serializer.py), found by the name of
the type. A tensor comes back on the CPU, wherever it was saved: who wants it elsewhere copies it there.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator

from google.protobuf.message import DecodeError

from tazza.errors import ArgumentError, BlobTypeError, FormatError
from tazza.proto.caffe2_pb2 import BlobProto
from tazza.runtime.flags import flag
from tazza.tensor.blob import Blob
from tazza.tensor.element_serializer import element_type
from tazza.tensor.int8_serializer import Int8Serializer
from tazza.tensor.serializer import NO_CHUNKS, SERIALIZERS, Collector, ContentSerializer, Serializer, StringSerializer
from tazza.tensor.tensor_proto import array_to_tensor_proto, tensor_proto_to_array
from tazza.tensor.tensor_serializer import CHUNK_SEPARATOR, TensorSerializer

__all__ = [
    "CHUNK_SEPARATOR",
    "CHUNK_SIZE",
    "NO_CHUNKS",
    "SERIALIZERS",
    "BlobAssembler",
    "Collector",
    "ContentSerializer",
    "Int8Serializer",
    "Serializer",
    "StringSerializer",
    "TensorSerializer",
    "array_to_tensor_proto",
    "blob_name_of_key",
    "deserialize",
    "serialize",
    "serialize_blob",
    "tensor_proto_to_array",
]

CHUNK_SIZE = flag("caffe2_tensor_chunk_size", 1_000_000, "elements of a tensor in one record of a database", minimum=1)


def serialize_blob(value: object, name: str, chunk_size: int | None = None) -> Iterator[tuple[str, bytes]]:
    """Yield (key, bytes) of every record of a blob or of its value.

    `chunk_size` is in elements: None takes the flag `caffe2_tensor_chunk_size`, `NO_CHUNKS` makes one record. Keys are
    `name#%k` for tensors, even for a single or an empty chunk, and `name` for all else.

    Raises:
        BlobTypeError: the blob is empty, or values of its type cannot be stored.
        ArgumentError: a negative chunk size.

    >>> [key for key, _ in serialize_blob(Blob("s", "text"), "s")]
    ['s']
    """
    size = CHUNK_SIZE.value if chunk_size is None else chunk_size
    if size < 0:
        raise ArgumentError(f"chunk_size {size} < 0 for blob {name!r}", hint="0 makes one chunk, None takes the flag")
    return ((key, record.SerializeToString()) for key, record in _records(value, name, size))


def serialize(value: object, name: str) -> bytes:
    """Return a blob or its value as one `BlobProto`, never in chunks.

    Raises:
        BlobTypeError: the blob is empty, or values of its type cannot be stored.
        FormatError: more than protobuf's 2 GiB.
    """
    return b"".join(record.SerializeToString() for _, record in _records(value, name, NO_CHUNKS))


def _records(value: object, name: str, chunk_size: int) -> Iterator[tuple[str, BlobProto]]:
    blob = value if isinstance(value, Blob) else Blob(name, value)
    serializer = SERIALIZERS.get(blob.type_name)
    if serializer is None:
        raise BlobTypeError(
            f"{blob.describe()[:-1]}, which cannot be serialized",
            hint=f"types that can be: {', '.join(SERIALIZERS)}",
        )
    return serializer.records(blob.value, name, chunk_size)


def blob_name_of_key(key: str) -> str:
    """Return the name of the blob that a record with this key belongs to.

    >>> blob_name_of_key("fc/w#%12"), blob_name_of_key("text")
    ('fc/w', 'text')
    """
    return key.rpartition(CHUNK_SEPARATOR)[0] if CHUNK_SEPARATOR in key else key


class BlobAssembler:
    """Takes the records of one blob in any order and from several threads, then writes the blob.

    >>> assembler = BlobAssembler("s")
    >>> assembler.add(serialize("text", "s")); assembler.complete, assembler.write(Blob("s")).value
    (True, b'text')
    """

    def __init__(self, name: str | None = None) -> None:
        """Start empty; without a name the first record gives it."""
        self._lock = threading.Lock()
        self._name = name
        self._first = ("", "")  # stored name and type of the first record
        self._collector: Collector | None = None

    def add(self, record: bytes | BlobProto) -> None:
        """Take a record.

        Raises:
            FormatError: it is not a `BlobProto`, contradicts itself or another one, or is of an unknown type.
        """
        proto = _parse(record, self._name) if isinstance(record, bytes) else record
        self._collector_for(proto).add(proto)

    def _collector_for(self, proto: BlobProto) -> Collector:
        label = _label(proto)
        with self._lock:
            if self._collector is None:
                name = label[0] if self._name is None else self._name
                serializer = SERIALIZERS.get(label[1])
                if serializer is None:
                    raise FormatError(
                        f"blob {name!r} is of type {label[1]!r}, which nobody reads",
                        hint=f"known: {', '.join(SERIALIZERS)}",
                    )
                self._collector = serializer.collector(name)
                self._first = label
            if self._first != label:
                mine, other = (f"{name!r} of type {kind!r}" for name, kind in (self._first, label))
                raise FormatError(f"records of two blobs: {mine}, {other}")
            return self._collector

    @property
    def complete(self) -> bool:
        """Whether all records are there."""
        return self._collector is not None and self._collector.complete

    def write(self, blob: Blob) -> Blob:
        """Put the value into `blob` and return it; a tensor that is there keeps its memory where it is large enough.

        Raises:
            FormatError: no record came, or some are missing.
            BlobTypeError: the blob holds something else.
        """
        if self._collector is None:
            raise FormatError(f"blob {blob.name!r} has no record")
        self._collector.write(blob)
        return blob


def deserialize(source: bytes | BlobProto | Iterable[bytes | BlobProto], name: str | None = None) -> Blob:
    """Return the blob that is stored in one record, or in several chunks in any order.

    It gets `name`, or when that is None the stored one.

    Raises:
        FormatError: the records are broken, contradict each other or are not all there.

    >>> import numpy as np
    >>> from tazza.tensor.tensor import Tensor
    >>> deserialize(serialize(Tensor.from_numpy(np.arange(3)), "x"))
    Blob('x', Tensor([0, 1, 2], dtype=int64, name='x'))
    """
    records = [source] if isinstance(source, (bytes, BlobProto)) else list(source)
    protos = [_parse(record, name) if isinstance(record, bytes) else record for record in records]
    if not protos:
        raise FormatError(f"blob {'without a name' if name is None else repr(name)} has no record")
    assembler = BlobAssembler(name)
    for proto in protos:
        assembler.add(proto)
    return assembler.write(Blob(_label(protos[0])[0] if name is None else name))


def _label(proto: BlobProto) -> tuple[str, str]:
    """Name and type of a record; the runtime gives `bytes`, or fails, where they are not text."""
    try:
        inner = element_type(proto)
        label: tuple[object, object] = (proto.name, proto.type if inner is None else inner)
    except UnicodeDecodeError:
        label = (b"", b"")
    name, kind = label
    if isinstance(name, str) and isinstance(kind, str):
        return name, kind
    raise FormatError("name or type of a blob is not UTF-8 text", hint="the record is corrupt")


def _parse(record: bytes, name: str | None) -> BlobProto:
    try:
        return BlobProto.FromString(record)
    except DecodeError as error:
        whose = "" if name is None else f" of blob {name!r}"
        raise FormatError(f"record{whose} of {len(record)} bytes is not a BlobProto: {error}") from error
