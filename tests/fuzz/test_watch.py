"""The harness notices what it is there for: every fault that is planted, and nothing where there is none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.fuzz import planted
from tests.fuzz.case import Case, Finding, read_case
from tests.fuzz.kinds import KINDS
from tests.fuzz.test_fuzz import FOUND
from tests.fuzz.watch import Job, Tally, watch


def places_in(text: str) -> list[str]:
    """Return the absolute paths in a text that lead to something on this machine."""
    return [
        path for path in re.findall(r"(?<![\w.])(?:/[\w.+-]+){2,}", text) if len(path) < 300 and Path(path).exists()
    ]


def test_no_stored_input_tells_of_a_machine() -> None:
    assert [(path.name, places) for path in FOUND.glob("*.json") if (places := places_in(path.read_text()))] == []


def test_findings_name_files_from_the_repository_on(tmp_path: Path) -> None:
    """Wherever a step of a traceback lies: here, in the environment, in the standard library, in a temporary folder."""
    steps = [__file__, pytest.__file__, re.__file__, str(tmp_path / "x.py"), str(Path.home() / "x.py")]
    detail = "".join(f'File "{step}", line 3\n' for step in steps)
    written = Finding("what", f"{__file__}:f", detail, Case("nets", 1, {})).write(tmp_path).read_text()
    assert places_in(written) == []
    assert str(Path.home()) not in written
    assert "tests/fuzz/test_watch.py" in written
    assert "pytest" in written
    assert "re/__init__.py" in written


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
    for finding in tally.found.values():
        path = finding.write(tmp_path)
        assert read_case(path) == finding.case
        assert places_in(path.read_text()) == []
        assert finding.detail or finding.case.words[0] == "exit", "nothing says where"


@pytest.mark.slow
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
