"""Which pages the site has: those of `docs`, those that lie beside the code, and those that are made from it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tools.site.gallery import gallery_page
from tools.site.links import HEADING, moved
from tools.site.reference import reference_pages

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PROJECT = "project"
"""Folder of the site for pages that lie beside the code."""
TEXT = ".md"


@dataclass(frozen=True)
class Page:
    """A page of the site: its path there, its text, and where that is from; None if it is made from the code."""

    path: str
    text: str
    source: str | None

    @property
    def title(self) -> str:
        """Its first heading, as plain text."""
        found = HEADING.search(self.text)
        assert found is not None, f"{self.path} has no heading"
        return re.sub(r"`|\[([^\]]*)\]\([^)]*\)", r"\1", found[1])


def sources() -> list[str]:
    """Return the paths of all pages that people or tools have written, from the root."""
    beside = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "examples").rglob(f"*{TEXT}"))]
    return [path.relative_to(ROOT).as_posix() for path in (*beside, *sorted(DOCS.rglob(f"*{TEXT}")))]


def pictures() -> list[str]:
    """Return the paths of all pictures of the documents, from the root."""
    kinds = (".svg", ".png")
    return [path.relative_to(ROOT).as_posix() for path in sorted(DOCS.rglob("*")) if path.suffix in kinds]


@cache
def _placed() -> dict[str, str]:
    """Path in the project -> path on the site."""
    found: dict[str, str] = {}
    for source in (*sources(), *pictures()):
        inside = source.removeprefix("docs/")
        found[source] = inside if inside != source else f"{PROJECT}/{_beside(source)}"
    return found


def _beside(source: str) -> str:
    """Return the place of a page that lies beside the code; README.md would be the index of the folder."""
    return source.lower().replace("/readme", "").replace("/", "-")


@cache
def gathered() -> tuple[Page, ...]:
    """Return all pages: links as they read on the site, lists and tables as Python-Markdown wants them."""
    pages = {source: (ROOT / source).read_text(encoding="utf-8") for source in sources()}
    own = [Page(_placed()[name], tidy(moved(text, name, _placed().get)), name) for name, text in pages.items()]
    gallery = gallery_page(pages, pictures())
    made = {"gallery.md": moved(gallery, "docs/gallery.md", lambda path: _placed().get(path, path[5:]))}
    made |= reference_pages()
    return (*own, *(Page(path, text, None) for path, text in made.items()))


def tidy(text: str) -> str:
    r"""Return a page that Python-Markdown reads as others do: blank lines before tables, four columns in lists.

    >>> print(tidy("<!-- rows -->\n| a | b |\n|---|---|"))
    <!-- rows -->
    <BLANKLINE>
    | a | b |
    |---|---|
    >>> print(tidy("1. a\n\n   b"))
    1. a
    <BLANKLINE>
        b
    """
    spaced = re.sub(r"^(?![|\s])(.+)\n(?=\|.*\|\n\|[ :|-]+\|)", r"\1\n\n", f"{text}\n", flags=re.MULTILINE)
    return re.sub(r"(?<=\n\n) {2,3}(?=\S)", "    ", spaced)[:-1]
