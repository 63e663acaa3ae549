"""The examples in the docstrings of the benchmarks."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

MODULES = ("job", "lineup", "machine", "memory", "race", "report", "result", "worker")
FOLDER = Path(__file__).parent.parent.parent / "benchmarks"


@pytest.mark.slow
@pytest.mark.parametrize("name", MODULES)
def test_examples_hold(name: str) -> None:
    found = doctest.testmod(import_module(f"benchmarks.{name}"))
    assert found.attempted > 0
    assert found.failed == 0


def test_every_module_with_examples_is_listed() -> None:
    with_examples = {path.stem for path in FOLDER.glob("*.py") if ">>> " in path.read_text(encoding="utf-8")}
    assert with_examples == set(MODULES)
