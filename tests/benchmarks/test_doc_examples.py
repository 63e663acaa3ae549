"""The examples in the docstrings of the benchmarks."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent.parent / "benchmarks"
MODULES = sorted(path.stem for path in FOLDER.glob("*.py") if ">>> " in path.read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize("name", MODULES)
def test_examples_hold(name: str) -> None:
    found = doctest.testmod(import_module(f"benchmarks.{name}"))
    assert found.attempted > 0
    assert found.failed == 0
