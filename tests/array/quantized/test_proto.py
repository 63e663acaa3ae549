"""The stored form of quantized tensors: planes of bits, byte by byte."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tazza.array.quantized import QTensor, qtensor_from_proto, qtensor_proto_to_array, qtensor_to_proto
from tazza.errors import FormatError, UnsupportedError
from tazza.proto.caffe2_pb2 import QTensorProto


def planes(numbers: list[int], precision: int, is_signed: bool) -> list[int]:
    """Write the planes bit by bit."""
    columns = [[abs(x) >> k & 1 for x in numbers] for k in range(precision)]
    columns += [[int(x < 0) for x in numbers]] if is_signed else []
    octets: list[int] = []
    for column in columns:
        padded = column + [0] * (-len(column) % 8)
        octets += [int("".join(map(str, padded[i : i + 8])), 2) for i in range(0, len(padded), 8)]
    return octets


@given(st.integers(1, 9), st.booleans(), st.integers(0, 21), st.data())
def test_values(precision: int, is_signed: bool, count: int, data: st.DataObject) -> None:
    top = 2**precision - 1
    numbers = data.draw(st.lists(st.integers(-top if is_signed else 0, top), min_size=count, max_size=count))
    proto = QTensorProto(dims=[count, 1], precision=precision, scale=0.25, bias=-3, is_signed=is_signed)
    proto.data.extend(planes(numbers, precision, is_signed))
    expected = np.array([0.25 * (x - 3) for x in numbers], np.float32).reshape(count, 1)
    np.testing.assert_array_equal(qtensor_proto_to_array(proto), expected)
    if precision <= 8:
        q = qtensor_from_proto(proto)
        np.testing.assert_array_equal(q.dequantize().plain(), expected)
        proto.name = "q"
        assert qtensor_to_proto(q, "q") == proto


@pytest.mark.parametrize(
    ("dims", "precision", "data", "text"),
    [
        ([9], 2, [1, 2, 3], "3 bytes != 2 planes of 2"),
        ([3], 0, [], "precision 0 is not from 1 to 32"),
        ([3], 99, [1], "precision 99"),
        ([-3], 1, [1], "have -3 < 0"),
        ([10**15], 1, [1], "1 bytes != 1 planes"),
        ([3], 1, [256], "out of the range 0 to 255"),
        ([1] * 70, 1, [0], "rank 70 > 64"),
        ([0, 2**62, 2**62], 1, [], "2[*][*]63 bytes"),
    ],
)
def test_contradictions(dims: list[int], precision: int, data: list[int], text: str) -> None:
    proto = QTensorProto(dims=dims, precision=precision, scale=1, bias=0, is_signed=False, data=data, name="q")
    for read in (qtensor_proto_to_array, qtensor_from_proto):
        with pytest.raises(FormatError, match=text):
            read(proto)


def test_several_scales() -> None:
    proto = QTensorProto(dims=[1], precision=1, scale=1, bias=0, is_signed=False, is_multiparam=True, scales=[1, 2])
    for read in (qtensor_proto_to_array, qtensor_from_proto):
        with pytest.raises(UnsupportedError, match="2 scales along axis 0"):
            read(proto)


def test_more_than_a_qtensor_holds() -> None:
    proto = QTensorProto(dims=[1], precision=9, scale=1, bias=0, is_signed=False, data=[128] * 9)
    assert qtensor_proto_to_array(proto).tolist() == [511.0]
    with pytest.raises(UnsupportedError, match="9 bits > 8"):
        qtensor_from_proto(proto)
    proto = QTensorProto(dims=[1], precision=1, scale=float("nan"), bias=0, is_signed=False, data=[128])
    with pytest.raises(FormatError, match="scale nan"):
        qtensor_from_proto(proto)


def test_padding_is_cleared() -> None:
    proto = QTensorProto(dims=[3], precision=1, scale=1, bias=0, is_signed=False, data=[255])
    q = qtensor_from_proto(proto)
    assert list(qtensor_to_proto(q).data) == [0b1110_0000]
    assert q.equal(QTensor.of_integers([1, 1, 1], 1, signed=False))
