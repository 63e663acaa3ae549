"""Writing a document into a page: one HTML file with style, program and data in it.

The data lies as JSON in an element of its own, in which neither `<` nor `&` stands: no name from a net can end it. The
program puts names into the page as text alone. The page's own policy allows its program by its digest and forbids
all else, so that a name that came through would still not run, and nothing is ever loaded.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tazza.runtime.files import write_bytes_atomically

FOLDER = Path(__file__).parent
TEMPLATE, STYLE = "page.html", "page.css"
PROGRAMS = ("texts.js", "graph.js", "panels.js", "drawer.js", "stages.js", "page.js")
"""In the order in which they are read: what a file names when it is read stands in one before it."""
ESCAPED = {"<": r"\u003c", ">": r"\u003e", "&": r"\u0026"}
"""Characters that mean something to HTML, as JSON writes them otherwise."""


def write_page(path: str | os.PathLike[str], document: Mapping[str, Any]) -> None:
    """Write the page of a document (`document_of`); the file appears as a whole.

    Raises:
        FileError: the file cannot be written.
    """
    write_bytes_atomically(path, page_of(document).encode())


def page_of(document: Mapping[str, Any]) -> str:
    """Return the page of a document."""
    program = "\n".join(_part(name) for name in PROGRAMS)
    digest = base64.b64encode(hashlib.sha256(program.encode()).digest()).decode()
    parts = {
        "title": html.escape(str(document["name"])),
        "digest": f"'sha256-{digest}'",
        "style": _part(STYLE),
        "data": json_in_html(document),
        "program": program,
    }
    pieces = _part(TEMPLATE).split("{{")
    filled = [pieces[0]]
    for piece in pieces[1:]:
        name, _, rest = piece.partition("}}")
        filled += [parts[name], rest]
    return "".join(filled)


def json_in_html(document: object) -> str:
    r"""Return JSON that can stand within any element of a page; all of it is ASCII.

    >>> print(json_in_html("</script>&"))
    "\u003c/script\u003e\u0026"
    """
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    for character, written in ESCAPED.items():
        text = text.replace(character, written)
    return text


def _part(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")
