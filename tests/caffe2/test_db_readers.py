"""`db_file_reader` and `cached_reader`: what another reader gives is kept, and read from a database ever after."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from caffe2.python import core, workspace
from caffe2.python.cached_reader import CachedReader
from caffe2.python.dataset import Dataset
from caffe2.python.db_file_reader import DBFileReader
from caffe2.python.pipeline import pipe
from caffe2.python.schema import FeedRecord, NewRecord, Struct
from caffe2.python.session import LocalSession
from caffe2.python.task import TaskGroup
from tazza.errors import DBError


@pytest.fixture(autouse=True)
def _own_workspace() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction] -- pytest finds it
    workspace.ResetWorkspace()
    yield
    workspace.ResetWorkspace()


def source(count: int) -> Any:
    """Return a reader of so many records in the present workspace."""
    init, values = core.Net("source_init"), Struct(("label", np.arange(count)))
    with core.NameScope("source"):
        blobs: Any = NewRecord(init, values)
        FeedRecord(blobs, values)
    workspace.RunNetOnce(init)
    made: Any = Dataset(blobs, name="source")
    return made.reader()


def read_by(reader: Any) -> list[int]:
    """Return all labels that a reader gives, sorted."""
    made: Any = Dataset(reader.schema().clone_schema(), name="read")
    init = core.Net("read_init")
    with core.NameScope("read"):
        made.init_empty(init)
    workspace.RunNetOnce(init)
    with TaskGroup() as group:
        pipe(reader, made.writer(), num_runtime_threads=3)
    LocalSession(workspace.C.Workspace.current).run(group)
    return sorted(workspace.FetchBlob(str(made.content().label())).tolist())


def cached(count: int, path: Path, *, overwrite: bool = False) -> list[int]:
    """Keep so many records, unless some are there; returns what is read."""
    reader = CachedReader(source(count), str(path), "minidb", batch_size=7)
    LocalSession(workspace.C.Workspace.current).run(reader.build_cache_step(overwrite))
    return read_by(reader)


@pytest.mark.slow
def test_what_is_there_is_read_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "labels.db"
    assert cached(23, path) == list(range(23))
    assert cached(5, path) == list(range(23))
    assert read_by(DBFileReader(str(path), "minidb")) == list(range(23))
    assert cached(5, path, overwrite=True) == list(range(5))
    path.unlink()
    assert cached(3, path) == list(range(3))


COLUMNS = {
    "id": np.array([1, 2, 3], np.int32),
    "val:lengths": np.array([1, 0, 2], np.int32),
    "val:values": np.array([1.5, 2, 3], np.float32),
}


@pytest.fixture
def database(tmp_path: Path) -> str:
    """Return the path of a database of three columns."""
    path = str(tmp_path / "columns.minidb")
    for name, value in COLUMNS.items():
        workspace.FeedBlob(f"w/{name}", value)
    names = [f"w/{name}" for name in COLUMNS]
    save = core.CreateOperator("Save", names, [], db=path, db_type="minidb", absolute_path=True, strip_prefix="w/")
    workspace.RunOperatorOnce(save)
    return path


def test_the_names_of_the_columns_are_those_in_the_database(database: str) -> None:
    """What was read to learn them stays, as it did there, and in the scope that is in force."""
    with core.NameScope("a"):
        assert DBFileReader(database, "minidb").schema().field_names() == list(COLUMNS)
    assert {f"a/columns_db_file_reader/{name}" for name in COLUMNS} <= set(workspace.Blobs())
    chosen = DBFileReader(database, "minidb", field_names=["val:lengths", "val:values"])
    assert chosen.schema().field_names() == ["val:lengths", "val:values"]


def test_records_stay_whole_when_they_are_shuffled(database: str) -> None:
    reader = DBFileReader(database, "minidb", name="q", batch_size=2)
    init, net = core.Net("init"), core.Net("read")
    reader.setup_ex(init, core.Net("finish"))
    stop, fields = reader.read(net)
    workspace.RunNetOnce(init)
    workspace.CreateNet(net)
    values = {1: [1.5], 2: [], 3: [2.0, 3.0]}
    seen: list[int] = []
    while True:
        workspace.RunNet(net)
        if workspace.FetchBlob(str(stop)):
            break
        ids, lengths, items = (workspace.FetchBlob(str(field)) for field in fields)
        assert lengths.tolist() == [len(values[one]) for one in ids]
        assert items.tolist() == [value for one in ids for value in values[one]]
        seen += ids.tolist()
    assert sorted(seen) == [1, 2, 3]


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DBError, match="nowhere"):
        DBFileReader(str(tmp_path / "nowhere"), "minidb")
    with pytest.raises(AssertionError, match=r"\[none\] is not available; there are"):
        CachedReader(source(2), str(tmp_path / "x"), "none")
    with pytest.raises(AssertionError, match="setup_ex must be called first"):
        DBFileReader(str(tmp_path / "x"), "minidb", field_names=["a"]).read(core.Net("net"))
