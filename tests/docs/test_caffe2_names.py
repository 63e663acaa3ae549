"""The page of old names: its example runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "caffe2_names.md"


def test_example(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    exec(compile(code, PAGE.name, "exec"), {})
    assert capsys.readouterr().out == "1.6666666 [0.         0.33333334 0.33333334]\n"


def test_no_module_has_two_rows() -> None:
    """A module stands in one row of the table."""
    table = PAGE.read_text(encoding="utf-8").partition("## What waits")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    names = [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]
    assert sorted({name for name in names if names.count(name) > 1}) == []
