"""`tazza train char-lstm`, end to end."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

import tazza
from tazza.cli.train_text import TextSettings, build
from tazza.db.text import read_characters
from tazza.models.text import WARM, Windows, one_hot
from tazza.models.training import Trainer, TrainingStep
from tazza.models.zoo.char_lstm import CHARACTERS, LABELS
from tazza.nets import NETS
from tazza.workspace import Workspace
from tests.cli.conftest import Run

TEXT = Path(__file__).parents[1] / "data" / "text" / "cups.txt"
SMALL = ("--data", TEXT, "--hidden", 8, "--batch-size", 3, "--steps", 7, "--characters", 30, "--seed", 3)


def column(out: Path, name: str) -> list[str]:
    """Return a column of a history, as text."""
    return [row[name] for row in csv.DictReader((out / "history.csv").read_text().splitlines())]


@pytest.mark.slow  # seconds for the picture
def test_a_training_writes_all_that_it_says(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = run("train", "char-lstm", "--out", out, "--iterations", 130, *SMALL)
    assert result.exit_code == 0, result.stderr
    assert "text: 2591 characters to learn from, the last 287 to test on, 27 different" in result.output
    assert re.search(r"epoch 1  loss [\d.]+  \d+ characters/s  test loss [\d.]+ nats a character", result.output)
    assert re.search(
        r"test loss [\d.]+ nats a character \(287 characters\), \d+ characters/s, 130 iterations", result.output
    )
    assert {path.name for path in out.iterdir()} == {
        "alphabet.json",
        "checkpoint.minidb",
        "curves.png",
        "history.csv",
        "init_net.pb",
        "predict_net.pb",
        "sample.txt",
        "settings.json",
        "times.json",
    }
    said = (out / "sample.txt").read_text()
    assert len(said) == 30
    assert f"a sample:\n{said}\n" in result.output
    assert [row for row in column(out, "test_loss") if row] == column(out, "test_loss")[122:130:7]


@pytest.mark.slow
@pytest.mark.usefixtures("no_pictures")
def test_what_is_exported_gives_the_loss_that_is_told(run: Run, tmp_path: Path) -> None:
    """One text at a time, through the nets that were written; each part of the test text after what stands before."""
    result = run("train", "char-lstm", "--out", tmp_path, "--iterations", 3, *SMALL)
    assert result.exit_code == 0, result.stderr
    text = read_characters(TEXT)
    assert json.loads((tmp_path / "alphabet.json").read_text()) == text.alphabet
    whole = np.concatenate((text.train[-WARM - 1 :], text.test))
    part, total = -(-len(text.test) // 2), 0.0
    with tazza.load(tmp_path / "init_net.pb", tmp_path / "predict_net.pb") as predictor:
        for begin in (0, part):
            numbers = whole[begin : begin + WARM + 1 + part]
            given = predictor.run({CHARACTERS: one_hot(numbers[:-1], len(text.alphabet))[:, np.newaxis]})["softmax"]
            chances = given[np.arange(len(numbers) - 1), 0, numbers[1:]][WARM:]
            total -= float(np.log(chances, dtype=np.float64).sum())
    assert float(column(tmp_path, "test_loss")[-1]) == pytest.approx(total / len(text.test), rel=1e-5)


@pytest.mark.slow
@pytest.mark.usefixtures("no_pictures")
def test_it_learns(run: Run, tmp_path: Path) -> None:
    options = ("--hidden", 24, "--batch-size", 4, "--steps", 16, "--epochs", 6, "--dropout", 0, "--input-dropout", 0)
    result = run("train", "char-lstm", "--data", TEXT, "--out", tmp_path, "--learning-rate", 0.02, *options)
    assert result.exit_code == 0, result.stderr
    tests = [float(row) for row in column(tmp_path, "test_loss") if row]
    assert tests[0] > 2
    assert min(tests) < 1.3, "lines are made of 32 pieces"


@pytest.mark.slow
@pytest.mark.usefixtures("no_pictures")
def test_a_training_goes_on_where_it_ended(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the losses of one that never did, also within a round, whose state the checkpoint has."""
    common = ("train", "char-lstm", "--iterations", 6, *SMALL)
    assert run(*common, "--out", tmp_path / "whole").exit_code == 0
    plain, made = Trainer.step, 0

    def broken(trainer: Trainer) -> TrainingStep:
        nonlocal made
        made += 1
        if made == 5:
            raise KeyboardInterrupt
        return plain(trainer)

    monkeypatch.setattr(Trainer, "step", broken)
    out = tmp_path / "parts"
    assert run(*common, "--out", out, "--checkpoint-every", 3).exit_code == 130
    monkeypatch.undo()
    assert "holds a training already" in run(*common, "--out", out).stderr
    result = run("train", "char-lstm", "--out", out, "--resume")
    assert result.exit_code == 0, result.stderr
    assert "going on after iteration 3 of 6" in result.output
    assert column(out, "loss") == column(tmp_path / "whole", "loss")
    assert (out / "sample.txt").read_text() == (tmp_path / "whole" / "sample.txt").read_text()
    assert run(*common, "--out", out, "--overwrite", "--iterations", 1).exit_code == 0
    assert len(column(out, "loss")) == 1


