"""Tensors in chunks: order, threads, gaps, contradictions."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tazza.errors import FormatError, UnavailableError
from tazza.proto.caffe2_pb2 import BlobProto, TensorProto
from tazza.tensor.blob import Blob
from tazza.tensor.layout import REORDERS, Opaque, channels_last
from tazza.tensor.place import CUDAPlace
from tazza.tensor.serialization import BlobAssembler, deserialize, serialize, serialize_blob
from tazza.tensor.tensor import Tensor


def chunks(array: npt.NDArray[Any], size: int = 4, name: str = "x") -> list[bytes]:
    return [record for _, record in serialize_blob(Tensor.from_numpy(array), name, size)]


@given(st.integers(0, 23), st.integers(1, 9), st.randoms())
def test_chunks_in_any_order(count: int, size: int, random: Any) -> None:
    array = np.arange(count, dtype=np.int16).reshape(1, count)
    records = list(serialize_blob(Tensor.from_numpy(array), "x", size))
    assert [key for key, _ in records] == [f"x#%{k}" for k in range(max(-(-count // size), 1))]
    segments = [BlobProto.FromString(record).tensor.segment for _, record in records]
    assert [segment.begin for segment in segments] == list(range(0, max(count, 1), size))
    assert [segment.end for segment in segments] == [
        min(begin + size, count) for begin in range(0, max(count, 1), size)
    ]
    random.shuffle(records)
    np.testing.assert_array_equal(deserialize(record for _, record in records).tensor().plain(), array)


@pytest.mark.parametrize("dtype", ["float16", "bool", "float64", "object", "int8"])
def test_chunks_of_every_kind(dtype: str) -> None:
    array = np.array([b"%d" % i for i in range(10)], object) if dtype == "object" else (np.arange(10) % 2).astype(dtype)
    back = deserialize(chunks(array)).tensor().plain()
    assert back.dtype == array.dtype
    assert back.tolist() == array.tolist()


def test_layouts_are_stored_plain() -> None:
    tensor = Tensor((2, 3, 5), layout=channels_last((2, 3, 5)))
    tensor.array[:] = values = np.arange(30, dtype=np.float32).reshape(2, 3, 5)
    assert serialize(tensor, "x") == serialize(Tensor.from_numpy(values), "x")
    opaque = Tensor((2, 3), layout=Opaque("twos", None, 24))
    REORDERS.register("twos", lambda tensor: np.full(tensor.shape, 2, np.float32))
    try:
        assert deserialize(serialize(opaque, "x")).tensor().plain().tolist() == [[2] * 3] * 2
    finally:
        REORDERS.unregister("twos")


def test_threads_bring_chunks() -> None:
    array = np.arange(1000, dtype=np.float32)
    assembler = BlobAssembler("x")
    records = chunks(array, 7)

    def bring(part: list[bytes]) -> None:
        for record in part:
            assembler.add(record)

    threads = [threading.Thread(target=bring, args=(records[k::4],)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert assembler.complete
    assert assembler.write(Blob("y")).tensor().plain().tolist() == array.tolist()


def test_writing_into_a_tensor_keeps_its_memory() -> None:
    blob = Blob("x", Tensor.from_numpy(np.zeros((2, 5))))
    address, version = blob.tensor().address, blob.tensor().storage.version
    assembler = BlobAssembler()
    for record in chunks(np.arange(10.0)):
        assert not assembler.complete
        assembler.add(record)
    assert assembler.write(blob).tensor().plain().tolist() == list(range(10))
    assert blob.tensor().address == address
    assert blob.tensor().storage.version > version


def test_without_content_there_is_a_shape_and_no_memory() -> None:
    proto = BlobProto(name="x", type="Tensor", tensor=TensorProto(dims=[10**12], storage_type="NO_CONTENT"))
    tensor = deserialize(proto).tensor()
    assert tensor.shape == (10**12,)
    assert not tensor.allocated


def edited(record: bytes, **fields: Any) -> BlobProto:
    proto = BlobProto.FromString(record)
    proto.MergeFrom(BlobProto(**fields))
    return proto


FIVE = np.arange(10, dtype=np.float32)


@pytest.mark.parametrize(
    ("records", "text"),
    [
        ([], "has no record"),
        (chunks(FIVE)[:2], r"missing elements 8 to 10 of Dim\(10\)"),
        (chunks(FIVE)[1:], "missing elements 0 to 4"),
        (chunks(FIVE)[::2], "missing elements 4 to 8"),
        (chunks(np.arange(40), 3)[1::2], "missing elements 0 to 3, 6 to 9, 12 to 15, 18 to 21 and 3 more ranges"),
        (chunks(FIVE) + chunks(FIVE)[:1], "chunk 0 to 4 overlaps chunk 0 to 4"),
        (chunks(FIVE)[:1] + chunks(FIVE, 3), "chunk 0 to 3 overlaps chunk 0 to 4"),
        (chunks(FIVE)[:1] + chunks(FIVE.reshape(2, 5))[1:], r"one chunk has Dim\(10\), another has Dim\(2, 5\)"),
        (chunks(FIVE)[:1] + chunks(FIVE.astype(np.float64))[1:], "one chunk is of float32, another of float64"),
        (chunks(FIVE)[:1] + chunks(FIVE, name="y")[1:], "records of two blobs: 'x' of type 'Tensor', 'y'"),
        ([*chunks(FIVE)[:1], serialize("text", "x")], "records of two blobs"),
        ([serialize("a", "x"), serialize("b", "x")], "stored more than once"),
        ([BlobProto(name="x", type="Tensor")], "has no tensor"),
        ([BlobProto(name="x", type="std::string")], "has no content"),
        ([BlobProto(name="x", type="spoon")], "of type 'spoon', which nobody reads"),
        ([b"\x0a\1\x80"], "is not UTF-8 text"),
        ([b"\x0a\xff"], "record of 2 bytes is not a BlobProto"),
        ([serialize("text", "x")[:-1]], "is not a BlobProto"),
        ([edited(serialize("a", "x"), type="Tensor")], "blob 'x' of type Tensor has no tensor"),
    ],
)
def test_contradictions(records: list[bytes | BlobProto], text: str) -> None:
    with pytest.raises(FormatError, match=text):
        deserialize(records)


def test_chunk_of_a_huge_tensor_allocates_nothing() -> None:
    proto = BlobProto(name="x", type="Tensor", tensor=TensorProto(dims=[10**12], float_data=[1]))
    proto.tensor.segment.begin, proto.tensor.segment.end = 0, 1
    with pytest.raises(FormatError, match="missing elements 1 to 1000000000000"):
        deserialize(proto)


def test_memory_that_the_cpu_does_not_read() -> None:
    with pytest.raises(UnavailableError, match="no CUDA engine is here"):
        serialize(Tensor((2,), place=CUDAPlace(0)), "x")
