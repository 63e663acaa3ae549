"""Packed integers are what the protobuf runtime itself writes and reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tazza.proto.caffe2_pb2 import TensorProto
from tazza.tensor.varint import encode_varint, encode_varints, packed_field


@given(
    hnp.arrays(
        st.sampled_from([np.int8, np.uint8, np.int16, np.uint16, np.int32, np.int64, np.bool_]), st.integers(1, 40)
    )
)
def test_packed_integers(values: npt.NDArray[Any]) -> None:
    field = packed_field(TensorProto.INT64_DATA_FIELD_NUMBER, encode_varints(values))
    assert field == TensorProto(int64_data=values.astype(np.int64).tolist()).SerializeToString()


def test_many_blocks() -> None:
    values = np.arange(-20_000, 50_000, dtype=np.int32)
    field = packed_field(TensorProto.INT32_DATA_FIELD_NUMBER, encode_varints(values))
    assert list(TensorProto.FromString(field).int32_data) == values.tolist()


def test_nothing() -> None:
    assert encode_varints(np.empty(0, np.int32)) == b""


@pytest.mark.parametrize(
    ("value", "code"), [(0, b"\0"), (127, b"\x7f"), (128, b"\x80\1"), (2**63, b"\x80" * 9 + b"\1")]
)
def test_one(value: int, code: bytes) -> None:
    assert encode_varint(value) == code
