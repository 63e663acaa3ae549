"""What is told of old programs: every name of Caffe2 in them, whether it is there, and what has to be changed first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tazza.data_class import dataclass
from tazza.errors import FormatError
from tazza.interop.migration.old_names import (
    Found,
    State,
    adds_operators,
    has_member,
    is_module,
    is_operator,
    layer_of,
    look_up,
    look_up_operator,
    owner_of,
    public_names,
)
from tazza.interop.migration.own_names import PYTHON, Own, own_name, own_operator
from tazza.interop.migration.python2 import Remark
from tazza.interop.migration.source import Script, read_script
from tazza.interop.migration.uses import Kind, Use, Uses, uses_of
from tazza.proto import NetDef

ALWAYS = (f"{PYTHON}core", f"{PYTHON}model_helper")
"""Modules whose objects every program has, imported or not."""


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a program."""

    path: Path
    line: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True, slots=True)
class Name:
    """A name of Caffe2 that programs use."""

    name: str
    """A path without `caffe2.python.`, or the type of an operator."""
    kind: Kind
    found: Found
    own: Own | None
    places: tuple[Place, ...]

    @property
    def is_there(self) -> bool:
        """Whether it works."""
        return self.found.state is State.THERE


@dataclass(frozen=True, slots=True)
class Read:
    """A file: as a program, or with what is wrong with it."""

    path: Path
    program: Script | None
    problem: str = ""

    @property
    def language(self) -> str:
        """What it is written in."""
        if self.program is None:
            return "unreadable"
        return "Python 2" if self.program.is_python2 else "Python 3"

    @property
    def remarks(self) -> Sequence[Remark]:
        """What has to be changed in it, beside the names of Caffe2."""
        return () if self.program is None else self.program.remarks


@dataclass(frozen=True, slots=True)
class Report:
    """What was found in some programs."""

    files: tuple[Read, ...]
    names: tuple[Name, ...]

    @property
    def all_there(self) -> bool:
        """Whether every file was read, and every name of Caffe2 in it works."""
        return all(file.program is not None for file in self.files) and all(name.is_there for name in self.names)

    def to_json(self) -> dict[str, Any]:
        """Return it as values that JSON has."""
        return {
            "all_there": self.all_there,
            "programs": [
                {
                    "path": str(file.path),
                    "language": file.language,
                    "problem": file.problem,
                    "changes": [asdict(remark) for remark in file.remarks],
                }
                for file in self.files
            ],
            "names": [
                {
                    "name": one.name,
                    "kind": one.kind.value,
                    "state": one.found.state.value,
                    "reason": one.found.reason,
                    "own": None if one.own is None else one.own.path,
                    "note": "" if one.own is None else one.own.note,
                    "places": [{"path": str(place.path), "line": place.line} for place in one.places],
                }
                for one in self.names
            ],
        }


def report_on(paths: Iterable[Path]) -> Report:
    """Read programs and look their names up.

    Raises:
        FileError: one of them cannot be opened.
        UnavailableError: nothing of the old names can be imported.
    """
    files = [_read(path) for path in paths]
    used = {file.path: uses_of(file.program.nodes) for file in files if file.program is not None}
    own = frozenset(name for uses in used.values() for name in uses.own)
    places: dict[tuple[Kind, str], list[Place]] = defaultdict(list)
    for path, uses in used.items():
        for kind, name, line in _certain(uses, own):
            places[kind, name].append(Place(path, line))
    names = [_name(kind, name, tuple(at)) for (kind, name), at in places.items()]
    return Report(tuple(files), tuple(sorted(names, key=_order)))


def _read(path: Path) -> Read:
    try:
        return Read(path, read_script(path))
    except FormatError as error:
        return Read(path, None, error.message)


def _order(name: Name) -> tuple[bool, bool, str]:
    """Return the place of a name: what is not there stands first, operators behind other names."""
    return name.is_there, name.kind is Kind.OPERATOR, name.name.lower()


def _name(kind: Kind, name: str, places: tuple[Place, ...]) -> Name:
    if kind is Kind.OPERATOR:
        return Name(name, kind, look_up_operator(name), own_operator(name), places)
    return Name(name.removeprefix(PYTHON), kind, look_up(name), own_name(name), places)


def _certain(uses: Uses, own: frozenset[str]) -> Iterator[tuple[Kind, str, int]]:
    """Yield what is of Caffe2, by kind, name and line: what was called on unknown objects as far as it has that.

    Modules that are there are left out: their names tell more. What is not there and is a name of `own`, functions and
    classes of the programs themselves, is none of Caffe2's.
    """
    modules = tuple(dict.fromkeys([*ALWAYS, *_modules(uses)]))
    caffe2 = any(use.kind in (Kind.MODULE, Kind.NAME) for use in uses.found)
    for use in uses.found if caffe2 else ():
        if use.kind is Kind.METHOD:
            yield from _of_method(use, modules, own)
        elif use.kind is Kind.BARE:
            owner = next((module for module in uses.stars if use.name in public_names(module)), None)
            if owner is not None:
                yield Kind.NAME, f"{owner}.{use.name}", use.line
        elif use.kind is Kind.OPERATOR:
            if use.sure or is_operator(use.name):
                yield use.kind, use.name, use.line
        elif not is_module(use.name) and not use.name.endswith("__"):
            if use.sure or look_up(use.name).state is not State.ABSENT:
                yield Kind.NAME, use.name, use.line


def _of_method(use: Use, modules: tuple[str, ...], own: frozenset[str]) -> Iterator[tuple[Kind, str, int]]:
    """Yield what a method is: of the classes that the object is known to be of, else of any class that has it."""
    holders = [owner for owner in use.owners if adds_operators(owner)]
    of_holder = next((f"{owner}.{use.name}" for owner in holders if has_member(owner, use.name)), None)
    elsewhere = owner_of(use.name, modules)
    if is_operator(use.name):
        yield Kind.OPERATOR, use.name, use.line
    elif of_holder is not None:
        yield Kind.NAME, of_holder, use.line
    elif (path := layer_of(use.name, modules)) is not None:
        yield Kind.NAME, path, use.line
    elif elsewhere is not None:
        yield Kind.NAME, f"{holders[0]}.{use.name}" if holders else elsewhere, use.line
    elif use.name not in own and (holders or (use.sure and not hasattr(NetDef, use.name))):
        yield Kind.OPERATOR, use.name, use.line


def _modules(uses: Uses) -> Iterator[str]:
    """Yield what may be modules that a program imports: `a.b.c` and each begin of it."""
    for use in uses.found:
        if use.kind in (Kind.MODULE, Kind.NAME) and use.name.startswith(PYTHON):
            parts = use.name.split(".")
            yield from (".".join(parts[:count]) for count in range(3, len(parts) + 1))
