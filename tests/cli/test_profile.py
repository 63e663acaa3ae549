"""`tazza profile`: what it runs, prints and writes."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tazza
from tazza.graph.text import parse_net
from tazza.models import Model
from tazza.observers.trace import check_trace
from tazza.operator import operator_def
from tazza.proto import NetDef
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


@pytest.mark.slow
def test_profile_of_a_folder(run: Run, model: Path) -> None:
    result = run("profile", model, "--shape", "data=7,3", "--type", "simple", "--runs", 3, "--top", 2)
    assert result.exit_code == 0, result.stderr
    assert re.search(
        r"(?m)^net 'small\w*' \(simple\): 3 runs, \S+ ms each \(\S+ ms while nobody looks: ", result.output
    )
    assert "operator (2 of 4)" in result.output
    for row in (r"FC\s+6\s", r"Softmax\s+\w+\s+3\s|Relu\s+\w+\s+3\s|FC \w+\s+\w+\s+3\s", r"MainThread\s+12\s"):
        assert re.search(row, result.output), row
    assert "the last run:" in result.output


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_model_of_the_zoo_as_predict_runs_it(run: Run) -> None:
    result = run("profile", "mlp", "--batch", 2, "--runs", 1)
    assert result.exit_code == 0, result.stderr
    assert "(plan): 1 runs" in result.output
    assert re.search(r"Fused\w+", result.output)


@pytest.mark.slow
def test_it_says_which_inputs_and_which_batch_it_runs(run: Run, model: Path) -> None:
    file, nets = model / "small.minidb", model / "predict_net.pb"
    for words, lines in (
        ([file], ["inputs: data float32[2, 3] as stored", "runs batch 2 as stored; --batch N runs another"]),
        ([file, "--batch", 5], ["inputs: data float32[5, 3] as stored"]),
        ([file, "--shape", "data=4,3"], ["inputs: data float32[4, 3] as given"]),
        ([nets, "--shape", "data=4,3", "--batch", 6], ["inputs: data float32[6, 3] as given"]),
        (["mlp"], ["inputs: data float32[1, 1, 28, 28] as stored", "runs batch 1 as stored; --batch N runs another"]),
    ):
        result = run("profile", *words, "--runs", 1)
        assert result.exit_code == 0, result.stderr
        assert result.output.splitlines()[: len(lines)] == lines
        assert ("runs batch" in result.output) == (len(lines) == 2)


INITS: dict[str, dict[str, Any]] = {
    "ConstantFill": {"shape": [2, 3], "value": 0.5},
    "GivenTensorFill": {"shape": [2, 3], "values": [0.5, 1.0, 2.0, 3.0, 4.0, 5.0]},
    "UniformFill": {"shape": [2, 3], "min": -1.0, "max": 1.0},
}


@pytest.mark.slow
@pytest.mark.parametrize("type", [None, "simple"])
@pytest.mark.parametrize("fill", INITS)
@pytest.mark.parametrize("first", [True, False])
def test_an_input_that_the_init_net_makes_is_no_constant(
    run: Run, tmp_path: Path, fill: str, type: str | None, *, first: bool
) -> None:
    """Wherever it is made and whatever with: it is fed, or asked for by name; nobody times what was folded."""
    built = Model("made")
    hidden = built.relu(built.fc("data", "hidden", 3, 4), "hidden")
    built.net.add_external_output(built.softmax(built.fc(hidden, "scores", 4, 5), "softmax"))
    init = built.init_net.export()
    init.op.insert(0 if first else len(init.op), operator_def(fill, [], ["data"], **INITS[fill]))
    tazza.write_message(tmp_path / "init_net.pb", init)
    tazza.write_message(tmp_path / "predict_net.pb", built.net.export())
    asked = ("--runs", 2, *(() if type is None else ("--type", type)))
    plain = run("profile", tmp_path, *asked)
    if plain.exit_code or "inputs: none" in plain.output:  # a net that folds nothing may run on what the file holds
        assert plain.exit_code == 0 or "has no input: 3 of its operators depend on constants alone" in plain.stderr
        assert plain.exit_code == 0 or "--shape NAME=EXTENT" in plain.stderr
    else:
        assert "inputs: data float32[2, 3] as stored" in plain.output
    trace = tmp_path / "run.json"
    given = run("profile", tmp_path, "--shape", "data=7,3", "--trace", trace, *asked)
    assert given.exit_code == 0, given.stderr
    assert "inputs: data float32[7, 3] as given" in given.output
    assert "ran beforehand" not in given.output
    events = [event for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"]
    assert sum(event["args"].get("flops", 0) for event in events) >= 2 * 2 * 7 * (3 * 4 + 4 * 5)


def test_what_was_computed_beforehand_is_told(run: Run, tmp_path: Path) -> None:
    built = Model("folded")
    built.net.add("Scale", "weight", "scaled", scale=2.0)
    built.net.add_external_output(built.net.add("Mul", ["data", "scaled"], "y"))
    init = built.init_net.export()
    init.op.append(operator_def("GivenTensorFill", [], ["weight"], shape=[3], values=[1.0, 2.0, 3.0]))
    tazza.write_message(tmp_path / "init_net.pb", init)
    tazza.write_message(tmp_path / "predict_net.pb", built.net.export())
    result = run("profile", tmp_path, "--shape", "data=3", "--runs", 1)
    assert result.exit_code == 0, result.stderr
    assert "operators on constants alone, which ran beforehand and not in what follows: 1" in result.output


@pytest.mark.slow
def test_a_shape_that_nobody_knows_is_asked_for(run: Run, tmp_path: Path) -> None:
    """A predictor file says (0,) then."""
    built = Model("shapeless")
    built.net.add_external_output(built.fc("data", "y", 3, 4))
    workspace = tazza.Workspace()
    workspace.run_net_once(built.init_net.export())
    tazza.save_predictor(tmp_path / "model.minidb", built, workspace)
    refused = run("profile", tmp_path / "model.minidb", "--batch", 2)
    assert (refused.exit_code, "the shape of input 'data' is not known" in refused.stderr) == (1, True)
    assert run("profile", tmp_path / "model.minidb", "--shape", "data=2,3", "--runs", 1).exit_code == 0


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


@pytest.mark.slow
def test_a_net_that_reads_nothing_but_its_inputs_needs_no_init_net(run: Run, tmp_path: Path) -> None:
    one, two = tmp_path / "one.pb", tmp_path / "two.pb"
    one.write_bytes(parse_net("in: x", "y = Relu(x)").SerializeToString())
    two.write_bytes(parse_net("in: x, w", "y = Add(x, w)").SerializeToString())
    done = run("profile", one, "--shape", "x=2,3", "--runs", 2)
    assert "x float32[2, 3] as given" in done.output
    done = run("profile", two, "--shape", "x=2,3", "--shape", "w=2,3", "--runs", 2)
    assert "w float32[2, 3] as given" in done.output
    refused = run("profile", two, "--shape", "x=2,3")
    assert refused.exit_code == 1
    assert "which makes 'w'" in refused.stderr.replace("\n", " ")


@pytest.mark.slow
def test_what_cannot_be_profiled(run: Run, model: Path, tmp_path: Path) -> None:
    constant = tmp_path / "predict_net.pb"
    fill = operator_def("UniformFill", [], ["y"], shape=[2])
    tazza.write_message(constant, NetDef(name="constant", op=[fill], external_output=["y"]))
    tazza.write_message(tmp_path / "init_net.pb", NetDef(name="init"))
    assert run("profile", constant, "--runs", 1).exit_code == 0, "it draws anew in every run"
    for words, reason in (
        (["nowhere"], "does not exist, and no model is called so"),
        ([model / "predict_net.pb"], "the shape of input 'data' is not known"),
        ([model / "predict_net.pb", "--shape", "data=2,4"], "takes 3"),
        ([model / "predict_net.pb", "--shape", "dta=2,4"], "has no input 'dta'"),
        ([constant, "--batch", 3], "net 'constant' has no input, and --batch 3 no effect"),
        ([model / "small.minidb", "--type", "nosuch"], "unknown type 'nosuch'"),
        ([model / "small.minidb", "--type", "parallel"], "num_workers = 0"),
    ):
        result = run("profile", *words)
        assert (result.exit_code, reason in result.stderr) == (1, True), result.stderr
    assert run("profile", "lenet", "--runs", 0).exit_code == 2
    before = constant.read_bytes()
    for option in ("--trace", "--picture"):
        assert "is a file of the model that is profiled" in run("profile", constant, option, constant).stderr
    assert constant.read_bytes() == before


@pytest.mark.slow
def test_inputs_are_fed_alike(run: Run, model: Path) -> None:
    """What a profile runs on does not change from one to the next."""
    from tazza.cli.profile import Request, made

    values: list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]] = []
    for _ in range(2):
        with made(Request(str(model / "small.minidb"))) as running:
            blob = running.net.workspace.get_blob("data")
            assert blob is not None
            values.append(blob.tensor().plain().copy())
    assert values[0].shape == (2, 3)
    assert np.array_equal(values[0], values[1])
    assert run("profile", "--help").exit_code == 0


def test_a_picture_that_nobody_can_draw_is_refused_before_runs(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = run("profile", "no-such-model", "--picture", "a.png")
    assert result.exit_code == 1
    assert "pip install 'tazza[pictures]'" in result.stderr
