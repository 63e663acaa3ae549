"""Save and Load: names, chunks, what stays after a failure, and files of the genuine Caffe2."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.memory import peak_bytes, reset_peak, resident_bytes
from tazza.db import Mode, open_db
from tazza.errors import (
    ArgumentError,
    BlobTypeError,
    DBError,
    DTypeError,
    DuplicateError,
    FormatError,
    NotFoundError,
    ShapeError,
)
from tazza.operator import operator_def
from tazza.ops.data import checkpoint
from tazza.proto import BlobProto
from tazza.tensor import Tensor
from tazza.tensor.serialization import serialize_blob
from tazza.workspace import Workspace
from tests.check import check_op
from tests.sequences import Sequence, Step, on_sequences
from tests.traced import at_most

ROOT = Path(__file__).parent.parent.parent
A, B = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(4)


KIND: dict[str, Any] = {"db_type": "minidb"}
WHERE: dict[str, Any] = {"db": "c.minidb", **KIND}
CASES = [
    Sequence(
        "there and back",
        (
            Step(operator_def("Save", ["a", "text"], **WHERE), feeds={"a": A, "text": b"hello\xff"}),
            Step(operator_def("Load", [], ["a"], **WHERE), {"a": A, "text": b"other"}, {"a": B, "text": "other"}),
            Step(operator_def("Load", [], ["b"], **WHERE), {"a": A}, fails=NotFoundError, text="has no blob 'b'"),
            Step(operator_def("Load", [], ["text"], **WHERE), {"text": b"hello\xff"}),
        ),
        stored=True,
    ),
    *(
        Sequence(
            type,
            (
                Step(operator_def(type, ["i", "a"], db="c%02d.minidb", every=3, **KIND), feeds={"i": B[2:3], "a": A}),
                Step(operator_def("DBExists", [], ["e"], db_name="c02.minidb", **KIND), {"e": np.array(False)}),
                Step(operator_def(type, ["i", "a"], db="c%02d.minidb", every=3, **KIND), feeds={"i": B[3:]}),
                Step(operator_def("DBExists", [], ["e"], db_name="c03.minidb", **KIND), {"e": np.array(True)}),
                Step(operator_def("Load", [], ["a", "i"], db="c03.minidb", **KIND), {"a": A, "i": B[3:]}, {"a": B}),
                Step(operator_def(type, ["i"], db="c", **KIND), feeds={"i": B.astype("i")}, fails=DTypeError),
                Step(
                    operator_def(type, ["i"], db="c", **KIND), feeds={"i": B[:0]}, fails=ShapeError, text="no element"
                ),
            ),
            stored=True,
        )
        for type in ("Checkpoint", "Snapshot")
    ),
]


@on_sequences(CASES)
def test_cases(case: Sequence) -> None:
    check_op(case)


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    made = Workspace(root=tmp_path)
    made.feed("s/a", A)
    made.feed("s/b", B)
    made.feed("t", np.array(["q", "r"]))
    made.feed("text", b"hello\xff")
    return made


def save(ws: Workspace, *names: str, db: str = "c.minidb", **arguments: Any) -> None:
    options: dict[str, Any] = {"db": db, "db_type": "minidb", **arguments}
    ws.run_operator(operator_def("Save", names, **options), strict=True)


def load(ws: Workspace, *names: str, inputs: tuple[str, ...] = (), **arguments: Any) -> Workspace:
    """Load into a new workspace with the same root."""
    target = Workspace(root=ws.root)
    source: dict[str, Any] = {} if {"db", "dbs"} & arguments.keys() else {"db": "c.minidb"}
    options: dict[str, Any] = {"db_type": "minidb", **source, **arguments}
    target.run_operator(operator_def("Load", inputs, names, **options), strict=True)
    return target


def keys(path: Path, db_type: str = "minidb") -> list[str]:
    with open_db(db_type, path) as db, db.cursor() as cursor:
        return [key.decode() for key, _ in cursor]


def test_what_was_saved_is_loaded(ws: Workspace) -> None:
    ws.feed("empty", np.zeros((0, 3), np.float16))
    save(ws, "s/a", "t", "text", "s/b", "empty")
    loaded = load(ws, load_all=1)
    assert loaded.blob_names() == ["empty", "s/a", "s/b", "t", "text"]
    for name in ("s/a", "s/b", "t", "empty"):
        np.testing.assert_array_equal(loaded.fetch(name), ws.fetch(name))
        assert loaded.fetch(name).dtype == ws.fetch(name).dtype
    assert loaded.fetch("text") == b"hello\xff"
    assert load(ws, "text", "s/b").local_blobs() == ["s/b", "text"]
    assert load(ws).local_blobs() == []


@pytest.mark.parametrize(
    ("arguments", "stored"),
    [
        ({}, ["s/a#%0", "s/b#%0", "text"]),
        ({"strip_prefix": "s/"}, ["a#%0", "b#%0", "text"]),
        ({"strip_prefix": "/"}, ["a#%0", "b#%0", "text"]),
        ({"blob_name_overrides": ["x", "y", "z"]}, ["x#%0", "y#%0", "z"]),
        ({"chunk_size": 4}, ["s/a#%0", "s/a#%1", "s/b#%0", "text"]),
        ({"chunk_size": 0}, ["s/a#%0", "s/b#%0", "text"]),
        ({"chunk_size": -1}, ["s/a#%0", "s/b#%0", "text"]),
    ],
)
def test_keys(ws: Workspace, arguments: dict[str, Any], stored: list[str]) -> None:
    save(ws, "s/a", "s/b", "text", **arguments)
    assert keys(ws.root / "c.minidb") == stored


@pytest.mark.parametrize(
    ("outputs", "arguments", "blobs"),
    [
        (["a", "b"], {"strip_prefix": "s/"}, ["a", "b"]),
        (["p/s/a"], {"add_prefix": "p/"}, ["p/s/a"]),
        (["p/a"], {"add_prefix": "p/", "strip_prefix": "s/"}, ["p/a"]),
        ([], {"add_prefix": "p/", "strip_prefix": "s/", "load_all": 1}, ["p/a", "p/b", "p/t", "p/text"]),
        (["x", "y"], {"source_blob_names": ["s/a", "text"]}, ["x", "y"]),
        (["x"], {"source_blob_names": ["p/s/a"], "add_prefix": "p/"}, ["x"]),
        (["s/a"], {"load_all": 1}, ["s/a", "s/b", "t", "text"]),
        (["s/a", "nope"], {"allow_incomplete": 1}, ["nope", "s/a"]),
        (["s/a"], {"keep_device": 1}, ["s/a"]),
    ],
)
def test_names_of_what_is_loaded(
    ws: Workspace, outputs: list[str], arguments: dict[str, Any], blobs: list[str]
) -> None:
    save(ws, "s/a", "s/b", "t", "text")
    loaded = load(ws, *outputs, **arguments)
    assert loaded.local_blobs() == blobs
    for name in ("s/a", "a", "p/a", "p/s/a", "x"):
        if loaded.has_blob(name):
            np.testing.assert_array_equal(loaded.fetch(name), A)


def test_several_databases_and_readers(ws: Workspace) -> None:
    save(ws, "s/a", "text")
    save(ws, "s/b", db="d.minidb")
    loaded = load(ws, "s/a", "s/b", dbs=["c.minidb", "d.minidb"])
    np.testing.assert_array_equal(loaded.fetch("s/b"), B)
    for name, db in (("r", "c.minidb"), ("r2", "d.minidb")):
        ws.run_operator(operator_def("CreateDB", [], [name], db=db, db_type="minidb"))
    for _ in range(2):  # a reader is read from its first record each time
        ws.run_operator(operator_def("Load", ["r", "r2"], ["x", "y"], source_blob_names=["s/a", "s/b"]), strict=True)
    np.testing.assert_array_equal(ws.fetch("y"), B)
    save(ws, "text", db="d.minidb")
    with pytest.raises(DuplicateError, match=r"blob 'text' is in minidb '.*c.minidb' and in minidb '.*d.minidb'"):
        load(ws, load_all=1, dbs=["c.minidb", "d.minidb"])


def test_blobs_of_another_type_give_way_and_tensors_keep_their_memory(ws: Workspace) -> None:
    save(ws, "s/a", "text")
    target = Workspace(root=ws.root)
    target.feed("s/a", "text")
    target.feed("text", A)
    target.feed("t", np.zeros(50, np.int64))
    tensor = target.blob("t").tensor()
    address = tensor.address
    target.run_operator(operator_def("Load", [], ["s/a", "text"], db="c.minidb", db_type="minidb"))
    target.run_operator(operator_def("Load", [], ["t"], db="c.minidb", db_type="minidb", source_blob_names=["s/a"]))
    assert target.fetch("text") == b"hello\xff"
    for name in ("s/a", "t"):
        np.testing.assert_array_equal(target.fetch(name), A)
    assert target.blob("t").tensor().address == address


@pytest.mark.parametrize("kind", ["minidb", "lmdb"])
def test_what_waits_for_a_commit_is_bounded(ws: Workspace, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(checkpoint, "COMMIT_BYTES", 1 << 20)
    table = np.random.default_rng(3).standard_normal((80_000, 64), np.float32)
    ws.feed("table", table)
    where: dict[str, Any] = {"db": "large", "db_type": kind}
    with at_most(table.nbytes / 4):
        ws.run_operator(operator_def("Save", ["table"], [], chunk_size=100_000, **where))
    ws.run_operator(operator_def("Load", [], ["again"], source_blob_names=["table"], **where))
    np.testing.assert_array_equal(ws.fetch("again"), table)


@pytest.mark.slow
def test_what_is_read_goes_once_it_is_at_its_place(ws: Workspace) -> None:
    """Of the table and its chunks, all of which are there before it is written, no more is resident than of one."""
    table = np.random.default_rng(3).standard_normal((400_000, 64), np.float32)
    ws.feed("table", table)
    where: dict[str, Any] = {"db": "large", "db_type": "minidb"}
    ws.run_operator(operator_def("Save", ["table"], [], chunk_size=500_000, **where))
    before = resident_bytes()
    if not reset_peak():
        pytest.skip("the kernel does not set the peak of what is resident anew")
    ws.run_operator(operator_def("Load", [], ["again"], source_blob_names=["table"], **where))
    assert peak_bytes() - before < 1.5 * table.nbytes
    np.testing.assert_array_equal(ws.fetch("again"), table)


@pytest.mark.parametrize("kind", ["minidb", "lmdb"])
def test_what_fails_after_a_commit_leaves_nothing(ws: Workspace, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(checkpoint, "COMMIT_BYTES", 1)
    ws.feed("a", A)
    ws.create_blob("b")
    with pytest.raises(BlobTypeError, match="'b'"):
        ws.run_operator(operator_def("Save", ["a", "b"], [], db="c", db_type=kind))
    assert list(ws.root.iterdir()) == []


@settings(max_examples=20, deadline=None)
@given(st.permutations(range(5)))
def test_chunks_come_in_any_order(tmp_path_factory: pytest.TempPathFactory, order: list[int]) -> None:
    root = tmp_path_factory.mktemp("chunks")
    x = np.arange(13.0)
    records = list(serialize_blob(Tensor.from_numpy(x), "x", 3))
    with open_db("minidb", root / "c.minidb", Mode.NEW) as db, db.transaction() as transaction:
        for k in order:
            transaction.put(*records[k])
    np.testing.assert_array_equal(load(Workspace(root=root), "x").fetch("x"), x)


# -- what is refused ---------------------------------------------------------------------------------------------------

DB = {"db": "c.minidb", "db_type": "minidb"}
REFUSED_SAVES: list[tuple[list[str], dict[str, Any], type[Exception], str]] = [
    (["s/a"], {"db_type": "minidb"}, ArgumentError, "needs the argument 'db'"),
    (["s/a"], {"db": "", "db_type": "minidb"}, ArgumentError, "no path of a database is given"),
    (["s/a"], {"db": "c.minidb"}, ArgumentError, "no type of the database is given"),
    (["s/a"], {**DB, "db_type": "minibd"}, DBError, "(?s)unknown DB type 'minibd'.*did you mean minidb"),
    (["s/a"], {**DB, "db": "no/c.minidb"}, DBError, "minidb '.*no/c.minidb': there is no folder '.*no'"),
    (["s/a", "s/a"], DB, ArgumentError, "two blobs would be stored under the name 's/a'"),
    (["s/a", "t/a"], {**DB, "strip_prefix": "/"}, ArgumentError, "two blobs would be stored under the name 'a'"),
    (["s/a", "s/b"], {**DB, "blob_name_overrides": ["x"]}, ArgumentError, "overrides has 1 names, there are 2 blobs"),
    (
        ["s/a"],
        {**DB, "blob_name_overrides": ["x"], "strip_prefix": "s"},
        ArgumentError,
        "blob_name_overrides and strip_prefix exclude each other",
    ),
    (["s/a"], {**DB, "chunk_size": -2}, ArgumentError, "'chunk_size' = -2 is below its minimum -1"),
]


@pytest.mark.parametrize(("names", "arguments", "error", "text"), REFUSED_SAVES)
def test_saves_that_are_refused(
    ws: Workspace, names: list[str], arguments: dict[str, Any], error: type[Exception], text: str
) -> None:
    ws.feed("t/a", A)
    with pytest.raises(error, match=text):
        ws.run_operator(operator_def("Save", names, **arguments))
    assert list(ws.root.iterdir()) == []


REFUSED_LOADS: list[tuple[list[str], dict[str, Any], type[Exception], str]] = [
    (["s/a", "s/c"], {}, NotFoundError, r"(?s)minidb '.*c.minidb' has no blob 's/c'.*did you mean 's/b'"),
    (["s/a"], {"db": "d.minidb"}, DBError, "minidb '.*d.minidb' does not exist"),
    (["s/a"], {"db_type": ""}, ArgumentError, "no type of the database is given"),
    (["s/a"], {"db": ""}, ArgumentError, "no path of a database is given"),
    (["s/a"], {"dbs": ["c.minidb"], "db": "d.minidb"}, ArgumentError, "db and dbs are both given"),
    (["s/a"], {"db_type": "protodb"}, DBError, "protodb '.*c.minidb' is corrupt"),
    (["s/a"], {"db_type": "lmdb"}, DBError, "lmdb '.*c.minidb' should be a folder"),
    (["x", "y"], {"source_blob_names": ["s/a"]}, ArgumentError, "source_blob_names has 1 names, there are 2 outputs"),
    (["x", "y"], {"source_blob_names": ["s/a", "s/a"]}, ArgumentError, "source_blob_names lists twice the name 's/a'"),
    (["x"], {"source_blob_names": ["s/a"], "load_all": 1}, ArgumentError, "source_blob_names and load_all exclude"),
    (["x"], {"source_blob_names": ["a"], "strip_prefix": "s/"}, ArgumentError, "source_blob_names and strip_prefix"),
]


@pytest.mark.parametrize(("names", "arguments", "error", "text"), REFUSED_LOADS)
def test_loads_that_are_refused(
    ws: Workspace, names: list[str], arguments: dict[str, Any], error: type[Exception], text: str
) -> None:
    save(ws, "s/a", "s/b")
    with pytest.raises(error, match=text):
        load(ws, *names, **arguments)


def test_a_reader_excludes_paths(ws: Workspace) -> None:
    ws.create_blob("r")
    with pytest.raises(ArgumentError, match="db and a reader are given"):
        ws.run_operator(operator_def("Load", ["r"], ["x"], db="c.minidb"))


def test_missing_and_corrupt_records_name_file_and_blob(ws: Workspace) -> None:
    records = dict(serialize_blob(ws.blob("s/a"), "s/a", 4))
    path = ws.root / "c.minidb"

    def write(changed: dict[str, bytes]) -> None:
        with open_db("minidb", path, Mode.NEW) as db, db.transaction() as transaction:
            for key, value in changed.items():
                transaction.put(key, value)

    write({"s/a#%1": records["s/a#%1"]})
    with pytest.raises(FormatError, match=r"(?s)missing elements 0 to 4 .*loading blob 's/a' from minidb '.*c.minidb'"):
        load(ws, "s/a")
    write({**records, "s/a#%1": b"\xff\xff"})
    with pytest.raises(FormatError, match=r"(?s)blob 's/a'.*in record 's/a#%1' of minidb '.*c.minidb'"):
        load(ws, "s/a")
    write({**records, "s/b": BlobProto(name="s/b", type="Spoon", content=b"").SerializeToString()})
    with pytest.raises(FormatError, match=r"(?s)'s/b' is of type 'Spoon'.*in record 's/b' of minidb"):
        load(ws, load_all=1)
    assert load(ws, "s/a").local_blobs() == ["s/a"]
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(DBError, match=r"minidb '.*c.minidb' is truncated"):
        load(ws, "s/a")


def test_a_failed_load_writes_no_blob(ws: Workspace) -> None:
    save(ws, "s/a")
    target = Workspace(root=ws.root)
    target.feed("s/a", B)
    with pytest.raises(NotFoundError):
        target.run_operator(operator_def("Load", [], ["s/a", "nope"], db="c.minidb", db_type="minidb"))
    np.testing.assert_array_equal(target.fetch("s/a"), B)


# -- what an interruption leaves ---------------------------------------------------------------------------------------


def test_a_failed_save_leaves_the_file_before_it(ws: Workspace) -> None:
    save(ws, "s/a")
    ws.create_blob("empty")
    with pytest.raises(BlobTypeError, match=r"(?s)cannot be serialized.*saving blob 'empty' to minidb '.*c.minidb'"):
        save(ws, "s/b", "empty")
    assert [path.name for path in ws.root.iterdir()] == ["c.minidb"]
    np.testing.assert_array_equal(load(ws, "s/a").fetch("s/a"), A)


KILLED = """
import os, signal, sys
from pathlib import Path
import numpy as np
from tazza.db.base import Transaction
from tazza.operator import operator_def
from tazza.workspace import Workspace

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

