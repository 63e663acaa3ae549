"""One trace for all ranks: communication beside compute."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tazza.distributed.data_parallel import data_parallel
from tazza.distributed.membership import Membership
from tazza.distributed.tracing import LANE, STEPS_BEFORE, STEPS_TRACED, StepsTraced, trace_ranks
from tazza.nets import create_net
from tazza.operator import operator_def
from tazza.ops.distributed.communicator import CommonWorld
from tazza.proto import NetDef
from tazza.workspace import Workspace
from tests.distributed.cases import CASES, train_rank
from tests.ops.distributed.test_collective import join, together


def test_every_rank_is_a_process_with_a_lane_for_what_it_exchanges(tmp_path: Path) -> None:
    def act(rank: int, workspace: Workspace) -> Any:
        join(workspace, rank, 2)
        workspace.feed("x", np.ones((2, 3), np.float32))
        ops = [
            operator_def("BeginAllreduce", ["world", "x"], ["exchange", "world"]),
            operator_def("Relu", ["x"], ["y"]),
            operator_def("EndAllreduce", ["exchange", "x"], ["x"], scale=0.5),
        ]
        net = create_net(NetDef(name=f"traced {rank}", op=ops), workspace)
        world = workspace.blob("world").get(CommonWorld)
        timeline = trace_ranks(net, world, lambda: [net.run() for _ in range(3)], tmp_path / "trace.json")
        net.close()
        return len([span for span in timeline.spans if span.lane == LANE])

    assert together(2, act) == [3, 3]
    check(tmp_path / "trace.json", exchanges=3, computes=9)


@pytest.mark.slow
def test_a_training_traces_some_steps_behind_its_first_ones(tmp_path: Path) -> None:
    def act(rank: int, workspace: Workspace) -> Any:
        listener = StepsTraced(tmp_path / "trace.json")
        membership = Membership(rank, 2, name=str(tmp_path))
        train_rank(CASES["clicks"], membership, steps=STEPS_BEFORE + STEPS_TRACED + 1, listener=listener)

    assert together(2, act) == [None, None]
    exchanged = len(parallel_exchanges())
    check(tmp_path / "trace.json", exchanges=STEPS_TRACED * exchanged, computes=STEPS_TRACED * exchanged)


def parallel_exchanges() -> list[str]:
    """Return the operators that begin an exchange in a step."""
    model = data_parallel(CASES["clicks"].build(), Membership(0, 2))
    return [op.type for op in model.net.proto.op if op.type.startswith("Begin")]


def check(path: Path, *, exchanges: int, computes: int) -> None:
    """Check that two ranks are there, with so many exchanges each, and so many operators at least."""
    events = json.loads(path.read_text())["traceEvents"]
    named = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert named == {"rank 0", "rank 1"}
    for process in (1, 2):
        kinds = [event["cat"] for event in events if event["ph"] == "X" and event["pid"] == process]
        assert kinds.count("copy") == exchanges
        assert kinds.count("compute") >= computes
        assert all(event["ts"] >= 0 for event in events if event["ph"] == "X")
