"""The site: MkDocs builds it without a warning, and what it shows needs no network."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path

import pytest

from tazza.runtime.flags import all_flags
from tools.site.build import TEXTS, build, settings
from tools.site.pages import gathered, pictures
from tools.site.reference import commands_page, flags_page, modules

needs_mkdocs = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("mkdocs", "material", "mkdocstrings")), reason="needs the extra `docs`"
)


class Loaded(HTMLParser):
    """Addresses of what a page loads by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag loads; a link that one follows is none."""
        named = dict(attrs)
        loads = {"script": "src", "img": "src", "link": "href", "iframe": "src"}.get(tag)
        if loads is not None and named.get("rel") not in ("next", "prev", "canonical"):
            self.addresses += [address for address in [named.get(loads)] if address is not None]


@needs_mkdocs
@pytest.mark.slow
@pytest.mark.delivery
def test_it_is_built_and_needs_nothing_from_elsewhere(tmp_path: Path) -> None:
    """Half a minute of a processor: the only test that reads all pages as a reader sees them."""
    html = build(tmp_path)
    for page in gathered():
        there = html / page.path.replace("README.md", "index.md").replace(".md", ".html")
        parser = Loaded()
        parser.feed(there.read_text(encoding="utf-8"))
        assert [address for address in parser.addresses if re.match(r"(https?:)?//", address)] == [], page.path
    assert all((tmp_path / TEXTS / picture.removeprefix("docs/")).exists() for picture in pictures())
    assert "batch_invariant" in (html / "search" / "search_index.json").read_text(encoding="utf-8")


def test_nothing_is_asked_of_others() -> None:
    assert settings()["theme"]["font"] is False


def test_references_have_everything() -> None:
    flags, commands = flags_page(), commands_page()
    assert [
        flag.name for flag in all_flags() if flag.module.startswith("tazza.") and f"`{flag.name}`" not in flags
    ] == []
    assert {"tazza predict", "tazza train lenet"} <= set(re.findall(r"^## (.*)$", commands, re.MULTILINE))
    assert {"tazza", "tazza.array", "tazza.models", "tazza.db", "tazza.images", "tazza.workspace"} <= set(modules())


def test_every_picture_is_in_the_gallery() -> None:
    (gallery,) = [page.text for page in gathered() if page.path == "gallery.md"]
    shown = set(re.findall(r"!\[[^\]]*\]\(([^)]+)\)", gallery))
    assert {picture.removeprefix("docs/") for picture in pictures()} == shown != set()
