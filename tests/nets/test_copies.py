"""Copies in parallel nets: a thread and streams of their own, and what profiles show of them."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from tazza.observers.recorder import Recorder
from tazza.observers.timeline import SpanKind
from tazza.operator import operator_def
from tazza.proto import DeviceOption, NetDef
from tazza.workspace import Workspace
from tests.nets.dags import PARALLEL, assert_same, reference, subject
from tests.nets.simulated import mix, watching

pytestmark = pytest.mark.usefixtures("device")

WAIT_S = 60.0


@pytest.mark.parametrize("type", PARALLEL)
def test_what_computes_runs_beside_a_copy_that_blocks(type: str) -> None:
    """One worker: the copy ends only when the other operator of its device has ended."""
    ops = [mix("in", ["a"], ["b"], device=0, copies=True), mix("work", ["c"], ["d"], device=0)]
    ops += [mix("both", ["b", "d"], ["e"], device=0), mix("out", ["e"], ["f"], device=0, copies=True)]
    made, expected = subject(ops, type, 1), reference(ops)
    worked, seen = threading.Event(), list[bool]()
    with watching() as watch:
        watch.plans.update(work=worked.set, **{"in": lambda: seen.append(worked.wait(WAIT_S))})
        made.net.run_async().wait()
    assert seen == [True]
    expected.net.run()
    assert_same(made.values(), expected.values())
    made.net.close()


@pytest.mark.parametrize("type", PARALLEL)
def test_a_timeline_shows_copies_on_streams_of_their_own(type: str) -> None:
    """Of a net that copies to a device, computes there and copies back, beside an operator of the host."""
    there = DeviceOption(device_type=1, device_id=0)
    ops = [operator_def("CopyCPUToGPU", ["a"], ["b"], device=there), mix("c", ["b"], ["c"], device=0)]
    ops += [
        mix("h", ["a"], ["h"]),
        operator_def("CopyGPUToCPU", ["c"], ["d"], device=there),
        mix("e", ["d", "h"], ["e"]),
    ]
    workspace = Workspace()
    workspace.feed("a", np.arange(15, dtype=np.int64).reshape(3, 5))
    net = workspace.create_net(NetDef(name="copies", type=type, num_workers=2, op=ops))
    with watching(), Recorder(net) as recorder:
        net.run()
    profile = recorder.profile()
    to, compute, host, back, last = sorted(profile.occurrences, key=lambda one: one.step.position)
    assert [one.kind for one in (to, compute, host, back, last)] == [
        SpanKind.COPY, SpanKind.COMPUTE, SpanKind.COMPUTE, SpanKind.COPY, SpanKind.COMPUTE
    ]  # fmt: skip
    assert {lane.lane.split()[1] for lane in (to, back)} == {"high"}
    assert compute.lane.startswith("cuda:0 normal ")
    for before, after in ((to, compute), (compute, back), (back, last), (host, last)):
        assert before.end_s <= after.start_s
    spans = profile.timeline(idle=False).spans
    assert sorted(span.name for span in spans if span.kind is SpanKind.COPY) == ["CopyCPUToGPU b", "CopyGPUToCPU d"]
    assert [row.copied_bytes for row in profile.by_operator() if row.copied_bytes] == [15 * 8] * 2
    net.close()
