"""What a net says of itself: nets within an operator are listed under it, by every type and by `tazza show`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tazza.models.zoo import CLASSIFIERS
from tazza.nets import NETS
from tazza.nets.explanation import INDENT, Explanation
from tazza.operator import operator_def
from tazza.operator.nested import all_operators
from tazza.proto import NetDef
from tazza.workspace import Workspace
from tests.cli.conftest import Run, run
from tests.ops.recurrent.cells import FED, SUM, cell

__all__ = ["run"]


def nested() -> NetDef:
    """Return a net of two branches, one of which has a branch in turn."""
    deep = NetDef(name="deep", op=[operator_def("Tanh", ["x"], ["y"])])
    then = NetDef(name="then", op=[operator_def("Relu", ["x"], ["t"]), operator_def("If", ["c"], ["y"], then_net=deep)])
    other = NetDef(name="other", op=[operator_def("Sigmoid", ["x"], ["y"])])
    decide = operator_def("If", ["c"], ["y"], then_net=then, else_net=other)
    last = operator_def("Scale", ["y"], ["z"], scale=2.0)
    return NetDef(name="n", op=[decide, last], external_input=["c", "x"], external_output=["y", "z"])


@pytest.mark.parametrize("kind", sorted(NETS))
def test_what_runs_within_an_operator_is_listed_under_it(kind: str) -> None:
    home = Workspace()
    home.feed("c", np.array(True))
    home.feed("x", np.ones(3, np.float32))
    definition = nested()
    definition.type, definition.num_workers = kind, 2
    net = home.create_net(definition)
    net.run()
    found = net.explain()
    assert [row.operator for row in found.rows] == ["If", "Scale"]
    lines = (line for line in str(found).splitlines()[1:] if not line.startswith("arena"))
    listed = [line[: len(line) - len(line.lstrip())] + line.split()[0] for line in lines]
    assert listed[:3] == ["If", f"{INDENT}Relu", f"{INDENT}If"]
    assert f"{2 * INDENT}Tanh" in listed
    assert listed[-1] == "Scale"
    home.delete_net("n")


def test_equal_nets_are_listed_once() -> None:
    """A sequence of T steps has as many nets; they are one to who reads."""
    home = Workspace()
    for name, value in FED.items():
        home.feed(name, value)
    net = home.create_net(NetDef(name="n", op=[cell(SUM)]))
    net.run()
    assert len(net.operators[0].nets) > 1
    (row,) = net.explain().rows
    assert [inner.operator for inner in row.within] == ["Sum"]


def test_show_lists_every_operator_under_the_one_that_has_it(tmp_path: Path, run: Run) -> None:
    definition = nested()
    definition.op[0].arg[0].n.op.add(type="Nobodys", input=["t"], output=["u"])
    (tmp_path / "predict_net.pb").write_bytes(definition.SerializeToString())
    shown = run("show", tmp_path / "predict_net.pb").output
    places = [shown.find(op.type) for op, _ in all_operators(definition)]
    assert -1 not in places
    depths = {
        op: len(line) - len(line.lstrip()) for line in shown.splitlines() for op in ("Tanh", "Sigmoid") if op in line
    }
    assert depths["Tanh"] == depths["Sigmoid"] + len(INDENT)
    assert "nobody declares Nobodys" in shown


def classifier(name: str, kind: str, batch: int) -> Explanation:
    """Return what a classifier of the zoo says of itself behind a run."""
    home, model = Workspace(), CLASSIFIERS[name].inference()
    home.run_net_once(model.init_net.proto)
    home.feed("data", np.ones(CLASSIFIERS[name].input_shape(batch), np.float32))
    model.net.proto.type = kind
    net = home.create_net(model.net.proto)
    net.run()
    return net.explain()


@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("kind", ["plan", "simple"])
@pytest.mark.parametrize("name", ["lenet", "mlp"])
def test_of_the_offers_the_least_price_is_taken(name: str, kind: str, batch: int) -> None:
    """Each engine that was asked is there once, and says what it answered; the one that runs stands last.

    Who makes no estimate comes behind those that do.
    """
    compared = 0
    for row in (row for row in classifier(name, kind, batch).rows if row.operator != "reorder"):
        *others, taken = row.choices
        assert (taken.engine, taken.reason) == (row.engine, None)
        assert len({choice.engine for choice in row.choices}) == len(row.choices)
        for other in others:
            assert other.reason
            if other.estimate_ns is not None:
                assert other.reason.startswith("could, about ")
                compared += 1
                assert taken.estimate_ns is not None, f"{taken} was compared with nothing"
                assert taken.price <= other.price
    assert compared, "no operator had two offers: this test shows nothing"


def test_offers_are_told_under_each_operator() -> None:
    found = classifier("lenet", "plan", 1)
    text = found.offers()
    for row in (row for row in found.rows if row.operator != "reorder"):
        lines = [str(choice) for choice in row.choices]
        assert f"{row.operator} {row.outputs}\n  " + "\n  ".join(lines) in text
        assert lines[-1].startswith(f"{row.engine}: taken")
    assert "could, " in text
    offers = [choice for row in found.rows for choice in row.choices if choice.offered]
    assert all(" us" in str(choice) for choice in offers)


def test_offers_of_what_runs_within_an_operator_are_indented_under_it() -> None:
    home = Workspace()
    home.feed("c", np.array(True))
    home.feed("x", np.ones(3, np.float32))
    net = home.create_net(nested())
    net.run()
    lines = net.explain().offers().splitlines()
    assert f"{INDENT}Relu t" in lines
    assert any(
        line.startswith(f"{2 * INDENT}native: taken") or line.startswith(f"{2 * INDENT}onednn: ") for line in lines
    )
    home.delete_net("n")
