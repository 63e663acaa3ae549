"""The page of the old names lists what is not there, and nothing that has come meanwhile."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from tazza.operator import SCHEMAS

ROOT = Path(__file__).parents[2]
OPERATORS = Path(os.environ.get("TAZZA_SHARED", ROOT.parent / "shared")) / "reference" / "ops.json"
WHOLE = ("models", "mint")
"""Packages of which the page names what is there."""


def waiting() -> tuple[str, str]:
    """Return the table of operators, and the list of modules."""
    page = (ROOT / "docs" / "caffe2_names.md").read_text(encoding="utf-8")
    section = page.partition("## What waits")[2].partition("\n## ")[0]
    table, _, modules = section.partition("Of these modules")
    return table, modules.partition("and those of")[0]


@pytest.mark.skipif(
    not OPERATORS.is_file(), reason=f"there is no '{OPERATORS}'; TAZZA_SHARED can name the folder above it"
)
def test_the_operators_that_are_not_there_are_all_named() -> None:
    types = json.loads(OPERATORS.read_text(encoding="utf-8"))["operators"]
    absent = {type for type in types if "_ENGINE_" not in type and SCHEMAS.get(type) is None}
    rows = [line.split("|")[1] for line in waiting()[0].splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == absent


def test_the_modules_that_refuse_are_all_named() -> None:
    file = (ROOT / "src" / "caffe2" / "python" / "_absent.txt").read_text(encoding="utf-8")
    absent = {line.partition(":")[0] for line in file.splitlines() if line and not line.startswith("#")}
    named = set(re.findall(r"`([\w.]+)`", waiting()[1]))
    assert named == {name for name in absent if name.split(".")[0] not in WHOLE}
