"""The benchmarks of nets: what they run is what they say; their table, what is kept, and what failures do."""

from __future__ import annotations

import doctest
import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from benchmarks.nets import branches, googlenet, grain, overhead, regions, tables
from benchmarks.nets.suite import SUITES, Aim, Line, Suite
from benchmarks.nets.turns import in_turns, timed
from tazza.graph.dependency import Access, chains, dependencies
from tazza.nets.base import NETS
from tazza.operator import SCHEMAS
from tazza.operator.kernel import NativeCall

MAIN: Any = import_module("benchmarks.nets.__main__")
FOLDER = Path(MAIN.__file__).parent
PARTS = {"__init__", "__main__", "suite", "turns"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["suite", "__main__", "turns", "overhead", "grain"])
def test_examples_hold(name: str) -> None:
    found = doctest.testmod(import_module(f"benchmarks.nets.{name}"))
    assert found.attempted > 0
    assert found.failed == 0


def test_every_script_is_a_suite() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} - PARTS == set(SUITES)


# -- turns and lines ---------------------------------------------------------------------------------------------------


def test_turns_alternate_after_a_round_that_does_not_count() -> None:
    turns: list[tuple[str, float]] = []

    def note(name: str, seconds: float) -> float:
        turns.append((name, seconds))
        return float(len(turns))

    found = in_turns({"a": lambda s: note("a", s), "b": lambda s: note("b", s)}, 2, 0.5)
    assert turns == [("a", 0.0), ("b", 0.0), ("a", 0.5), ("b", 0.5), ("b", 0.5), ("a", 0.5)]
    assert found == {"a": [3.0, 6.0], "b": [4.0, 5.0]}


def test_a_turn_runs_at_least_once() -> None:
    runs: list[int] = []
    assert timed(lambda: runs.append(1))(0.0) > 0
    assert len(runs) == 1


def test_an_aim_whose_figure_is_missing_is_not_met() -> None:
    assert Line("case", 1.0, "ms", aim=Aim("ratio", least=0.5)).met is False
    assert Line("case", 1.0, "ms", "other", 1.0, 1.0, Aim("ratio", most=1.0)).met is True


def test_lines_survive_the_way_between_processes() -> None:
    lines = [Line("a", 1.0, "us", "b", 2.0, 0.5, Aim("ratio", least=0.9)), Line("a", 1.0, "us")]
    assert [Line.of(json.loads(json.dumps(asdict(line)))) for line in lines] == lines


# -- works -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("graph", "expected"), [("chain", 1), ("wide", 60), ("layered", 60)])
def test_graphs_have_the_chains_that_they_are_named_after(graph: overhead.Graph, expected: int) -> None:
    net = overhead.net_def(overhead.Work(graph, "empty"), 60, "simple")
    found = dependencies(Access(tuple(op.input), tuple(op.output)) for op in net.op)
    assert len(chains(found, ["cpu"] * 60)) == expected
    read = {name for op in net.op for name in op.input}
    assert set(net.external_output) == {name for op in net.op for name in op.output} - read


@pytest.mark.slow
@pytest.mark.parametrize("work", overhead.WORKS, ids=lambda work: work.name)
def test_every_net_type_runs_every_work(work: overhead.Work) -> None:
    before = set(SCHEMAS.registered())
    with overhead.turns(work, 2 * overhead.LAYER + 1) as turns:
        assert set(turns) - {overhead.EAGER} == set(NETS)
        for turn in turns.values():
            assert turn(0.0) > 0
    left = set(SCHEMAS.registered()) - before
    assert not left & {overhead.EMPTY, overhead.ALONE}


def test_aims_name_net_types() -> None:
    assert set(overhead.AIMS_US) <= set(NETS)
    assert {branches.AIMED, googlenet.AIMED, *googlenet.TYPES.values()} <= set(NETS)


def test_contestants_of_regions_differ_in_what_the_runtime_reads() -> None:
    assert regions.CONTESTANTS[regions.OURS] == {}
    assert {name for given in regions.CONTESTANTS.values() for name in given} <= set(regions.READ)
    assert len({tuple(given.items()) for given in regions.CONTESTANTS.values()}) == len(regions.CONTESTANTS)
    assert min(regions.conditions().values()) == 0


def test_branches_are_independent() -> None:
    work = branches.WORKS[0]
    net = branches.net_def(work, 3, "simple")
    found = dependencies(Access(tuple(op.input), tuple(op.output)) for op in net.op)
    assert [len(chain) for chain in chains(found, ["cpu"] * len(net.op))] == [work.depth] * 3


