"""`TensorProto` to and from NumPy arrays.

float, double, int64 and string elements have fields of their own; bool, the integers of 8 to 32 bits and float16 (as
bit patterns) go to `int32_data`. bfloat16 is not in the format and is stored as float.

Nothing is allocated on the word of the `dims`: they are first held against the number of values that are really there.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tazza.data_class import dataclass
from tazza.errors import DTypeError, FormatError
from tazza.proto.caffe2_pb2 import TensorProto
from tazza.runtime.flags import flag
from tazza.tensor.dim import Dim
from tazza.tensor.dtype import DataType
from tazza.tensor.tensor import encode_text
from tazza.tensor.varint import encode_varints, packed_field

FLOAT16_AS_BYTES = flag(
    "caffe2_serialize_fp16_as_bytes", False, "store float16 tensors as raw bytes (byte_data) and not as int32_data"
)

_MESSAGE_LIMIT_BYTES = 2**31 - 1  # protobuf's limit of one message
_RANK_LIMIT = 32  # of the oldest NumPy that is supported
_DEFAULT_FIELD = "int32_data"
_FIELDS = {
    DataType.FLOAT: "float_data",
    DataType.DOUBLE: "double_data",
    DataType.INT64: "int64_data",
    DataType.STRING: "string_data",
}
BYTE_TYPES = frozenset({DataType.UINT8, DataType.INT8, DataType.BOOL, DataType.FLOAT16})
"""Element types that may lie in `byte_data`."""


def stored_type(dtype: DataType) -> DataType:
    """Return the element type under which `dtype` is stored: float for bfloat16, else itself."""
    return dtype if dtype.proto is not None else DataType.FLOAT


# -- arrays into messages ---------------------------------------------------------------------------------------------


def array_to_tensor_proto(array: npt.NDArray[Any], name: str = "") -> TensorProto:
    """Return a message with shape, type and all elements of `array`, and the name if there is one.

    Raises:
        DTypeError: no tensor holds such elements.
        FormatError: more than protobuf's 2 GiB.

    >>> array_to_tensor_proto(np.array([[1, 2, 3]], np.uint8)).int32_data
    [1, 2, 3]
    """
    dtype = DataType.of(array)
    proto = TensorProto(dims=array.shape)
    write_elements(proto, array.reshape(-1), dtype)
    if name:
        proto.name = name
    return proto


def write_elements(proto: TensorProto, values: npt.NDArray[Any], dtype: DataType) -> None:
    """Set the type and add the elements of the one-dimensional `values`, which are of type `dtype`.

    Raises:
        DTypeError: an object that is no text.
        FormatError: more than protobuf's 2 GiB.
    """
    stored = stored_type(dtype)
    assert stored.proto is not None
    proto.data_type = cast("TensorProto.DataType", stored.proto)
    if dtype is DataType.STRING:
        proto.string_data.extend(encode_text(values).tolist())
        return
    if dtype is DataType.FLOAT16 and FLOAT16_AS_BYTES.value:
        proto.byte_data = values.astype("<f2").tobytes()
        return
    field = _FIELDS.get(stored, _DEFAULT_FIELD)
    payload = _packed(values, stored)
    if len(payload) > _MESSAGE_LIMIT_BYTES:
        raise FormatError(
            f"{values.size} elements of {dtype} take {len(payload)} bytes > {_MESSAGE_LIMIT_BYTES} of one message",
            hint="save the tensor in chunks",
        )
    if payload:
        # Parsing a packed field copies memory; adding the elements one by one takes 60 times as long.
        proto.MergeFromString(packed_field(TensorProto.DESCRIPTOR.fields_by_name[field].number, payload))


def _packed(values: npt.NDArray[Any], stored: DataType) -> bytes:
    if stored in (DataType.FLOAT, DataType.DOUBLE):
        return values.astype(stored.numpy.newbyteorder("<")).tobytes()
    if stored is DataType.FLOAT16:
        return encode_varints(values.astype(stored.numpy).view(np.uint16))
    return encode_varints(values)


# -- messages into arrays ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Chunk:
    """Elements `begin` to `end` (row-major) of a tensor of shape `dims`; `values` is None when none were stored."""

    dims: Dim
    dtype: DataType
    begin: int
    end: int
    values: npt.NDArray[Any] | None


def tensor_proto_to_array(proto: TensorProto) -> npt.NDArray[Any]:
    r"""Return the elements of a message that holds a whole tensor; the array may be read-only.

    Text is an object array of `bytes`.

    Raises:
        FormatError: shape, type and values do not fit each other, or the message is only a chunk of a tensor.

    >>> tensor_proto_to_array(TensorProto(dims=[2], data_type="BYTE", byte_data=b"\1\2"))
    array([1, 2], dtype=uint8)
    """
    chunk = read_chunk(proto, f"tensor {proto.name!r}")
    if chunk.end - chunk.begin != chunk.dims.numel:
        raise FormatError(
            f"tensor {proto.name!r} has elements {chunk.begin} to {chunk.end} only, of {chunk.dims.numel}",
            hint="it is one chunk of a blob; deserialize it together with the others",
        )
    if chunk.values is None:
        raise FormatError(f"tensor {proto.name!r} was stored without its content", hint="storage_type is NO_CONTENT")
    return chunk.values.reshape(chunk.dims)


def read_chunk(proto: TensorProto, who: str) -> Chunk:
    """Check a message against itself and return its elements; `who` names it in messages.

    Raises:
        FormatError: anything in it contradicts something else.
    """
    dims, dtype = _read_shape(proto, who)
    numel = dims.numel
    begin, end = (proto.segment.begin, proto.segment.end) if proto.HasField("segment") else (0, numel)
    if not 0 <= begin <= end <= numel:
        raise FormatError(f"{who}: segment {begin} to {end} does not lie in the {numel} elements of {dims}")
    if proto.storage_type == TensorProto.NO_CONTENT:
        return Chunk(dims, dtype, begin, end, None)
    if proto.storage_type == TensorProto.EXTERNAL:
        raise FormatError(f"{who}: its elements are in another file", hint="external data is not read; store it inline")
    values = _read_values(proto, dtype, who)
    if values.size != end - begin:
        raise FormatError(f"{who}: {values.size} values != {end - begin} elements of {dims} from {begin} to {end}")
    return Chunk(dims, dtype, begin, end, values)


def _read_shape(proto: TensorProto, who: str) -> tuple[Dim, DataType]:
    # Caffe2 wrote tensors without elements that had no type yet, and read them as float.
    untyped = proto.data_type == TensorProto.UNDEFINED and 0 in proto.dims
    try:
        dtype = DataType.FLOAT if untyped else DataType.from_proto(proto.data_type)
    except DTypeError as error:
        raise FormatError(f"{who}: {error.message}", hint=error.hint) from error
    dims = tuple(proto.dims)
    if len(dims) > _RANK_LIMIT:
        raise FormatError(f"{who}: rank {len(dims)} > {_RANK_LIMIT}")
    if dims and min(dims) < 0:
        raise FormatError(f"{who}: dims {dims} have {min(dims)} < 0")
    # NumPy refuses such extents even where another one is 0.
    nbytes = math.prod(max(extent, 1) for extent in dims) * dtype.itemsize
    if nbytes > sys.maxsize:
        raise FormatError(f"{who}: dims {dims} of {dtype} span {nbytes} bytes > {sys.maxsize} that can be addressed")
    return Dim(dims), dtype


def _read_values(proto: TensorProto, dtype: DataType, who: str) -> npt.NDArray[Any]:
    if proto.HasField("raw_data") or proto.storage_type == TensorProto.RAW:
        return from_bytes(proto.raw_data, dtype, f"{who}: raw_data")
    if dtype in BYTE_TYPES and proto.HasField("byte_data"):
        return from_bytes(proto.byte_data, dtype, f"{who}: byte_data")
    if dtype is DataType.STRING:
        strings = np.empty(len(proto.string_data), object)
        strings[:] = list(proto.string_data)
        return strings
    if dtype is DataType.FLOAT:
        return np.array(proto.float_data, np.float32)
    if dtype is DataType.DOUBLE:
        return np.array(proto.double_data, np.float64)
    if dtype is DataType.INT64:
        return np.array(proto.int64_data, np.int64)
    return narrowed(np.array(proto.int32_data, np.int32), dtype, who)


def typed_field(protos: Sequence[TensorProto], dtype: DataType) -> list[Sequence[Any]]:
    """Return the elements of messages as they are stored, in the field of their type."""
    field = _FIELDS.get(dtype, _DEFAULT_FIELD)
    return [getattr(one, field) for one in protos]


def from_bytes(data: bytes, dtype: DataType, who: str) -> npt.NDArray[Any]:
    """Return elements that lie one behind the other; `who` names them in messages.

    Raises:
        FormatError: there are some bytes too many, or it is text.
    """
    if dtype is DataType.STRING or len(data) % dtype.itemsize:
        raise FormatError(f"{who} of {len(data)} bytes does not hold elements of {dtype}, {dtype.itemsize} bytes each")
    if dtype is DataType.BOOL:
        return np.frombuffer(data, np.uint8) != 0
    return np.frombuffer(data, dtype.numpy.newbyteorder("<")).astype(dtype.numpy, copy=False)


def narrowed(wide: npt.NDArray[np.int32], dtype: DataType, who: str) -> npt.NDArray[Any]:
    """Return values of `int32_data` as what they stand for; `who` names them in messages.

    Raises:
        FormatError: one is out of the range of the element type.
    """
    if dtype is DataType.INT32:
        return wide
    if dtype is DataType.BOOL:
        return wide != 0
    pattern = np.dtype(np.uint16) if dtype is DataType.FLOAT16 else dtype.numpy
    narrow = wide.astype(pattern)
    if not np.array_equal(narrow, wide):
        worst = int(wide[narrow != wide][0])
        raise FormatError(f"{who}: value {worst} is out of the range of {dtype}", hint="the data is corrupt")
    return narrow.view(dtype.numpy)
