"""Write the tables of `docs/migration.md`: old names beside tazza's own, and what Python 2 programs need.

    python -m tools.write_migration

They come from `tazza.interop.migration`, which `tazza migrate` asks too. What stands around them is written by hand.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tazza.interop.migration.own_names import OWN
from tazza.interop.migration.python2 import BUILTINS, FORMS, METHODS, MODULES
from tazza.interop.migration.remark import NUMPY

PAGE = Path(__file__).resolve().parent.parent / "docs" / "migration.md"
MARKS = "<!-- {} -->", "<!-- end of {} -->"


def names() -> str:
    """Return the table of names."""
    rows = ((f"`{old}`", f"`{own.path}`", own.note) for old, own in OWN.items())
    return _table(("in `caffe2.python`", "in tazza", ""), rows)


def python2() -> str:
    """Return the table of what Python 3 has no more."""
    rows = [(_code(form.what), _code(form.instead)) for form in FORMS]
    rows += [(_code(name), _code(instead)) for name, instead in (MODULES | BUILTINS).items()]
    rows += [(_code(f"d.{name}"), _code(instead)) for name, instead in METHODS.items()]
    return _table(("Python 2", "Python 3"), rows)


def numpy() -> str:
    """Return the table of what NumPy may have no more."""
    return _table(("once", "now"), ((_code(f"np.{name}"), _code(instead)) for name, instead in NUMPY.items()))


TABLES = {"names": names, "python2": python2, "numpy": numpy}


def _code(text: str) -> str:
    quote = "``" if "`" in text else "`"
    blank = " " if "`" in text else ""
    return f"{quote}{blank}{text}{blank}{quote}"


def _table(titles: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [_row(titles), _row("---" for _ in titles), *map(_row, rows)]
    return "\n".join(lines)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |".replace("|  |", "| |")


def text(page: str) -> str:
    """Return a page with its tables as they are now."""
    for name, table in TABLES.items():
        begin, end = (mark.format(name) for mark in MARKS)
        before, found, rest = page.partition(begin)
        _, closed, behind = rest.partition(end)
        assert found, f"the page has no place for the table of {name}"
        assert closed, f"the table of {name} has no end"
        page = f"{before}{begin}\n{table()}\n{end}{behind}"
    return page


if __name__ == "__main__":
    PAGE.write_text(text(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
