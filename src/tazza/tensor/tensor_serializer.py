"""Tensors in records: in chunks of so many elements, each a `TensorProto` with its `segment` of the row-major order."""

from __future__ import annotations

import bisect
import threading
from collections.abc import Iterator

from tazza.errors import FormatError, UnavailableError
from tazza.proto.caffe2_pb2 import BlobProto, DeviceOption
from tazza.runtime.fork import freed_in_child
from tazza.tensor.blob import Blob
from tazza.tensor.place import CPU_KIND, Place
from tazza.tensor.serializer import NO_CHUNKS, SERIALIZERS, Collector, Serializer
from tazza.tensor.tensor import Tensor
from tazza.tensor.tensor_proto import Chunk, read_chunk, write_elements

CHUNK_SEPARATOR = "#%"
"""Stands between the name of a blob and the number of a chunk in the key of a record."""

_DEVICE_TYPES = {CPU_KIND: 0, "pinned": 0, "cuda": 1}  # DeviceTypeProto
_RANGES_SHOWN = 4


class TensorSerializer(Serializer[Tensor]):
    """Plain elements of a tensor, whatever its layout; keys are `name#%k`, even of a single or an empty chunk."""

    type_name = "Tensor"

    def records(self, value: Tensor, name: str, chunk_size: int) -> Iterator[tuple[str, BlobProto]]:
        """Yield one record for every `chunk_size` elements, in order."""
        flat = value.plain().reshape(-1)
        step = max(flat.size, 1) if chunk_size == NO_CHUNKS else chunk_size
        for k, begin in enumerate(range(0, max(flat.size, 1), step)):
            end = min(begin + step, flat.size)
            record = BlobProto(name=name, type=self.type_name)
            tensor = record.tensor
            tensor.dims.extend(value.shape)
            write_elements(tensor, flat[begin:end], value.dtype)
            tensor.name = name
            _write_place(tensor.device_detail, value.place)
            tensor.segment.begin = begin
            tensor.segment.end = end
            yield f"{name}{CHUNK_SEPARATOR}{k}", record

    def collector(self, name: str) -> Collector:
        """Return what puts the chunks together."""
        return TensorCollector(name)


SERIALIZERS.register(TensorSerializer.type_name, TensorSerializer(), help="plain elements, in chunks")


def _write_place(option: DeviceOption, place: Place) -> None:
    number = _DEVICE_TYPES.get(place.kind)
    if number is None:
        raise UnavailableError(f"the format has no device type for {place}", hint="copy the tensor to the CPU first")
    option.device_type = number
    if number:
        option.device_id = place.index


class TensorCollector(Collector):
    """Keeps the chunks of one tensor until all are there, and only then allocates it.

    State: `_chunks` (sorted by begin, never overlapping) and `_covered` change only under `_lock`. Chunks are decoded
    outside of it, so that several threads do that at once.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._who = f"blob {name!r}"
        self._lock = freed_in_child(threading.Lock())
        self._head: Chunk | None = None
        self._chunks: list[Chunk] = []
        self._covered = 0

    def add(self, record: BlobProto) -> None:
        """Take a chunk."""
        if not record.HasField("tensor"):
            raise FormatError(f"{self._who} of type {record.type} has no tensor")
        chunk = self.read(record, self._who)
        with self._lock:
            self._check_head(chunk)
            if chunk.end > chunk.begin:
                self._insert(chunk)

    def read(self, record: BlobProto, who: str) -> Chunk:
        """Return the elements of a record; `who` is the blob, for messages.

        Raises:
            FormatError: they contradict what else is in it.
        """
        return read_chunk(record.tensor, who)

    def _check_head(self, chunk: Chunk) -> None:
        head = self._head
        if head is None:
            self._head = chunk
        elif head.dims != chunk.dims:
            raise FormatError(f"{self._who}: one chunk has {head.dims}, another has {chunk.dims}")
        elif head.dtype is not chunk.dtype:
            raise FormatError(f"{self._who}: one chunk is of {head.dtype}, another of {chunk.dtype}")

    def _insert(self, chunk: Chunk) -> None:
        at = bisect.bisect(self._chunks, chunk.begin, key=_begin)
        for other in self._chunks[max(at - 1, 0) : at + 1]:
            if other.begin < chunk.end and chunk.begin < other.end:
                raise FormatError(
                    f"{self._who}: chunk {chunk.begin} to {chunk.end} overlaps chunk {other.begin} to {other.end}"
                )
        self._chunks.insert(at, chunk)
        self._covered += chunk.end - chunk.begin

    @property
    def complete(self) -> bool:
        """Whether every element is there."""
        with self._lock:
            return self._head is not None and self._covered == self._head.dims.numel

    def write(self, blob: Blob) -> None:
        """Put the elements into the blob's tensor, which keeps its memory where that is large enough.

        Chunks are let go one by one, so that a large tensor is never in memory twice; there is nothing to write again.
        """
        with self._lock:
            head = self._head
            if head is None:
                raise FormatError(f"{self._who} has no record")
            if self._covered != head.dims.numel:
                raise FormatError(f"{self._who}: missing elements {self._missing(head.dims.numel)} of {head.dims}")
            tensor = blob.tensor()
            tensor.resize(head.dims, head.dtype)
            if not head.dims.numel:
                tensor.reserve()  # it has all its elements, so it is no tensor without data
            while self._chunks:
                _put(tensor, self._chunks.pop())
            self._head, self._covered = None, 0
            tensor.mark_written()

    def _missing(self, numel: int) -> str:
        gaps: list[str] = []
        done = 0
        for begin, end in [*((chunk.begin, chunk.end) for chunk in self._chunks), (numel, numel)]:
            if begin > done:
                gaps.append(f"{done} to {begin}")
            done = end
        more = f" and {len(gaps) - _RANGES_SHOWN} more ranges" if len(gaps) > _RANGES_SHOWN else ""
        return ", ".join(gaps[:_RANGES_SHOWN]) + more


def _put(tensor: Tensor, chunk: Chunk) -> None:
    """Write the elements of a chunk; a tensor that was stored without content stays without memory."""
    if chunk.values is not None:
        tensor.array.reshape(-1)[chunk.begin : chunk.end] = chunk.values


def _begin(chunk: Chunk) -> int:
    return chunk.begin
