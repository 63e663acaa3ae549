"""The benchmarks of the tensor library: their table, what is kept, and what happens when one fails."""

from __future__ import annotations

import doctest
import json
import subprocess
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from benchmarks.tensor.suite import SUITES, Line, Suite

MAIN: Any = import_module("benchmarks.tensor.__main__")
FOLDER = Path(MAIN.__file__).parent


@pytest.mark.slow
@pytest.mark.parametrize("name", ["suite", "__main__"])
def test_examples_hold(name: str) -> None:
    found = doctest.testmod(import_module(f"benchmarks.tensor.{name}"))
    assert found.attempted > 0
    assert found.failed == 0


def test_every_script_is_a_suite() -> None:
    scripts = {path.stem for path in FOLDER.glob("*.py")} - {"__init__", "__main__", "suite"}
    assert scripts == set(SUITES)


def test_aims() -> None:
    assert [Line("case", 1.0, "ms", "other", 0.95, aim).met for aim in (None, 0.9, 1.0)] == [None, True, False]


def test_the_python_with_the_most_peers_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    has = {"mine": {"scipy"}, "theirs": {"torch", "scipy"}}

    def installed(python: str, peers: Iterable[str]) -> set[str]:
        return has[python] & set(peers)

    monkeypatch.setattr(MAIN, "installed", installed)
    suite = Suite("any", SUITES["lazy"].lines, ("torch", "numexpr"))
    assert MAIN.python_for(suite, ["mine", "theirs"]) == ("theirs", ["numexpr"])
    assert MAIN.python_for(SUITES["low_precision"], ["mine", "theirs"]) == ("mine", [])


def test_a_python_that_cannot_run_tazza_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho 'No module named numpy' >&2; exit 1\n")
    broken.chmod(0o755)
    assert MAIN.able([str(broken)]) == []
    assert capsys.readouterr().out == f"{broken} cannot run tazza: No module named numpy\n"


def test_figures_are_kept_when_a_suite_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def measured(suite: Suite, python: str, *, quick: bool) -> tuple[int, list[Line]]:
        assert (python, quick) == (sys.executable, True)
        if suite.name == "sparse":
            raise subprocess.CalledProcessError(1, "sparse")
        return 3, [Line("a + b", 2.0, "ms", "numpy", 1.0, 0.9)]

    def all_installed(python: str, peers: Iterable[str]) -> set[str]:
        assert python == sys.executable
        return set(peers)

    monkeypatch.setattr(MAIN, "able", _same)
    monkeypatch.setattr(MAIN, "installed", all_installed)
    monkeypatch.setattr(MAIN, "measured", measured)
    with pytest.raises(SystemExit, match="failed: sparse"):
        MAIN.main(["sparse", "lazy", "--quick", "--out", str(tmp_path)])
    kept = json.loads((tmp_path / "tensor.json").read_text())
    assert kept["lazy"]["threads"] == 3
    assert [(line["ratio"], line["met"]) for line in kept["lazy"]["lines"]] == [(0.5, False)]
    assert "0.50 x   aim 0.90   MISSED" in capsys.readouterr().out


def test_an_unknown_suite_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        MAIN.main(["lasy"])
    assert "unknown: lasy; there are lazy" in capsys.readouterr().err


def _same(pythons: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(pythons))
