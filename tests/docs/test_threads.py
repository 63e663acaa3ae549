"""The page about threads: its examples run, and it names what there is."""

from __future__ import annotations

import doctest
from pathlib import Path

from tazza.runtime.team import OF_LIBGOMP, OWN_TEAMS

PAGE = Path(__file__).parents[2] / "docs" / "threads.md"


def test_examples_run() -> None:
    found = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert found.attempted >= 3
    assert found.failed == 0


def test_every_variable_is_named() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"`{name}`" in text for name in (*OF_LIBGOMP, OWN_TEAMS.name))
