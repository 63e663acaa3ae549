"""If: one of two nets, in the workspace of the operator; its gradient, also where a branch leaves a blob as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, NotFoundError, ShapeError
from tazza.interop import Predictor
from tazza.operator import Effects, effects_of, operator_def, touches
from tazza.proto import NetDef, OperatorDef
from tazza.workspace import Workspace
from tests.check import check_op
from tests.nested_case import Nested, on_nested

X = np.array([0.5, -1], np.float32)


def branch(*ops: OperatorDef, name: str = "then") -> NetDef:
    return NetDef(name=name, op=ops)


THEN = branch(operator_def("Tanh", ["x"], ["y"]))
OTHER = branch(operator_def("Scale", ["x"], ["y"], scale=3.0), name="other")


def run(op: OperatorDef, condition: NDArray[np.bool_] | bool, **fed: NDArray[np.float32]) -> Workspace:
    home = Workspace()
    for name, value in {"x": X, "c": np.array(condition), **fed}.items():
        home.feed(name, value)
    home.run_net_once(NetDef(name="n", op=[op]))
    return home


def either(shape: tuple[int, ...], condition: bool) -> Nested:
    ops = (operator_def("If", ["c"], [], then_net=THEN, else_net=OTHER),)
    y = np.tanh(X) if condition else 3 * X
    return Nested(f"{shape} {condition}", ops, {"c": np.full(shape, condition), "x": X}, {"y": y}, ("y",))


def past(condition: bool) -> Nested:
    """For y = x w, and y = 3 v if c holds: the gradient of w is that of y where the branch was not taken, else zero."""
    ops = (
        operator_def("Mul", ["x", "w"], ["y"]),
        operator_def("If", ["c"], ["y"], then_net=branch(operator_def("Scale", ["v"], ["y"], scale=3.0))),
        operator_def("Scale", ["y"], ["z"], scale=2.0),
    )
    fed: dict[str, NDArray[Any]] = {"c": np.array([condition]), "x": X, "w": X + 1, "v": X - 2}
    z = 6 * fed["v"] if condition else 2 * X * fed["w"]
    return Nested(f"past a branch {condition}", ops, fed, {"z": z}, ("z",))


def waited_for() -> Nested:
    """For z = y + v, and y = tanh(y) before if c holds: the gradient of y is overwritten, and is also that of v."""
    ops = (
        operator_def("Mul", ["x", "w"], ["y"]),
        operator_def("Mul", ["x", "u"], ["v"]),
        operator_def("If", ["c"], ["y"], then_net=branch(operator_def("Tanh", ["y"], ["y"]))),
        operator_def("Sum", ["y", "v"], ["z"]),
    )
    fed: dict[str, NDArray[Any]] = {"c": np.array([True]), "x": X, "w": X + 1, "u": X - 2}
    return Nested("waited for", ops, fed, {"z": np.tanh(X * fed["w"]) + X * fed["u"]}, ("z",))


CASES = [
    *(either(shape, condition) for shape in ((), (1,), (1, 1)) for condition in (True, False)),
    *(past(condition) for condition in (True, False)),
    waited_for(),
]


@on_nested(CASES)
def test_branches(case: Nested) -> None:
    check_op(case)


def test_nothing_runs_without_the_other_net() -> None:
    home = run(operator_def("If", ["c"], ["y"], then_net=THEN), False, y=X)
    np.testing.assert_array_equal(home.fetch("y"), X)


def test_conditions_are_checked() -> None:
    op = operator_def("If", ["c"], [], then_net=THEN)
    with pytest.raises(ShapeError, match="'c' has 2 elements, it must have 1"):
        run(op, np.array([True, False]))
    with pytest.raises(DTypeError, match="bool"):
        run(op, np.array([1], np.int32))  # pyright: ignore[reportArgumentType] -- what is refused
    with pytest.raises(NotFoundError, match=r"(?s)'nothing' does not exist.*operator 0 of net 'then'"):
        run(operator_def("If", ["c"], [], then_net=branch(operator_def("Tanh", ["nothing"], ["y"]))), True)


def test_what_it_touches() -> None:
    both = touches(operator_def("If", ["c"], [], then_net=THEN, else_net=OTHER))
    assert (both.reads, both.writes, both.certain) == (("c", "x"), ("y",), {"y"})
    assert touches(operator_def("If", ["c"], ["y"], then_net=THEN)).certain == frozenset()


def test_effects_are_those_of_its_nets() -> None:
    assert effects_of(operator_def("If", ["c"], [], then_net=THEN)) is Effects.WORKSPACE
    saving = branch(operator_def("Save", ["x"], [], db="d", db_type="minidb"))
    assert effects_of(operator_def("If", ["c"], [], then_net=saving)) is Effects.IO


def test_a_predictor_of_what_a_branch_makes() -> None:
    """A blob that only a branch writes, and that nobody names, is an output; what it reads is an input."""
    op = operator_def("If", ["c"], [], then_net=THEN, else_net=OTHER)
    with Predictor(NetDef(name="p", op=[op])) as predictor:
        assert predictor.inputs == ("c", "x")
        assert predictor.outputs == ("y",)
        for condition, wanted in ((True, np.tanh(X)), (False, 3 * X)):
            found = predictor.run(c=np.array([condition]), x=X)
            np.testing.assert_allclose(found["y"], wanted, rtol=1e-6)


@pytest.mark.parametrize("kind", ["dag", "simple_refcount", "plan"])
def test_a_predictor_whose_net_is_of_any_type(kind: str) -> None:
    op = operator_def("If", ["c", "x"], ["y"], then_net=THEN, else_net=OTHER)
    net = NetDef(name="p", type=kind, num_workers=1, op=[op], external_output=["y"])
    with Predictor(net) as predictor:
        found = predictor.run(c=np.array([True]), x=X)
        np.testing.assert_allclose(found["y"], np.tanh(X), rtol=1e-6)
