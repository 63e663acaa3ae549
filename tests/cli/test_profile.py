"""`tazza profile`: what it runs, prints and writes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import tazza
from tazza.models import Model
from tazza.observers.trace import check_trace
from tests.cli.conftest import Run


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small net, as two nets and as a predictor file, which knows the shape of the input."""
    folder = tmp_path_factory.mktemp("model")
    built = Model("small")
    hidden = built.relu(built.fc("data", "hidden", 3, 4), "hidden")
    built.net.add_external_output(built.softmax(built.fc(hidden, "scores", 4, 5), "softmax"))
    workspace = tazza.Workspace()
    workspace.run_net_once(built.init_net.export())
    tazza.save_nets(folder / "init_net.pb", folder / "predict_net.pb", built, workspace)
    tazza.save_predictor(folder / "small.minidb", built, workspace, shapes={"data": (2, 3)})
    return folder


def test_profile_of_a_folder(run: Run, model: Path) -> None:
    result = run("profile", model, "--shape", "data=7,3", "--type", "simple", "--runs", 3, "--top", 2)
    assert result.exit_code == 0, result.stderr
    assert re.search(r"^net 'small\w*' \(simple\): 3 runs, \S+ ms each \(\S+ ms while nobody looks: ", result.output)
    assert "operator (2 of 4)" in result.output
    for row in (r"FC\s+6\s", r"Softmax\s+\w+\s+3\s|Relu\s+\w+\s+3\s|FC \w+\s+\w+\s+3\s", r"MainThread\s+12\s"):
        assert re.search(row, result.output), row
    assert "the last run:" in result.output


def test_a_predictor_file_knows_its_shapes(run: Run, model: Path, tmp_path: Path) -> None:
    trace, picture = tmp_path / "run.json", tmp_path / "run.svg"
    words = ("--type", "dag", "--workers", 2, "--batch", 9, "--runs", 2, "--trace", trace, "--picture", picture)
    result = run("profile", model / "small.minidb", *words)
    assert result.exit_code == 0, result.stderr
    assert "(dag): 2 runs" in result.output
    document = json.loads(trace.read_text())
    check_trace(document)
    found = [event for event in document["traceEvents"] if event["ph"] == "X" and event["name"] == "FC hidden"]
    assert [event["args"]["flops"] for event in found] == [found[0]["args"]["flops"]] * 2
    assert found[0]["args"]["flops"] >= 2 * 9 * 3 * 4
    assert "<svg" in picture.read_text()


def test_a_model_of_the_zoo_as_predict_runs_it(run: Run) -> None:
    result = run("profile", "mlp", "--batch", 2, "--runs", 1)
    assert result.exit_code == 0, result.stderr
    assert "(plan): 1 runs" in result.output
    assert re.search(r"Fused\w+", result.output)


def test_integers_are_zeros(run: Run, tmp_path: Path) -> None:
    built = Model("labelled")
    scores = built.fc("data", "scores", 3, 4)
    built.net.add_external_output(built.net.add("LabelCrossEntropy", [built.softmax(scores, "p"), "label"], "loss"))
    workspace = tazza.Workspace()
    workspace.run_net_once(built.init_net.export())
    tazza.save_nets(tmp_path / "init_net.pb", tmp_path / "predict_net.pb", built, workspace)
    shapes = ("--shape", "data=2,3", "--shape", "label:int32=2")
    result = run("profile", tmp_path, *shapes, "--runs", 1, "--type", "async_scheduling")
    assert result.exit_code == 0, result.stderr
    assert "LabelCrossEntropy" in result.output


def test_what_cannot_be_profiled(run: Run, model: Path) -> None:
    for words, reason in (
        (["nowhere"], "does not exist, and no model is called so"),
        ([model / "predict_net.pb"], "the shape of input 'data' is not known"),
        ([model / "predict_net.pb", "--shape", "data=2,4"], "takes 3"),
        ([model / "predict_net.pb", "--shape", "dta=2,4"], "has no input 'dta'"),
        ([model / "small.minidb", "--type", "nosuch"], "unknown type 'nosuch'"),
        ([model / "small.minidb", "--type", "parallel"], "num_workers = 0"),
    ):
        result = run("profile", *words)
        assert (result.exit_code, reason in result.stderr) == (1, True), result.stderr
    assert run("profile", "lenet", "--runs", 0).exit_code == 2


def test_inputs_are_fed_alike(run: Run, model: Path) -> None:
    """What a profile runs on does not change from one to the next."""
    from tazza.cli.profile import Request, made

    values: list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]] = []
    for _ in range(2):
        with made(Request(str(model / "small.minidb"))) as net:
            blob = net.workspace.get_blob("data")
            assert blob is not None
            values.append(blob.tensor().plain().copy())
    assert values[0].shape == (2, 3)
    assert np.array_equal(values[0], values[1])
    assert run("profile", "--help").exit_code == 0
