"""The pages for those who extend tazza: their examples run, and what they list is complete."""

from __future__ import annotations

import dataclasses
import doctest
import inspect
import re
from pathlib import Path
from typing import get_args

import pytest

from tazza.db import DB, Cursor, Mode, Transaction
from tazza.operator import Cut, Observer
from tazza.operator.row_program import JOINS, Lies, RowProgram
from tazza.tensor.expression import Expression, Node
from tazza.tensor.function import BITWISE, FUNCTIONS

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {"extending": 25, "observers": 15, "databases": 12, "formulas": 15, "kernels": 20}
"""Pages, and how many examples each has at least."""


def text(page: str) -> str:
    return (DOCS / f"{page}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_examples_run(page: str) -> None:
    found = doctest.testfile(str(DOCS / f"{page}.md"), module_relative=False, encoding="utf-8")
    assert found.failed == 0
    assert found.attempted >= PAGES[page]


def functions() -> str:
    """Return the table of functions: those with one rule and one number of operands in a row."""
    rows: dict[tuple[str, int], list[str]] = {}
    for name, one in FUNCTIONS.items():
        operands = tuple(Node("name", letter) for letter in "abc"[: one.arity])
        rows.setdefault((one.rule.value, one.arity), []).append(f"`{Expression(Node(name, None, operands)).text()}`")
    lines = [f"| {' '.join(written)} | {rule} |" for (rule, _), written in rows.items()]
    return "\n".join(["| written | types |", "|---|---|", *lines])


def test_every_function_is_listed() -> None:
    """What the page should hold is what this prints."""
    assert functions() in text("formulas"), functions()


def test_what_needs_whole_numbers_is_named() -> None:
    told = re.search(r"Of integers and bools alone are (.*?)\.", text("formulas"))
    assert told is not None
    assert set(re.findall(r"`(\w+)`", told[1])) == BITWISE


def test_every_part_of_a_row_program_is_explained() -> None:
    page = text("formulas")
    rows = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    fields = {field.name for kind in (RowProgram, Cut) for field in dataclasses.fields(kind)}
    assert fields | set(JOINS) | set(get_args(Lies)) <= rows
    for name, (formula, start) in JOINS.items():
        assert f"| `{name}` | `{formula}` | {start} |" in page


def test_every_method_that_a_format_fills_in_is_named() -> None:
    page = text("databases")
    moves = {
        name
        for kind in (DB, Cursor, Transaction)
        for name, value in inspect.getmembers(kind)
        if getattr(value, "__isabstractmethod__", False)
    }
    assert moves
    assert [name for name in sorted(moves) if f"`{name}(" not in page] == []
    assert [mode.name for mode in Mode if f"| `{mode.name}` |" not in page] == []


def test_every_method_of_an_observer_is_named() -> None:
    own = [name for name, value in vars(Observer).items() if inspect.isfunction(value) and not name.startswith("_")]
    assert own
    assert [name for name in own if f"`{name}(" not in text("observers")] == []