owner, name = {"commit": (Transaction, "commit"), "move": (Path, "replace")}[sys.argv[2]]
calls = []
def last(*arguments, original=getattr(owner, name)):
    calls.append(arguments)
    if name == "commit" or Path(arguments[1]).name == "c.minidb":
        die()
    return original(*arguments)
setattr(owner, name, last)
ws = Workspace(root=sys.argv[1])
ws.feed("s/a", np.zeros(100000, np.float32))
ws.run_operator(operator_def("Save", ["s/a"], db="c.minidb", db_type="minidb"))
"""


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["commit", "move"])
def test_a_process_that_is_killed_while_saving_leaves_the_file_before_it(ws: Workspace, moment: str) -> None:
    save(ws, "s/a")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", KILLED, str(ws.root), moment], env=environment, check=False)
    assert done.returncode == -9
    np.testing.assert_array_equal(load(ws, "s/a").fetch("s/a"), A)
    save(ws, "s/b")
    assert keys(ws.root / "c.minidb") == ["s/b#%0"]


def test_a_save_keeps_permissions_and_follows_links(ws: Workspace) -> None:
    save(ws, "s/a")
    path = ws.root / "c.minidb"
    path.chmod(0o640)
    (ws.root / "link").symlink_to(path)
    save(ws, "s/b", db="link")
    assert (ws.root / "link").is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640
    assert keys(path) == ["s/b#%0"]


def test_folders(ws: Workspace) -> None:
    """An LMDB is a folder: it is made in one step, and never overwritten."""
    save(ws, "s/a", "text", db="c.lmdb", db_type="lmdb")
    assert keys(ws.root / "c.lmdb", "lmdb") == ["s/a#%0", "text"]
    np.testing.assert_array_equal(load(ws, "s/a", db="c.lmdb", db_type="lmdb").fetch("s/a"), A)
    with pytest.raises(DBError, match=r"lmdb '.*c.lmdb' is a folder that holds something"):
        save(ws, "s/b", db="c.lmdb", db_type="lmdb")
    assert [path.name for path in ws.root.iterdir()] == ["c.lmdb"]


def test_absolute_path(ws: Workspace, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "c.minidb"
    save(ws, "s/a", db=str(elsewhere), absolute_path=1)
    loaded = load(ws, "s/a", db=str(elsewhere), absolute_path=1)
    np.testing.assert_array_equal(loaded.fetch("s/a"), A)


# -- files of Caffe2 ---------------------------------------------------------------------------------------------------

CHECKPOINT = {
    "conv1_b": ((20,), -3.408520720899105),
    "conv1_w": ((20, 1, 5, 5), 5.62902898916218),
    "conv2_b": ((50,), -1.0389843351422314),
    "conv2_w": ((50, 20, 5, 5), -29.768722937410985),
    "fc3_b": ((500,), 0.2772439233733621),
    "fc3_w": ((500, 800), -13.252236087309676),
    "pred_b": ((10,), -2.782326191663742e-08),
    "pred_w": ((10, 500), 5.996441598508682),
}
"""Blob of the checkpoint -> its shape, and the sum of its elements in float64."""


def test_a_checkpoint_of_caffe2_is_loaded() -> None:
    shared = Path(os.environ.get("TAZZA_SHARED", ROOT.parent / "shared"))
    path = shared / "data" / "interop" / "lenet_mnist" / "checkpoint.minidb"
    if not path.is_file():
        pytest.skip(f"there is no '{path}'; TAZZA_SHARED can name the folder that holds data/")
    loaded = Workspace()
    loaded.run_operator(operator_def("Load", db=str(path), db_type="minidb", absolute_path=1, load_all=1))
    found = {name: loaded.fetch(name) for name in loaded.local_blobs()}
    assert {name: value.shape for name, value in found.items()} == {
        name: shape for name, (shape, _) in CHECKPOINT.items()
    }
    for name, (_, total) in CHECKPOINT.items():
        assert found[name].dtype == np.float32
        assert float(found[name].sum(dtype=np.float64)) == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [("x", "x"), ("x%d", "x42"), ("x%05d%%", "x00042%"), ("%x.db", "2a.db"), ("%-5ld|", "42   |"), ("%lld", "42")],
)
def test_paths_of_checkpoints(ws: Workspace, pattern: str, path: str) -> None:
    ws.feed("i", np.array([42]))
    ws.run_operator(operator_def("Checkpoint", ["i", "s/a"], db=pattern, db_type="minidb"), strict=True)
    assert [one.name for one in ws.root.iterdir()] == [path]


@pytest.mark.parametrize("pattern", ["%s", "%d-%d", "%", "%9999d", "%n", "%*d", "%f"])
def test_patterns_that_are_refused(ws: Workspace, pattern: str) -> None:
    ws.feed("i", np.array([42]))
    with pytest.raises(ArgumentError, match="places for a number, and there is one"):
        ws.run_operator(operator_def("Checkpoint", ["i", "s/a"], db=pattern, db_type="minidb"))


def test_whether_a_database_is_there(ws: Workspace) -> None:
    save(ws, "s/a")
    for name, found in (("c.minidb", True), ("d.minidb", False), ("", False), (str(ws.root / "c.minidb"), True)):
        for kind in ("minidb", "lmdb", ""):
            ws.run_operator(operator_def("DBExists", [], ["e"], db_name=name, db_type=kind))
            assert ws.fetch("e") == found
