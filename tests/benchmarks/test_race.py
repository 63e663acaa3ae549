"""What is made of figures: comparison of results, ratios, the control; and a race of fakes from start to end."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.bench import parser, plain, settings_of
from benchmarks.lineup import CONTENDERS, WORKS, Contender, Work, chosen_contenders, chosen_works
from benchmarks.machine import Machine
from benchmarks.race import Settings, compare, difference, run_race
from benchmarks.report import machine_line, race_table, summary_table, write_chart, write_json
from benchmarks.result import Entry, Race, median_ratio
from benchmarks.worker import run_times, summary
from tazza.models.zoo import CLASSIFIERS

MACHINE = Machine(2, {"float32": 100.0}, 10.0, "a processor")


def race_of(times: Mapping[str, list[float]], *, work: Work | None = None) -> Race:
    """Return a race with these medians of rounds by contender."""
    entries = [Entry(name, medians_s=list(medians)) for name, medians in times.items()]
    return Race(WORKS[0] if work is None else work, 4_000_000, entries)


def test_summary_of_times() -> None:
    found = summary([float(each) for each in range(100, 0, -1)])
    assert (found["runs"], found["least_s"], found["median_s"]) == (100, 1, 50.5)
    assert (found["tenth_s"], found["nine_tenths_s"]) == (10, 91)
    assert summary([4.0])["median_s"] == 4


def test_a_turn_has_at_least_one_run() -> None:
    assert len(run_times(lambda: None, 0.0, 0.0)) == 1


def test_ratio_is_that_of_turns_that_follow_each_other() -> None:
    """The second round met a machine at half its speed."""
    race = race_of({"tazza": [2, 4, 2], "tazza again": [2.2], "slow": [8], "quick": [4, 8, 5]})
    best = race.best_peer()
    assert best is not None
    assert (best.contender, race.ratio, race.control) == ("quick", 0.5, 1.1)
    assert race.rate(best) == 0.0008
    assert median_ratio([race, race_of({"tazza": [1], "quick": [1]}), race_of({"tazza": [1]})]) == 0.75


def test_without_own_times_the_best_peer_is_the_quickest() -> None:
    best = race_of({"tazza": [], "slow": [3], "quick": [2]}).best_peer()
    assert best is not None
    assert best.contender == "quick"


def test_without_peers_there_is_no_ratio() -> None:
    race = race_of({"tazza": [3], "tazza again": [3]})
    assert (race.best_peer(), race.ratio, race.control) == (None, None, 1)


def test_first_result_leaves_out_the_first_of_several_starts() -> None:
    entry = Entry("x", starts=[{"first_result_s": each} for each in (9.0, 2.0, 4.0)])
    assert entry.first_result_s == 3
    assert Entry("x", starts=[{"first_result_s": 9.0}]).first_result_s == 9


def test_results_that_differ_fail() -> None:
    race = race_of({"tazza": [1], "tazza again": [1], "a": [1], "b": [1], "c": [1]})
    good = np.array([[0.1, 0.9]], np.float32)
    compare(race, {"tazza": good + 1e-5, "a": good, "b": good + 0.1, "c": np.array([[0.1, np.nan]], np.float32)})
    assert race.reference == "a"
    failures = {entry.contender: entry.failure for entry in race.entries}
    assert failures["tazza"] == failures["a"] == failures["tazza again"] == ""
    assert failures["b"] == "results differ from those of a by 0.13 of their span"
    assert "inf" in failures["c"]


def test_difference_of_losses_and_of_shapes() -> None:
    losses = np.array([[4.0], [2.0]], np.float32)
    assert difference(losses + 0.5, losses, training=True) == pytest.approx(0.125)
    assert difference(losses, losses[0], training=True) == float("inf")


def test_works_are_of_the_zoo_and_have_names_of_their_own() -> None:
    assert {work.net for work in WORKS} == set(CLASSIFIERS)
    assert len({work.name for work in WORKS}) == len(WORKS)
    assert all(any(each.does(work) for each in CONTENDERS if not each.own) for work in WORKS)


def test_what_is_not_there_is_told() -> None:
    with pytest.raises(ValueError, match="no work is called 'lenet-3'; works: lenet-1"):
        chosen_works(["lenet-3"], quick=False)
    with pytest.raises(ValueError, match="no contender is called 'caffe'"):
        chosen_contenders(["caffe"], quick=False)


def test_command_line(tmp_path: Path) -> None:
    settings = settings_of(parser().parse_args(["mlp", "--quick", "--threads", "3", "--out", str(tmp_path)]))
    assert (settings.threads, settings.rounds, settings.starts, settings.out) == (3, 3, 1, tmp_path)
    assert plain(settings)["out"] == str(tmp_path)


def fakes(**settings: Mapping[str, Any]) -> list[Contender]:
    """Return tazza and fakes by name."""
    own = next(contender for contender in CONTENDERS if contender.own)
    return [own, *(Contender(name, "fake_session", settings=given) for name, given in settings.items())]


@pytest.mark.slow
def test_a_race_from_start_to_end(tmp_path: Path) -> None:
    settings = Settings(tmp_path, rounds=2, race_s=0, seconds=0.01, starts=1, net_type="simple")
    told: list[str] = []
    race = run_race(Work("mlp", 3), fakes(nothing={}), settings, told.append)
    own, again, nothing = race.entries
    assert (own.failure, again.failure) == ("", "")
    assert (len(own.medians_s), len(own.starts), len(again.starts)) == (2, 1, 1)
    assert own.memory_bytes("above_import_bytes") is not None
    assert nothing.failure.startswith("ModuleNotFoundError")
    assert race.reference == "tazza"
    assert race.flops == 3 * (2 * (784 * 256 + 256 * 256 + 256 * 10) + 256 + 256 + 10)
    assert told[0] == "preparing the net"
    write_json(tmp_path / "bench.json", [race], MACHINE, plain(settings))
    assert json.loads((tmp_path / "bench.json").read_text(encoding="utf-8"))["ratios"] == {"mlp-3": None}
    assert "a processor, 2 threads" in machine_line(MACHINE)


def test_tables() -> None:
    races = [race_of({"tazza": [1], "quick": [2]}), race_of({"tazza": [1]}, work=WORKS[1])]
    races[0].entries.append(Entry("broken", failure="it broke"))
    assert race_table(races[0], MACHINE).row_count == 3
    assert summary_table(races).row_count == 2


@pytest.mark.slow
def test_chart(tmp_path: Path) -> None:
    races = [race_of({"tazza": [1], "quick": [2]}), race_of({"tazza": [1]}, work=WORKS[1])]
    write_chart(tmp_path / "bench.svg", races)
    assert (tmp_path / "bench.svg").stat().st_size > 1000
