"""Which operator failed is told rightly, wherever it stands, however its net runs, and in whichever run."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.errors import TazzaError
from tazza.nets.base import NETS
from tazza.observers.benchmark import benchmark
from tazza.operator import operator_def
from tazza.proto import NetDef, OperatorDef
from tazza.workspace import Workspace

WRONG = 9
"""What is no label and no index."""
FAILING = {
    "SoftmaxWithLoss": (["x{0}", "label"], ["p", "loss"]),
    "LabelCrossEntropy": (["x{0}", "label"], ["loss"]),
    "Gather": (["x{0}", "label"], ["rows"]),
    "OneHot": (["label", "size"], ["hot"]),
    "SparseLengthsSum": (["x{0}", "label", "lengths"], ["rows"]),
}
"""Operators that look at values, with their blobs."""
LENGTH = 4


def ops_of(type: str, place: int) -> list[OperatorDef]:
    """Return operators in a row, of which the one at `place` looks at labels."""
    ops = [operator_def("Sigmoid", [f"x{i}"], [f"x{i + 1}"]) for i in range(LENGTH)]
    inputs, outputs = FAILING[type]
    ops.insert(place, operator_def(type, [name.format(place) for name in inputs], outputs))
    return ops


def workspace_of() -> Workspace:
    ws = Workspace()
    ws.feed("x0", np.random.default_rng(1).random((3, 4), np.float32) + np.float32(0.1))
    ws.feed("lengths", np.array([1, 2], np.int32))
    ws.feed("size", np.array([4], np.int64))
    return ws


def feed(ws: Workspace, type: str, label: int) -> None:
    ws.feed("label", np.array([0, label, 2], np.int64 if type == "OneHot" else np.int32))


@pytest.mark.parametrize("kind", sorted(NETS))
@pytest.mark.parametrize("type", FAILING)
def test_the_failing_operator_is_named(kind: str, type: str) -> None:
    for place in (0, 2, LENGTH):
        ws = workspace_of()
        feed(ws, type, 1)
        ops, outputs = ops_of(type, place), [f"x{LENGTH}", *FAILING[type][1]]
        net = ws.create_net(NetDef(name="rows", type=kind, op=ops, num_workers=2, external_output=outputs))
        for run in range(5):
            feed(ws, type, 1 if run == 1 else WRONG)
            for timeout_s in (None, 60.0):
                if run == 1:
                    net.run(timeout_s=timeout_s)
                    continue
                with pytest.raises(TazzaError) as raised:
                    net.run(timeout_s=timeout_s)
                check_text(raised.value, type)
        with pytest.raises(TazzaError) as raised:
            benchmark(net, warm_up=0, runs=1, each=True)
        check_text(raised.value, type)
        ws.reset()


def check_text(error: TazzaError, type: str) -> None:
    """The one operator that an error names is of that type."""
    named = [line for line in str(error).splitlines() if line.strip().startswith("in operator ")]
    assert len(named) == 1, str(error)
    assert named[0].strip().startswith(f"in operator {type}("), str(error)
