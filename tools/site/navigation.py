"""The navigation: which page stands in which section. It follows from the folders, so that a new page has its place."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath

from tools.site.pages import PROJECT, Page
from tools.site.reference import FOLDER

START = "index.md"
TUTORIALS = "tutorials"
OPERATORS = "operators"
LAST = ("comparison.md", "gallery.md")
"""Pages that stand last, beside those of the project."""

Entry = dict[str, "str | list[Entry]"]
"""A title, and what it leads to: a page, or a section."""


def navigation(pages: Iterable[Page]) -> list[Entry]:
    """Return the sections with all pages.

    Tutorials come first, then guides (the pages that lie in no folder), then the folders of pages that tell a whole,
    then what is made from the code, then the project.
    """
    ordered = sorted(pages, key=lambda page: page.path)
    folders = {page.path: str(PurePosixPath(page.path).parent) for page in ordered}

    def of(folder: str) -> list[Page]:
        return [page for page in ordered if folders[page.path] == folder]

    apart = {START, f"{OPERATORS}.md", *LAST}
    guides = sorted((page for page in of(".") if page.path not in apart), key=lambda page: page.title.lower())
    taken = (".", TUTORIALS, FOLDER, PROJECT)
    wholes = sorted({each for each in folders.values() if each not in taken and not each.startswith(OPERATORS)})
    beside = [*of(PROJECT), *(page for page in of(".") if page.path in LAST)]
    return [
        {"Start": START},
        {"Tutorials": _entries(of(TUTORIALS))},
        {"Guides": _entries(guides)},
        {"Learn": [_whole(of(folder)) for folder in wholes]},
        {"Operators": _operators(ordered)},
        {"Reference": _entries(sorted(of(FOLDER), key=lambda page: (page.title.startswith("tazza"), page.title)))},
        {"Project": _entries(beside)},
    ]


def _entries(pages: Iterable[Page]) -> list[Entry]:
    return [{page.title: page.path} for page in pages]


def _whole(pages: list[Page]) -> Entry:
    """Return the section of a folder: its first page, README.md, gives it a name."""
    first = sorted(pages, key=lambda page: not page.path.endswith("README.md"))
    if len(first) == 1:
        return _entries(first)[0]
    return {first[0].title: _entries(first)}


def _operators(pages: list[Page]) -> list[Entry]:
    """Return the list of operators, and a section of pages for each field."""
    fields: dict[str, list[Page]] = {}
    for page in pages:
        place = PurePosixPath(page.path)
        if place.parts[0] == OPERATORS:
            fields.setdefault(place.parts[1], []).append(page)
    index = _entries(page for page in pages if page.path == f"{OPERATORS}.md")
    return [*index, *({field: _entries(inner)} for field, inner in fields.items())]


def reached(entries: Iterable[Entry]) -> list[str]:
    """Return the paths of all pages that a navigation leads to, in order."""
    found: list[str] = []
    for entry in entries:
        for leads in entry.values():
            found += [leads] if isinstance(leads, str) else reached(leads)
    return found
