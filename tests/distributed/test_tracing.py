"""One trace for all ranks: communication beside compute."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tazza.distributed.tracing import LANE, trace_ranks
from tazza.nets import create_net
from tazza.operator import operator_def
from tazza.ops.distributed.communicator import CommonWorld
from tazza.proto import NetDef
from tazza.workspace import Workspace
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
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    named = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert named == {"rank 0", "rank 1"}
    for process in (1, 2):
        kinds = [event["cat"] for event in events if event["ph"] == "X" and event["pid"] == process]
        assert kinds.count("copy") == 3
        assert kinds.count("compute") >= 9
        assert all(event["ts"] >= 0 for event in events if event["ph"] == "X")
