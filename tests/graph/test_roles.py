"""What nets take their inputs for: of whole models the parameters are parameters, and what is fed is data."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.graph.roles import comes_with_data, is_data_alone, made_by_last_layers, roles_of
from tazza.graph.text import parse_net
from tazza.models.zoo import CLASSIFIERS
from tazza.nets.plan.rewrite import constants_of
from tazza.operator import Role, operator_def
from tazza.proto import NetDef
from tazza.workspace import Workspace


@pytest.mark.parametrize("name", sorted(CLASSIFIERS))
def test_parameters_of_models_are_told_from_their_inputs(name: str) -> None:
    model = CLASSIFIERS[name].inference()
    found = roles_of(model.net.proto)
    parameters = {str(blob) for blob in model.parameter_blobs()}
    assert {blob for blob, roles in found.items() if comes_with_data(roles)} == {"data"}
    assert {blob for blob, roles in found.items() if is_data_alone(roles)} == {"data"}
    assert parameters <= found.keys()


def test_a_table_is_constant_and_its_indices_are_data() -> None:
    """Not what stands first: the table of a look-up does, and its indices change with each example."""
    net = NetDef(name="n", op=[operator_def("SparseLengthsSum", ["W", "i", "l"], ["y"])])
    net.op.append(operator_def("FC", ["y", "W2", "b2"], ["z"]))
    ws = Workspace()
    for name in ("W", "i", "l", "W2", "b2"):
        ws.feed(name, np.zeros((2, 2), np.float32))
    assert constants_of(net, ws, ()) == {"W", "W2", "b2"}


def test_a_blob_has_a_role_for_each_reader_until_it_is_written() -> None:
    net = NetDef(
        op=[
            operator_def("MatMul", ["x", "W"], ["y"]),
            operator_def("MatMul", ["W", "x"], ["x"]),
            operator_def("Reshape", ["x", "s"], ["r", "old"]),
        ]
    )
    found = roles_of(net)
    assert found["W"] == {Role.DATA, Role.PARAMETER}
    assert found["x"] == {Role.DATA, Role.PARAMETER}
    assert found["s"] == {Role.SHAPE}
    assert not comes_with_data(found["s"])
    assert "y" not in found


def test_nets_within_may_take_a_blob_for_anything() -> None:
    inner = NetDef(op=[operator_def("Relu", ["x"], ["y"])])
    net = NetDef(op=[operator_def("If", ["c"], ["y"], then_net=inner)])
    assert roles_of(net)["x"] == set(Role)


@pytest.mark.parametrize("type", ["Add", "Mul", "MatMul"])
def test_what_is_taken_for_a_parameter_may_change_in_each_run(type: str) -> None:
    """A role says how often, not whether: a plan takes what changes for data from then on."""
    home = Workspace()
    square = np.array([[1, 2], [3, 5]], np.float32)
    for name in ("a", "b"):
        home.feed(name, square)
    ops = [operator_def("Copy", ["b"], ["c"]), operator_def(type, ["a", "c"], ["y"])]
    ops[0].type = "Relu"
    net = home.create_net(NetDef(name="n", type="plan", op=[*ops, operator_def(type, ["y", "b"], ["z"])]))
    compute = {"Add": np.add, "Mul": np.multiply, "MatMul": np.matmul}[type]
    for run in range(6):
        b = square + run
        home.feed("b", b)
        net.run()
        assert home.fetch("z").tolist() == compute(compute(square, b), b).tolist()
    home.delete_net("n")


def test_predictions_are_what_the_last_layers_make() -> None:
    """Up to the operators with parameters, by every way; what is overwritten counts once."""
    net = parse_net(
        *("a = FC(x, W, b)", "p = FC(a, V, c)", "q = FC(a, U, d)", "p = Relu(p)", "s = Sum(p, q)", "t = Relu(a)"),
        "loss = AveragedLoss(s)",
    )
    assert made_by_last_layers(net, ["loss"]) == {"loss", "s", "p", "q"}
    assert made_by_last_layers(net, ["t"]) == {"t", "a"}
    assert made_by_last_layers(net, ["x", "nobody"]) == set()
