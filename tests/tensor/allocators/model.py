"""A model of an allocator, and a machine that does random things to both and compares them after each."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tazza.errors import ArgumentError, OutOfMemoryError
from tazza.tensor.allocation import ALIGNMENT, AlignedAllocator, Allocation, Allocator
from tazza.tensor.allocators.arena import ArenaAllocator
from tazza.tensor.allocators.buddy import BuddyAllocator
from tazza.tensor.allocators.caching import CachingAllocator

Make = Callable[[Allocator], Allocator]

MAKERS: dict[str, Make] = {
    "aligned": lambda upstream: AlignedAllocator(),
    "buddy": lambda upstream: BuddyAllocator(upstream, chunk_bytes=4096),
    "arena": lambda upstream: ArenaAllocator(upstream, chunk_bytes=2048),
    "caching": lambda upstream: CachingAllocator(upstream, keep_bytes=3000),
}
"""Each allocator, small enough that a few spans fill it."""

Held = tuple[Allocation | None, npt.NDArray[np.uint8], int]
"""A span, or None where only the view of it is left; the view; the byte that all of it is filled with."""


class AllocatorMachine(RuleBasedStateMachine):
    """What any allocator promises; subclasses name the maker and add what their kind promises."""

    make: Make

    def __init__(self) -> None:
        super().__init__()
        self.upstream = AlignedAllocator()
        self.allocator = type(self).make(self.upstream)
        self.held: list[Held] = []
        self.peak = self.total = 0

    @property
    def in_use(self) -> int:
        """Bytes of all that is held."""
        return sum(view.nbytes for _, view, _ in self.held)

    @initialize(limit=st.sampled_from([None, 9000]))
    def limit(self, limit: int | None) -> None:
        """Start with or without a limit."""
        self.allocator.limit_bytes = limit

    @rule(nbytes=st.one_of(st.integers(0, 300), st.integers(0, 6000)))
    def allocate(self, nbytes: int) -> None:
        """Get a span and fill it, or be refused just where the limit is."""
        limit = self.allocator.limit_bytes
        if limit is not None and self.in_use + nbytes > limit:
            with pytest.raises(OutOfMemoryError, match=f"{self.in_use} in use \\+ {nbytes} asked for > limit of"):
                self.allocator.allocate(nbytes)
            return
        span = self.allocator.allocate(nbytes, f"span {self.total}")
        value = self.total % 251
        span.buffer[:] = value
        self.held.append((span, span.buffer, value))
        self.total += 1
        self.peak = max(self.peak, self.in_use)

    @precondition(lambda self: self.held)
    @rule(i=st.integers(0, 99), how=st.sampled_from(["forget", "close", "deallocate", "keep a view"]))
    def let_go(self, i: int, how: str) -> None:
        """Let a span go in one of the ways there are, or all of it but a view."""
        span, view, value = self.held.pop(i % len(self.held))
        if how == "keep a view":
            self.held.append((None, view[:], value))
        if span is not None and how == "deallocate":
            self.allocator.deallocate(span)
            with pytest.raises(ArgumentError, match="was given back before"):
                self.allocator.deallocate(span)
        elif span is not None and how == "close":
            span.close()

    @rule()
    def trim(self) -> None:
        """Give back what is idle: just that much less is held."""
        before = self.allocator.statistics.reserved_bytes
        given = self.allocator.trim()
        assert self.allocator.statistics.reserved_bytes == before - given

    @rule()
    def reset_peak(self) -> None:
        """Let the peak start anew."""
        self.allocator.reset_peak()
        self.peak = self.in_use

    @invariant()
    def figures_equal_the_model(self) -> None:
        """All statistics are those of the model."""
        figures = self.allocator.statistics
        assert (figures.in_use_bytes, figures.peak_bytes) == (self.in_use, self.peak)
        assert (figures.count, figures.total_count) == (len(self.held), self.total)
        assert figures.reserved_bytes >= figures.in_use_bytes
        largest = sorted((view.nbytes for _, view, _ in self.held), reverse=True)[:3]
        assert [nbytes for _, nbytes in self.allocator.largest_holders(3)] == largest

    @invariant()
    def spans_are_aligned_apart_and_keep_their_content(self) -> None:
        """No two spans overlap, and nobody writes into a span of another."""
        ranges = sorted(_range(view) for _, view, _ in self.held if view.nbytes)
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(ranges))
        assert all(span.address % ALIGNMENT == 0 for span, _, _ in self.held if span is not None)
        assert all((view == value).all() for _, view, value in self.held)

    def teardown(self) -> None:
        """Nothing is left when all spans are gone and idle memory is given back."""
        self.held.clear()
        self.allocator.trim()
        figures = self.allocator.statistics
        assert (figures.in_use_bytes, figures.count, figures.reserved_bytes) == (0, 0, 0)
        assert self.upstream.statistics.in_use_bytes == 0


class PoolMachine(AllocatorMachine):
    """What those promise that cut up the chunks of another."""

    @invariant()
    def it_holds_what_it_got_from_below(self) -> None:
        """What is reserved is what the allocator below handed out."""
        assert self.allocator.statistics.reserved_bytes == self.upstream.statistics.in_use_bytes


def _range(view: npt.NDArray[Any]) -> tuple[int, int]:
    return view.ctypes.data, view.ctypes.data + view.nbytes


def as_test(machine: type[AllocatorMachine]) -> Any:
    """Return the machine as a test case of pytest."""
    machine.TestCase.settings = settings(max_examples=15, stateful_step_count=30, deadline=None)
    return machine.TestCase
