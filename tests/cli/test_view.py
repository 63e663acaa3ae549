"""`tazza view` and `tazza show --picture`: which file they write, what they say, and what they refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

import tazza
from tazza.models import Model
from tazza.models.zoo import CLASSIFIERS
from tazza.observers.view.geometry import TIMES
from tazza.proto import NetDef
from tests.cli.conftest import Run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small net and the net that makes its parameters."""
    path = tmp_path_factory.mktemp("model")
    built = Model("small")
    hidden = built.relu(built.fc("data", "hidden", 3, 4), "hidden")
    built.net.add_external_output(built.softmax(built.fc(hidden, "scores", 4, 5), "softmax"))
    workspace = tazza.Workspace()
    workspace.run_net_once(built.init_net.export())
    tazza.save_nets(path / "init_net.pb", path / "predict_net.pb", built, workspace)
    return path


@pytest.mark.slow
def test_a_page_with_what_a_run_told(run: Run, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "net.html"
    result = run("view", folder, "--shape", "data=7,3", "--runs", 1, "--out", out)
    assert result.exit_code == 0, result.stderr
    assert "inputs: data float32[7, 3] as given" in result.output
    assert f"page: {out}" in result.output.replace("\n", "")
    assert "as it runs" in out.read_text()


@pytest.mark.slow
def test_what_cannot_run_is_shown_and_the_reason_told(run: Run, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "net.html"
    result = run("view", folder, "--out", out)
    assert result.exit_code == 0, result.stderr
    assert "it did not run: the shape of input 'data' is not known" in result.output.replace("\n", " ")
    assert run("view", folder, "--runs", 0, "--out", out).exit_code == 0
    assert "hidden_w" in out.read_text()


@pytest.mark.slow
def test_the_model_is_not_written_over(run: Run, folder: Path) -> None:
    net = folder / "predict_net.pb"
    before = net.read_bytes()
    assert run("view", net, "--out", net).exit_code == 1
    assert run("show", net, "--picture", net).exit_code == 1
    assert net.read_bytes() == before


@pytest.mark.slow
def test_a_picture(run: Run, folder: Path, tmp_path: Path) -> None:
    picture = tmp_path / "net.svg"
    result = run("show", folder / "predict_net.pb", "--picture", picture, "--shape", "data=7,3")
    assert result.exit_code == 0, result.stderr
    text = picture.read_text()
    assert text.startswith("<svg")
    assert f">7{TIMES}4<" in text
    assert run("show", folder / "predict_net.pb", "--picture", tmp_path / "net.png").exit_code == 1


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_netron_knows_what_we_write(name: str) -> None:
    """It takes a file for Caffe2's by its beginning: a name below 64 bytes that can be printed, then operators."""
    written = CLASSIFIERS[name].inference().net.export().SerializeToString()
    length = written[1]
    assert written[0] == 10, "the name comes first"
    assert length < 64
    assert written[2 : 2 + length].decode("ascii").isprintable()
    assert written[2 + length] == 18, "an operator"
    assert NetDef.FromString(written).op
