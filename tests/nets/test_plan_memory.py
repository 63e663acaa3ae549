"""Where a plan keeps its values: in one span of the arena allocator, which returns with the net."""

from __future__ import annotations

import gc

from tazza.tensor import CPUPlace
from tazza.tensor.allocation import allocator_of
from tazza.workspace import Workspace
from tests.nets.plans import convolutions, feed_convolutions, plan


def test_a_plan_takes_one_span_of_the_arena_and_gives_it_back() -> None:
    gc.collect()  # plans of other tests end here, not meanwhile
    arena = allocator_of(CPUPlace(), "arena")
    before = arena.statistics
    ws = Workspace()
    feed_convolutions(ws)
    ws.create_net(plan(convolutions()))
    for _ in range(3):
        ws.run_net("n")
    during = arena.statistics
    assert during.total_count == before.total_count + 1
    assert during.in_use_bytes > before.in_use_bytes
    assert "arena of a plan" in dict(arena.largest_holders(100))
    ws.delete_net("n")
    del ws
    gc.collect()
    assert arena.statistics.in_use_bytes == before.in_use_bytes
