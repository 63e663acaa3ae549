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
