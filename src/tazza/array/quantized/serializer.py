"""Blobs that hold a `QTensor`: one record under the bare name of the blob, with a `QTensorProto` in it."""

from __future__ import annotations

from collections.abc import Iterator

from tazza.array.quantized.proto import qtensor_from_proto, qtensor_to_proto
from tazza.array.quantized.qtensor import QTensor
from tazza.proto.caffe2_pb2 import BlobProto
from tazza.tensor.serializer import SERIALIZERS, Collector, OneRecord, Serializer

__all__ = ["QTensorSerializer"]

TYPE_NAME = "QTensor"


class QTensorSerializer(Serializer[QTensor]):
    """The planes as they are, whatever the chunk size."""

    def records(self, value: QTensor, name: str, chunk_size: int) -> Iterator[tuple[str, BlobProto]]:
        """Yield the one record."""
        yield name, BlobProto(name=name, type=TYPE_NAME, qtensor=qtensor_to_proto(value, name))

    def collector(self, name: str) -> Collector:
        """Return what takes the one record."""
        return OneRecord(name, "qtensor", lambda record: qtensor_from_proto(record.qtensor))


SERIALIZERS.register(TYPE_NAME, QTensorSerializer(), help="planes of bits")
