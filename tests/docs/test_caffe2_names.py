"""The page of old names: its example runs, and what its table names is there."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "caffe2_names.md"


def test_example(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    exec(compile(code, PAGE.name, "exec"), {})
    assert capsys.readouterr().out == "1.6666666 [0.         0.33333334 0.33333334]\n"


def test_names_of_tazza_are_there() -> None:
    rows = re.findall(r"^\| .* \| .*?`(tazza\.[\w.]+)`", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) > 5
    for path in rows:
        module, _, name = path.rpartition(".")
        assert hasattr(import_module(module), name), path
