"""Models by name: from the folder of models, else from an address; what fails leaves nothing."""

from __future__ import annotations

import argparse
import io
import json
import shutil
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

from caffe2.python.models import download
from tazza.errors import ArgumentError, FileError, FormatError, UnavailableError
from tazza.graph.text import parse_net
from tazza.operator import operator_def
from tazza.proto import NetDef

INIT = NetDef(op=[operator_def("ConstantFill", [], ["w"], shape=[3], value=2.0)])
PREDICT = parse_net("in: data, w", "out: y", "y = Mul(data, w)")


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of models with one in it, and an address that nobody answers at."""
    monkeypatch.setenv("CAFFE2_MODELS", str(tmp_path))
    monkeypatch.setattr(download, "DOWNLOAD_BASE_URL", "http://127.0.0.1:9/")
    (tmp_path / "small").mkdir()
    for name, net in (("init_net", INIT), ("predict_net", PREDICT)):
        (tmp_path / "small" / f"{name}.pb").write_bytes(net.SerializeToString())
    (tmp_path / "small" / "value_info.json").write_text('{"data": [1, [3]]}')
    return tmp_path


def given(install: bool = False, force: bool = False) -> argparse.Namespace:
    return argparse.Namespace(install=install, force=force)


def test_what_lies_there_is_taken(models: Path) -> None:
    init, predict, info = download.ModelDownloader().get_c2_model("small")
    assert (init.name, list(init.op)) == ("small_init", list(INIT.op))
    assert (predict.name, list(predict.op)) == ("small", list(PREDICT.op))
    assert info == {"data": [1, [3]]}
    assert str(models / "small" / "init_net.pb") in download.ModelDownloader().get_c2_model_dbg("small")[3]


def test_folders_are_those_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CAFFE2_MODELS", raising=False)
    monkeypatch.setenv("CAFFE2_HOME", "/there")
    assert download.ModelDownloader()._model_dir("m") == "/there/models/m"  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setenv("OTHER", "/elsewhere")
    assert download.ModelDownloader("OTHER")._model_dir("m") == "/elsewhere/m"  # pyright: ignore[reportPrivateUsage]


def test_without_a_network_nothing_is_left(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnavailableError, match="squeezenet"):
        download.ModelDownloader().get_c2_model("squeezenet")
    monkeypatch.chdir(models)
    (models / "small" / "mine.txt").touch()
    with pytest.raises(UnavailableError, match="small"):
        download.downloadModel("small", given(force=True))
    assert [path.name for path in models.iterdir()] == ["small"]
    assert (models / "small" / "mine.txt").exists()
    assert download.main(["small", "-f"]) == 1


@pytest.mark.parametrize("name", ["../up", "/etc", "a b", "", "a.b", "a//b"])
def test_names_that_lead_elsewhere_are_refused(name: str, models: Path) -> None:
    assert not download.validModelName(name)
    with pytest.raises(ArgumentError, match="no name of a model"):
        download.downloadModel(name, given())
    with pytest.raises((ArgumentError, FileError)):
        download.ModelDownloader().get_c2_model(name)
    assert [path.name for path in models.iterdir()] == ["small"]


def test_a_file_that_holds_something_else_is_refused(models: Path) -> None:
    (models / "small" / "value_info.json").write_text("{")
    with pytest.raises(FormatError, match="value_info"):
        download.ModelDownloader().get_c2_model("small")
    (models / "small" / "init_net.pb").unlink()
    with pytest.raises(FileError, match="init_net"):
        download.ModelDownloader().get_c2_model("small")


def test_a_model_that_is_there_is_replaced_once_that_is_said(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(models)

    def given_out(url: str, path: str) -> None:
        Path(path).write_text(url)

    monkeypatch.setattr(download, "downloadFromURLToFile", given_out)
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\ny\n"))
    download.downloadModel("small", given())
    assert json.loads((models / "small" / "value_info.json").read_text())
    download.downloadModel("small", given())
    assert sorted(path.name for path in (models / "small").iterdir()) == ["init_net.pb", "predict_net.pb"]


def test_what_is_installed_gives_bytes(models: Path) -> None:
    shutil.copyfile(download.PACKAGE / "__sym_init__.py", models / "small" / "__init__.py")
    module = loaded(models / "small" / "__init__.py")
    assert module.init_net == INIT.SerializeToString()
    assert module.predict_net == PREDICT.SerializeToString()
    with pytest.raises(AttributeError, match="other_net"):
        _ = module.other_net


def loaded(path: Path) -> ModuleType:
    """Return a module from a file."""
    loader = SourceFileLoader("installed_model", str(path))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def test_progress_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    download.progressBar(33)
    assert capsys.readouterr().out == f"\x1b[1000D[{'#' * 23}{' ' * 47}] 33%"
    with pytest.raises(SystemExit):
        download.signalHandler(2, None)
