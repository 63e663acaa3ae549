"""`tazza migrate`: what old programs use, told as a table or as JSON, and the exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

ROOT = Path(__file__).parents[2]
OLD = '''
from caffe2.python import brew, core, model_helper, rnn_cell, workspace
import cPickle
import nowhere_at_all

open("touched", "w")
model = model_helper.ModelHelper(name="old")
brew.conv(model, "data", "conv", 1, 2, kernel=3, pad=(3 - 1) / 2)
model.net.Sqr("conv", "square").AveragedLoss([], ["loss"])
model.net.HouseOperator("loss", "out")
model.MyOwn()
model.AddGradientOperators(["loss"])
rnn_cell.cudnn_LSTM(model)
print "loss", workspace.FetchBlob("loss")
core.Neet("typo")
'''  # fmt: skip
OWN = "def MyOwn(self):\n    return 'of the programs themselves'\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an old program, one of its modules, and what is not looked at."""
    monkeypatch.chdir(tmp_path)
    programs = tmp_path / "programs"
    (programs / "inner").mkdir(parents=True)
    (programs / ".git").mkdir()
    (programs / "old.py").write_text(OLD)
    (programs / "inner" / "own.py").write_text(OWN)
    (programs / ".git" / "hidden.py").write_text("import caffe2.python.hidden\n")
    (programs / "notes.txt").write_text("from caffe2.python import core\n")
    return programs


def test_a_table_of_what_is_used(run: Run, folder: Path) -> None:
    result = run("migrate", folder)
    assert (result.exit_code, result.stderr) == (1, "")
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    wanted = [
        "core.Neet 1 absent: caffe2.python.core has no Neet",
        "rnn_cell.cudnn_LSTM 1 refuses: it is made of operators that Caffe2",
        "HouseOperator 1 absent: nobody declares it",
        "brew.conv 1 there tazza.Model.conv",
        "workspace.FetchBlob 1 there tazza.Workspace.fetch",
        'Sqr 1 there tazza.Net.add ("Sqr")',
        "AveragedLoss 1 there tazza.Model.averaged_loss",
        "cPickle pickle 1",
        "print print(...) 1",
        "pad = a / b //, or int(...): an extent is a whole number 1",
    ]
    assert [text for text in wanted if not any(line.startswith(text) for line in lines)] == []
    assert lines[-2] == "2 programs, 9 names of Caffe2, 3 of them not there"
    assert lines[-1] == "1 of the programs is of Python 2: 2to3 first"
    assert not any(word in result.output for word in ("hidden", "MyOwn", "nowhere_at_all"))


def test_nothing_is_executed(run: Run, folder: Path) -> None:
    run("migrate", folder)
    assert not (folder.parent / "touched").exists()


def test_json_has_all_places(run: Run, folder: Path) -> None:
    result = run("migrate", folder, "--json")
    told = json.loads(result.output)
    assert (result.exit_code, told["all_there"]) == (1, False)
    assert {Path(one["path"]).name: one["language"] for one in told["programs"]} == {
        "old.py": "Python 2",
        "own.py": "Python 3",
    }
    (old,) = [one for one in told["programs"] if one["path"].endswith("old.py")]
    assert {change["what"]: change["line"] for change in old["changes"]} == {
        "cPickle": 3,
        "pad = a / b": 8,
        "print": 14,
    }
    names = {one["name"]: one for one in told["names"]}
    assert names["workspace.FetchBlob"] == {
        "name": "workspace.FetchBlob",
        "kind": "name",
        "state": "there",
        "reason": "",
        "own": "tazza.Workspace.fetch",
        "note": "",
        "places": [{"path": str(folder / "old.py"), "line": 14}],
    }
    assert (names["HouseOperator"]["kind"], names["HouseOperator"]["state"]) == ("operator", "absent")


@pytest.mark.slow
def test_the_examples_find_all_they_ask_for(run: Run) -> None:
    result = run("migrate", ROOT / "examples" / "legacy", "--json")
    told = json.loads(result.output)
    assert (result.exit_code, told["all_there"]) == (0, True)
    assert {one["language"] for one in told["programs"]} == {"Python 3"}
    assert [one["changes"] for one in told["programs"] if one["changes"]] == []


@pytest.mark.slow
def test_files_that_are_no_programs(run: Run, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def (:\n")
    (tmp_path / "bytes.py").write_bytes(bytes(range(256)))
    (tmp_path / "latin.py").write_bytes(b"# -*- coding: latin-1 -*-\nx = '\xe9'\n")
    (tmp_path / "undeclared.py").write_bytes(b"# \xe9\nfrom caffe2.python import core\ncore.Net\n")
    result = run("migrate", tmp_path)
    assert result.exit_code == 1
    assert "broken.py' is no program: line 1 is no Python, neither 3 nor 2" in result.output
    assert "bytes.py' is no program" in result.output
    assert "latin.py" not in result.output
    assert run("migrate", tmp_path / "undeclared.py").exit_code == 0
    told = json.loads(run("migrate", tmp_path, "--json").output)
    assert [one["language"] for one in told["programs"]] == ["unreadable", "unreadable", "Python 3", "Python 3"]


def test_paths_that_lead_to_no_program(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for path, reason in ((tmp_path / "nowhere.py", "does not exist"), (tmp_path / "empty", "has no programs")):
        result = run("migrate", path)
        assert result.exit_code == 1
        assert reason in result.stderr


def test_a_program_without_caffe2(run: Run, tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("import torch\nmodel = torch.Model()\nmodel.Relu()\n")
    result = run("migrate", tmp_path)
    assert (result.exit_code, result.output) == (0, "1 program, no names of Caffe2\n")
