"""The benchmark of operators: its rows run and give PyTorch's numbers, at a tiny size; its lines, its command."""

from __future__ import annotations

import doctest
import json
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.operators.contest import BenchmarkError, contests
from benchmarks.operators.row import FAMILIES, Draw, Row, load, torch
from benchmarks.operators.suite import Line, Measure, line_of, write_lines
from tazza.operator import SCHEMAS

MAIN: Any = import_module("benchmarks.operators.__main__")
FOLDER = Path(MAIN.__file__).parent
OPERATORS = 200
"""At least so many types are timed, gradients among them."""

load()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["row", "contest", "suite", "__main__"])
def test_examples_hold(name: str) -> None:
    found = doctest.testmod(import_module(f"benchmarks.operators.{name}"))
    assert found.attempted > 0
    assert found.failed == 0


# -- rows --------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.filterwarnings("ignore:.*(in beta|sparse|Sparse|prototype|deprecated).*:Warning")
def test_rows_give_the_numbers_of_torch(name: str) -> None:
    for row in FAMILIES[name].rows(Draw(tiny=True)):
        for contest in contests(row):
            assert contest.types
            assert contest.engine
            assert (contest.theirs is None) is (torch is None or row.peer is None)


def test_many_types_are_timed() -> None:
    rows = [row for family in FAMILIES.values() for row in family.rows(Draw(tiny=True))]
    types = {row.type for row in rows}
    assert types <= set(SCHEMAS)
    assert len(types) + len({row.type for row in rows if row.gradient}) >= OPERATORS


def test_rows_of_a_family_have_names_of_their_own() -> None:
    for family in FAMILIES.values():
        names = [row.name for row in family.rows(Draw(tiny=True))]
        assert len(set(names)) == len(names), family.name


def test_tables_are_named_after_folders_of_operators() -> None:
    folders = {path.name for path in (FOLDER.parents[1] / "src/tazza/ops").iterdir() if path.is_dir()}
    tables = {path.stem for path in (FOLDER / "families").glob("*.py")} - {"__init__"}
    assert tables <= folders


def test_other_numbers_are_refused() -> None:
    pytest.importorskip("torch")
    row = Row("Negative", [np.array([1, 2], np.float32)], lambda x: torch.abs(x))
    with pytest.raises(BenchmarkError, match=r"Negative: result 0 differs from that of torch by 2 of the largest"):
        list(contests(row))


def test_a_row_without_a_peer_is_timed_alone() -> None:
    (contest,) = contests(Row("Negative", [np.array([1, 2], np.float32)]))
    assert (contest.types, contest.theirs, contest.nbytes) == (("Negative",), None, 16)
    contest = next(contests(Row("Relu", [np.array([1, 2], np.float32)], gradient=[0])))
    assert contest.name == "Relu"


# -- lines -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cpu", [False, True])
def test_lines_survive_the_way_between_processes(tmp_path: Path, cpu: bool) -> None:
    path = tmp_path / "lines.json"
    write_lines("activations", path, ["softsign"], Measure.of(quick=True, cpu=cpu), tiny=True)
    found = json.loads(path.read_text())
    lines = [line_of(line) for line in found["lines"]]
    assert [line.name for line in lines] == ["Softsign", "Softsign, gradient"]
    assert found["threads"] > 0
    for line in lines:
        assert not line.failure
        assert line.ours_s > 0
        assert line.again > 0
        assert (line.ratio is None) is (torch is None)


def test_a_failure_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(row: Row) -> Iterable[Any]:
        if row.type == "Copy":
            return contests(row)
        raise BenchmarkError("differs")

    monkeypatch.setattr("benchmarks.operators.suite.contests", refuse)
    lines = list(Measure.of(quick=True, cpu=False).lines(FAMILIES["pooling"], ["LpPool"], tiny=True))
    assert [(line.name, line.failure, line.met, line.missed) for line in lines] == [("LpPool", "differs", False, True)]


# -- the command -------------------------------------------------------------------------------------------------------


def test_figures_are_kept_when_a_family_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def measured(family: str, python: str, given: Namespace, threads: int) -> list[Line]:
        assert (python, given.quick, threads) == (sys.executable, True, 1)
        if family == "pooling":
            raise subprocess.CalledProcessError(1, family)
        return [Line(family, "MaxPool", ("MaxPool",), "onednn", 1.0, 2e-3, 1e-3, 2.0)]

    def has(python: str, peers: Iterable[str]) -> set[str]:
        return set(peers)

    def able(pythons: Sequence[str]) -> list[str]:
        return [pythons[0]]

    monkeypatch.setattr(MAIN, "able", able)
    monkeypatch.setattr(MAIN, "installed", has)
    monkeypatch.setattr(MAIN, "measured", measured)
    with pytest.raises(SystemExit, match="failed: pooling"):
        MAIN.main(["activations", "pooling", "--quick", "--cpu", "--out", str(tmp_path)])
    kept = json.loads((tmp_path / "operators.json").read_text())
    assert (kept["clock"], kept["threads"]) == ("process_time", 1)
    assert [(line["ratio"], line["missed"]) for line in kept["lines"]] == [(2.0, True)]
    said = capsys.readouterr().out
    assert "MISSED" in said
    assert "1 rows of 1 types: 0 met, 0 too close to tell, 1 missed" in said


def test_words_without_a_row_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def measured(*_: object) -> list[Line]:
        return []

    def able(pythons: Sequence[str]) -> list[str]:
        return [pythons[0]]

    monkeypatch.setattr(MAIN, "able", able)
    monkeypatch.setattr(MAIN, "measured", measured)
    with pytest.raises(SystemExit):
        MAIN.main(["softmox", "--out", str(tmp_path)])
