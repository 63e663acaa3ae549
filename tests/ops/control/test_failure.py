"""Operators that fail: with an error of their own, in any net."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.errors import RaisedError
from tazza.nets import NETS
from tazza.operator import operator_def
from tazza.proto import NetDef
from tazza.workspace import Workspace
from tests.check import check_op
from tests.sequences import Sequence, Step, on_sequences, recorded

TYPES = ("Fail", "ThrowException", "ThrowChildThreadException", "LogFatal", "Crash")
CASES = [
    recorded("failures"),
    Sequence(
        "each",
        tuple(Step(operator_def(type), fails=RaisedError, text=f"{type}: it failed, as it is") for type in TYPES),
    ),
]


@on_sequences(CASES)
def test_failures(case: Sequence) -> None:
    check_op(case)


@pytest.mark.parametrize("kind", sorted(NETS))
@pytest.mark.parametrize("type", TYPES)
def test_a_net_fails_and_may_run_again(type: str, kind: str) -> None:
    home = Workspace()
    home.feed("x", np.ones(3, np.float32))
    ops = [operator_def("Relu", ["x"], ["y"]), operator_def(type)]
    net = home.create_net(NetDef(name="n", type=kind, num_workers=2, op=ops))
    for _ in range(2):
        with pytest.raises(RaisedError, match="it failed"):
            net.run()
    home.delete_net("n")
