"""Quantization as part of specs and tensors: what integers stand for, who keeps it, how it is fetched and stored."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from tazza.errors import ArgumentError, DTypeError, FormatError, ShapeError
from tazza.operator import blob, find_schema
from tazza.operator.definition import operator_def
from tazza.proto.caffe2_pb2 import BlobProto
from tazza.tensor import (
    ROW_MAJOR,
    Blob,
    Content,
    DataType,
    Field,
    Int8Tensor,
    PerChannel,
    PerRow,
    PerTensor,
    Storage,
    Tensor,
    TensorSpec,
    TypeSpec,
    blob_type,
)
from tazza.tensor.serialization import deserialize, serialize
from tazza.workspace import Workspace

SCALES = st.floats(2.0**-20, 2.0**20, width=32)


def quantized(data: Any, meaning: Any) -> Tensor:
    tensor = Tensor.from_numpy(data)
    tensor.quantize_as(meaning)
    return tensor


@given(SCALES, st.integers(0, 255), arrays(np.uint8, array_shapes(max_side=4)))
def test_integers_come_back_from_what_they_stand_for(scale: float, point: int, q: Any) -> None:
    """Quantizing what bytes stand for gives these bytes, for one scale and for one per channel."""
    count = q.shape[-1]
    many = PerChannel(q.ndim - 1, tuple(scale * 2.0**i for i in range(count)), (point,) * count)
    for meaning in (PerTensor(scale, point), many):
        assert meaning.real(q).dtype == np.float32
        np.testing.assert_array_equal(meaning.integers(meaning.real(q)), q)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("parameters", [DataType.FLOAT, DataType.FLOAT16])
def test_rows_come_back_within_half_a_step(bits: int, parameters: DataType) -> None:
    x = np.random.default_rng(bits).standard_normal((5, 8)).astype(np.float32)
    meaning = PerRow(bits, parameters)
    rows = meaning.integers(x)
    assert rows.shape == (5, bits + meaning.tail_bytes)
    span = x.max(1, keepdims=True) - x.min(1, keepdims=True)
    slack = 0.0 if parameters is DataType.FLOAT else 2e-3
    assert np.all(np.abs(meaning.real(rows) - x) <= span * (0.5001 / (2**bits - 1) + slack))


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_rows_fill_their_bytes(bits: int) -> None:
    """As in Caffe2: rows without elements are scale and bias alone, and a row ends with a whole byte."""
    meaning, each = PerRow(bits), 8 // bits
    for shape in ((3, 0), (0, 8), (2, 3, 0)):
        numbers = np.zeros(shape, np.float32)
        rows = meaning.integers(numbers)
        assert rows.shape == (*shape[:-1], shape[-1] // each + 8)
        np.testing.assert_array_equal(meaning.real(rows), numbers)
    for shape in ((), (2, each + 1)) if each > 1 else ((),):
        with pytest.raises(ShapeError, match=f"numbers of {bits} bits in the shape .* do not fill bytes"):
            meaning.integers(np.zeros(shape, np.float32))


def test_what_lies_beyond_saturates() -> None:
    x = np.array([-np.inf, -1e30, 1e30, np.inf, np.nan], np.float32)
    assert PerTensor(0.05, 7).integers(x).tolist() == [0, 0, 255, 255, 7]


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf, 1e-60])
def test_scales_are_above_zero_and_finite(scale: float) -> None:
    with pytest.raises(ArgumentError, match="not above 0"):
        PerTensor(scale)
    with pytest.raises(ArgumentError, match="not above 0"):
        PerChannel(0, (1.0, scale), (0, 0))


def test_specs_refuse_what_does_not_fit() -> None:
    with pytest.raises(ArgumentError, match="float32 elements cannot be quantized"):
        TensorSpec((2,), DataType.FLOAT, quantization=PerTensor(1.0))
    with pytest.raises(ShapeError, match="2 scales along axis 1"):
        TensorSpec((2, 3), DataType.UINT8, quantization=PerChannel(1, (1.0, 2.0), (0, 0)))
    with pytest.raises(ShapeError, match="rows of 7 bytes < 8"):
        TensorSpec((2, 7), DataType.UINT8, quantization=PerRow())
    assert TensorSpec((2, None), DataType.UINT8, quantization=PerChannel(1, (1.0,), (0,))).shape_known is False


def test_specs_and_tensors_tell_it() -> None:
    spec = TensorSpec((2, 3), DataType.UINT8, quantization=PerTensor(0.5, 3))
    assert str(spec) == "uint8[2, 3] (scale 0.5, zero point 3)"
    assert spec != TensorSpec((2, 3), DataType.UINT8)
    assert hash(PerChannel(0, (1.0, 2.0), (0, 1))) == hash(PerChannel(0, (1.0, 2.0), (0, 1)))
    tensor = Tensor()
    tensor.resize_to(spec)
    assert tensor.spec is spec
    assert tensor.quantization == PerTensor(0.5, 3)


def test_a_plain_array_makes_a_plain_tensor() -> None:
    tensor = quantized(np.zeros((2, 3), np.uint8), PerTensor(0.5, 3))
    assert not tensor.has_form(np.ones((2, 3), np.uint8))
    assert not tensor.overwrite(np.ones((2, 3), np.uint8))
    tensor.assign(np.ones((2, 3), np.uint8))
    assert tensor.quantization is None
    tensor.quantize_as(PerTensor(2.0))
    tensor.resize((3, 2))
    assert tensor.quantization is None


def test_views_keep_one_scale_and_drop_those_of_channels() -> None:
    one, many = PerTensor(0.5, 3), PerChannel(0, (1.0, 2.0), (0, 0))
    assert quantized(np.zeros((2, 3), np.uint8), one).view((3,), offset=3).quantization == one
    assert quantized(np.zeros((2, 3), np.uint8), many).view((3,), offset=3).quantization is None


def test_storages_know_their_type() -> None:
    tensor = Tensor((2, 3), DataType.INT16)
    tensor.reserve()
    assert tensor.storage.dtype is DataType.INT16
    assert tensor.storage.numel >= 6
    assert "int16" in repr(tensor.storage)
    tensor.resize((5, 7), DataType.DOUBLE)
    assert tensor.storage.dtype is DataType.DOUBLE
    assert Tensor((1,), DataType.STRING).storage.dtype is DataType.STRING
    assert Storage().dtype is None


def test_fetched_as_caffe2_gave_it_and_fed_again() -> None:
    workspace = Workspace()
    data = np.arange(6, dtype=np.uint8).reshape(2, 3)
    workspace.feed("q", Int8Tensor(data, 0.5, 3))
    found = workspace.fetch("q")
    assert (found.scale, found.zero_point, found.data.dtype) == (0.5, 3, np.uint8)
    np.testing.assert_array_equal(found.data, data)
    assert workspace.blob("q").type_name == "Int8TensorCPU"
    assert workspace.blob("q").describe() == "q, a C++ native class of type caffe2::int8::Int8TensorCPU."
    workspace.feed("p", found)
    assert workspace.fetch("p").quantization == PerTensor(0.5, 3)
    workspace.feed("p", data)
    assert isinstance(workspace.fetch("p"), np.ndarray)
    assert workspace.blob("p").type_name == "Tensor"
    many = Int8Tensor.of(data, PerChannel(0, (0.5, 2.0), (1, 2)))
    workspace.feed("p", many)
    found = workspace.fetch("p")
    assert found.quantization == PerChannel(0, (0.5, 2.0), (1, 2))
    np.testing.assert_array_equal(
        (found.data.astype(int) - found.zero_point) * found.scale, found.quantization.real(data)
    )


@given(st.sampled_from([np.uint8, np.int8, np.int32]), st.booleans(), st.data())
def test_stored_and_read_again(dtype: Any, channels: bool, data: Any) -> None:
    elements = data.draw(arrays(dtype, array_shapes(min_dims=1, max_dims=3, max_side=3)))
    axis = elements.ndim - 1
    count = elements.shape[axis]
    meaning = PerChannel(axis, (0.5,) * count, (3,) * count) if channels else PerTensor(0.1, -7)
    again = deserialize(serialize(quantized(elements, meaning), "q")).tensor()
    assert again.quantization == meaning
    np.testing.assert_array_equal(again.array, elements)
    assert again.array.dtype == dtype


def test_reads_and_writes_the_bytes_of_caffe2() -> None:
    """What `SerializeBlob` of the genuine one gave for int32 elements 1, -2, 70000 with scale 0.25."""
    record = (
        b"\n\x01b\x12\rInt8TensorCPU*-\x08\x03\x10\x08\x19\x00\x00\x00\x00\x00\x00\xd0?!\x00\x00\x00\x00\x00\x00\x00\x00"
        b"(\x002\x0e\x01\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\xf0\xa2\x04:\x01b@\x02"
    )
    found = deserialize(record)
    assert found.tensor().array.tolist() == [1, -2, 70000]
    assert found.tensor().quantization == PerTensor(0.25, 0)
    assert serialize(found, "b") == record


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"dims": [2]}, "3 elements != 2"),
        ({"dims": [-3]}, "< 0"),
        ({"scale": 0.0}, "not above 0"),
        ({"bias": 0.5}, "no whole number"),
        ({"data_type": 1}, "elements of type 1"),
        ({"data": [0, 0, 256]}, "out of the range"),
        ({"is_multiparam": True, "axis": 4, "scales": [1.0], "biases": [0.0]}, "axis 4"),
    ],
)
def test_broken_records_are_refused(changes: dict[str, Any], words: str) -> None:
    record = BlobProto.FromString(serialize(quantized(np.array([1, 2, 3], np.uint8), PerTensor(0.5)), "q"))
    for name, value in changes.items():
        if isinstance(value, list):
            del getattr(record.qtensor, name)[:]
            getattr(record.qtensor, name).extend(value)
        else:
            setattr(record.qtensor, name, value)
    with pytest.raises(FormatError, match=words):
        deserialize(record)


def test_schemas_tell_quantized_from_plain() -> None:
    """A letter takes plain tensors unless it says otherwise."""
    spec = TensorSpec((2,), DataType.UINT8, quantization=PerTensor(0.5, 3))
    copy = find_schema("Copy")
    with pytest.raises(DTypeError, match="must be plain"):
        copy.infer_specs(copy.view(operator_def("Copy", ["X"], ["Y"])), [spec])


class Shelf:
    """Holds blobs."""

    capacity = 8


def test_blobs_say_what_is_in_them() -> None:
    def content(shelf: Shelf) -> Content:
        return Content((Field("image", TensorSpec(None, DataType.FLOAT)),), shelf.capacity)

    blob_type("tests::Shelf", content=content)(Shelf)
    spec = Blob("s", Shelf()).spec
    assert isinstance(spec, TypeSpec)
    assert str(spec) == "tests::Shelf[image: float32[...]; at most 8]"
    assert Blob("e").spec is None
    assert Blob("t", "text").spec == TypeSpec("std::string")


def test_unions_of_types() -> None:
    letter = blob("X", type_name=("Tensor", "std::string"))
    assert [letter.takes_type(name) for name in ("Tensor", "std::string", "DBReader")] == [True, True, False]
    assert not letter.only_tensors
    assert blob("X").only_tensors
    assert [blob("X", type_name="*").takes_type(name) for name in ("Tensor", "DBReader")] == [True, True]
    assert not blob("X", type_name="DBReader").takes_type("Tensor")


def test_replaced_specs_keep_it() -> None:
    spec = TensorSpec((2, 3), DataType.UINT8, quantization=PerTensor(0.5, 3))
    assert dataclasses.replace(spec, layout=ROW_MAJOR, dims=(6,)).quantization == PerTensor(0.5, 3)
