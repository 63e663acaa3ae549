"""The page: nothing of a net can run in it, it asks for nothing, and everything of its document is in it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tazza.errors import FileError
from tazza.graph.text import parse_net
from tazza.observers.view import Subject, document_of, page_of, picture_of, write_page, write_picture
from tazza.proto import NetDef, OperatorDef

HOSTILE = [
    "</script><script>document.title='ran'</script>",
    "<!--<script>",
    "<img src=x onerror=\"document.title='ran'\">",
    "&lt;b&gt;",
    "\u2028 \u2029 \x00 \x1b[31m",
    "'\"`${1}{{data}}",
    "] ]]> <![CDATA[",
    "javascript:document.title='ran'",
]


def hostile_net() -> NetDef:
    """Return a net whose every name would like to be a program."""
    net = NetDef(name=HOSTILE[0], external_input=["x"], external_output=[HOSTILE[-1]])
    for before, after in zip(["x", *HOSTILE], HOSTILE, strict=False):
        op = OperatorDef(type="Relu", input=[before], output=[after], name=after, debug_info=after)
        op.arg.add(name=after, s=after.encode())
        net.op.append(op)
    net.op.append(OperatorDef(type=HOSTILE[0], input=[HOSTILE[2]], output=["y"], engine=HOSTILE[1]))
    return net


class Reader(HTMLParser):
    """Notes the elements of a page, and what stands in its scripts."""

    def __init__(self, page: str) -> None:
        """Read the page."""
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.open = False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.tags.append((tag, dict(attrs)))
        self.open = tag == "script"
        if self.open:
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        """Note that a script has ended."""
        self.open = self.open and tag != "script"

    def handle_data(self, data: str) -> None:
        """Note the text of a script."""
        if self.open:
            self.scripts[-1] += data


@pytest.fixture(scope="module")
def plain() -> str:
    return page_of(document_of(Subject(parse_net("net: small", "out: y", "y = Relu(x)"))))


def test_names_are_data_whatever_they_say(plain: str) -> None:
    document = document_of(Subject(hostile_net()))
    page = page_of(document)
    hostile, known = Reader(page), Reader(plain)
    assert [tag for tag, _ in hostile.tags] == [tag for tag, _ in known.tags], "no name became an element"
    assert [attributes for _, attributes in hostile.tags] == [attributes for _, attributes in known.tags]
    data, program = hostile.scripts
    assert json.loads(data) == json.loads(json.dumps(document))
    assert program == known.scripts[1]
    assert not set(data) & set("<>&"), "nothing in it means anything to HTML"
    assert data.isascii()


def test_only_the_program_of_the_page_may_run_and_nothing_is_loaded(plain: str) -> None:
    found = Reader(plain)
    policy = next(of["content"] for tag, of in found.tags if tag == "meta" and "http-equiv" in of)
    digest = base64.b64encode(hashlib.sha256(found.scripts[1].encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    assert not [of for _, of in found.tags if {"src", "srcset"} & of.keys() or any(on.startswith("on") for on in of)]
    addresses = set(re.findall(r"https?://[^\s\"']+", plain))
    assert addresses == {"http://www.w3.org/2000/svg"}, "the name of a language, which nobody fetches"
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\(|new Function|fetch\(", plain)


def test_pictures_of_hostile_nets_are_well_formed() -> None:
    from xml.etree import ElementTree

    picture = ElementTree.fromstring(picture_of(document_of(Subject(hostile_net()), passes=False)))
    assert {each.tag.rpartition("}")[2] for each in picture.iter()} <= {
        "svg", "title", "style", "g", "rect", "path", "text"
    }  # fmt: skip
    assert any("</script>" in text for text in picture.itertext())


def test_what_cannot_be_written_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    document = document_of(Subject(parse_net("y = Relu(x)")))
    for write, name in ((write_page, "net.html"), (write_picture, "net.svg")):
        with pytest.raises(FileError):
            write(tmp_path / "missing" / name, document)
        write(tmp_path / name, document)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net.html", "net.svg"]
