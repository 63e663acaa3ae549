"""The example of the page about nets of bytes runs, and prints what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "int8.md"


def test_example(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    exec(compile(block, str(PAGE), "exec"), {})
    types, close = capsys.readouterr().out.splitlines()
    assert all(f"'{type}'" in types for type in ("Int8ConvRelu", "Int8AddRelu", "Int8AveragePool", "Int8FC"))
    assert close == "True"
