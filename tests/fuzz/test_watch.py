"""The harness notices what it is there for: every fault that is planted, and nothing where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz import planted
from tests.fuzz.case import read_case
from tests.fuzz.kinds import KINDS
from tests.fuzz.watch import Job, Tally, watch


@pytest.fixture
def planted_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process draw what the child tries."""
    monkeypatch.setitem(KINDS, "planted", planted.KIND)


@pytest.mark.slow
@pytest.mark.usefixtures("planted_kind")
def test_every_planted_fault_is_found(tmp_path: Path) -> None:
    tally = Tally()
    watch(Job("planted", 0, len(planted.NAMES), hang_s=4.0, modules=("tests.fuzz.planted",)), tally)
    assert tally.tried == len(planted.NAMES)
    assert {finding.case.words[0]: finding.what for finding in tally.found.values()} == {
        name: what for name, (_, what) in planted.FAULTS.items() if what is not None
    }
    assert not planted.TRAP.exists(), "the file outside was written"
    for finding in tally.found.values():
        assert read_case(finding.write(tmp_path)) == finding.case
        assert finding.detail or finding.case.words[0] == "exit", "nothing says where"


@pytest.mark.usefixtures("planted_kind")
def test_a_crash_is_found_and_the_next_inputs_are_tried() -> None:
    tally = Tally()
    first = planted.NAMES.index("segfault")
    watch(
        Job("planted", first, first + 2 * len(planted.NAMES), step=len(planted.NAMES), modules=("tests.fuzz.planted",)),
        tally,
    )
    assert [finding.what for finding in tally.found.values()] == ["SIGSEGV"]
    assert list(tally.times.values()) == [2]
    assert tally.tried == 2
