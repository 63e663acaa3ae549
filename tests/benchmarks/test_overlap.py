"""The benchmark of overlapping copies: its stages come in the order that its buffers need."""

from __future__ import annotations

from itertools import pairwise

from benchmarks.nets.overlap import BUFFERS, QUICK, Stages
from tazza.observers.timeline import SpanKind


def test_stages_wait_for_their_buffers() -> None:
    stages = Stages(QUICK)
    assert stages.run() > 0
    found = sorted(stages.observed().occurrences, key=lambda one: one.step.position)
    copies, products = found[::2], found[1::2]
    assert len(copies) == len(products) == QUICK.stages
    assert {one.kind for one in copies} == {SpanKind.COPY}
    assert {one.kind for one in products} == {SpanKind.COMPUTE}
    for stage in range(QUICK.stages):
        assert copies[stage].end_s <= products[stage].start_s
        if stage + BUFFERS < QUICK.stages:
            assert products[stage].end_s <= copies[stage + BUFFERS].start_s
    for alone in (copies, products):
        assert all(one.end_s <= other.start_s for one, other in pairwise(alone))
    cost = copies[0].cost
    assert cost is not None
    assert cost.bytes_written == stages.block.nbytes >= QUICK.block_bytes_min
    assert stages.run(copies=False) > 0
    assert stages.run(compute=False) > 0
