"""protodb: the message in the file, and the keys that are names of tensors."""

from __future__ import annotations

from pathlib import Path

import pytest

from tazza.db import Mode, open_db
from tazza.errors import DBError
from tazza.proto import TensorProto, TensorProtos
from tests.db.conftest import contents


def tensor(name: str, value: int) -> TensorProto:
    """Return a small tensor."""
    return TensorProto(name=name, data_type=TensorProto.INT32, dims=[1], int32_data=[value])


def test_file_is_one_message(tmp_path: Path) -> None:
    for mode, key, value in ((Mode.NEW, "b", 1), (Mode.WRITE, "a", 2)):
        with open_db("protodb", tmp_path / "db", mode) as db, db.transaction() as transaction:
            transaction.put(key, tensor(key, value).SerializeToString())
    message = TensorProtos.FromString((tmp_path / "db").read_bytes())
    assert message == TensorProtos(protos=[tensor("b", 1), tensor("a", 2)])


def test_bytes_that_caffe2_wrote(tmp_path: Path) -> None:
    (tmp_path / "db").write_bytes(b'\n\n\x08\x01\x10\x02"\x01\x00:\x01b\n\n\x08\x01\x10\x02"\x01\x07:\x01b')
    assert contents("protodb", tmp_path / "db") == [
        (b"b", b'\x08\x01\x10\x02"\x01\x00:\x01b'),
        (b"b", b'\x08\x01\x10\x02"\x01\x07:\x01b'),
    ]


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("x", tensor("y", 1).SerializeToString(), "the key b'x' differs from the name of its tensor, 'y'"),
        ("x", b"\xff\xff", "holds tensors only"),
        ("old", tensor("old", 1).SerializeToString(), "has a record with the key b'old' already"),
        ("put", tensor("put", 1).SerializeToString(), "has a record with the key b'put' already"),
    ],
)
def test_records_that_are_refused(tmp_path: Path, key: str, value: bytes, text: str) -> None:
    with open_db("protodb", tmp_path / "db", Mode.NEW) as db, db.transaction() as transaction:
        transaction.put("old", tensor("old", 0).SerializeToString())
        transaction.commit()
        transaction.put("put", tensor("put", 0).SerializeToString())
        with pytest.raises(DBError, match=text):
            transaction.put(key, value)
    assert [key for key, _ in contents("protodb", tmp_path / "db")] == [b"old", b"put"]


def test_text_suffix_means_nothing_here(tmp_path: Path) -> None:
    (tmp_path / "db.pbtxt").write_bytes(TensorProtos(protos=[tensor("a", 1)]).SerializeToString())
    assert [key for key, _ in contents("protodb", tmp_path / "db.pbtxt")] == [b"a"]
