"""`tazza quantize`: what it writes and prints, and what it refuses."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

import tazza
from tazza.cli.quantize import PICTURE, PREDICT, RESULTS, TABLE
from tazza.models import Model
from tazza.models.training import seed_operators
from tazza.proto import NetDef
from tazza.proto.message import read_message
from tests.cli.conftest import Run

IMAGES = np.random.default_rng(1).integers(0, 256, (9, 6, 5)).astype(np.uint8)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of a small net, and images."""
    folder = tmp_path_factory.mktemp("model")
    built = Model("small")
    x = built.relu(built.conv("data", "conv", 1, 4, 3, pad=1), "conv")
    x = built.average_pool(x, "mean", global_pooling=1)
    built.net.add("Tanh", [str(x)], ["bent"])
    built.net.add_external_output(built.softmax(built.fc("bent", "scores", 4, 3), "softmax"))
    workspace = tazza.Workspace()
    seed_operators(built.init_net.proto, 3)
    workspace.run_net_once(built.init_net.export())
    tazza.save_nets(folder / "init_net.pb", folder / "predict_net.pb", built, workspace)
    tazza.save_predictor(folder / "small.minidb", built, workspace, shapes={"data": (2, 1, 6, 5)})
    np.save(folder / "images.npy", IMAGES)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", ["", "small.minidb"])
def test_nets_of_bytes_with_what_they_lose(run: Run, model: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / "out"
    words = ("--method", "percentile", "--compare", "--batch-size", 4, "--images", 7, "--top", 3)
    result = run("quantize", model / name, "--data", model / "images.npy", "--out", out, *words)
    assert result.exit_code == 0, result.stderr
    assert sorted(path.name for path in out.iterdir()) == sorted(RESULTS)
    assert "5 of 6 operators compute in bytes" in result.output
    assert "bent stays float32: Tanh has no rule for bytes" in result.output
    assert "7 images" in result.output
    assert "layers that add most noise (3 of 5)" in result.output
    with (out / TABLE).open() as file:
        assert [row["blob"] for row in csv.DictReader(file)] == ["conv", "mean", "bent", "scores", "softmax"]
    assert (out / PICTURE).read_bytes().startswith(b"\x89PNG")
    small, whole = (run("predict", folder, model / "images.npy", "--top", 1) for folder in (out, model))
    assert small.exit_code == 0, small.stderr
    assert len(small.output.splitlines()) == len(whole.output.splitlines()) == len(IMAGES)


@pytest.mark.slow
def test_a_folder_that_holds_nets_is_left_alone(run: Run, model: Path, tmp_path: Path) -> None:
    words = ("quantize", model, "--data", model / "images.npy", "--out", tmp_path / "out")
    assert run(*words, "--weights", "tensor").exit_code == 0
    before = (tmp_path / "out" / PREDICT).read_bytes()
    again = run(*words, "--keep", "scores")
    assert again.exit_code == 1
    assert "holds nets already: init_net.pb, predict_net.pb" in again.stderr
    assert (tmp_path / "out" / PREDICT).read_bytes() == before
    (tmp_path / "out" / TABLE).write_text("of an older run")
    replaced = run(*words, "--keep", "scores", "--overwrite")
    assert replaced.exit_code == 0, replaced.stderr
    assert "scores stays float32: it was asked to stay" in replaced.output
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["init_net.pb", "predict_net.pb"]
    types = [op.type for op in read_message(tmp_path / "out" / PREDICT, NetDef).op]
    assert "FC" in types
    assert "Int8FC" not in types


@pytest.mark.slow
def test_layers_are_kept_until_outputs_are_near(run: Run, model: Path, tmp_path: Path) -> None:
    words = ("quantize", model, "--data", model / "images.npy", "--images", 9)
    result = run(*words, "--least-db", 150, "--out", tmp_path / "near")
    assert result.exit_code == 0, result.stderr
    assert "200.0 dB signal to error of the outputs" in result.output
    assert "0 of 6 operators compute in bytes" in result.output
    refused = run(*words, "--least-db", 1000, "--out", tmp_path / "nearer")
    assert refused.exit_code == 1
    assert "and 1000 is wanted" in refused.stderr
    assert list((tmp_path / "nearer").iterdir()) == []


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--method", "best"], "no method 'best' of calibration"),
        (["--weights", "row"], "filters are not scaled by 'row'"),
        (["--keep", "nothing"], "no operator makes 'nothing'"),
        (["--data", "nowhere"], "'nowhere' does not exist"),
        (["--input", "nothing"], "'nothing'"),
    ],
)
def test_refused(run: Run, model: Path, tmp_path: Path, words: list[str], text: str) -> None:
    result = run("quantize", model, "--data", model / "images.npy", "--out", tmp_path / "out", *words)
    assert result.exit_code == 1
    assert text in result.stderr
    assert "Traceback" not in result.stderr
    assert list((tmp_path / "out").iterdir() if (tmp_path / "out").exists() else []) == []
