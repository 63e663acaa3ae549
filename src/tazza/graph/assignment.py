"""Live ranges divided among berths, one after the other: `graph.live_range` in, lists of them out.

Ranges come in the order in which they end. Each goes behind the last of a berth that has ended when it begins, or to a
berth of its own; a berth is as large as the largest in it. `nearest` takes the berth whose size is next to its own.
`best` keeps several ways open at each step, those that have cost least, and never ends with more than `nearest`.

The least that ranges can cost is hard to find, once their sizes differ (NP-hard: Pemmaraju, Raman, Varadarajan, "Buffer
minimization using max-coloring", 2004): `best` does not promise it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from tazza.errors import ArgumentError
from tazza.graph.live_range import LiveRange

NamedRange: TypeAlias = tuple[str, LiveRange]
Assignment: TypeAlias = list[NamedRange]
"""Who has one berth, in turn."""

WAYS = 4096
"""Ways that `best` keeps open, times ranges: what it may cost."""


def fits_behind(candidate: LiveRange, assignment: Sequence[NamedRange]) -> bool:
    """Whether a range may follow the last of a berth.

    >>> fits_behind(LiveRange(3, 4, 1), [("a", LiveRange(1, 2, 1))])
    True

    Raises:
        ArgumentError: nobody is there.
    """
    if not assignment:
        raise ArgumentError("nobody has the berth, so nobody can follow")
    return assignment[-1][1].is_before(candidate)


def largest(assignment: Iterable[NamedRange]) -> int:
    """Return the size of a berth.

    >>> largest([("a", LiveRange(0, 1, 7)), ("b", LiveRange(2, 3, 9))])
    9
    """
    return max((_size(life) for _, life in assignment), default=0)


def memory_used(assignments: Iterable[Iterable[NamedRange]]) -> int:
    """Return the size of all berths.

    >>> memory_used([[("a", LiveRange(0, 1, 7)), ("b", LiveRange(2, 3, 9))], [("c", LiveRange(0, 1, 1))]])
    10
    """
    return sum(map(largest, assignments))


def completed(ranges: Iterable[NamedRange], end: int | None = None) -> Assignment:
    """Return ranges without gaps: what nobody writes is there at -1, what nobody reads lives to `end`, of size 1.

    `end` is one behind the last use of all where it is missing.

    >>> completed([("x", LiveRange(None, 0, 8)), ("y", LiveRange(0, None, None))])
    [('x', LiveRange(defined=-1, used=0, size=8)), ('y', LiveRange(defined=0, used=1, size=1))]

    Raises:
        ArgumentError: nothing is used, and no end is given.
    """
    listed = list(ranges)
    used = [life.used for _, life in listed if life.used is not None]
    if end is None and listed and not used:
        raise ArgumentError("none of the blobs is read by anybody", hint="say where ranges end")
    last = max(used, default=-1) + 1 if end is None else end
    return [
        (
            name,
            LiveRange(
                -1 if life.defined is None else life.defined, last if life.used is None else life.used, _size(life)
            ),
        )
        for name, life in listed
    ]


def nearest(ranges: Iterable[NamedRange], before: Iterable[Assignment] = ()) -> list[Assignment]:
    """Return berths for ranges, each in the one whose size is nearest to its own; `before`: berths that are there.

    >>> ranges = [("a", LiveRange(0, 1, 9)), ("b", LiveRange(0, 2, 3)), ("c", LiveRange(5, 6, 4))]
    >>> [[name for name, _ in berth] for berth in nearest(ranges)]
    [['a'], ['b', 'c']]
    """
    berths = [list(berth) for berth in before]
    for name, life in ranges:
        able = [berth for berth in berths if fits_behind(life, berth)]
        if able:
            size = _size(life)
            min(able, key=lambda berth: abs(largest(berth) - size)).append((name, life))
        else:
            berths.append([(name, life)])
    return berths


def divided(
    ranges: Iterable[NamedRange],
    alone: Collection[str] = (),
    way: Callable[[Iterable[NamedRange]], list[Assignment]] = nearest,
) -> list[Assignment]:
    """Return berths for ranges in any order, gaps among them: by `way`, and then one for each that is to be alone.

    >>> ranges = [("c", LiveRange(2, None, 8)), ("a", LiveRange(0, 1, 8)), ("x", LiveRange(None, 0, 8))]
    >>> [[name for name, _ in berth] for berth in divided(ranges, alone=["x"])]
    [['a', 'c'], ['x']]

    Raises:
        ArgumentError: none of them is ever read.
    """
    listed = sorted(completed(ranges), key=lambda one: _end(one[1]))
    return way([one for one in listed if one[0] not in alone]) + [[one] for one in listed if one[0] in alone]


class _Open(NamedTuple):
    """A berth as far as later ranges can tell: how large it is, and who is the last there, by number."""

    size: int
    last: int


class _Way(NamedTuple):
    """Where the ranges so far went: what it costs, the berths in order of size, and the step before with its berth."""

    cost: int
    berths: tuple[_Open, ...]
    back: tuple[_Way, int | None] | None


def best(ranges: Iterable[NamedRange], before: Iterable[Assignment] = ()) -> list[Assignment]:
    """Return berths for ranges that cost as little as was found.

    >>> ranges = [("a", LiveRange(0, 1, 9)), ("b", LiveRange(0, 2, 3)), ("c", LiveRange(5, 6, 4))]
    >>> ranges += [("d", LiveRange(5, 7, 9))]
    >>> [[name for name, _ in berth] for berth in best(ranges)]
    [['a', 'd'], ['b', 'c']]
    """
    there = [list(berth) for berth in before]
    listed = list(ranges)
    simple = nearest(listed, there)
    lives = [berth[-1][1] for berth in there] + [life for _, life in listed]
    start = tuple(sorted(_Open(largest(berth), i) for i, berth in enumerate(there)))
    ways = [_Way(sum(berth.size for berth in start), start, None)]
    width = max(4, WAYS // max(1, len(listed)))
    for number in range(len(there), len(lives)):
        ways = _pruned((step for way in ways for step in _steps(way, number, lives)), lives, width)
    least = min(ways, key=lambda way: (way.cost, len(way.berths)))
    return simple if memory_used(simple) <= least.cost else _berths(least, there, listed)


def _steps(way: _Way, number: int, lives: Sequence[LiveRange]) -> list[_Way]:
    """Return the ways to go on: behind the last of each berth, or to a new one."""
    size = _size(lives[number])
    made = [_Way(way.cost + size, tuple(sorted((*way.berths, _Open(size, number)))), (way, None))]
    for i, berth in enumerate(way.berths):
        if lives[berth.last].is_before(lives[number]):
            grown = _Open(max(berth.size, size), number)
            berths = tuple(sorted((*way.berths[:i], grown, *way.berths[i + 1 :])))
            made.append(_Way(way.cost + grown.size - berth.size, berths, (way, berth.last)))
    return made


def _pruned(ways: Iterable[_Way], lives: Sequence[LiveRange], width: int) -> list[_Way]:
    """Return the cheapest ways, one of each kind: those whose berths have the same sizes and ends are of one."""
    kinds: dict[tuple[tuple[int, int | None], ...], _Way] = {}
    for way in ways:
        kind = tuple(sorted((berth.size, _end(lives[berth.last])) for berth in way.berths))
        if kind not in kinds or way.cost < kinds[kind].cost:
            kinds[kind] = way
    return sorted(kinds.values(), key=lambda way: (way.cost, len(way.berths)))[:width]


def _end(life: LiveRange) -> int:
    return -1 if life.used is None else life.used


def _berths(way: _Way, there: list[Assignment], listed: Sequence[NamedRange]) -> list[Assignment]:
    """Return the berths that a way ends with."""
    chosen: list[int | None] = []
    while way.back is not None:
        way, followed = way.back
        chosen.append(followed)
    place_of: dict[int, Assignment] = dict(enumerate(there))
    for number, (life, followed) in enumerate(zip(listed, reversed(chosen), strict=True), start=len(there)):
        if followed is None:
            there.append([])
        place_of[number] = there[-1] if followed is None else place_of[followed]
        place_of[number].append(life)
    return there


def overlap(assignments: Iterable[Sequence[NamedRange]]) -> tuple[str, str] | None:
    """Return two who have one berth at the same time, if there are any.

    >>> overlap([[("a", LiveRange(0, 2, 1)), ("b", LiveRange(1, 3, 1))]])
    ('a', 'b')
    """
    for assignment in assignments:
        for (name, life), (other, behind) in pairwise(assignment):
            if not life.is_before(behind):
                return name, other
    return None


def statistics(assignments: Iterable[Sequence[str]], sizes: Mapping[str, int]) -> tuple[int, int]:
    """Return what blobs take, each by itself and in turns, by name; `sizes` in bytes.

    >>> statistics([["a", "b"], ["c"]], {"a": 4, "b": 8, "c": 1})
    (13, 9)
    """
    each = [[sizes[name] for name in names] for names in assignments]
    return sum(map(sum, each)), sum(max(one, default=0) for one in each)


def _size(life: LiveRange) -> int:
    return 1 if life.size is None else life.size
