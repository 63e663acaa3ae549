"""`--help`, `python -m tazza` and completion: laws over all commands and options."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest
import typer

import tazza
from tazza.cli.app import app
from tazza.cli.train_pictures import PictureSettings
from tazza.cli.train_settings import StoredSettings, TrainSettings
from tazza.cli.train_text import TextSettings
from tazza.fitting import Solver
from tazza.fitting.solver import SHARED
from tests.cli.conftest import Run

TOLD = re.compile(r"\[default: ([^\]]+)\]")


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the words of each command, and the command."""
    for name, below in getattr(command, "commands", {}).items():
        if hasattr(below, "commands"):
            yield from leaves(below, (*path, name))
        else:
            yield (*path, name), below


COMMANDS = {" ".join(path): command for path, command in leaves(typer.main.get_command(app))}


def options(name: str) -> list[Any]:
    """Return the options of a command that take a value, once."""
    found = [each for each in COMMANDS[name].params if each.param_type_name == "option"]
    return [each for each in found if not each.is_flag and not each.multiple and not each.required]


def test_there_are_commands() -> None:
    assert {"predict", "show", "train lenet"} <= set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_tells_its_default(name: str) -> None:
    silent = [each.opts[0] for each in options(name) if each.default is None and not TOLD.search(each.help or "")]
    assert silent == []


@pytest.mark.parametrize("name", COMMANDS)
def test_defaults_are_shown(run: Run, name: str) -> None:
    """What stands in brackets is no style: it comes out, whatever breaks between words."""
    shown = run(*name.split(), "--help")
    assert shown.exit_code == 0
    text = " ".join(re.sub("[│─╭╮╰╯]", " ", shown.output).split())
    wanted = [each.group(1) for option in options(name) for each in TOLD.finditer(option.help or "")]
    wanted += [str(each.default) for each in options(name) if each.default is not None]
    assert [default for default in wanted if f"{default}]" not in text] == []


SETTINGS: dict[str, tuple[type[StoredSettings], dict[str, object]]] = {
    "train net": (PictureSettings, {**SHARED, "learning_rate": Solver().rate()}),
    "train lenet": (
        TrainSettings,
        {
            **SHARED,
            "learning_rate": TrainSettings.LEARNING_RATE,
            "epochs": TrainSettings.EPOCHS,
            "solver": Solver().name,
            "policy": Solver().policy,
        },
    ),
    "train char-lstm": (TextSettings, {}),
}
"""Commands whose options a file keeps: the class of that, and what it leaves to others."""


@pytest.mark.parametrize("name", SETTINGS)
def test_defaults_that_are_told_are_those_in_force(name: str) -> None:
    kind, beside = SETTINGS[name]
    kept = {each.name: each.default for each in fields(kind) if isinstance(each.default, int | float | str)} | beside
    compared = 0
    for option in options(name):
        value = kept.get(option.name)
        if value in (None, ""):
            continue
        told = TOLD.search(option.help)
        assert told is not None, option.name
        text = told[1].partition(";")[0]
        assert (text if isinstance(value, str) else float(text)) == value, option.name
        compared += 1
    assert compared > 5


@pytest.mark.slow
def test_the_package_runs_as_a_program() -> None:
    words = [sys.executable, "-m", "tazza", "--version"]
    ended = subprocess.run(words, capture_output=True, text=True, check=True)
    assert (ended.stdout.strip(), ended.stderr) == (tazza.__version__, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("tazza pre", {"predict"}),
        ("tazza train ch", {"char-lstm"}),
        ("tazza predict --pre", {"--preset"}),
        ("tazza predict --preset ", {"caffe", "imagenet", "none"}),
        ("tazza predict --format c", {"csv"}),
        ("tazza ops ConvTr", {"ConvTranspose", "ConvTransposeGradient"}),
    ],
)
def test_a_shell_completes(words: str, wanted: set[str]) -> None:
    asked = {"_TAZZA_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
    program = "import sys; sys.argv[0] = 'tazza'; from tazza.cli import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | asked, capture_output=True, text=True, check=False
    )
    assert (set(ended.stdout.split()), ended.stderr) == (wanted, "")
