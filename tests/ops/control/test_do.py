"""Do: names of its net are bound to outer blobs, the rest is local; scopes are kept for the gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.errors import GradientError, NetError, SchemaError, ShapeError
from tazza.graph import backward_pass
from tazza.operator import operator_def, touches
from tazza.ops.control.scope import ScopeStack
from tazza.proto import NetDef, OperatorDef
from tazza.workspace import Workspace
from tests.check import check_op
from tests.nested_case import Nested, on_nested

INNER = NetDef(name="inner", op=[operator_def("Tanh", ["a"], ["t"]), operator_def("Scale", ["t"], ["b"], scale=2.0)])
X = np.array([0.5, -1], np.float32)


def do(inputs: list[str], outputs: list[str], net: NetDef = INNER, **arguments: Any) -> OperatorDef:
    bound: dict[str, Any] = {"inner_blobs": ["a", "b"], "outer_blobs_idx": [0, 1], **arguments}
    return operator_def("Do", [*inputs, "s"], [*outputs, "s"], net=net, **bound)


SCOPE = operator_def("CreateScope", [], ["s"])
CASES = [
    Nested("bound", (SCOPE, do(["x"], ["y"])), {"x": X, "a": X + 5}, {"y": 2 * np.tanh(X)}, ("y",)),
    Nested(
        "twice",
        (SCOPE, do(["x"], ["y"]), operator_def("Sum", ["y", "y"], ["z"])),
        {"x": X},
        {"z": 4 * np.tanh(X)},
        ("z",),
    ),
]


@on_nested(CASES)
def test_cases(case: Nested) -> None:
    check_op(case)


def workspace() -> Workspace:
    home = Workspace()
    home.feed("x", X)
    home.feed("a", X + 5)
    home.run_operator(operator_def("CreateScope", [], ["s"]))
    return home


def test_names_are_bound_and_the_rest_is_local() -> None:
    home = workspace()
    home.run_operator(do(["x"], ["y"]))
    np.testing.assert_allclose(home.fetch("y"), 2 * np.tanh(X), rtol=1e-6)
    assert home.blob_names() == ["a", "s", "x", "y"], "t lies in the scope"
    assert touches(do(["x"], ["y"])).reads == ("x", "s")
    assert touches(do(["x"], ["y"])).writes == ("y", "s")
    assert touches(do(["x"], ["y"])).certain == {"y", "s"}


@pytest.mark.parametrize(
    ("bound", "said"),
    [
        ({"inner_blobs": ["a"], "outer_blobs_idx": [0]}, "no inner name stands for 'y'"),
        ({"inner_blobs": ["a", "b"], "outer_blobs_idx": [0, 2]}, "2 is beyond the 2 inputs and outputs"),
        ({"inner_blobs": ["a", "a"], "outer_blobs_idx": [0, 1]}, "a, a name a blob twice"),
        ({"inner_blobs": ["a", "b"], "outer_blobs_idx": [0, 0]}, "binds a blob twice: x, x"),
        ({"inner_blobs": ["a", "b"], "outer_blobs_idx": [0]}, "2 inner_blobs are bound to 1 outer_blobs_idx"),
        ({"reuse_workspace": True, "copy_external_blobs": True}, "reuse_workspace keeps nothing"),
    ],
)
def test_bindings_are_checked(bound: dict[str, Any], said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        workspace().run_operator(do(["x"], ["y"], **bound))


def test_a_scope_serves_again() -> None:
    home = workspace()
    net = home.create_net(NetDef(name="n", op=[do(["x"], ["y"], reuse_workspace=True)]))
    for factor in (1, 2):
        home.feed("x", X * factor)
        net.run()
        np.testing.assert_allclose(home.fetch("y"), 2 * np.tanh(X * factor), rtol=1e-6)
    assert home.blob("s").get(ScopeStack).depth == 1


def test_a_gradient_without_a_forward_run_is_an_error() -> None:
    home = workspace()
    ops, _ = backward_pass([do(["x"], ["y"])], {"y": "dy"})
    home.feed("dy", X)
    home.feed("y", X)
    (gradient,) = ops
    with pytest.raises(NetError, match=r"(?s)no scope whose gradient is yet to come.*run the forward operator first"):
        home.run_operator(gradient)


def test_bound_tensors_are_kept_for_the_gradient() -> None:
    """In place of y = 2 x w the gradient needs x as it was, which the operator overwrote."""
    net = NetDef(
        name="inner", op=[operator_def("Mul", ["a", "b"], ["t"]), operator_def("Scale", ["t"], ["t2"], scale=2.0)]
    )
    net.op.append(operator_def("Tanh", ["t2"], ["b"]))
    with pytest.raises(GradientError, match="overwrite 'b'"):
        backward_pass([do(["x", "a"], ["a"], net, outer_blobs_idx=[0, 1])], {"a": "da"})


def test_a_failed_run_leaves_no_scope_and_says_where() -> None:
    bad = NetDef(name="bad", op=[operator_def("Tanh", ["a"], ["t"]), operator_def("Add", ["t", "c"], ["b"])])
    home = workspace()
    home.feed("c", np.ones(3, np.float32))
    made = operator_def(
        "Do", ["x", "c", "s"], ["y", "s"], net=bad, inner_blobs=["a", "c", "b"], outer_blobs_idx=[0, 1, 2]
    )
    net = home.create_net(NetDef(name="outer", op=[made]))
    for _ in range(2):
        with pytest.raises(ShapeError) as caught:
            net.run()
        text = str(caught.value)
        assert "in operator Add(t, c -> b) (operator 1 of net 'bad')" in text
        assert "in operator Do(x, c, s -> y, s) (operator 0 of net 'outer')" in text
        assert text.index("Add(t, c") < text.index("Do(x")
        assert home.blob("s").get(ScopeStack).depth == 0
    home.feed("c", np.ones(2, np.float32))
    net.run()
    np.testing.assert_allclose(home.fetch("y"), np.tanh(X) + 1, rtol=1e-6)


def test_the_gradient_of_one_blob_under_two_outputs() -> None:
    ops, gradients = backward_pass([do(["x"], ["y"]), operator_def("Sum", ["y", "y"], ["z"])], {"z": "dz"})
    home = workspace()
    home.feed("dz", np.ones(2, np.float32))
    home.run_net_once(NetDef(name="n", op=[do(["x"], ["y"]), *ops]))
    assert gradients["x"] == "x_grad"
    np.testing.assert_allclose(home.fetch("x_grad"), 4 * (1 - np.tanh(X) ** 2), rtol=1e-5)
