"""The tutorial of the tensor library says what the library does: its session is run, its pictures are drawn anew."""

from __future__ import annotations

import doctest
import re
from xml.etree import ElementTree

import pytest

from tazza.codegen.kernel import unavailable
from tazza.operator.function import forget_function
from tazza.operator.registry import SCHEMAS
from tools.draw_tensor import FOLDER, PICTURES, why_not
from tools.write_tensor import PAGE
from tools.write_walk import BLOCK, rewrite

TEXT = PAGE.read_text(encoding="utf-8")
LARGEST_BYTES = 60_000


def session(text: str) -> str:
    """Return the blocks of a page as one session, on the lines where they stand."""
    lines = ["" for _ in text.splitlines()]
    for found in BLOCK.finditer(text):
        first = text.count("\n", 0, found.start())
        block = found[0].splitlines()
        lines[first : first + len(block)] = block
    return "\n".join(lines)


def test_session() -> None:
    if (reason := unavailable()) is not None:
        pytest.skip(f"the tutorial shows a compiled kernel: {reason}")
    test = doctest.DocTestParser().get_doctest(session(TEXT), {"__name__": "__tutorial__"}, PAGE.name, str(PAGE), 0)
    told: list[str] = []
    try:
        doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS).run(test, out=told.append)
    finally:
        if "SoftClip" in SCHEMAS:
            forget_function("SoftClip")  # the page does it at its end
    assert "".join(told) == "", "python -m tools.write_tensor writes what the session prints now"
    assert len(test.examples) > 80


@pytest.mark.parametrize("name", PICTURES)
def test_picture(name: str) -> None:
    if (reason := why_not(name)) is not None:
        pytest.skip(reason)
    path = FOLDER / f"{name}.svg"
    stored = path.read_text(encoding="utf-8")
    assert PICTURES[name][0]() == stored, "python -m tools.draw_tensor draws it anew"
    texts = [one.text for one in ElementTree.fromstring(stored).iter("{http://www.w3.org/2000/svg}text")]
    assert len(texts) > 10
    assert path.stat().st_size < LARGEST_BYTES


def test_every_link_leads_somewhere_and_every_picture_is_shown() -> None:
    links = set(re.findall(r"\]\(([^)]+)\)", TEXT))
    headings = {
        f"#{line.strip('# ').lower().replace(' ', '-')}" for line in TEXT.splitlines() if line.startswith("## ")
    }
    files = {link for link in links if not link.startswith("#")}
    assert links - files <= headings
    assert [link for link in sorted(files) if not (FOLDER / link).exists()] == []
    assert {path.name for path in FOLDER.iterdir()} <= files | {PAGE.name}


def test_what_stands_stays_where_it_fits() -> None:
    page = "```pycon\n>>> print('made in 5 ms')\nmade in ... ms\n>>> 1 + 1\n3\n```\n"
    assert rewrite(page, {}) == page.replace("\n3\n", "\n2\n")
