"""What a part of the judge is asked for and what it answers; the parts register themselves.

    @part("chains")
    def judge_chains(request: Request) -> Iterator[Outcome]: ...

A module of this package that has such a function needs no more than that: `make judge` finds it, counts by the option
of that name, and shows what it yields.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias


class Verdict(enum.Enum):
    """What came of one comparison."""

    RIGHT = "right"
    REFUSED = "refused"
    """The engine said that it does not take the problem, and why."""
    UNDECIDED = "undecided"
    """It ran, and nothing can be said: whatever it gave, the numbers that it was given allow it."""
    MISMATCH = "mismatch"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One comparison: of which problem, how it was run, and where it went wrong; `again` draws it again."""

    again: str
    type: str
    engine: str
    net: str
    verdict: Verdict
    text: str = ""
    number: int = 0
    """Which problem of the request it was, for showing progress."""


@dataclass(frozen=True, slots=True)
class Request:
    """How many problems of a part, from which seed on, in which type of computing; `only` one operator type."""

    count: int
    seed: int = 0
    dtype: str = "float32"
    only: str = ""


Part: TypeAlias = Callable[[Request], Iterator[Outcome]]
PARTS: dict[str, Part] = {}
"""Name of an option of `make judge` -> what yields its outcomes, problem by problem."""


def part(name: str) -> Callable[[Part], Part]:
    """Register a part of the judge."""

    def decorate(function: Part) -> Part:
        PARTS[name] = function
        return function

    return decorate
