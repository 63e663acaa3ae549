"""`TensorProto` to and from arrays: fields, refusals."""

from __future__ import annotations

from typing import Any, cast

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tazza.errors import DTypeError, FormatError
from tazza.proto.caffe2_pb2 import TensorProto
from tazza.tensor.dtype import DataType
from tazza.tensor.tensor_proto import FLOAT16_AS_BYTES, array_to_tensor_proto, tensor_proto_to_array

NUMERIC = [dtype.numpy for dtype in DataType if dtype not in (DataType.STRING, DataType.BFLOAT16)]
Segment = TensorProto.Segment


@given(hnp.arrays(st.sampled_from(NUMERIC), hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)))
@settings(max_examples=150)
def test_round_trip(array: npt.NDArray[Any]) -> None:
    back = tensor_proto_to_array(TensorProto.FromString(array_to_tensor_proto(array, "x").SerializeToString()))
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(
        back.view(np.uint8) if array.ndim else back, array.view(np.uint8) if array.ndim else array
    )


@given(hnp.arrays(object, hnp.array_shapes(min_dims=0, min_side=0, max_side=3), elements=st.binary(max_size=4)))
@settings(max_examples=50)
def test_round_trip_of_text(array: npt.NDArray[Any]) -> None:
    back = tensor_proto_to_array(array_to_tensor_proto(array))
    assert (back.shape, back.tolist()) == (array.shape, array.tolist())


@pytest.mark.parametrize(
    ("dtype", "field"),
    [
        ("float32", "float_data"),
        ("float64", "double_data"),
        ("int64", "int64_data"),
        ("int32", "int32_data"),
        ("bool", "int32_data"),
        ("int8", "int32_data"),
        ("uint8", "int32_data"),
        ("int16", "int32_data"),
        ("uint16", "int32_data"),
        ("float16", "int32_data"),
        ("bfloat16", "float_data"),
        ("object", "string_data"),
    ],
)
def test_fields(dtype: str, field: str) -> None:
    array = np.array([[b"a", b"bc", b""]], object) if dtype == "object" else np.ones((1, 3), DataType.of(dtype).numpy)
    fields = [descriptor.name for descriptor, _ in array_to_tensor_proto(array, "x").ListFields()]
    assert fields == sorted(
        ["dims", "data_type", field, "name"], key=lambda name: TensorProto.DESCRIPTOR.fields_by_name[name].number
    )
    assert len(getattr(array_to_tensor_proto(array), field)) == 3


def test_bfloat16_is_stored_as_float() -> None:
    proto = array_to_tensor_proto(np.array([1.5, -2], ml_dtypes.bfloat16))
    assert (proto.data_type, list(proto.float_data)) == (TensorProto.FLOAT, [1.5, -2])


def test_float16_as_bytes() -> None:
    array = np.array([[1, -2.5, 0]], np.float16)
    with FLOAT16_AS_BYTES.override(True):
        proto = array_to_tensor_proto(array)
    assert (proto.byte_data, list(proto.int32_data)) == (array.tobytes(), [])
    np.testing.assert_array_equal(tensor_proto_to_array(proto), array)


@pytest.mark.parametrize(
    ("proto", "expected"),
    [
        (TensorProto(dims=[2], data_type="BYTE", byte_data=b"ab"), np.array([97, 98], np.uint8)),
        (TensorProto(dims=[2], data_type="BYTE", int32_data=[7, 255]), np.array([7, 255], np.uint8)),
        (TensorProto(dims=[2], data_type="UINT8", byte_data=b"ab"), np.array([97, 98], np.uint8)),
        (TensorProto(dims=[2], data_type="INT8", byte_data=b"\xff\1"), np.array([-1, 1], np.int8)),
        (TensorProto(dims=[2], data_type="BOOL", byte_data=b"\7\0"), np.array([True, False])),
        (TensorProto(dims=[2], data_type="BOOL", int32_data=[7, 0]), np.array([True, False])),
        (
            TensorProto(dims=[1, 2], raw_data=np.array([1, 2], np.float32).tobytes(), storage_type="RAW"),
            np.array([[1, 2]], np.float32),
        ),
        (TensorProto(dims=[1], data_type="INT16", raw_data=b"\1\2"), np.array([513], np.int16)),
        (TensorProto(dims=[0, 3]), np.zeros((0, 3), np.float32)),
        (TensorProto(float_data=[2.5]), np.array(2.5, np.float32)),
        (TensorProto(dims=[1], float_data=[2.5], segment=Segment(begin=0, end=1)), np.array([2.5], np.float32)),
    ],
)
def test_other_forms_that_are_read(proto: TensorProto, expected: npt.NDArray[Any]) -> None:
    array = tensor_proto_to_array(proto)
    assert array.dtype == expected.dtype
    np.testing.assert_array_equal(array, expected)


