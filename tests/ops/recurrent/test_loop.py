"""Steps joined to native calls in a row: numbers stay what they are, whatever changes between runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tazza.errors import DeadlineError, TazzaError
from tazza.models import Model
from tazza.models.recurrent import lstm
from tazza.nets import NetBase
from tazza.operator import Observer, Operator, operator_def
from tazza.ops.recurrent import recurrent_network
from tazza.ops.recurrent.loop import Loop
from tazza.proto import NetDef
from tazza.workspace import Workspace
from tests.ops.recurrent.cells import FED, SUM, cell, values
from tests.ops.recurrent.recorded import workspace_with

D, H, T, N = 3, 2, 5, 4


def made(forward_only: bool, T: int = T) -> tuple[Workspace, NetBase]:
    """Return a workspace with an LSTM, with gradients of a loss or without."""
    model = Model("looped")
    h = lstm(model, "x", "L", D, H, lengths="lengths", forward_only=forward_only)[0]
    model.net.add("SumElements", model.net.add("Mul", [h, "weights"], ["weighed"]), ["loss"])
    if not forward_only:
        model.add_gradients(["loss"])
    home = Workspace()
    home.run_net_once(model.init_net.proto)
    for place, name in enumerate(sorted(model.parameters)):
        home.feed(name, values(*home.fetch(name).shape, seed=place))
    home.feed("x", values(T, N, D))
    home.feed("weights", values(T, N, H))
    home.feed("lengths", np.array([5, 0, 2, 4], np.int32))
    return home, home.create_net(model.net.proto)


def loops(net: NetBase) -> list[Loop]:
    """Return the loops that recurrent operators have."""
    owned: list[Any] = [op.owned for op in net.operators if op.op.type.startswith("RecurrentNetwork")]
    return [steps._loop[1] for steps in owned if steps._loop is not None]


@pytest.mark.parametrize("forward_only", [False, True])
def test_steps_are_joined(forward_only: bool) -> None:
    _, net = made(forward_only)
    for _ in range(3):
        net.run()
    first = loops(net)
    assert len(first) == (1 if forward_only else 2)
    net.run()
    assert [id(loop) for loop in loops(net)] == [id(loop) for loop in first]


def written_in_place(home: Workspace) -> None:
    """Change weights where they lie."""
    home.blob("L/gates_t_w").tensor().array[...] *= np.float32(-0.5)
    home.blob("L/gates_t_w").tensor().mark_written()


class Seen(Observer[Operator]):
    """Counts the runs of operators."""

    count = 0

    def start(self) -> None:
        """Count one."""
        Seen.count += 1


CHANGES: dict[str, Callable[[Workspace], object]] = {
    "nothing": lambda home: None,
    "the sequences": lambda home: home.feed("x", values(T, N, D, seed=9)),
    "weights": lambda home: home.feed("L/gates_t_w", values(4 * H, H, seed=9)),
    "weights, in place": written_in_place,
    "initial states": lambda home: home.feed("L/initial_hidden_state", values(H, seed=9)),
    "lengths": lambda home: home.feed("lengths", np.array([1, 5, 0, 3], np.int32)),
    "a blob with another tensor": lambda home: (home.blob("x").reset(), home.feed("x", values(T, N, D, seed=8))),
    "fewer steps": lambda home: (home.feed("x", values(2, N, D)), home.feed("weights", values(2, N, H))),
    "states that somebody holds": lambda home: home.blob("L/hidden_state_all").tensor().numpy(),
}


@pytest.mark.parametrize("forward_only", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_between_runs_counts(change: str, forward_only: bool) -> None:
    """Against a net that was made behind the change."""
    wanted = ["L/hidden_state_all", "L/cell_state_last", *([] if forward_only else ["L/i2h_grad", "L/gates_t_w_grad"])]
    home, net = made(forward_only)
    for _ in range(4):
        net.run()
    CHANGES[change](home)
    other, fresh = made(forward_only)
    for name in ("x", "weights", "lengths", "L/gates_t_w", "L/initial_hidden_state"):
        other.feed(name, home.fetch(name))
    fresh.run()
    for _ in range(4):
        net.run()
        for name in wanted:
            np.testing.assert_allclose(home.fetch(name), other.fetch(name), rtol=1e-6, atol=1e-7, err_msg=name)


def test_who_observes_steps_sees_each_of_them() -> None:
    _, net = made(forward_only=True)
    for _ in range(4):
        net.run()
    (op,) = [op for op in net.operators if op.op.type == "RecurrentNetwork"]
    units = [each for within in op.nets for each in within.operators if each.op.type == "LSTMUnit"]
    observers = [(unit, Seen()) for unit in units]
    Seen.count = 0
    for unit, observer in observers:
        unit.attach(observer)  # pyright: ignore[reportArgumentType] -- an operator's observers see that operator
    net.run()
    assert Seen.count == T
    for unit, observer in observers:
        unit.detach(observer)  # pyright: ignore[reportArgumentType] -- as above
    net.run()
    assert Seen.count == T


@pytest.mark.slow
def test_a_run_ends_at_its_deadline_between_calls() -> None:
    _, net = made(forward_only=True, T=200)
    for _ in range(4):
        net.run()
    assert loops(net)
    (op,) = [op for op in net.operators if op.op.type == "RecurrentNetwork"]
    asked = 0

    def check() -> None:
        nonlocal asked
        asked += 1
        if asked == 3:
            raise DeadlineError("over")

    op.check = check
    with pytest.raises(DeadlineError):
        op.run()
    assert asked == 3


def test_steps_that_share_workspaces_are_not_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    """More of them than stay bound."""
    monkeypatch.setattr(recurrent_network, "MOST_BOUND", T - 1)
    home, net = made(forward_only=True)
    other, fresh = made(forward_only=False)
    fresh.run()
    for _ in range(6):
        net.run()
        np.testing.assert_allclose(home.fetch("L/hidden_state_all"), other.fetch("L/hidden_state_all"), rtol=1e-6)
    assert not loops(net)


def test_what_fails_in_a_step_says_which_operator_it_was() -> None:
    home, net = made(forward_only=True)
    for _ in range(4):
        net.run()
    home.feed("L/gates_t_w", values(4 * H, H + 1))
    with pytest.raises(TazzaError, match=r"operator FC\("):
        net.run()


def test_steps_of_host_kernels_are_not_joined() -> None:
    home = workspace_with(FED)
    net = home.create_net(NetDef(name="outer", op=[cell(SUM, operator_def("Print", ["after"], []))]))
    for _ in range(4):
        net.run()
    assert not loops(net)
    np.testing.assert_allclose(home.fetch("last")[0], FED["h0"][0] + FED["x"].sum(0), rtol=1e-5, atol=1e-6)
