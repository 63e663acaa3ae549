"""Every link of every page leads to something that is there, on GitHub as on the site."""

from __future__ import annotations

from functools import cache

import pytest

from tools.site.links import Link, anchors, links, moved, slug, target
from tools.site.navigation import navigation, reached
from tools.site.pages import ROOT, gathered, sources


@cache
def text_of(page: str) -> str:
    """Return the text of a page."""
    return (ROOT / page).read_text(encoding="utf-8")


@cache
def anchors_of(page: str) -> set[str]:
    """Return the anchors of a page."""
    return anchors(text_of(page))


def wrong_with(page: str, link: Link) -> str | None:
    """Say what is wrong with a link of a page; None if it leads to something."""
    if link.elsewhere:
        return None
    leads = target(page, link)
    if leads.startswith("..") or not (ROOT / leads).exists():
        return f"{page}: {link.path} is not there"
    if link.anchor and leads.endswith(".md") and link.anchor not in anchors_of(leads):
        return f"{page}: {leads} has no heading #{link.anchor}"
    return None


def test_links_lead_somewhere() -> None:
    found = [(page, link) for page in sources() for link in links(text_of(page))]
    assert len(found) > 3000
    assert [wrong for page, link in found if (wrong := wrong_with(page, link)) is not None] == []


def test_what_leads_nowhere_is_found() -> None:
    for text, wrong in (
        ("[a](b.md)", "docs/index.md: b.md is not there"),
        ("[a](comparison.md#no)", "docs/index.md: docs/comparison.md has no heading #no"),
        ("[![a](no.png)](comparison.md)", "docs/index.md: no.png is not there"),
    ):
        assert wrong in [wrong_with("docs/index.md", link) for link in links(text)]
    assert links("`[a](b.md)`\n\n```\n[a](b.md)\n```\n") == []


def test_every_page_is_reached_once() -> None:
    """By the navigation, which follows from the folders."""
    pages = gathered()
    assert sorted(reached(navigation(pages))) == sorted(page.path for page in pages)
    assert {page.source for page in pages} >= set(sources())


def test_links_lead_somewhere_on_the_site() -> None:
    pages = {page.path: page for page in gathered()}
    marks = {path: anchors(page.text) for path, page in pages.items()}
    wrong = [
        (path, leads, link.anchor)
        for path, page in pages.items()
        for link in links(page.text)
        if not link.elsewhere and (leads := target(path, link)).endswith(".md")
        if leads not in pages or (link.anchor and link.anchor not in marks[leads])
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("heading", "anchor"), [("A `b`, and c", "a-b-and-c"), ("1. What is stored", "1-what-is-stored"), ("π", "π")]
)
def test_anchors(heading: str, anchor: str) -> None:
    assert slug(heading) == anchor
    assert anchors(f"## {heading}\n\n## {heading}\n") == {anchor, f"{anchor}_1"}


def test_links_move_with_a_page() -> None:
    """What is not on the site keeps its text alone; code is left as it is."""
    places = {"README.md": "project/readme.md", "docs/a.md": "a.md", "docs/b.png": "b.png"}
    text = (
        "[a](docs/a.md#x) [code](src/a.py) [![b](docs/b.png)](docs/a.md) [out](https://a.b)\n```\n[a](docs/a.md)\n```\n"
    )
    assert moved(text, "README.md", places.get) == (
        "[a](../a.md#x) code [![b](../b.png)](../a.md) [out](https://a.b)\n```\n[a](docs/a.md)\n```\n"
    )
