"""Blobs that hold a quantized tensor: one record under the bare name of the blob, whose `QTensorProto` holds integers.

`bias` is the zero point, and every number of `data` an element, unlike in records of `QTensor`, which hold planes of
bits. A scale for each channel is what the format calls `is_multiparam`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from tazza.errors import ArgumentError, FormatError, ShapeError
from tazza.proto.caffe2_pb2 import BlobProto, QTensorProto
from tazza.tensor.blob import Blob
from tazza.tensor.dim import Dim
from tazza.tensor.dtype import DataType
from tazza.tensor.quantization import INTEGERS, PerChannel, PerTensor, Quantization
from tazza.tensor.serializer import SERIALIZERS, Collector, OneRecord, Serializer
from tazza.tensor.spec import TensorSpec, size_obstacle
from tazza.tensor.tensor import Tensor

TYPE_NAME = PerTensor.type_name
_BITS = 8
"""What Caffe2 writes as precision, whatever the element type."""


class Int8Serializer(Serializer[Tensor]):
    """The integers and what they stand for, whatever the chunk size."""

    def records(self, value: Tensor, name: str, chunk_size: int) -> Iterator[tuple[str, BlobProto]]:
        """Yield the one record."""
        del chunk_size
        yield name, BlobProto(name=name, type=TYPE_NAME, qtensor=int8_to_proto(value, name))

    def collector(self, name: str) -> Collector:
        """Return what takes the one record."""
        return OneRecord(name, "qtensor", lambda record: int8_from_proto(record.qtensor), _put)


SERIALIZERS.register(TYPE_NAME, Int8Serializer(), help="integers with scale and zero point")


def int8_to_proto(tensor: Tensor, name: str = "") -> QTensorProto:
    """Return the stored form of a quantized tensor."""
    meaning = tensor.quantization
    proto = QTensorProto(precision=_BITS, is_signed=False, name=name)
    proto.data_type = cast("Any", tensor.dtype.proto)
    proto.dims.extend(tensor.shape)
    proto.data.extend(tensor.plain().reshape(-1).tolist())
    if isinstance(meaning, PerChannel):
        proto.scale, proto.bias = meaning.scales[0], meaning.zero_points[0]
        proto.is_multiparam, proto.axis = True, meaning.axis
        proto.scales.extend(meaning.scales)
        proto.biases.extend(meaning.zero_points)
    else:
        assert isinstance(meaning, PerTensor), f"{tensor.spec} has no scale"
        proto.scale, proto.bias = meaning.scale, meaning.zero_point
    return proto


def int8_from_proto(proto: QTensorProto) -> tuple[TensorSpec, np.ndarray]:
    """Return the spec and the elements that are stored.

    Raises:
        FormatError: element type, extents, number of elements, scales and zero points do not fit each other.
    """
    who = f"int8 tensor {proto.name!r}"
    dtype = next((one for one in INTEGERS if one.proto == proto.data_type), None)
    if dtype is None:
        raise FormatError(f"{who} has elements of type {proto.data_type}", hint="uint8, int8 and int32 are quantized")
    if proto.dims and min(proto.dims) < 0:
        raise FormatError(f"{who}: dims {tuple(proto.dims)} have {min(proto.dims)} < 0")
    obstacle = size_obstacle(tuple(proto.dims), DataType.INT32.itemsize)
    if obstacle is not None:
        raise FormatError(f"{who}: {obstacle}")
    dims = Dim(proto.dims)
    if len(proto.data) != dims.numel:
        raise FormatError(f"{who}: {len(proto.data)} elements != {dims.numel} of {dims}")
    data = np.array(proto.data, np.int32)
    elements = data.astype(dtype.numpy)
    if not np.array_equal(elements, data):
        raise FormatError(f"{who}: an element is out of the range of {dtype.label}")
    try:
        spec = TensorSpec(dims, dtype, quantization=_quantization(proto))
    except (ArgumentError, ShapeError) as error:
        raise FormatError(f"{who}: {error.message}") from error
    return spec, elements.reshape(dims)


def _quantization(proto: QTensorProto) -> Quantization:
    if not proto.is_multiparam:
        return PerTensor(proto.scale, _whole(proto.bias))
    return PerChannel(proto.axis, tuple(proto.scales), tuple(map(_whole, proto.biases)))


def _whole(bias: float) -> int:
    if not bias.is_integer():
        raise ArgumentError(f"zero point {bias} is no whole number")
    return int(bias)


def _put(blob: Blob, stored: tuple[TensorSpec, np.ndarray]) -> None:
    spec, elements = stored
    tensor = blob.tensor()
    tensor.assign(elements)
    tensor.quantize_as(spec.quantization)
