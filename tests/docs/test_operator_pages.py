"""There is a page for each family of operators, none beside, and each says what the schemas say."""

from __future__ import annotations

import re

import pytest

from tazza.operator import ENGINES
from tazza.operator.description import families
from tests.docs.commands import ROOT, commands
from tools.write_operator_pages import page_of, pages, run_example, strangers


def test_every_operator_has_its_place() -> None:
    lacking: list[str] = []
    for family, schemas in families().items():
        path = page_of(family)
        headings = re.findall(r"^## (\w+)$", path.read_text(), re.MULTILINE) if path.exists() else []
        lacking += sorted({schema.type for schema in schemas} ^ set(headings))
    assert lacking == [], "run `make index`"
    assert strangers({page_of(family): "" for family in families()}) == [], "run `make index`"


def test_links_lead_to_what_is_there() -> None:
    index = (ROOT / "docs" / "operators.md").read_text()
    links = set(re.findall(r"\]\((operators/[\w/.]+)#\w+\)", index))
    assert links == {page_of(family).relative_to(ROOT / "docs").as_posix() for family in families()}
    pages = [page_of(family) for family in families()]
    found = [(page, link) for page in pages for link in re.findall(r"\]\((\.\.?/[^)#]+)\)", page.read_text())]
    assert len(found) >= 2 * len(pages)
    assert [link for page, link in found if not (page.parent / link).exists()] == []


def test_pages_show_no_command() -> None:
    """Each command that a document shows is run by tests in a copy of the project: not once for each family."""
    assert [path for path in map(page_of, families()) if commands(path)] == []


def test_examples_are_run() -> None:
    assert list(run_example('>>> X = [1.0,\n...      -2.0]\n>>> run("Relu", X)\nnot this')) == [
        ">>> X = [1.0,",
        "...      -2.0]",
        '>>> run("Relu", X)',
        "array([1., 0.], dtype=float32)",
    ]


@pytest.mark.slow
def test_the_pages_are_up_to_date() -> None:
    missing = [name for name in ENGINES if ENGINES[name].unavailable() is not None]
    if missing:
        pytest.skip(f"they name all engines; here lacks {', '.join(missing)}")
    stale = [path.relative_to(ROOT).as_posix() for path, text in pages().items() if path.read_text() != text]
    assert stale == [], "run `make index`"
