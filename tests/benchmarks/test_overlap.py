"""The benchmark of overlapping copies: its stages come in the order that its buffers need."""

from __future__ import annotations

from benchmarks.nets.overlap import BUFFERS, QUICK, Stages
from tazza.observers.timeline import SpanKind


def test_stages_wait_for_their_buffers() -> None:
    stages = Stages(QUICK)
    assert stages.run() > 0
    spans = {span.name: span for span in stages.timeline.spans if span.kind is not SpanKind.WAIT}
    assert len(spans) == 2 * QUICK.stages
    for stage in range(QUICK.stages):
        assert spans[f"copy {stage}"].end_s <= spans[f"product {stage}"].start_s
        if stage + BUFFERS < QUICK.stages:
            assert spans[f"product {stage}"].end_s <= spans[f"copy {stage + BUFFERS}"].start_s
    assert spans["copy 0"].nbytes == stages.block.nbytes >= QUICK.block_bytes_min
    stages.run(copies=False)
    assert len(stages.timeline) == QUICK.stages
