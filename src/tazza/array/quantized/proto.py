"""`QTensorProto`: the stored form of n-bit integers. Every byte of the planes is one element of its `data`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tazza.array.quantized.planes import BITS_PER_BYTE, Octets, plane_bytes
from tazza.array.quantized.qtensor import MOST_BITS, QTensor
from tazza.errors import ArgumentError, FormatError, UnsupportedError
from tazza.proto.caffe2_pb2 import QTensorProto
from tazza.tensor.dim import Dim
from tazza.tensor.dtype import DataType
from tazza.tensor.spec import size_obstacle
from tazza.tensor.tensor import Tensor

_MOST_STORED_BITS = 32
_LARGEST_ITEM = 8  # bytes of the integers that elements are read into


def qtensor_to_proto(q: QTensor, name: str = "") -> QTensorProto:
    """Return the stored form; bits that pad a plane are 0 in it.

    >>> list(qtensor_to_proto(QTensor.of_integers([0, 1, 2], 2, signed=False)).data)
    [64, 32]
    """
    proto = QTensorProto(precision=q.precision, scale=q.scale, bias=q.bias, is_signed=q.signed, name=name)
    proto.dims.extend(q.shape)
    proto.data.extend(_without_padding(q).reshape(-1).tolist())
    return proto


def _without_padding(q: QTensor) -> Octets:
    rest = q.size % BITS_PER_BYTE
    if rest == 0:
        return q.planes
    planes = q.planes.copy()
    planes[:, -1] &= 0xFF << (BITS_PER_BYTE - rest) & 0xFF
    return planes


def qtensor_from_proto(proto: QTensorProto) -> QTensor:
    """Return the tensor that is stored.

    Raises:
        FormatError: precision, shape and number of bytes do not fit each other, or scale or bias are no such numbers.
        UnsupportedError: it has a scale and a bias for every slice of an axis, or more than 8 bits.
    """
    octets = _read(proto)
    if proto.precision > MOST_BITS:
        raise UnsupportedError(
            f"quantized tensor {proto.name!r} has {proto.precision} bits > {MOST_BITS}",
            hint="qtensor_proto_to_array reads the numbers of any",
        )
    planes = Tensor(octets.shape, DataType.UINT8)
    planes.array[...] = octets
    try:
        return QTensor(
            planes,
            proto.dims,
            precision=proto.precision,
            signed=proto.is_signed,
            scale=proto.scale,
            bias=proto.bias,
            copy=False,
        )
    except ArgumentError as error:
        raise FormatError(f"quantized tensor {proto.name!r}: {error.message}") from error


def qtensor_proto_to_array(proto: QTensorProto) -> npt.NDArray[np.float32]:
    """Return the numbers that a stored tensor stands for, of up to 32 bits.

    Raises:
        FormatError: precision, shape and number of bytes do not fit each other.
        UnsupportedError: it has a scale and a bias for every slice of an axis.

    >>> qtensor_proto_to_array(QTensorProto(dims=[3], precision=2, scale=0.5, bias=1, is_signed=False, data=[160, 96]))
    array([1. , 1.5, 2. ], dtype=float32)
    """
    octets, dims = _read(proto), Dim(proto.dims)
    bits = np.unpackbits(octets, axis=1)[:, : dims.numel]
    magnitude = np.zeros(dims.numel, np.int64)
    for k in range(proto.precision):
        magnitude |= bits[k].astype(np.int64) << k
    x = np.where(bits[-1], -magnitude, magnitude) if proto.is_signed else magnitude
    return (proto.scale * (x + proto.bias)).astype(np.float32).reshape(dims)


def _read(proto: QTensorProto) -> Octets:
    """Return the planes, after everything was found to fit; nothing is allocated before the count of bytes is right."""
    who = f"quantized tensor {proto.name!r}"
    if proto.is_multiparam:
        raise UnsupportedError(
            f"{who} has {len(proto.scales)} scales along axis {proto.axis}", hint="one scale is read"
        )
    if not 0 < proto.precision <= _MOST_STORED_BITS:
        raise FormatError(f"{who}: precision {proto.precision} is not from 1 to {_MOST_STORED_BITS} bits")
    if proto.dims and min(proto.dims) < 0:
        raise FormatError(f"{who}: dims {tuple(proto.dims)} have {min(proto.dims)} < 0")
    dims = Dim(proto.dims)
    obstacle = size_obstacle(dims, _LARGEST_ITEM)
    if obstacle is not None:
        raise FormatError(f"{who}: {obstacle}")
    planes = proto.precision + proto.is_signed
    each = plane_bytes(dims.numel)
    if len(proto.data) != planes * each:
        raise FormatError(f"{who}: {len(proto.data)} bytes != {planes} planes of {each} for {dims}")
    data = np.array(proto.data, np.int32)
    octets = data.astype(np.uint8)
    if not np.array_equal(octets, data):
        raise FormatError(f"{who}: an element of data is out of the range 0 to 255 of a byte")
    return octets.reshape(planes, each)
