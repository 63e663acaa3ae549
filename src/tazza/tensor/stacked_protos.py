"""Batches of alike `TensorProto` messages as one array each: many small ones at once, where that is plain.

What is not plain (extents or types that differ, chunks, raw or external data, a value out of range) is for whoever
reads one message after the other, and can say what is wrong with which.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError

from tazza.errors import DTypeError, FormatError
from tazza.proto import TensorProto, TensorProtos
from tazza.tensor.dtype import DataType
from tazza.tensor.tensor_proto import BYTE_TYPES, from_bytes, narrowed, typed_field

_TAG = 0x0A
"""Of `TensorProtos.protos`, its only field: number 1, with a length behind it."""
_UNUSUAL = ("segment", "raw_data", "external_data", "device_detail")

Array = npt.NDArray[Any]


def stacked_records(values: Sequence[bytes], count: int) -> list[Array] | None:
    """Return the tensors of serialized `TensorProtos`, `count` in each, stacked by their position.

    None where they are not plain and alike: then nothing is said about what they are.
    """
    if not values or any(_tensors(value) != count for value in values):
        return None
    try:
        # Messages behind each other are one whose fields follow on each other; each was seen to end where it ends.
        protos = TensorProtos.FromString(b"".join(values)).protos
    except DecodeError:
        return None
    found: list[Array] = []
    for position in range(count):
        one = stacked(protos[position::count])
        if one is None:
            return None
        found.append(one)
    return found


def _tensors(value: bytes) -> int | None:
    """Return how many tensors a serialized `TensorProtos` holds; None where it is not just these, each whole."""
    count, at, end = 0, 0, len(value)
    while at + 1 < end:
        if value[at] != _TAG:
            return None
        at += 1
        length, shift = 0, 0
        while at < end and value[at] & 0x80 and shift < 28:
            length |= (value[at] & 0x7F) << shift
            at, shift = at + 1, shift + 7
        if at >= end or value[at] & 0x80:
            return None
        at += 1 + (length | value[at] << shift)
        count += 1
    return count if at == end else None


def stacked(protos: Sequence[TensorProto]) -> Array | None:
    """Return the elements of tensors, stacked along a new first axis; None where they are not plain and alike."""
    head = protos[0]
    try:
        dtype = DataType.from_proto(head.data_type)
    except DTypeError:
        return None
    dims, kind = list(head.dims), head.data_type
    in_bytes = dtype in BYTE_TYPES and head.HasField("byte_data")
    for one in protos:
        if one.data_type != kind or one.storage_type != TensorProto.TYPED or list(one.dims) != dims:
            return None
        name: object = one.name  # bytes where it is no text
        if any(map(one.HasField, _UNUSUAL)) or one.HasField("byte_data") != in_bytes or type(name) is not str:
            return None
    return _elements(protos, dims, dtype, in_bytes=in_bytes)


def _elements(protos: Sequence[TensorProto], dims: list[int], dtype: DataType, *, in_bytes: bool) -> Array | None:
    numel = 1
    for extent in dims:
        if extent < 1:
            return None
        numel *= extent
    parts: list[Any] = [one.byte_data for one in protos] if in_bytes else typed_field(protos, dtype)
    itemsize = dtype.itemsize if in_bytes else 1
    if any(len(part) != numel * itemsize for part in parts):
        return None
    shape = (len(protos), *dims)
    try:
        if in_bytes:
            return from_bytes(b"".join(parts), dtype, "a batch").reshape(shape)
        if dtype is DataType.STRING:
            text = np.empty(len(protos) * numel, object)
            text[:] = list(chain.from_iterable(parts))
            return text.reshape(shape)
        wide = np.int32 if dtype not in (DataType.FLOAT, DataType.DOUBLE, DataType.INT64) else dtype.numpy
        flat = np.fromiter(chain.from_iterable(parts), wide, len(protos) * numel)
        return narrowed(flat, dtype, "a batch").reshape(shape) if wide is np.int32 else flat.reshape(shape)
    except FormatError:
        return None
