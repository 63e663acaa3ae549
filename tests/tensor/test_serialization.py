"""Blobs to bytes and back: Caffe2's bytes, chunks, broken input."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tazza.errors import ArgumentError, BlobTypeError, TazzaError
from tazza.tensor.blob import Blob
from tazza.tensor.serialization import (
    CHUNK_SIZE,
    NO_CHUNKS,
    blob_name_of_key,
    deserialize,
    serialize,
    serialize_blob,
)
from tazza.tensor.tensor import Tensor

# What genuine Caffe2 1.8.1 answered to SerializeBlob for these values under the name "v".
GENUINE: list[tuple[Any, str]] = [
    (np.array([1, -2.5], "f2"), "0a0176120654656e736f721a180802100c220580788082033a0176420208005a0408001002"),
    (np.array([1, -2], "i1"), "0a0176120654656e736f721a1e08021007220b01feffffffffffffffff013a0176420208005a0408001002"),
    (np.array([True, False]), "0a0176120654656e736f721a1508021005220201003a0176420208005a0408001002"),
    (
        np.array([-1, 300], "i8"),
        "0a0176120654656e736f721a1f0802100a3a017642020800520cffffffffffffffffff01ac025a0408001002",
    ),
    (
        np.array([[-1, 300]], "i2"),
        "0a0176120654656e736f721a21080108021009220cffffffffffffffffff01ac023a0176420208005a0408001002",
    ),
    (np.array([65535, 300], "u2"), "0a0176120654656e736f721a18080210082205ffff03ac023a0176420208005a0408001002"),
    (np.array(["a", "bc"]), "0a0176120654656e736f721a1808021004320161320262633a0176420208005a0408001002"),
    (np.zeros((0, 3), "f4"), "0a0176120654656e736f721a130800080310013a0176420208005a0408001000"),
    (np.array(2.5, "f8"), "0a0176120654656e736f721a19100d3a0176420208004a0800000000000004405a0408001001"),
    ("hello", "0a0176120b7374643a3a737472696e67220568656c6c6f"),
    (np.array([-5, 7], "i4"), "0a0176120654656e736f721a1e08021002220bfbffffffffffffffff01073a0176420208005a0408001002"),
    (np.array([255, 7], "u1"), "0a0176120654656e736f721a16080210062203ff01073a0176420208005a0408001002"),
    (np.array([1.5], "f8"), "0a0176120654656e736f721a1b0801100d3a0176420208004a08000000000000f83f5a0408001001"),
]
# The value of the record b2#%0 in a minidb that Save of genuine Caffe2 wrote.
GENUINE_RECORD = (
    "0a02623212 0654656e736f721a20080310011a0c000000000000803f000000403a02623242 0208005a0408001003".replace(" ", "")
)


def held(value: npt.NDArray[Any] | str) -> Tensor | str:
    return value if isinstance(value, str) else Tensor.from_numpy(value)


@pytest.mark.parametrize(("value", "code"), GENUINE)
def test_bytes_are_those_of_caffe2(value: npt.NDArray[Any] | str, code: str) -> None:
    assert serialize(held(value), "v").hex() == code
    blob = deserialize(bytes.fromhex(code))
    assert blob.name == "v"
    assert serialize(blob, "v").hex() == code


def test_record_of_a_database() -> None:
    records = list(serialize_blob(Blob("b2", Tensor.from_numpy(np.arange(3, dtype=np.float32))), "b2"))
    assert [(key, record.hex()) for key, record in records] == [("b2#%0", GENUINE_RECORD)]


def test_chunk_size_comes_from_the_flag() -> None:
    tensor = Tensor.from_numpy(np.arange(10))
    with CHUNK_SIZE.override(3):
        assert len(list(serialize_blob(tensor, "x"))) == 4
        assert [key for key, _ in serialize_blob(tensor, "x", NO_CHUNKS)] == ["x#%0"]
    assert CHUNK_SIZE.value == 1_000_000
    with pytest.raises(ArgumentError, match="chunk_size -1 < 0"):
        serialize_blob(tensor, "x", -1)


@pytest.mark.parametrize(("key", "name"), [("a/b#%3", "a/b"), ("a", "a"), ("a#%b#%0", "a#%b")])
def test_name_of_key(key: str, name: str) -> None:
    assert blob_name_of_key(key) == name


@given(st.sampled_from([serialize(held(value), "v") for value, _ in GENUINE]), st.data())
@settings(max_examples=200)
def test_broken_bytes_give_typed_errors(record: bytes, data: st.DataObject) -> None:
    broken = bytearray(record)
    for at in data.draw(st.lists(st.integers(0, len(record) - 1), min_size=1, max_size=4)):
        broken[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(record)))
    for variant in (bytes(broken), record[:cut]):
        with contextlib.suppress(TazzaError):
            deserialize(variant)


def test_an_empty_blob_has_no_stored_form() -> None:
    with pytest.raises(BlobTypeError, match=r"nullptr \(uninitialized\), which cannot be serialized"):
        serialize(Blob("e"), "e")
