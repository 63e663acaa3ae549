"""What an LSTM does in a step as one operator: the net before, the net after, and those that stay as they are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tazza.engines.native.panel_product import fused_lstm_unit
from tazza.operator import operator_def
from tazza.operator.engine import why_unavailable
from tazza.ops.recurrent.joined_step import joined
from tazza.ops.recurrent.recurrence import Link
from tazza.proto import NetDef, OperatorDef
from tazza.tensor import DataType, TensorSpec
from tests.ops.recurrent.test_loop import made

pytestmark = pytest.mark.skipif(
    why_unavailable("FusedLSTMUnit", "cpu", fused_lstm_unit.ENGINE) is not None, reason="nothing can be compiled here"
)

LINKS = [Link("h", "hs", 0), Link("h2", "hs", 1), Link("c", "cs", 0), Link("c2", "cs", 1), Link("x", "xs", 0)]


def spec_of(name: str) -> TensorSpec | None:
    """Return the weights; nothing else is known."""
    return TensorSpec((1 << 11, 1 << 9), DataType.FLOAT) if name == "w" else None


def step() -> list[OperatorDef]:
    """Return the operators of a step."""
    return [
        operator_def("FC", ["h", "w", "b"], ["y"], axis=2),
        operator_def("Sum", ["y", "x"], ["y"]),
        operator_def("LSTMUnit", ["h", "c", "y", "lengths", "t"], ["h2", "c2"], forget_bias=0.5),
    ]


def test_a_step_becomes_one_operator() -> None:
    (op,) = joined(NetDef(name="step", op=step()), LINKS, spec_of).op
    assert (op.type, list(op.input)) == ("FusedLSTMUnit", ["h", "w", "b", "x", "h", "c", "lengths", "t"])
    assert (list(op.output), op.arg[0].name, op.arg[0].f) == (["y", "h2", "c2"], "forget_bias", 0.5)


def wider(ops: list[OperatorDef]) -> None:
    """Cut X elsewhere."""
    ops[0].CopyFrom(operator_def("FC", ["h", "w", "b"], ["y"]))


OTHERS: dict[str, Callable[[list[OperatorDef]], object]] = {
    "an engine is asked for": lambda ops: setattr(ops[0], "engine", "onednn"),
    "the sum lies elsewhere": lambda ops: ops[1].output.__setitem__(0, "z"),
    "gates of another": lambda ops: ops[2].input.__setitem__(2, "x"),
    "three parts": lambda ops: ops[1].input.append("x"),
    "another axis": wider,
    "weights that nobody knows": lambda ops: ops[0].input.__setitem__(1, "v"),
}


@pytest.mark.parametrize("change", OTHERS)
def test_other_steps_stay(change: str) -> None:
    ops = step()
    OTHERS[change](ops)
    net = NetDef(name="step", op=ops)
    assert joined(net, LINKS, spec_of) is net


def test_states_on_one_row_stay() -> None:
    """What a step reads would be overwritten before it has been read for the last time."""
    net = NetDef(name="step", op=step())
    assert joined(net, [*LINKS[2:], Link("h", "hs", 0), Link("h2", "hs", 0)], spec_of) is net


@pytest.mark.parametrize("forward_only", [False, True])
def test_a_net_gives_the_same(forward_only: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = ["L/hidden_state_all", "L/cell_state_last", *([] if forward_only else ["L/i2h_grad", "L/gates_t_w_grad"])]
    home, net = made(forward_only)
    monkeypatch.setattr(fused_lstm_unit, "LEAST_WEIGHTS", 0)
    other, one = made(forward_only)
    for _ in range(4):
        net.run()
        one.run()
    (forward,) = [op for op in one.operators if op.op.type == "RecurrentNetwork"]
    assert forward.owned is not None
    assert {each.op.type for within in forward.owned for each in within.operators} == {"FusedLSTMUnit"}
    for name in wanted:
        np.testing.assert_allclose(home.fetch(name), other.fetch(name), rtol=1e-5, atol=1e-6, err_msg=name)
