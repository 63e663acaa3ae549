"""`tazza compare`: what trainings left, side by side."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tazza.cli.history import History
from tazza.models.training import TrainingStep
from tests.cli.conftest import Run


def write(
    folder: Path, losses: Sequence[float], tests: Mapping[int, float], *, tested: str = "test_accuracy", **settings: Any
) -> Path:
    """Write the folder of a training."""
    folder.mkdir(parents=True)
    history = History(tested)
    history.steps = [TrainingStep(step, loss, None, 0.1) for step, loss in enumerate(losses, 1)]
    history.tests.update(tests)
    history.write(folder / "history.csv")
    (folder / "settings.json").write_text(json.dumps(settings))
    return folder


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """Two trainings that differ in a setting; the second one is timed."""
    first = write(tmp_path / "a" / "net", [2.0, 1.0], {1: 0.5, 2: 0.25}, learning_rate=0.1, seed=1)
    second = write(tmp_path / "b" / "net", [2.0, 1.5, 0.5], {3: 0.75}, learning_rate=None, seed=1, options={"wide": 3})
    (second / "times.json").write_text('{"seconds_per_step": 0.0125, "steps_timed": 2}')
    return first, second


def test_tables(run: Run, pair: tuple[Path, Path]) -> None:
    result = run("compare", *pair)
    assert result.exit_code == 0, result.stderr
    lines = [line.split() for line in result.output.splitlines()]
    assert lines == [
        ["tested:", "test", "accuracy"],
        ["training", "steps", "loss", "best", "at", "step", "last", "ms/step"],
        ["a/net", "2", "1.5", "0.5", "1", "0.25"],
        ["b/net", "3", "1.3333", "0.75", "3", "0.75", "12.5"],
        [],
        ["training", "settings", "that", "differ"],
        ["a/net", "learning-rate", "0.1"],
        ["b/net", "learning-rate", "default,", "options.wide", "3"],
    ]


@pytest.mark.slow
def test_for_programs(run: Run, pair: tuple[Path, Path]) -> None:
    found = json.loads(run("compare", *pair, "--json").output)
    assert found["trainings"][0] == {
        "name": "a/net",
        "iterations": 2,
        "loss": 1.5,
        "seconds_per_step": None,
        "tested": {"test_accuracy": {"best": 0.5, "best_iteration": 1, "last": 0.25}},
        "figures": {},
    }
    assert found["differing"]["b/net"] == {"learning_rate": None, "options.wide": 3}
    first, second = csv.DictReader(run("compare", *pair, "--csv").output.splitlines())
    assert (first["name"], first["test_accuracy best_iteration"], first["setting learning_rate"]) == (
        "a/net",
        "1",
        "0.1",
    )
    assert (second["seconds_per_step"], second["setting options.wide"]) == ("0.0125", "3")


def test_of_losses_the_least_is_the_best_and_of_others_nobody_says(run: Run, tmp_path: Path) -> None:
    text = write(tmp_path / "text", [2.0] * 3, {1: 3.0, 2: 1.0, 3: 2.0}, tested="test_loss")
    task = write(tmp_path / "task", [1.0], {1: 7.0}, tested="tested")
    (task / "figures.json").write_text('{"slope": 7.0, "other": 1}')
    bare = write(tmp_path / "bare", [1.0], {})
    text_row, task_row, bare_row = json.loads(run("compare", text, task, bare, "--json").output)["trainings"]
    assert text_row["tested"] == {"test_loss": {"best": 1.0, "best_iteration": 2, "last": 2.0}}
    assert task_row["tested"] == {"slope": {"best": None, "best_iteration": None, "last": 7.0}}
    assert (task_row["figures"], bare_row["tested"]) == ({"slope": 7.0, "other": 1.0}, {})
    printed = run("compare", text, task, bare)
    assert printed.exit_code == 0, printed.stderr
    assert [line for line in printed.output.splitlines() if line.startswith("tested")] == [
        "tested: test loss",
        "tested: slope",
    ]


@pytest.mark.slow  # matplotlib
def test_a_picture(run: Run, pair: tuple[Path, Path], tmp_path: Path) -> None:
    picture = tmp_path / "curves.svg"
    assert f"picture: {picture}" in run("compare", *pair, "--picture", picture).output
    svg = picture.read_text()
    for text in ("loss", "learning rate", "test accuracy (share of labels)", "iteration (steps)", "a/net", "b/net"):
        assert f"<!-- {text} -->" in svg


@pytest.mark.slow
def test_what_cannot_be_compared(run: Run, pair: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    broken = write(tmp_path / "broken", [1.0], {})
    (broken / "settings.json").write_text("[1]")
    none = write(tmp_path / "none", [], {})
    nan = write(tmp_path / "nan", [float("nan")], {})
    long = write(tmp_path / "long", [1.0], {})
    (long / "times.json").write_text('{"seconds_per_step": 1' + 400 * "0" + "}")
    for words, reason in (
        ([tmp_path / "empty"], "holds no training with a history.csv"),
        ([tmp_path / "nowhere"], "holds no training with a history.csv"),
        ([pair[0], pair[0]], "is named twice"),
        ([*pair, "--json", "--csv"], "--json and --csv"),
        ([broken], "is no file with the settings of a training"),
        ([long], "is no file with figures of a training"),
        ([none], "has no step with a loss"),
        ([nan], "'nan' is no finite number"),
    ):
        result = run("compare", *words)
        assert (result.exit_code, reason in result.stderr.replace("\n", " ")) == (1, True), result.stderr


@pytest.mark.slow
def test_names_and_values_that_are_no_text(run: Run, pair: tuple[Path, Path]) -> None:
    """Half of a pair of UTF-16, which JSON can hold and no terminal takes."""
    (pair[0] / "settings.json").write_text(r'{"\ud800": 1, "data": "p\udcff", "options": {"\ud801": "x"}}')
    (pair[0] / "figures.json").write_text(r'{"\ud800": 1.0}')
    for more in ((), ("--json",), ("--csv",)):
        result = run("compare", *pair, *more)
        assert result.exit_code == 0, result.stderr
        assert result.output.encode().isascii()
