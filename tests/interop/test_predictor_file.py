"""Predictor files: what is in them, that they can be read again, and broken ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tazza.db import Mode, open_db
from tazza.errors import DBError, FileError, FormatError, TazzaError, TrustError
from tazza.interop import PredictorFile, load, save_predictor
from tazza.models import Model
from tazza.proto import BlobProto, MetaNetDef
from tazza.workspace import Workspace

KEY = "!!META_NET_DEF"


def records(path: Path) -> dict[bytes, bytes]:
    """Return the records of a minidb."""
    with open_db("minidb", path) as db, db.cursor() as cursor:
        return dict(cursor)


def write(path: Path, content: dict[bytes, bytes]) -> None:
    """Write records into a new minidb."""
    with open_db("minidb", path, Mode.NEW) as db, db.transaction() as transaction:
        for key, value in content.items():
            transaction.put(key, value)


@pytest.fixture
def path(model: Model, workspace: Workspace, tmp_path: Path) -> Path:
    """Return the predictor file of the small model."""
    made = tmp_path / "small.minidb"
    save_predictor(made, model, workspace, outputs=["p"])
    return made


def test_layout_is_that_of_caffe2(path: Path) -> None:
    stored = records(path)
    assert list(stored) == [KEY.encode(), b"y_w#%0", b"y_b#%0", b"z_w#%0", b"z_b#%0"]
    record = BlobProto.FromString(stored[KEY.encode()])
    assert (record.name, record.type) == (KEY, "std::string")
    meta = MetaNetDef.FromString(record.content)
    assert [(each.key, list(each.value)) for each in meta.blobs] == [
        ("PARAMETERS_BLOB_TYPE", ["y_w", "y_b", "z_w", "z_b"]),
        ("INPUTS_BLOB_TYPE", ["x"]),
        ("OUTPUTS_BLOB_TYPE", ["p"]),
    ]
    init, load_net, predict = (each.value for each in meta.nets)
    assert [each.key for each in meta.nets] == ["PREDICT_INIT_NET_TYPE", "GLOBAL_INIT_NET_TYPE", "PREDICT_NET_TYPE"]
    assert [(op.type, op.output[0], list(op.arg[0].ints)) for op in init.op] == [
        ("ConstantFill", "x", [4, 3]),
        ("ConstantFill", "p", [4, 2]),
    ]
    assert [(op.type, list(op.input)) for op in load_net.op] == [("Load", ["!!PREDICTOR_DBREADER"])]
    assert list(predict.external_input) == ["x", "y_w", "y_b", "z_w", "z_b"]


def test_what_is_written_predicts_the_same(path: Path, workspace: Workspace) -> None:
    with load(path) as predictor:
        assert (predictor.inputs, predictor.outputs) == (("x",), ("p",))
        got = predictor.run(x=workspace.fetch("x"))
    np.testing.assert_array_equal(got["p"], workspace.fetch("p"))


def test_predictors_may_be_named(model: Model, workspace: Workspace, tmp_path: Path) -> None:
    path = tmp_path / "named.minidb"
    save_predictor(path, model, workspace, outputs=["p"], name="small", shapes={"x": (1, 3)})
    with load(path, name="small") as predictor:
        assert predictor.run(x=workspace.fetch("x"))["p"].shape == (4, 2)
    with pytest.raises(FormatError, match=r"has no net 'PREDICT_NET_TYPE'.*PREDICT_NET_TYPE_small"):
        load(path)


def test_a_folder_is_an_lmdb(model: Model, workspace: Workspace, tmp_path: Path) -> None:
    path = tmp_path / "small.lmdb"
    save_predictor(path, model, workspace, outputs=["p"], db_type="lmdb")
    with load(path) as predictor:
        np.testing.assert_array_equal(predictor.run(x=workspace.fetch("x"))["p"], workspace.fetch("p"))


def test_a_file_that_is_there_is_replaced(path: Path, model: Model, workspace: Workspace) -> None:
    before = path.read_bytes()
    save_predictor(path, model, workspace, outputs=["p"])
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        ("missing", FileError, "does not exist"),
        ("no meta", FormatError, "has no record '!!META_NET_DEF'"),
        ("no blob", FormatError, "is no caffe2.BlobProto"),
        ("no message", FormatError, "the MetaNetDef of .* is no caffe2.MetaNetDef"),
        ("cut off", TazzaError, "small.minidb"),
        ("lost parameter", TazzaError, "z_b"),
    ],
)
def test_broken_files(path: Path, change: str, kind: type[TazzaError], text: str) -> None:
    stored = records(path)
    key = KEY.encode()
    if change == "missing":
        path = path.with_name("missing")
    elif change == "no meta":
        write(path, {name: value for name, value in stored.items() if name != key})
    elif change == "no blob":
        write(path, {key: b"\xff\xff"})
    elif change == "no message":
        write(path, {key: BlobProto(name=KEY, type="std::string", content=b"\xff").SerializeToString()})
    elif change == "cut off":
        path.write_bytes(path.read_bytes()[:-7])
    else:
        write(path, {name: value for name, value in stored.items() if not name.startswith(b"z_b")})
    with pytest.raises(kind, match=text):
        load(path)


def test_loading_a_file_reads_no_other(path: Path) -> None:
    stored = records(path)
    record = BlobProto.FromString(stored[KEY.encode()])
    meta = MetaNetDef.FromString(record.content)
    meta.nets[1].value.op[0].arg.add(name="db", s=b"/etc/passwd")
    record.content = meta.SerializeToString()
    stored[KEY.encode()] = record.SerializeToString()
    write(path, stored)
    with pytest.raises(TrustError, match="is Load, which does more than compute tensors"):
        load(path)


def test_another_kind_of_database_is_an_error(path: Path) -> None:
    with pytest.raises(DBError):
        PredictorFile.read(path, db_type="lmdb")
