"""`QTensorProto`: integers of any number of bits as planes of bits, with a scale and a bias.

value = scale * (x + bias). Plane k holds bit k of all x, each plane padded to whole bytes, the first element in the
highest bit of its byte; a signed tensor has one more plane, the signs, at the end (sign and magnitude). Every byte is
one element of `data`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tazza.errors import FormatError, UnsupportedError
from tazza.proto.caffe2_pb2 import QTensorProto
from tazza.tensor.dim import Dim

_BITS_PER_BYTE = 8
_MOST_BITS = 32


def qtensor_proto_to_array(proto: QTensorProto) -> npt.NDArray[np.float32]:
    """Return the numbers that a quantized tensor stands for.

    Raises:
        FormatError: precision, shape and number of bytes do not fit each other.
        UnsupportedError: it has a scale and a bias for every slice of an axis.

    >>> qtensor_proto_to_array(QTensorProto(dims=[3], precision=2, scale=0.5, bias=1, is_signed=False, data=[160, 96]))
    array([1. , 1.5, 2. ], dtype=float32)
    """
    who = f"quantized tensor {proto.name!r}"
    if proto.is_multiparam:
        raise UnsupportedError(
            f"{who} has {len(proto.scales)} scales along axis {proto.axis}", hint="one scale is read"
        )
    if not 0 < proto.precision <= _MOST_BITS:
        raise FormatError(f"{who}: precision {proto.precision} is not from 1 to {_MOST_BITS} bits")
    if proto.dims and min(proto.dims) < 0:
        raise FormatError(f"{who}: dims {tuple(proto.dims)} have {min(proto.dims)} < 0")
    dims = Dim(proto.dims)
    planes = proto.precision + proto.is_signed
    plane_bytes = -(-dims.numel // _BITS_PER_BYTE)
    if len(proto.data) != planes * plane_bytes:
        raise FormatError(f"{who}: {len(proto.data)} bytes != {planes} planes of {plane_bytes} for {dims}")
    data = np.array(proto.data, np.int32)
    octets = data.astype(np.uint8)
    if not np.array_equal(octets, data):
        raise FormatError(f"{who}: an element of data is out of the range 0 to 255 of a byte")
    bits = np.unpackbits(octets.reshape(planes, plane_bytes), axis=1)[:, : dims.numel]
    magnitude = np.zeros(dims.numel, np.int64)
    for k in range(proto.precision):
        magnitude |= bits[k].astype(np.int64) << k
    x = np.where(bits[-1], -magnitude, magnitude) if proto.is_signed else magnitude
    return (proto.scale * (x + proto.bias)).astype(np.float32).reshape(dims)
