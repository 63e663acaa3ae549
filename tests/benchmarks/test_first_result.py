"""First results from the start of a process: with nothing compiled, and with what the process before has kept."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from benchmarks import first_result
from benchmarks.first_result import NOTHING_KEPT, PARTS, first_results, table
from benchmarks.lineup import CONTENDERS, Work
from benchmarks.race import Settings


def test_the_example_of_the_table_is_right() -> None:
    assert doctest.testmod(first_result).failed == 0


@pytest.mark.slow
def test_parts_are_within_the_whole(tmp_path: Path) -> None:
    found = first_results(Work("mlp", 1), CONTENDERS[:1], Settings(tmp_path), rounds=1)
    assert list(found) == [f"tazza{NOTHING_KEPT}", "tazza"]
    for starts in found.values():
        (start,) = starts
        assert set(start) == set(PARTS)
        parts = (start[part] for part in ("process_s", "import_s", "load_s", "first_run_s"))
        assert 0 < sum(parts) <= start["first_result_s"]
        assert 0 < start["first_result_cpu_s"]
    assert len(table(found)) == 3


@pytest.mark.slow
def test_what_was_compiled_is_kept_for_the_other_starts(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    work, settings = Work("mlp", 1), Settings(tmp_path)
    first_result.prepared_net(work, settings)
    first_result.first_result(work, CONTENDERS[0], settings, tmp_path / "kept")
    assert any((tmp_path / "kept").rglob("*"))
