"""What a net says of itself: nets within an operator are listed under it, by every type and by `tazza show`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tazza.nets import NETS
from tazza.nets.explanation import INDENT
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
