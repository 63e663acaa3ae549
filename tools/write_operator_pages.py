"""Write `docs/operators/<field>/<family>.md`: a page for each family, with all that is declared of its operators.

    python -m tools.write_operator_pages

The facts are those of `tazza.operator.description`, which `tazza ops` shows too. Examples are run: what is written is
what came out, with the shapes that went in. A page whose family is gone is removed.
"""

from __future__ import annotations

import contextlib
import doctest
import html
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tazza.graph.text import parse_net
from tazza.operator import SCHEMAS, run_op
from tazza.operator.description import ArgumentFacts, BlobFacts, Description, describe, families, family_doc

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "operators"
_MARKUP = re.compile(r"(?<! )\*|\*(?! )|\||<(?=[a-zA-Z/!])|(?<!\w)_|_(?!\w)|\](?=\()")
"""What Markdown would take for more than itself: stars at words, edges of names, brackets of tags and of links."""


def main() -> None:
    """Write what has changed, and remove what is no family's."""
    wanted = pages()
    for path in strangers(wanted):
        path.unlink()
    for path, text in wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def pages() -> dict[Path, str]:
    """Return the text of each page by its path."""
    return {page_of(family): page(family) for family in families()}


def page_of(family: str) -> Path:
    """Return where the page of a family lies.

    >>> page_of("nn.conv").relative_to(FOLDER).as_posix()
    'nn/conv.md'
    """
    return FOLDER.joinpath(*family.split(".")).with_suffix(".md")


def strangers(wanted: dict[Path, str]) -> list[Path]:
    """Return the pages that are there and no family's."""
    return sorted(set(FOLDER.rglob("*.md")) - set(wanted))


def page(family: str) -> str:
    """Return the page of a family."""
    found = [describe(schema) for schema in families()[family]]
    code = f"src/tazza/ops/{family.replace('.', '/')}.py"
    up = "../" * (family.count(".") + 2)
    lines = [
        f"# {family}",
        "",
        f"Written by `tools/write_operator_pages.py` from [{code}]({up}{code}); nobody edits it.",
        f"[All operators]({up.removeprefix('../')}operators.md).",
        "",
        *_text(family_doc(SCHEMAS[found[0].type])),
        " · ".join(f"[{one.type}](#{one.type.lower()})" for one in found),
    ]
    for one in found:
        lines += ["", *_operator(one)]
    return "\n".join(lines) + "\n"


def _operator(found: Description) -> Iterator[str]:
    yield from (f"## {found.type}", "", *list(_text(found.doc))[:-1])
    yield from _table("input", _HEAD, [_blob(one) for one in found.inputs])
    yield from _table("output", _HEAD, [_blob(one) for one in found.outputs])
    yield from _table("argument", ("type", "default", "range", "meaning"), [_argument(one) for one in found.arguments])
    yield from _table("", ("",), list(_facts(found)))
    yield from _errors(found)
    yield from _example(found)


_HEAD = ("holds", "shape", "what")


def _text(text: str) -> Iterator[str]:
    """Yield prose as paragraphs; one with lines that are set in stays as it is."""
    for part in text.split("\n\n"):
        lines = part.splitlines()
        if any(line.startswith(" ") for line in lines):
            yield from ("```text", *lines, "```", "")
        else:
            yield from (*map(_plain, lines), "")


def _table(first: str, others: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    if not rows:
        return
    yield from ("", _row((first, *others)), _row(["---"] * (len(others) + 1)))
    yield from map(_row, rows)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _code(text: str) -> str:
    """Return a span of code; a bar, which would end the cell of a table, is written as its number."""
    if not text:
        return ""
    marks = ("<code>", "</code>") if "`" in text or "|" in text else ("`", "`")
    return f"{marks[0]}{html.escape(text).replace('|', '&#124;') if marks[0] != '`' else text}{marks[1]}"


def _plain(text: str) -> str:
    r"""Return prose on one line: what markup would make of stars, brackets and underlines outside of code is held back.

    >>> print(_plain("Y[n] = X * *S, `*S`, std::vector<int>"))
    Y[n] = X * \*S, `*S`, std::vector\<int>
    """
    parts = " ".join(text.split()).split("`")
    if len(parts) % 2 == 0:  # a tick that stands alone
        return _escaped(" ".join(text.split()))
    return "`".join(part if place % 2 else _escaped(part) for place, part in enumerate(parts))


def _escaped(text: str) -> str:
    return _MARKUP.sub(r"\\\g<0>", text)


def _blob(one: BlobFacts) -> tuple[str, ...]:
    role = () if one.role in (None, "data") else (str(one.role),)
    what = "; ".join(part for part in (*role, *one.marks, one.doc) if part)
    shape = f"({one.shape})" if one.shape is not None else ""
    return _code(one.name), _plain(one.kind), _code(shape), _plain(what)


def _argument(one: ArgumentFacts) -> tuple[str, ...]:
    default = "required" if one.default is None else _code(one.default)
    return _code(one.name), _plain(" or ".join(one.types)), default, _plain("; ".join(one.range)), _plain(one.doc)


def _facts(found: Description) -> Iterator[tuple[str, str]]:
    yield "gradient", _plain(": ".join(part for part in (found.gradient, found.gradient_reason) if part))
    free = [f"{letter} on {' or '.join(places)}" for letter, places in found.in_place.items()]
    must = [f"always {letter} on {' or '.join(places)}" for letter, places in found.must_in_place.items()]
    told = {
        "in place": "; ".join(free + must),
        "numbers": "; ".join(found.relations),
        "more arguments": "names that its kernel reads itself" if found.open_arguments else "",
        "private": "other operators make it, nobody else" if found.private else "",
        "effects": found.effects,
        "training": found.training,
        "engines": ", ".join(one.name for one in found.engines),
        "source": found.source,
    }
    yield from ((name, _plain(text)) for name, text in told.items() if text)


def _errors(found: Description) -> Iterator[str]:
    kinds = ", ".join(_code(kind) for kind in found.refuses)
    yield from (
        "",
        f"Errors: {kinds} for what breaks these declarations{'; beside these' if found.complaints else '.'}",
    )
    if found.complaints:
        yield from ("", *(f"- {_code(one.error)} {_code(one.message)}" for one in found.complaints))


# -- examples ----------------------------------------------------------------------------------------------------------


def _example(found: Description) -> Iterator[str]:
    """Yield what an example gave; what works on files or blobs, or ends the process, has its uses in tests alone."""
    if found.example:
        yield from ("", "```python", *run_example(found.example), "```")
    else:
        *field, family = found.family.split(".")
        test = "/".join(["tests", "ops", *field, f"test_{family}.py"])
        yield from ("", f"Uses: [{test}]({'../' * (len(field) + 2)}{test}).")


def run_example(example: str) -> Iterator[str]:
    """Run an example, and yield its lines with what each of them gave.

    >>> list(run_example(">>> 1 + 1"))
    ['>>> 1 + 1', '2']
    """
    names: dict[str, Any] = {"run": run_op, "np": np, "net": parse_net}
    for step in doctest.DocTestParser().get_examples(example):
        first, *more = step.source.rstrip("\n").split("\n")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(step.source, "<example>", "single"), names)
        yield from (f">>> {first}", *(f"... {line}" for line in more), *printed.getvalue().splitlines())


if __name__ == "__main__":
    main()
