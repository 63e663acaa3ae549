"""Modules that a program loads as it starts: those that its user names, and those of installed packages.

    tazza --module ./mine.py --module other_package ops Mine

Three places name them: the option `--module` of the command, the flag `modules` (variable `TAZZA_MODULES`), and the
entry points of the group `tazza.modules`. What the option names must load; of the others one that does not is told and
left out, so that no package that is broken takes the command away. No file of a net is ever asked.

Changing state: `BROKEN`, which its own lock guards.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from tazza.data_class import dataclass
from tazza.errors import TazzaError
from tazza.registry import Registry
from tazza.runtime.flags import flag
from tazza.runtime.log import logger
from tazza.runtime.modules import installed_modules, load_module

NAMED = flag(
    "modules",
    "",
    f"extension modules that commands load: names or files, with a comma or {os.pathsep!r} between them",
)
OPTION = "--module"


@dataclass(frozen=True, slots=True)
class Chosen:
    """A module that is to be loaded: its name or file, who named it, and whether nothing goes on without it."""

    name: str
    source: str
    needed: bool = False


@dataclass(frozen=True, slots=True)
class Broken:
    """A module that was named and could not be loaded, and why."""

    name: str
    source: str
    reason: str


BROKEN: Registry[str, Broken] = Registry("module that could not be loaded")


def chosen_modules(named: Sequence[str] = ()) -> list[Chosen]:
    """Return what is to be loaded: `named`, which must be, then what the flag names, then what is installed."""
    words = [word.strip() for word in re.split(f"[,{re.escape(os.pathsep)}]", NAMED.value)]
    source = NAMED.variable if NAMED.source == "environment" else f"flag {NAMED.name}"
    return [
        *(Chosen(name, OPTION, needed=True) for name in named),
        *(Chosen(word, source) for word in words if word),
        *(Chosen(one.module, one.source) for one in installed_modules()),
    ]


def load_chosen(chosen: Sequence[Chosen]) -> list[Broken]:
    """Load modules in their order, and return those that could not be; each of these is logged as a warning.

    One that is loaded already is left as it is.

    Raises:
        TazzaError: one that is needed cannot be loaded; the error says who named it.
    """
    broken: list[Broken] = []
    for one in chosen:
        try:
            load_module(one.name, source=one.source)
        except TazzaError as error:
            if one.needed:
                error.add_context(f"named by {one.source}")
                raise
            broken.append(Broken(one.name, one.source, str(error)))
            BROKEN.setdefault(one.name, broken[-1])
            logger.warning("module %s, named by %s, is left out: %s", one.name, one.source, error)
    return broken


def load_chosen_modules(named: Sequence[str] = ()) -> list[Broken]:
    """Load what `chosen_modules` returns: for programs that want to see what commands see."""
    return load_chosen(chosen_modules(named))
