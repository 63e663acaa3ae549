"""Blobs that hold a `QTensor`: one record under the bare name of the blob, with a `QTensorProto` in it."""

from __future__ import annotations

from collections.abc import Iterator

from tazza.errors import FormatError
from tazza.proto.caffe2_pb2 import BlobProto
from tazza.tensor.blob import Blob
from tazza.tensor.quantized.proto import qtensor_from_proto, qtensor_to_proto
from tazza.tensor.quantized.qtensor import QTensor
from tazza.tensor.serializer import SERIALIZERS, Collector, Serializer

TYPE_NAME = "QTensor"


class QTensorSerializer(Serializer[QTensor]):
    """The planes as they are, whatever the chunk size."""

    def records(self, value: QTensor, name: str, chunk_size: int) -> Iterator[tuple[str, BlobProto]]:
        """Yield the one record."""
        yield name, BlobProto(name=name, type=TYPE_NAME, qtensor=qtensor_to_proto(value, name))

    def collector(self, name: str) -> Collector:
        """Return what takes the one record."""
        return _QTensorCollector(name)


SERIALIZERS.register(TYPE_NAME, QTensorSerializer(), help="planes of bits")


class _QTensorCollector(Collector):
    def __init__(self, name: str) -> None:
        self._name = name
        self._records: list[QTensor] = []

    def add(self, record: BlobProto) -> None:
        if not record.HasField("qtensor"):
            raise FormatError(f"blob {self._name!r} of type {record.type} has no qtensor")
        self._records.append(qtensor_from_proto(record.qtensor))
        if len(self._records) > 1:
            raise FormatError(f"blob {self._name!r} of type {record.type} is stored more than once")

    @property
    def complete(self) -> bool:
        return bool(self._records)

    def write(self, blob: Blob) -> None:
        if not self._records:
            raise FormatError(f"blob {self._name!r} has no record")
        blob.set(self._records[0])