def test_busy_operators_are_as_long_as_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grain, "OPERATORS", 30)
    monkeypatch.setattr(grain, "loops_per_us", lambda: 500.0)
    calls: list[tuple[int, ...]] = []
    real = grain.NativeCall

    def noted(address: int, arguments: tuple[int, int, int, int], owner: object, threads: int) -> NativeCall:
        calls.append((*arguments, threads))
        return real(address, arguments, owner, threads)

    monkeypatch.setattr(grain, "NativeCall", noted)
    before = set(SCHEMAS.registered())
    with grain.turns(5) as turns:
        assert set(turns) == {grain.BASE, *grain.TYPES} <= set(NETS)
        for turn in turns.values():
            assert turn(0.0) > 0
    assert len(calls) >= 30 * len(turns)
    assert set(calls) == {(2500, 0, 0, 0, 1)}
    assert grain.BUSY not in set(SCHEMAS.registered()) - before
    assert grain.loops_per_us() > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["branches", "googlenet", "grain", "overlap", "planning", "profiling", "recurrent", "tables"]
)
def test_suites_give_lines(name: str) -> None:
    lines = list(SUITES[name].lines(True))
    peers = find_spec("torch") is not None
    aims = {"grain": False, "profiling": False, "recurrent": peers, "tables": peers}
    assert any(line.aim is not None for line in lines) is aims.get(name, True)
    assert all(line.ours > 0 for line in lines)
    assert all(line.ratio is not None and line.ratio > 0 for line in lines if line.other)
    assert any(line.other for line in lines) is (peers or name != "tables")


def test_who_cannot_be_compiled_is_left_out_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    def run() -> None:
        raise RuntimeError("no compiler\nwas found")

    assert not tables.able(f"torch{tables.COMPILED}", run)
    assert capsys.readouterr().err == "torch, compiled is left out: RuntimeError: no compiler\n"
    with pytest.raises(RuntimeError, match="no compiler"):
        tables.able("torch", run)
    assert tables.able("torch", list)


def test_results_that_differ_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = iter(range(9))

    class Net:
        def run(self) -> None:
            pass

        def close(self) -> None:
            pass

    class Blobs:
        def fetch(self, name: str) -> int:
            assert name == "softmax"
            return next(numbers)

    def created(*_: object) -> tuple[Blobs, Net]:
        return Blobs(), Net()

    def no_numbers(*_: object) -> dict[str, Any]:
        return {}

    monkeypatch.setattr(googlenet, "_created", created)
    monkeypatch.setattr(googlenet, "_numbers", no_numbers)
    with (
        pytest.raises(googlenet.BenchmarkError, match=r"async_scheduling, simple again, dag are not those of simple"),
        googlenet.turns(quick=True),
    ):
        pass


# -- the command -------------------------------------------------------------------------------------------------------


def test_figures_are_kept_when_a_suite_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def measured(suite: Suite, python: str, *, quick: bool) -> tuple[int, list[Line]]:
        assert (python, quick) == (sys.executable, True)
        if suite.name == "branches":
            raise subprocess.CalledProcessError(1, "branches")
        return 3, [Line("chain, simple", 4.0, "us/op", "torch eager", 2.0, 2.0, Aim("ours", most=3.0))]

    def has(python: str, peers: Iterable[str]) -> set[str]:
        assert python == sys.executable
        return set(peers)

    def able(pythons: Sequence[str]) -> list[str]:
        return [pythons[0]]

    monkeypatch.setattr(MAIN, "able", able)
    monkeypatch.setattr(MAIN, "installed", has)
    monkeypatch.setattr(MAIN, "measured", measured)
    with pytest.raises(SystemExit, match="failed: branches"):
        MAIN.main(["branches", "overhead", "--quick", "--out", str(tmp_path)])
    kept = json.loads((tmp_path / "nets.json").read_text())
    assert kept["overhead"]["threads"] == 3
    assert [(line["ratio"], line["met"], line["aim"]["most"]) for line in kept["overhead"]["lines"]] == [
        (2.0, False, 3.0)
    ]
    said = capsys.readouterr().out
    assert "2.000 x torch eager" in said
    assert "ours <= 3.00   MISSED" in said
    assert "aims missed: 1" in said


def test_an_unknown_suite_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        MAIN.main(["overhed"])
    assert "unknown: overhed; there are overhead" in capsys.readouterr().err
