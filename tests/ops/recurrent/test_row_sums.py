"""Sums over the rows of all steps: what is taken out of a step and what is not; gradients are equal either way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.models import Model
from tazza.models.recurrent import lstm
from tazza.nets import NetBase
from tazza.operator import SCHEMAS, find_schema, operator_def
from tazza.operator.declared import RowSums
from tazza.ops.recurrent.recurrence import Link, Parameter
from tazza.ops.recurrent.row_sums import Apart, taken_apart
from tazza.proto import NetDef, OperatorDef
from tazza.workspace import Workspace
from tests.ops.recurrent.cells import values
from tests.recorded_nets import Blobs

D, H = 3, 2
DIVIDED = sorted(type for type in SCHEMAS if find_schema(type).row_sums is not None)
LINKS = (Link("x", "states", 0), Link("dy", "dX", 0))
WEIGHTS = (Parameter("w", "w_grad", "w_step"), Parameter("b", "b_grad", "b_step"))
PRODUCT = operator_def("FCGradient", ["x", "w", "dy"], ["w_step", "b_step", "dx"], axis=2)


def apart(*ops: OperatorDef, links: tuple[Link, ...] = LINKS, parameters: tuple[Parameter, ...] = WEIGHTS) -> Apart:
    """Return a backward step of these operators in parts."""
    return taken_apart(NetDef(name="step", op=ops), links, parameters, ["states"], ["dX"])


def types(net: NetDef) -> list[str]:
    """Return the types of operators."""
    return [op.type for op in net.op]


def test_a_product_is_taken_out() -> None:
    found = apart(operator_def("Tanh", ["x"], ["dy"]), PRODUCT)
    assert types(found.step) == ["Tanh", "FC"]
    (last,) = found.last.op
    assert (last.type, list(last.output)) == ("FCGradient", ["w_grad", "b_grad"])
    assert found.made == {"w", "b"}
    assert found.rows == LINKS
    assert found.over(7)[0] == Link("x", "states", 0, 7)


STAYS: dict[str, Apart] = {
    "rows that no state holds": apart(PRODUCT, links=(Link("x", "other", 0), LINKS[1])),
    "rows that are not linked": apart(PRODUCT, links=LINKS[:1]),
    "rows linked twice": apart(PRODUCT, links=(*LINKS, Link("dy", "dX", 1))),
    "windows of rows": apart(PRODUCT, links=(Link("x", "states", 0, 2), LINKS[1])),
    "rows that change behind it": apart(PRODUCT, operator_def("Tanh", ["dy"], ["dy"])),
    "weights that change": apart(PRODUCT, operator_def("Tanh", ["w"], ["w"])),
    "weights of a step": apart(PRODUCT, links=(*LINKS, Link("w", "states", 0))),
    "a sum that is read": apart(PRODUCT, operator_def("Tanh", ["w_step"], ["q"])),
    "a sum with two parts": apart(PRODUCT, operator_def("Sum", ["w", "w"], ["w_step"])),
    "no gradient of a parameter": apart(PRODUCT, parameters=WEIGHTS[:1]),
    "rows cut elsewhere": apart(operator_def("FCGradient", ["x", "w", "dy"], ["w_step", "b_step", "dx"], axis=1)),
}


@pytest.mark.parametrize("case", STAYS)
def test_what_rests_on_a_step_stays_in_it(case: str) -> None:
    found = STAYS[case]
    assert "FCGradient" in types(found.step)
    assert not found.made
    assert not found.first.op
    assert not found.last.op


def test_without_the_other_outputs_nothing_is_left_of_it() -> None:
    found = apart(operator_def("FCGradient", ["x", "w", "dy"], ["w_step", "b_step"], axis=2))
    assert not found.step.op
    assert not found.first.op
    assert types(found.last) == ["FCGradient"]


@pytest.mark.parametrize("type", DIVIDED)
def test_the_parts_make_the_whole(type: str) -> None:
    """Sums over parts of rows are those over all rows, and the rest of each part is that of its rows."""
    rule = find_schema(type).row_sums
    assert isinstance(rule, RowSums)
    T, N, K, M = 3, 2, 5, 4
    W = values(M, K) if type == "FCGradient" else values(K, M)
    fed: Blobs = {"X": values(T, N, K), "W": W, "dY": values(T, N, M)}
    op = operator_def(type, ["X", "W", "dY"], ["dW", "db", "dX"], axis=2)
    whole = Workspace()
    for name, value in fed.items():
        whole.feed(name, value)
    whole.run_operator(op)
    rest = rule.rest(find_schema(type).view(op), 3)
    assert rest is not None
    once, each = rest
    for t in range(T):
        part = Workspace()
        for name, value in fed.items():
            part.feed(name, value if name == "W" else value[t : t + 1])
        part.run_net_once(NetDef(name="part", op=[*once, *each]))
        np.testing.assert_allclose(part.fetch("dX"), whole.fetch("dX")[t : t + 1], rtol=1e-5, atol=1e-6)
    for name in rule.sums:
        parts = [alone(type, {**fed, "X": fed["X"][t : t + 1], "dY": fed["dY"][t : t + 1]}, name) for t in range(T)]
        np.testing.assert_allclose(sum(parts), whole.fetch(name), rtol=1e-5, atol=1e-5, err_msg=name)


def alone(type: str, fed: Blobs, name: str) -> Any:
    """Return one output of an operator that makes the sums alone."""
    home = Workspace()
    for blob, value in fed.items():
        home.feed(blob, value)
    home.run_operator(operator_def(type, ["X", "W", "dY"], ["dW", "db"], axis=2))
    return home.fetch(name)


def trained(lengths: bool) -> tuple[Workspace, NetBase]:
    """Return a workspace with an LSTM and its gradients, made and fed but for the sequences."""
    model = Model("trained")
    h = lstm(model, "x", "L", D, H, lengths="lengths" if lengths else None)[0]
    model.net.add("SumElements", model.net.add("Mul", [h, "weights"], ["weighed"]), ["loss"])
    model.add_gradients(["loss"])
    home = Workspace()
    home.run_net_once(model.init_net.proto)
    for place, name in enumerate(sorted(model.parameters)):
        home.feed(name, values(*home.fetch(name).shape, seed=place))
    home.feed("x", values(1, 1, D))
    home.feed("weights", values(1, 1, H))
    home.feed("lengths", np.ones(1, np.int32))
    return home, home.create_net(model.net.proto)


GRADIENTS = [f"L/{name}_grad" for name in ("gates_t_w", "gates_t_b", "i2h_w", "i2h_b", "initial_hidden_state")]


@pytest.mark.slow
@pytest.mark.parametrize("lengths", [False, True])
def test_gradients_are_those_of_steps_that_add_up(lengths: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """From run to run other numbers of steps and sequences, none too, and other weights."""
    found, net = trained(lengths)
    with monkeypatch.context() as patch:
        patch.setattr(find_schema("FCGradient"), "row_sums", None)
        wanted, plain = trained(lengths)
        for turn, (T, N) in enumerate(((4, 3), (4, 3), (4, 3), (6, 3), (0, 2), (2, 5), (2, 5), (2, 5))):
            for home, made in ((found, net), (wanted, plain)):
                home.feed("x", values(T, N, D, seed=turn))
                home.feed("weights", values(T, N, H, seed=turn))
                home.feed("lengths", (np.arange(N) % (T + 1)).astype(np.int32))
                home.feed("L/gates_t_w", values(4 * H, H, seed=turn))
                made.run()
            for blob in GRADIENTS:
                np.testing.assert_allclose(found.fetch(blob), wanted.fetch(blob), rtol=1e-4, atol=1e-5, err_msg=blob)
    assert (products(net), products(plain)) == (1, 6)


def products(net: NetBase) -> int:
    """Return how many operators within the gradient of the recurrent net make gradients of weights."""
    (op,) = [op for op in net.operators if op.op.type == "RecurrentNetworkGradient"]
    return sum(each.op.type == "FCGradient" for within in op.nets for each in within.operators)