BAD: dict[str, tuple[list[str], str]] = {
    "no data": ([], "there is no text to learn from\n  hint: name a file: --data FILE"),
    "no such file": (["--data", "nowhere"], "error: cannot read 'nowhere'"),
    "two lengths": (["--iterations", "1", "--epochs", "1"], "--iterations 1 and --epochs 1 are both given"),
    "too short": (["--steps", "2000"], "2591 characters to learn from are too few for 32 texts of 2000 steps"),
    "no checkpoint": (["--resume"], "has no checkpoint to go on from"),
    "negative rate": (["--learning-rate", "-1"], "--learning-rate -1.0 is not above 0"),
    "dropout": (["--dropout", "1"], "--dropout 1.0 is not in 0 ... 1, without 1"),
    "net type": (["--net-type", "dagg"], "unknown net type 'dagg'\n  hint: did you mean dag?"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_options_end_with_a_message(run: Run, tmp_path: Path, case: str) -> None:
    options, reason = BAD[case]
    data = [] if case == "no data" else ["--data", TEXT]
    result = run("train", "char-lstm", "--out", tmp_path, *data, *options)
    assert (result.exit_code, reason in result.stderr) == (1, True), result.stderr
    assert "Traceback" not in result.stderr


def test_windows_go_through_the_text() -> None:
    """Each window begins where the one before ended, in each of the texts; a round begins at another character."""
    text = np.arange(1000, dtype=np.int32)
    windows = Windows(text, 4, 10, seed=1)
    assert windows.in_round == 24
    begins: set[int] = set()
    for turn in range(6):
        inputs = np.concatenate([windows.at(turn * 24 + i)[0] for i in range(24)])
        np.testing.assert_array_equal(np.diff(inputs, axis=0), 1)
        assert len(np.unique(inputs)) == inputs.size
        begins.add(int(inputs[0, 0]))
        given, wanted = windows.at(turn * 24 + 7)
        np.testing.assert_array_equal(given + 1, wanted)
    assert len(begins) > 2


def trained(kind: str, steps: int) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
    """Train for some steps by a net type; returns the losses, parameters and the state."""
    text = read_characters(TEXT)
    settings = TextSettings(hidden=8, batch_size=3, steps=7, net_type=kind, workers=2)
    windows = Windows(text.train, 3, 7, 1)
    nets = build(settings, text, 20)
    losses: list[float] = []
    with Trainer(nets.model.init_net.proto, nets.model.net.proto, Workspace(), accuracy=None) as trainer:
        for iteration in range(steps):
            characters, labels = windows.at(iteration)
            trainer.workspace.feed(CHARACTERS, one_hot(characters, len(text.alphabet)))
            trainer.workspace.feed(LABELS, labels)
            losses.append(trainer.step().loss)
        names = [*nets.parameters, *map(str, nets.states.before)]
        return {"losses": np.array(losses, np.float32), **{name: trainer.workspace.fetch(name) for name in names}}


def compare(kinds: Iterable[str]) -> None:
    """Compare what net types learn with what `simple` does: all but `plan` to the last bit."""
    wanted = trained("simple", 4)
    for kind in kinds:
        for name, value in trained(kind, 4).items():
            if kind == "plan":
                np.testing.assert_allclose(value, wanted[name], rtol=1e-4, atol=1e-5, err_msg=name)
            else:
                np.testing.assert_array_equal(value, wanted[name], err_msg=f"{name}, {kind}")


@pytest.mark.slow
def test_plans_learn_the_same_to_rounding() -> None:
    compare(["plan"])


@pytest.mark.slow
def test_all_net_types_learn_the_same() -> None:
    compare(sorted(set(NETS) - {"simple", "simple_refcount"}))
