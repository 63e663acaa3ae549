"""DBReader: order, shards, threads, and the stored form."""

from __future__ import annotations

import threading
from itertools import cycle, islice
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tazza.db import DBReader, Mode, open_db
from tazza.errors import ArgumentError, DBError, FormatError
from tazza.proto import BlobProto, DBReaderProto
from tazza.tensor.blob import Blob
from tazza.tensor.serialization import deserialize, serialize, serialize_blob
from tests.db.conftest import Fill


def keys(reader: DBReader, count: int) -> str:
    """Read records and join their keys."""
    return "".join(reader.read()[0].decode() for _ in range(count))


def test_a_reader_starts_again_at_the_end(db_type: str, tmp_path: Path, fill: Fill) -> None:
    records = fill(db_type, tmp_path / "db", "abc")
    with DBReader(db_type, tmp_path / "db") as reader:
        assert [reader.read() for _ in range(7)] == [*records, *records, records[0]]


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(count=st.integers(1, 9), shards=st.integers(1, 5), data=st.data())
def test_a_shard_has_every_nth_record(
    tmp_path_factory: pytest.TempPathFactory, fill: Fill, count: int, shards: int, data: st.DataObject
) -> None:
    source = tmp_path_factory.mktemp("shards") / "db"
    records = fill("minidb", source, [f"{index}" for index in range(count)])
    shard = data.draw(st.integers(0, min(shards, count) - 1))
    with DBReader("minidb", source, shards, shard) as reader:
        expected = list(islice(cycle(records[shard::shards]), 2 * count + 1))
        assert [reader.read() for _ in expected] == expected


def test_shards_as_caffe2_read_them(tmp_path: Path, fill: Fill) -> None:
    """Genuine Caffe2 gave records 1, 3, 5 for each batch of 3 from 7 records, shard 1 of 2."""
    fill("minidb", tmp_path / "db", "0123456")
    with DBReader("minidb", tmp_path / "db", num_shards=2, shard_id=1) as reader:
        assert keys(reader, 9) == "135135135"


def test_threads_get_different_records(db_type: str, tmp_path: Path, fill: Fill) -> None:
    records = fill(db_type, tmp_path / "db", [f"{index:02}" for index in range(60)])
    found: list[tuple[bytes, bytes]] = []
    with DBReader(db_type, tmp_path / "db") as reader:

        def read() -> None:
            found.extend([reader.read() for _ in range(30)])

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(found) == sorted(records * 2)


def test_bad_shards(tmp_path: Path, fill: Fill) -> None:
    fill("minidb", tmp_path / "db", "ab")
    for shards, shard in ((2, 2), (2, -1), (0, 0)):
        with pytest.raises(ArgumentError, match=f"shard_id {shard} is not in .* num_shards {shards}"):
            DBReader("minidb", tmp_path / "db", shards, shard)
    with pytest.raises(DBError, match="has 2 records, and shard 2 of 5 begins at record 2"):
        DBReader("minidb", tmp_path / "db", 5, 2)


def test_empty_db(db_type: str, tmp_path: Path, fill: Fill) -> None:
    fill(db_type, tmp_path / "db", "")
    with pytest.raises(DBError, match="has 0 records"):
        DBReader(db_type, tmp_path / "db")


def test_own_cursor_leaves_the_reader_alone(db_type: str, tmp_path: Path, fill: Fill) -> None:
    fill(db_type, tmp_path / "db", "abc")
    with DBReader(db_type, tmp_path / "db") as reader:
        assert keys(reader, 1) == "a"
        with reader.cursor() as cursor:
            assert "".join(key.decode() for key, _ in cursor) == "abc"
        assert keys(reader, 2) == "bc"


def test_use_after_close(db_type: str, tmp_path: Path, fill: Fill) -> None:
    fill(db_type, tmp_path / "db", "a")
    reader = DBReader(db_type, tmp_path / "db")
    reader.close()
    reader.close()
    for use in (reader.read, reader.cursor, reader.to_proto, lambda: reader.position):
        with pytest.raises(DBError, match="is used after its close"):
            use()


def test_position_is_stored_where_there_is_an_index(db_type: str, tmp_path: Path, fill: Fill) -> None:
    fill(db_type, tmp_path / "db", "abcde")
    with DBReader(db_type, tmp_path / "db", num_shards=2) as reader, open_db(db_type, tmp_path / "copy", Mode.NEW):
        assert keys(reader, 1) == "a"
        indexed = reader.cursor().supports_seek
        assert reader.position == (b"c" if indexed else None)
        proto = reader.to_proto("r")
        expected = DBReaderProto(name="r", source=str(tmp_path / "db"), db_type=db_type)
        if indexed:
            expected.key = "c"
        assert proto == expected
        reader.close()
    with DBReader.from_proto(proto) as restored:
        assert restored.num_shards == 1
        assert keys(restored, 4) == ("cdea" if indexed else "abcd")


@pytest.mark.parametrize("name", ["minidb", "protodb"])
def test_stored_position_needs_an_index(tmp_path: Path, fill: Fill, name: str) -> None:
    fill(name, tmp_path / "db", "abc")
    proto = DBReaderProto(source=str(tmp_path / "db"), db_type=name, key="b")
    with pytest.raises(DBError, match="has no index, so that a cursor cannot seek b'b'"):
        DBReader.from_proto(proto)


def test_stored_position_beyond_the_last_record(tmp_path: Path, fill: Fill) -> None:
    fill("lmdb", tmp_path / "db", "abc")
    proto = DBReaderProto(source=str(tmp_path / "db"), db_type="lmdb", key="d")
    with pytest.raises(DBError, match="no record at or after the stored position b'd'"):
        DBReader.from_proto(proto)


def test_position_that_is_no_text(tmp_path: Path) -> None:
    with open_db("lmdb", tmp_path / "db", Mode.NEW) as db, db.transaction() as transaction:
        transaction.put(b"\xff", b"")
    with DBReader("lmdb", tmp_path / "db") as reader, pytest.raises(DBError, match="since it is not UTF-8"):
        reader.to_proto()


def test_blob_of_a_reader(tmp_path: Path, fill: Fill) -> None:
    fill("minidb", tmp_path / "db", "ab")
    source = str(tmp_path / "db")
    with DBReader("minidb", source) as reader:
        blob = Blob("r", reader)
        assert blob.describe() == "r, a C++ native class of type caffe2::db::DBReader."
        ((key, data),) = serialize_blob(blob, "r")
    assert key == "r"
    content = b"\n\x01r\x12" + bytes([len(source)]) + source.encode() + b"\x1a\x06minidb"
    assert BlobProto.FromString(data) == BlobProto(name="r", type="DBReader", content=content)
    with deserialize(data).get(DBReader) as restored:
        assert keys(restored, 3) == "aba"


def test_loading_a_blob_opens_no_other_file(tmp_path: Path, fill: Fill) -> None:
    fill("minidb", tmp_path / "db", "ab")
    with DBReader("minidb", tmp_path / "db") as reader:
        data = serialize(Blob("r", reader), "r")
    (tmp_path / "db").unlink()
    restored = deserialize(data).get(DBReader)
    with pytest.raises(DBError, match="does not exist"):
        restored.read()


def test_broken_blob_of_a_reader() -> None:
    data = BlobProto(name="r", type="DBReader", content=b"\xff\xff").SerializeToString()
    with pytest.raises(FormatError, match="the DB reader 'r'"):
        deserialize(data)
