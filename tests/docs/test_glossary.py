"""The glossary: each word is used where it says, and is nobody else's name."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = re.findall(r"^\| (\w+) \| .* \| `(\S+\.py)` \|$", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)
WORDS = {word for word, _ in ROWS}


@pytest.mark.parametrize(("word", "file"), ROWS)
def test_a_word_is_used_where_it_is_defined(word: str, file: str) -> None:
    assert word in (ROOT / "src" / "tazza" / file).read_text().lower()


def test_a_word_stands_once() -> None:
    assert len(ROWS) > 40
    assert [word for word, count in Counter(word for word, _ in ROWS).items() if count > 1] == []


def test_no_two_classes_take_a_word_for_their_name() -> None:
    places: dict[str, list[str]] = {}
    for path in (ROOT / "src" / "tazza").rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and node.name.lower() in WORDS:
                places.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}
