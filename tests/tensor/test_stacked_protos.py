"""Batches of records that are read at once: the same as one record after the other, or nothing is said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tazza.errors import TazzaError
from tazza.proto import TensorProto, TensorProtos
from tazza.proto.message import parse
from tazza.tensor import DataType
from tazza.tensor.stacked_protos import stacked_records
from tazza.tensor.tensor_proto import array_to_tensor_proto, tensor_proto_to_array

DTYPES = [one for one in DataType if one not in (DataType.STRING, DataType.BFLOAT16)]


def one_by_one(values: list[bytes], count: int) -> list[Any]:
    """Read one record after the other, as who wants to know what is wrong with one."""
    rows: list[list[Any]] = []
    for value in values:
        protos = parse(TensorProtos, value, "a record").protos
        assert len(protos) == count
        rows.append([tensor_proto_to_array(proto) for proto in protos])
    return [np.stack([row[n] for row in rows]) for n in range(count)]


@pytest.mark.parametrize("dtype", DTYPES)
def test_plain_records_of_every_type(dtype: DataType) -> None:
    values = [
        TensorProtos(
            protos=[
                array_to_tensor_proto((np.arange(6).reshape(2, 3) % (n + 2)).astype(dtype.numpy)),
                array_to_tensor_proto(np.array([b"a" * n, b"\n\0"], object), "told"),
                TensorProto(dims=[3], data_type="BYTE", byte_data=bytes([n, 0, 255])),
            ]
        ).SerializeToString()
        for n in range(5)
    ]
    found = stacked_records(values, 3)
    assert found is not None, "they are plain"
    for one, wanted in zip(found, one_by_one(values, 3), strict=True):
        np.testing.assert_array_equal(one, wanted)
        assert one.dtype == wanted.dtype


STRANGE: list[TensorProto] = [
    TensorProto(dims=[2], data_type="INT64", int64_data=[1]),
    TensorProto(dims=[2, 1], data_type="INT64", int64_data=[1, 2]),
    TensorProto(dims=[2], data_type="INT32", int32_data=[1, 2]),
    TensorProto(dims=[2], data_type="INT64", raw_data=bytes(16)),
    TensorProto(dims=[2], data_type="INT64", int64_data=[1, 2], segment=TensorProto.Segment(begin=0, end=2)),
    TensorProto(dims=[2], data_type="INT64", storage_type="NO_CONTENT"),
    TensorProto(dims=[-2], data_type="INT64"),
    TensorProto(dims=[2], data_type="UNDEFINED"),
]


@pytest.mark.parametrize("strange", STRANGE)
def test_nothing_is_said_of_what_is_not_plain(strange: TensorProto) -> None:
    plain = TensorProtos(protos=[TensorProto(dims=[2], data_type="INT64", int64_data=[1, 2])]).SerializeToString()
    assert stacked_records([plain, TensorProtos(protos=[strange]).SerializeToString()], 1) is None
    assert stacked_records([plain, plain], 2) is None
    assert stacked_records([plain + plain, b""], 1) is None, "as many in all, but not in each"
    assert stacked_records([], 1) is None
    small = TensorProtos(protos=[TensorProto(dims=[1], data_type="UINT8", int32_data=[256])]).SerializeToString()
    assert stacked_records([small], 1) is None


@settings(max_examples=300)
@given(data=st.data())
def test_wrong_bytes_are_never_read_otherwise(data: st.DataObject) -> None:
    """What is read at once is what is read one by one; bytes of one record never count as those of another."""
    values = [
        TensorProtos(
            protos=[
                array_to_tensor_proto(np.array([n, 300 * n])),
                array_to_tensor_proto(np.array(n, np.float32), "label"),
            ]
        ).SerializeToString()
        for n in range(3)
    ]
    for _ in range(data.draw(st.integers(1, 3))):
        n = data.draw(st.sampled_from([n for n in range(3) if values[n]]))
        changed = bytearray(values[n])
        at = data.draw(st.integers(0, len(changed) - 1))
        how = data.draw(st.sampled_from(["byte", "cut", "move"]))
        if how == "byte":
            changed[at] = data.draw(st.integers(0, 255))
        else:
            changed = changed[:at]
        if how == "move":
            values[(n + 1) % 3] = values[n][at:] + values[(n + 1) % 3]
        values[n] = bytes(changed)
    found = stacked_records(values, 2)
    if found is None:
        return
    try:
        wanted = one_by_one(values, 2)
    except (TazzaError, ValueError) as error:
        pytest.fail(f"read at once, but one by one: {error}")
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype
