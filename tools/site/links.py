"""Links of Markdown pages: where they lead, which anchors a page has, and how they read from another place."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from posixpath import normpath, relpath

FENCE = re.compile(r"^(```+|~~~+).*?^\1 *$", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")
LINK = re.compile(r"(!?)\[((?:[^\[\]]|!\[[^\]]*\]\([^)]*\)|\[[^\]]*\])*)\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
WRITTEN_ANCHOR = re.compile(r"<a (?:id|name)=\"([^\"]+)\"")
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)


@dataclass(frozen=True)
class Link:
    """A link as it is written: of a picture or not, its text, the path and the anchor that it leads to."""

    picture: bool
    text: str
    path: str
    anchor: str

    @property
    def elsewhere(self) -> bool:
        """Whether it leads out of the project, as `https:` does."""
        return ELSEWHERE.match(self.path) is not None


def plain(text: str) -> str:
    """Return a page without its blocks of code and its code spans, on the same lines.

    >>> plain("a `[b](c)`")
    'a '
    """
    unfenced = FENCE.sub(lambda block: "\n" * block[0].count("\n"), text)
    return CODE.sub("", unfenced)


def links(text: str) -> list[Link]:
    """Return the links of a page, those of pictures that are links themselves included.

    >>> links("see [the walk](walk/README.md#plan)")
    [Link(picture=False, text='the walk', path='walk/README.md', anchor='plan')]
    """
    return list(_links(plain(text)))


def _links(text: str) -> Iterator[Link]:
    for found in LINK.finditer(text):
        path, _, anchor = found[3].partition("#")
        yield Link(found[1] == "!", found[2], path, anchor)
        yield from _links(found[2])


def slug(heading: str) -> str:
    """Return the anchor of a heading: lower case, words joined by hyphens, without what is no word.

    >>> slug("What `tazza ops` tells, and why")
    'what-tazza-ops-tells-and-why'
    """
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", words).strip().lower())


def anchors(text: str) -> set[str]:
    """Return the anchors of a page: its headings, the later of equal ones with a number behind, and written ones."""
    unfenced = FENCE.sub("", text)
    slugs = [slug(found[1]) for found in HEADING.finditer(unfenced)]
    numbered = {f"{name}_{number}" for name, count in Counter(slugs).items() for number in range(1, count)}
    return {*slugs, *numbered, *WRITTEN_ANCHOR.findall(unfenced)}


def target(page: str, link: Link) -> str:
    """Return the path from the root that a link on a page leads to; of an anchor alone it is the page.

    >>> target("docs/walk/2.md", Link(False, "", "../int8.md", ""))
    'docs/int8.md'
    """
    return normpath(str(PurePosixPath(page).parent / link.path)) if link.path else page


def moved(text: str, page: str, place: Callable[[str], str | None]) -> str:
    """Return a page with its links as they read from where it stands on the site.

    Args:
        text: the page.
        page: its path in the project.
        place: path in the project -> path on the site; None for what is not there, whose links become their text.
    """
    here = place(page)
    assert here is not None, page

    def rewritten(found: re.Match[str]) -> str:
        path, sign, anchor = found[3].partition("#")
        link = Link(found[1] == "!", found[2], path, anchor)
        inner = LINK.sub(rewritten, found[2])
        if link.elsewhere:
            return f"{found[1]}[{inner}]({found[3]})"
        there = place(target(page, link))
        if there is None:
            return inner
        leads = relpath(there, str(PurePosixPath(here).parent)) if path else ""
        return f"{found[1]}[{inner}]({leads}{sign}{anchor})"

    return _outside_code(text, lambda part: LINK.sub(rewritten, part))


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    """Return a text in which all but blocks of code is changed; code spans stay, unless they are the text of a link."""
    parts: list[str] = []
    end = 0
    for block in FENCE.finditer(text):
        parts += [change(text[end : block.start()]), block[0]]
        end = block.end()
    return "".join([*parts, change(text[end:])])
