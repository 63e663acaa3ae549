"""The page of the old names lists what is not there, and nothing that has come meanwhile."""

from __future__ import annotations

import re
from pathlib import Path

from tazza.operator import SCHEMAS

ROOT = Path(__file__).parents[2]
WHOLE = ("models", "ideep", "mint")
"""Packages of which the page names what is there."""


def waiting() -> tuple[str, str]:
    """Return the table of operators, and the list of modules."""
    page = (ROOT / "docs" / "caffe2_names.md").read_text(encoding="utf-8")
    section = page.partition("## What waits")[2].partition("\n## ")[0]
    table, _, modules = section.partition("Of these modules")
    return table, modules.partition("and those of")[0]


def test_the_operators_that_modules_wait_for_are_not_there() -> None:
    rows = [line.split("|")[2] for line in waiting()[0].splitlines() if line.startswith("| `")]
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert named
    assert [name for name in named if SCHEMAS.get(name) is not None] == []


def test_the_modules_that_refuse_are_all_named() -> None:
    file = (ROOT / "src" / "caffe2" / "python" / "_absent.txt").read_text(encoding="utf-8")
    absent = {line.partition(":")[0] for line in file.splitlines() if line and not line.startswith("#")}
    named = set(re.findall(r"`([\w.]+)`", waiting()[1]))
    assert named == {name for name in absent if name.split(".")[0] not in WHOLE}
