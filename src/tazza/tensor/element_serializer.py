"""Rows of objects in records: a tensor without an element type, each element a `BlobProto` of its own in `string_data`.

Caffe2 kept rows of what is no number, such as packed records, in tensors of any C++ type, and stored them so: `type`
is `Tensor`, `data_type` is UNDEFINED, and an element says what it is of. Here such a row is a value of a type of its
own; that type is the one of the elements.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from google.protobuf.message import DecodeError

from tazza.errors import FormatError
from tazza.proto.caffe2_pb2 import BlobProto, TensorProto
from tazza.tensor.blob import Blob
from tazza.tensor.serializer import NO_CHUNKS, Collector, Serializer
from tazza.tensor.tensor_proto import Chunk, read_chunk
from tazza.tensor.tensor_serializer import CHUNK_SEPARATOR, TensorCollector, TensorSerializer

T = TypeVar("T")


class ElementSerializer(Serializer[T]):
    """Base for types that are a row of elements; a subclass is registered under its `type_name`, that of an element."""

    type_name: str

    @abstractmethod
    def elements(self, value: T) -> Sequence[bytes]:
        """Return what is stored of each element."""

    @abstractmethod
    def joined(self, contents: Sequence[bytes], name: str) -> T:
        """Return the value again; `name` is the blob's, for messages.

        Raises:
            FormatError: the bytes are not what `elements` gives.
        """

    def records(self, value: T, name: str, chunk_size: int) -> Iterator[tuple[str, BlobProto]]:
        """Yield one record for every `chunk_size` elements, in order; keys are those of tensors."""
        stored = self.elements(value)
        step = max(len(stored), 1) if chunk_size == NO_CHUNKS else chunk_size
        for k, begin in enumerate(range(0, max(len(stored), 1), step)):
            end = min(begin + step, len(stored))
            # `content` tells of a row without elements; Caffe2 does not look at it, and reads a tensor without rows.
            record = BlobProto(name=name, type=TensorSerializer.type_name, content=self.type_name.encode())
            tensor = record.tensor
            tensor.dims.append(len(stored))
            tensor.data_type = TensorProto.UNDEFINED
            for content in stored[begin:end]:
                element = BlobProto(name="", type=self.type_name, content=content)
                tensor.string_data.append(element.SerializeToString())
            tensor.name = name
            tensor.device_detail.device_type = 0
            tensor.segment.begin, tensor.segment.end = begin, end
            yield f"{name}{CHUNK_SEPARATOR}{k}", record

    def collector(self, name: str) -> Collector:
        """Return what puts the chunks together."""
        return ElementCollector(name, self)


class ElementCollector(TensorCollector):
    """Keeps the chunks of a row until all elements are there."""

    def __init__(self, name: str, serializer: ElementSerializer[Any]) -> None:
        super().__init__(name)
        self._serializer = serializer

    def read(self, record: BlobProto, who: str) -> Chunk:
        """Return the elements of a record, as text."""
        text = TensorProto()
        text.CopyFrom(record.tensor)
        text.data_type = TensorProto.STRING
        return read_chunk(text, who)

    def write(self, blob: Blob) -> None:
        """See `Collector.write`."""
        scratch = Blob(blob.name)
        super().write(scratch)
        kinds: set[object] = set()
        contents: list[bytes] = []
        for stored in scratch.tensor().plain().reshape(-1).tolist():
            element = _parsed(stored, blob.name)
            kinds.add(element.type)
            contents.append(element.content)
        if not kinds <= {self._serializer.type_name}:
            raise FormatError(f"blob {blob.name!r} is a row of elements of several types: {sorted(map(str, kinds))}")
        blob.set(self._serializer.joined(contents, blob.name))


def element_type(record: BlobProto) -> str | None:
    """Return the type of the elements of a record that holds a row of objects; None where it is anything else.

    Raises:
        FormatError: its first element is no `BlobProto`.
    """
    if record.type != TensorSerializer.type_name or record.tensor.data_type != TensorProto.UNDEFINED:
        return None
    if record.tensor.string_data:
        return _parsed(record.tensor.string_data[0], record.name).type
    return record.content.decode(errors="replace") if record.content else None


def _parsed(stored: bytes, name: str) -> BlobProto:
    try:
        return BlobProto.FromString(stored)
    except DecodeError as error:
        raise FormatError(f"an element of blob {name!r}, {len(stored)} bytes, is not a BlobProto: {error}") from error
