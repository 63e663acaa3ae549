"""`tazza migrate`: what old programs use of Caffe2, what of it is there, and what it is called in tazza."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rich.console import Console

from tazza.cli.console import make_console, print_text
from tazza.cli.table import Column, Row, print_table
from tazza.interop.migration.python2 import Remark
from tazza.interop.migration.report import Name, Place, Report, report_on
from tazza.interop.migration.source import find_scripts

NOT_ALL = 1
"""Exit status where a name is not there, or a file is no program."""
NAMES = (
    Column("name"),
    Column("uses", number=True),
    Column(""),
    Column("in tazza", below=True),
    Column("first at", below=True),
)
CHANGES = (Column("to change"), Column("to"), Column("lines", number=True), Column("first at", below=True))
MISSING = "red"
"""Style of names that are not there."""
PLACES = 3
"""Places that a table names of a name; JSON has all."""


def migrate(paths: Sequence[Path], *, as_json: bool) -> int:
    """Print what programs use, and return the exit status: 0 where all of it is there.

    Nothing of a program is executed.

    Raises:
        FileError: a path leads to nothing, or to a folder without programs.
        UnavailableError: the old names are not installed.
    """
    report = report_on(find_scripts(paths))
    if as_json:
        print(json.dumps(report.to_json(), indent=1))
    else:
        _show(make_console(), report)
    return 0 if report.all_there else NOT_ALL


def _show(console: Console, report: Report) -> None:
    if report.names:
        print_table(console, NAMES, _rows(report.names))
    changes = _changes(report)
    if changes:
        print_table(console, CHANGES, _rows_of_changes(changes))
    for file in report.files:
        if file.problem:
            print_text(console, file.problem)
    print_text(console, _summary(report))


def _rows(names: Iterable[Name]) -> Iterator[Row]:
    for one in names:
        told = one.found.state.value if one.is_there else f"{one.found.state.value}: {one.found.reason}"
        cells = (one.name, str(len(one.places)), told, _own(one), str(one.places[0]))
        yield Row(cells, "" if one.is_there else MISSING)


def _own(name: Name) -> str:
    if name.own is None:
        return ""
    return f"{name.own.path} ({name.own.note})" if name.own.note else name.own.path


def _changes(report: Report) -> dict[tuple[str, str], list[Place]]:
    """Return the places of each change that programs need."""
    found: dict[tuple[str, str], list[Place]] = defaultdict(list)
    for file in report.files:
        for remark in sorted(file.remarks, key=_kind):
            found[remark.what, remark.instead].append(Place(file.path, remark.line))
    return found


def _kind(remark: Remark) -> tuple[bool, str, int]:
    return not remark.python2, remark.what, remark.line


def _rows_of_changes(changes: dict[tuple[str, str], list[Place]]) -> Iterator[Row]:
    for (what, instead), places in changes.items():
        yield Row((what, instead, str(len(places)), ", ".join(map(str, places[:PLACES]))))


def _summary(report: Report) -> str:
    old = sum(file.language == "Python 2" for file in report.files)
    missing = sum(not name.is_there for name in report.names)
    files, names = len(report.files), len(report.names)
    named = f"{names} name{'' if names == 1 else 's'} of Caffe2, {missing} of them not there"
    lines = [f"{files} program{'' if files == 1 else 's'}, {named if names else 'no names of Caffe2'}"]
    if old:
        lines.append(f"{old} of the programs {'is' if old == 1 else 'are'} of Python 2: 2to3 first")
    return "\n".join(lines)