def test_unpacked_elements_are_read() -> None:
    tag = bytes([TensorProto.INT32_DATA_FIELD_NUMBER << 3])
    proto = TensorProto.FromString(TensorProto(dims=[2], data_type="INT32").SerializeToString() + (tag + b"\5") * 2)
    assert tensor_proto_to_array(proto).tolist() == [5, 5]


@pytest.mark.parametrize(
    ("proto", "text"),
    [
        (TensorProto(dims=[2], float_data=[1]), r"1 values != 2 elements of Dim\(2\)"),
        (TensorProto(dims=[1], float_data=[1, 2]), "2 values != 1 elements"),
        (TensorProto(dims=[2], data_type="INT64", float_data=[1, 2]), "0 values != 2 elements"),
        (TensorProto(dims=[10**12], float_data=[1]), "1 values != 1000000000000 elements"),
        (TensorProto(dims=[2, -4], float_data=[1]), r"dims \(2, -4\) have -4 < 0"),
        (TensorProto(dims=[2**62, 2**62, 4], float_data=[1]), "can be addressed"),
        (TensorProto(dims=[0, 2**62, 2**62]), "can be addressed"),
        (TensorProto(dims=[1] * 33, float_data=[1]), "rank 33 > 32"),
        (TensorProto(dims=[1], data_type="UNDEFINED"), "data_type 0 is not an element type"),
        (TensorProto(dims=[1], data_type="ZERO_COLLISION_HASH", int64_data=[1]), "data_type 14"),
        (TensorProto(dims=[1], data_type="UINT8", int32_data=[300]), "value 300 is out of the range of uint8"),
        (TensorProto(dims=[1], data_type="INT8", int32_data=[-129]), "value -129 is out of the range of int8"),
        (TensorProto(dims=[1], data_type="FLOAT16", int32_data=[-1]), "value -1 is out of the range of float16"),
        (TensorProto(dims=[1], raw_data=b"abc"), "raw_data of 3 bytes does not hold elements of float32"),
        (TensorProto(dims=[1], storage_type="RAW"), "0 values != 1 elements"),
        (TensorProto(dims=[1], data_type="STRING", raw_data=b"abc"), "does not hold elements of string"),
        (TensorProto(dims=[1], data_type="FLOAT16", byte_data=b"abc"), "byte_data of 3 bytes"),
        (TensorProto(dims=[1], storage_type="EXTERNAL"), "in another file"),
        (TensorProto(dims=[1], storage_type="NO_CONTENT"), "stored without its content"),
        (TensorProto(dims=[3], float_data=[1], segment=Segment(begin=1, end=2)), "elements 1 to 2 only, of 3"),
        (TensorProto(dims=[3], float_data=[1], segment=Segment(begin=3, end=4)), "segment 3 to 4 does not lie"),
        (TensorProto(dims=[3], float_data=[1], segment=Segment(begin=2, end=1)), "segment 2 to 1 does not lie"),
        (TensorProto(dims=[3], float_data=[1], segment=Segment(begin=-1, end=0)), "segment -1 to 0 does not lie"),
    ],
)
def test_contradictions(proto: TensorProto, text: str) -> None:
    proto.name = "x"
    with pytest.raises(FormatError, match=text) as caught:
        tensor_proto_to_array(proto)
    assert caught.value.message.startswith("tensor 'x'")


@pytest.mark.parametrize("dtype", [np.uint32, np.complex64])
def test_types_that_the_format_does_not_know(dtype: type) -> None:
    with pytest.raises(DTypeError, match="cannot be held by a tensor"):
        array_to_tensor_proto(np.zeros(2, cast("Any", dtype)))
