"""Blobs: what they hold, under which name, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.errors import BlobTypeError, DuplicateError
from tazza.tensor.blob import BLOB_TYPES, Blob, blob_type
from tazza.tensor.tensor import Tensor


@blob_type("std::unique_ptr<caffe2::Counter<long int> >", serialized="std::unique_ptr<Counter<int64_t>>")
class TallySheet:
    """Stands for an object of another floor."""


class RedTallySheet(TallySheet):
    """Known through its base."""


def test_empty() -> None:
    blob = Blob("e")
    assert (blob.value, blob.type_name, blob.is_empty, blob.is_tensor) == (None, "", True, False)
    assert blob.describe() == "e, a C++ native class of type nullptr (uninitialized)."
    assert repr(blob) == "Blob('e', empty)"
    with pytest.raises(BlobTypeError, match=r"blob 'e' holds nullptr \(uninitialized\), wanted caffe2::Tensor"):
        blob.get(Tensor)


def test_tensor_is_made_once_and_named() -> None:
    blob = Blob("x")
    tensor = blob.tensor()
    assert blob.tensor() is tensor is blob.get(Tensor) is blob.value
    assert (blob.type_name, blob.is_tensor, tensor.storage.holder) == ("Tensor", True, "x")
    assert not tensor.allocated


@pytest.mark.parametrize("value", ["caff\u00e8", b"caff\xc3\xa8"])
def test_strings_are_bytes(value: str | bytes) -> None:
    blob = Blob("s", value)
    assert (blob.value, blob.type_name) == (b"caff\xc3\xa8", "std::string")
    with pytest.raises(BlobTypeError, match="holds std::string, wanted caffe2::Tensor") as caught:
        blob.tensor()
    assert caught.value.hint


@pytest.mark.parametrize("value", [TallySheet(), RedTallySheet()])
def test_registered_objects(value: TallySheet) -> None:
    blob = Blob("c", value)
    assert blob.type_name == "std::unique_ptr<Counter<int64_t>>"
    assert blob.describe() == "c, a C++ native class of type std::unique_ptr<caffe2::Counter<long int> >."
    assert blob.get(TallySheet) is value
    with pytest.raises(BlobTypeError, match="wanted std::string"):
        blob.get(bytes)
    with pytest.raises(BlobTypeError, match="wanted ndarray"):
        blob.get(np.ndarray)


@pytest.mark.parametrize("value", [3, 1.5, [1], np.zeros(2), object()])
def test_other_values_are_refused(value: object) -> None:
    blob = Blob("x", "kept")
    with pytest.raises(BlobTypeError, match="blob 'x' cannot hold a"):
        blob.set(value)
    assert blob.value == b"kept"


def test_reset() -> None:
    blob = Blob("x", Tensor.from_numpy(np.arange(2)))
    assert repr(blob) == "Blob('x', Tensor([0, 1], dtype=int64, name='x'))"
    blob.reset()
    assert blob.is_empty
    assert blob.type_name == ""


def test_a_class_has_one_name() -> None:
    with pytest.raises(DuplicateError):
        blob_type("other")(TallySheet)
    assert BLOB_TYPES[TallySheet].native.startswith("std::unique_ptr")
