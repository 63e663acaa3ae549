"""`tazza train FILE.py`, end to end."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest

import tazza
from tazza.cli.train_task import TaskSettings, options_of, task_of
from tazza.models.task import Learning, learn
from tazza.models.training import Trainer, TrainingStep
from tazza.nets import NETS
from tests.cli.conftest import Run

PROGRAM = Path(__file__).parents[1] / "data" / "programs" / "halves.py"


def column(out: Path, name: str) -> list[str]:
    """Return a column of a history, as text."""
    return [row[name] for row in csv.DictReader((out / "history.csv").read_text().splitlines())]


@pytest.mark.slow  # seconds for the picture
def test_a_training_writes_all_that_it_says(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = run("train", PROGRAM, "--out", out, "--set", "rate=0.2")
    assert result.exit_code == 0, result.stderr
    assert re.search(r"iteration 36  loss [\d.]+  \d+ steps/s  error [\d.e-]+\n", result.output)
    assert re.search(r"error [\d.e-]+, tested of 1,000, [\d.]+ steps/s, 40 iterations", result.output)
    assert {path.name for path in out.iterdir()} == {
        "checkpoint.minidb",
        "curves.png",
        "figures.json",
        "history.csv",
        "init_net.pb",
        "predict_net.pb",
        "settings.json",
        "times.json",
    }
    figures = json.loads((out / "figures.json").read_text())
    assert figures["error"] < 0.01
    assert [float(row) for row in column(out, "tested") if row][-1] == figures["error"]
    assert json.loads((out / "settings.json").read_text())["options"] == {"rate": "0.2"}


@pytest.mark.slow
@pytest.mark.usefixtures("no_pictures")
def test_what_is_exported_predicts(run: Run, tmp_path: Path) -> None:
    result = run("train", PROGRAM, "--out", tmp_path)
    assert result.exit_code == 0, result.stderr
    x = np.array([[1, 2, 3], [-4, 5, 6]], np.float32)
    with tazza.load(tmp_path / "init_net.pb", tmp_path / "predict_net.pb") as predictor:
        np.testing.assert_allclose(predictor.run({"x": x})["y"], x / 2, atol=0.1)


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.slow
def test_a_training_goes_on_where_it_ended(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the losses of one that never did, with batches of another length each time, with the options of then."""
    options = ("--set", "ragged=yes", "--set", "rate=0.05", "--net-type", "plan")
    assert run("train", PROGRAM, "--out", tmp_path / "whole", *options).exit_code == 0
    plain, made = Trainer.step, 0

    def broken(trainer: Trainer) -> TrainingStep:
        nonlocal made
        made += 1
        if made == 30:
            raise KeyboardInterrupt
        return plain(trainer)

    monkeypatch.setattr(Trainer, "step", broken)
    out = tmp_path / "parts"
    stopped = run("train", PROGRAM, "--out", out, "--checkpoint-every", 7, *options)
    assert stopped.exit_code == 130
    assert f"go on with: tazza train {PROGRAM} --out" in stopped.output
    monkeypatch.undo()
    assert "holds a training already" in run("train", PROGRAM, "--out", out).stderr
    result = run("train", PROGRAM, "--out", out, "--resume")
    assert result.exit_code == 0, result.stderr
    assert "going on after iteration 28 of 40" in result.output
    assert column(out, "loss") == column(tmp_path / "whole", "loss")
    assert (out / "figures.json").read_bytes() == (tmp_path / "whole" / "figures.json").read_bytes()
    assert run("train", PROGRAM, "--out", out, "--overwrite", "--iterations", 1).exit_code == 0
    assert len(column(out, "loss")) == 1


@pytest.mark.parametrize("net_type", sorted(NETS.keys()))
def test_every_type_of_nets_learns_the_same(net_type: str) -> None:
    losses: dict[str, list[float]] = {}
    for each in ("simple", net_type):
        with Learning(task_of(PROGRAM, {}), net_type=each) as learning:
            losses[each] = [learning.step().loss for _ in range(6)]
    np.testing.assert_allclose(losses[net_type], losses["simple"], rtol=1e-6)


def test_figures_are_those_of_what_was_learned_so_far() -> None:
    """A test changes nothing: neither what is learned after it, nor what lies in the workspace."""
    plain = learn(task_of(PROGRAM, {}), 9)
    with Learning(task_of(PROGRAM, {})) as learning:
        errors: list[float] = []
        for _ in range(9):
            learning.step()
            before = sorted(learning.workspace.blob_names())
            errors.append(learning.tested()["error"])
            assert sorted(learning.workspace.blob_names()) == before
    assert errors[-1] == plain["error"] < errors[0]


BAD: dict[str, tuple[str, str]] = {
    "nothing in it": ("x = 1\n", "declares none of the tasks that can be trained"),
    "two tasks": ("class Other(Halves): ...\n", "declares Halves, Other of the tasks that can be trained"),
    "no method": (
        "from tazza.models.task import TrainingTask\nclass Idle(TrainingTask): ...\n",
        "declares none of the tasks",
    ),
    "an error": ("raise OSError('the dog ate it')\n", "failed as it was imported: OSError: the dog ate it"),
    "no figure": ("Halves.test = lambda self, workspace: {}\n", "the test of Halves gives no figure"),
    "no loss": (
        "from tazza import Model\nHalves.build = lambda self: Model('nothing')\n",
        "makes no blob 'loss'",
    ),
}


@pytest.mark.parametrize("case", BAD.values(), ids=BAD.keys())
def test_programs_that_cannot_be_trained(run: Run, tmp_path: Path, case: tuple[str, str]) -> None:
    text, error = case
    program = tmp_path / "bad.py"
    program.write_text((PROGRAM.read_text() if "Halves" in text else "") + text)
    result = run("train", program, "--out", tmp_path / "out", "--iterations", 1)
    assert result.exit_code == 1
    assert error in result.stderr


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["rate"], "--set rate: 'rate' has no value"),
        (["rate=1", "rate=2"], "--set rate=2: 'rate' is given twice"),
        (["rats=1"], "unknown option of Halves 'rats'\n  hint: did you mean rate?"),
        (["rate=much"], "rate='much' is no float"),
        (["ragged=perhaps"], "ragged='perhaps' is no bool"),
        (["pair=1"], "pair cannot be set by a text"),
    ],
)
def test_options_that_are_refused(run: Run, tmp_path: Path, words: list[str], error: str) -> None:
    given = [word for each in words for word in ("--set", each)]
    result = run("train", PROGRAM, "--out", tmp_path / "out", *given)
    assert result.exit_code == 1
    assert error in result.stderr


def test_options_of_then_stay_beside_new_ones() -> None:
    before = TaskSettings({"rate": "0.1", "ragged": "on"}, iterations=3)
    after = before.updated({"options": {"rate": "0.2"}, "seed": 5})
    assert after == TaskSettings({"rate": "0.2", "ragged": "on"}, iterations=3, seed=5)


def test_options_have_the_types_of_their_fields() -> None:
    task = task_of(PROGRAM, options_of(["rate=1e-3", "ragged=on", "folder=a=b"]))
    assert (task.rate, task.ragged, task.folder) == (1e-3, True, Path("a=b"))  # pyright: ignore


def test_a_program_that_is_not_there(run: Run) -> None:
    assert "there is no program 'nowhere.py'" in run("train", "nowhere.py").stderr
