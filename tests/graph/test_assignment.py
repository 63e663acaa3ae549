"""Places for live ranges: nobody meets anybody; `best` is the best of all where all can be tried."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tazza.errors import ArgumentError
from tazza.graph.assignment import (
    Assignment,
    NamedRange,
    best,
    completed,
    divided,
    fits_behind,
    memory_used,
    nearest,
    overlap,
)
from tazza.graph.live_range import LiveRange


def drawn(draw: st.DrawFn) -> list[NamedRange]:
    made: list[NamedRange] = []
    for i in range(draw(st.integers(1, 7))):
        defined = draw(st.integers(0, 8))
        used = defined + draw(st.integers(0, 3))
        made.append((f"b{i}", LiveRange(defined, used, draw(st.sampled_from([1, 2, 5, 10])))))
    return sorted(made, key=lambda one: one[1].used or 0)


RANGES = st.composite(drawn)()


@given(RANGES)
def test_everybody_has_one_place_and_meets_nobody(ranges: list[NamedRange]) -> None:
    for berths in (nearest(ranges), best(ranges), divided(ranges)):
        assert overlap(berths) is None
        assert sorted(one for berth in berths for one in berth) == sorted(ranges)


def least(ranges: list[NamedRange], berths: list[Assignment], bound: int) -> int:
    """Return what the cheapest of all ways takes, as far as it is below a bound."""
    taken = memory_used(berths)
    if taken >= bound or not ranges:
        return min(taken, bound)
    one, rest = ranges[0], ranges[1:]
    for i, berth in enumerate(berths):
        if fits_behind(one[1], berth):
            bound = least(rest, [*berths[:i], [*berth, one], *berths[i + 1 :]], bound)
    return least(rest, [*berths, [one]], bound)


@given(RANGES)
def test_the_best_is_the_best(ranges: list[NamedRange]) -> None:
    alone = sum(life.size or 0 for _, life in ranges)
    assert memory_used(best(ranges)) == least(ranges, [], alone)


@given(RANGES, RANGES)
def test_places_that_are_there_are_kept(before: list[NamedRange], ranges: list[NamedRange]) -> None:
    there = nearest(before)
    later = [(name, LiveRange(life[0], life[1], life[2])) for name, life in ranges]
    for berths in (nearest(later, there), best(later, there)):
        assert [berth[: len(old)] for berth, old in zip(berths, there, strict=False)] == there
        assert memory_used(there) <= memory_used(berths)
    assert there == nearest(before)


def test_gaps_are_filled() -> None:
    ranges = [("x", LiveRange(None, 3, 1)), ("y", LiveRange(2, None, None))]
    assert completed(ranges) == [("x", LiveRange(-1, 3, 1)), ("y", LiveRange(2, 4, 1))]
    assert completed(ranges, 9)[1] == ("y", LiveRange(2, 9, 1))
    assert completed([]) == []
    with pytest.raises(ArgumentError, match="read by anybody"):
        completed(ranges[1:])


def test_nobody_follows_in_an_empty_place() -> None:
    with pytest.raises(ArgumentError, match="nobody has the berth"):
        fits_behind(LiveRange(0, 1, 1), [])


def test_who_meets_whom_is_told() -> None:
    assert overlap([[("a", LiveRange(0, 2, 1)), ("b", LiveRange(2, 3, 1))]]) == ("a", "b")


def test_many_ranges_end_in_time() -> None:
    ranges = [(f"b{i}", LiveRange(i, i + 7, 1 + i * 37 % 101)) for i in range(400)]
    assert memory_used(best(ranges)) <= memory_used(nearest(ranges))
