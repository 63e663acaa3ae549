"""The glossary: each word is used where it says, and is nobody else's name."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEFINED, _, GIVEN_UP = (ROOT / "docs" / "glossary.md").read_text().partition("## Words that name nothing")
ROWS = re.findall(r"^\| (\w+) \| .* \| `(\S+\.py)` \|$", DEFINED, re.MULTILINE)
WORDS = {word for word, _ in ROWS}
NAMELESS = {
    word: re.findall(r"`([\w/]+)`", folders)
    for word, folders in re.findall(r"^\| (\w+) \| .* \|(.*)\|$", GIVEN_UP, re.MULTILINE)
    if word != "word"
}
"""Where each word that was given up still stands in names."""


@pytest.mark.parametrize(("word", "file"), ROWS)
def test_a_word_is_used_where_it_is_defined(word: str, file: str) -> None:
    assert word in (ROOT / "src" / "tazza" / file).read_text().lower()


def test_a_word_stands_once() -> None:
    assert len(ROWS) > 40
    assert [word for word, count in Counter(word for word, _ in ROWS).items() if count > 1] == []


@pytest.mark.slow
def test_no_two_classes_take_a_word_for_their_name() -> None:
    places: dict[str, list[str]] = {}
    for path in (ROOT / "src" / "tazza").rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and node.name.lower() in WORDS:
                places.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


@pytest.mark.slow
def test_no_class_function_field_or_parameter_has_a_name_that_was_given_up() -> None:
    assert {"known", "slot"} <= NAMELESS.keys()
    assert not {word for word, folders in NAMELESS.items() if not folders} & WORDS
    for text in ("def _known(): ...", "class Known: ...", "self._known = 1", "known: int", "f = lambda known: 1"):
        assert names_of(text) & NAMELESS.keys(), text
    assert not names_of("known = value") & NAMELESS.keys(), "what a function calls its own values concerns nobody else"
    found = {
        str(path.relative_to(ROOT)): here
        for folder in ("src/tazza", "tests", "tools", "benchmarks", "examples")
        for path in (ROOT / folder).rglob("*.py")
        if (here := given_up(path))
    }
    assert found == {}


def given_up(path: Path) -> list[str]:
    """Return the names in a file that were given up, where it stands."""
    homes = {word: [ROOT / "src" / "tazza" / folder for folder in NAMELESS[word]] for word in NAMELESS}
    text = path.read_text()
    if not any(word in text for word in NAMELESS):
        return []
    found = names_of(text) & NAMELESS.keys()
    return sorted(word for word in found if not any(path.is_relative_to(home) for home in homes[word]))


def names_of(text: str) -> set[str]:
    """Return what a module calls its classes, functions (local ones too), parameters, fields and attributes."""
    found: set[str] = set()
    tree = ast.parse(text)
    for node in ast.walk(tree):
        match node:
            case (
                ast.ClassDef(name=name)
                | ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.arg(arg=name)
            ):
                found.add(name)
            case ast.Attribute(attr=name, ctx=ast.Store()):
                found.add(name)
            case _:
                pass
    for body in (tree.body, *(node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef))):
        found |= {one.target.id for one in body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)}
    return {name.strip("_").lower() for name in found}
