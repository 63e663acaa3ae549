"""Offsets of an arena."""

from hypothesis import given
from hypothesis import strategies as st

from tazza.graph.memory import Span, plan_memory
from tazza.tensor.allocation import ALIGNMENT


def spans(draw: st.DrawFn) -> list[Span]:
    count = draw(st.integers(0, 24))
    numbers = [(draw(st.integers(0, 5000)), draw(st.integers(0, 12)), draw(st.integers(0, 6))) for _ in range(count)]
    return [Span(nbytes, first, first + length) for nbytes, first, length in numbers]


SPANS = st.composite(spans)()


@given(SPANS)
def test_living_spans_never_overlap(found: list[Span]) -> None:
    arena = plan_memory(found)
    for i, one in enumerate(found):
        start = arena.offsets[i]
        assert start % ALIGNMENT == 0
        assert start + one.nbytes <= arena.nbytes
        for j, other in enumerate(found[:i]):
            alive_together = one.first <= other.last and other.first <= one.last
            apart = start + one.nbytes <= arena.offsets[j] or arena.offsets[j] + other.nbytes <= start
            assert apart or not alive_together


@given(SPANS)
def test_an_arena_takes_at_least_what_lives_at_once_and_at_most_everything(found: list[Span]) -> None:
    arena = plan_memory(found)
    at_once = [sum(s.nbytes for s in found if s.first <= step <= s.last) for step in range(20)]
    assert max(at_once) <= arena.nbytes <= arena.unshared_bytes


def test_a_chain_needs_two_places() -> None:
    arena = plan_memory([Span(1000, i, i + 1) for i in range(10)])
    assert arena.nbytes == 2 * 1024
    assert arena.unshared_bytes == 10 * 1024
