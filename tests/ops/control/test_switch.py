"""Switch: one of many nets, in the workspace of the operator; its gradient, that of the branch which ran."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, BoundsError, DTypeError, GradientError, ShapeError
from tazza.graph import backward_pass
from tazza.interop import Predictor
from tazza.operator import Effects, effects_of, operator_def, touches
from tazza.proto import NetDef, OperatorDef
from tazza.workspace import Workspace
from tests.check import check_op
from tests.nested_case import Nested, on_nested

Array = NDArray[Any]
X, W = np.array([0.5, -1, 2], np.float32), np.array([3, 0.25, -0.5], np.float32)
NET_TYPES = ["simple", "simple_refcount", "dag", "async_scheduling", "plan"]


def net(*ops: OperatorDef, name: str) -> NetDef:
    return NetDef(name=name, op=ops)


BRANCHES = [
    net(operator_def("Mul", ["x", "w"], ["y"]), name="first"),
    net(operator_def("Tanh", ["x"], ["t"]), operator_def("Mul", ["t", "x"], ["y"]), name="second"),
    net(operator_def("Scale", ["w"], ["y"], scale=-2.0), name="third"),
]
DEFAULT = net(operator_def("Scale", ["x"], ["y"], scale=5.0), name="other")


def wanted(index: int, x: Array, w: Array) -> Array:
    return {0: x * w, 1: np.tanh(x) * x, 2: -2 * w}.get(index, 5 * x)


def run(net: NetDef, **fed: Array) -> Workspace:
    home = Workspace()
    for name, value in {"x": X, "w": W, **fed}.items():
        home.feed(name, value)
    home.run_net_once(net)
    return home


def switch(
    inputs: list[str], outputs: list[str], *, branches: list[NetDef] = BRANCHES, default: NetDef | None = DEFAULT
) -> OperatorDef:
    return operator_def("Switch", ["i", *inputs], outputs, branches=branches, default_net=default)


def chosen(index: int) -> Nested:
    """For z = 2 y, where y is what the branch of an index makes of x and w."""
    ops = (switch(["x", "w"], ["y"]), operator_def("Scale", ["y"], ["z"], scale=2.0))
    fed = {"i": np.array(index), "x": X, "w": W}
    return Nested(f"branch {index}", ops, fed, {"z": 2 * wanted(index, X, W)}, ("z",))


CASES = [chosen(index) for index in (0, 1, 2, 3, -1)]


@on_nested(CASES)
def test_branches(case: Nested) -> None:
    check_op(case)


@pytest.mark.parametrize("kind", NET_TYPES)
@pytest.mark.parametrize("index", [0, 1, 2, 3, -1])
def test_one_of_the_nets_runs(index: int, kind: str) -> None:
    made = NetDef(name="n", type=kind, num_workers=2, op=[switch(["x", "w"], ["y"])])
    made.op.append(operator_def("Scale", ["y"], ["z"], scale=2.0))
    found = run(made, i=np.array(index)).fetch("z")
    np.testing.assert_allclose(found, 2 * wanted(index, X, W), rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_an_index_is_one_integer(shape: tuple[int, ...], dtype: type[np.int32 | np.int64]) -> None:
    found = run(NetDef(op=[switch([], [])]), i=np.full(shape, 2, dtype))
    np.testing.assert_allclose(found.fetch("y"), -2 * W)


@pytest.mark.parametrize("index", [-1, 3])
def test_without_a_default_an_index_is_in_range(index: int) -> None:
    with pytest.raises(BoundsError, match=rf"the index 'i' is {index}, it must be in \[0, 3\): there are 3 branches"):
        run(NetDef(op=[switch([], [], default=None)]), i=np.array(index))


def test_what_is_refused() -> None:
    one = NetDef(op=[switch([], [])])
    with pytest.raises(ShapeError, match="'i' has 2 elements, it must have 1"):
        run(one, i=np.array([0, 1]))
    with pytest.raises(DTypeError, match="float"):
        run(one, i=np.array([0], np.float32))
    with pytest.raises(ArgumentError, match="0 branches, it must have at least 1"):
        run(NetDef(op=[switch([], [], branches=[])]), i=np.array(0))
    with pytest.raises(ArgumentError, match=r"wants nets \(field 'nets'\), it is stored as n"):
        run(NetDef(op=[operator_def("Switch", ["i"], [], branches=BRANCHES[0])]), i=np.array(0))


def test_what_it_touches() -> None:
    found = touches(switch([], []))
    assert (found.reads, found.writes, found.certain) == (("i", "x", "w"), ("y", "t"), {"y"})
    assert touches(switch([], [], branches=[BRANCHES[1], NetDef()], default=None)).certain == frozenset()


def test_effects_are_those_of_its_nets() -> None:
    assert effects_of(switch([], [])) is Effects.WORKSPACE
    saving = net(operator_def("Save", ["x"], [], db="d", db_type="minidb"), name="saves")
    assert effects_of(switch([], [], branches=[*BRANCHES, saving])) is Effects.IO


def test_a_branch_overwrites_what_it_reads() -> None:
    doubled = net(operator_def("Scale", ["x"], ["x"], scale=2.0), name="doubled")
    found = run(NetDef(op=[switch(["x"], ["x"], branches=[NetDef(name="as it was"), doubled])]), i=np.array(1))
    np.testing.assert_array_equal(found.fetch("x"), 2 * X)


def test_a_predictor_of_what_a_branch_makes() -> None:
    with Predictor(NetDef(name="p", op=[switch([], [])])) as predictor:
        assert predictor.inputs == ("i", "x", "w")
        for index in range(4):
            found = predictor.run(i=np.array(index), x=X, w=W)
            np.testing.assert_allclose(found["y"], wanted(index, X, W), rtol=1e-6)


# -- gradient ----------------------------------------------------------------------------------------------------------


def gradients_of(ops: list[OperatorDef], fed: Mapping[str, Array], kind: str = "simple") -> dict[str, Array]:
    """Return the gradients of x and w for z, given that of z."""
    emitted, gradients = backward_pass(ops, {"z": "dz"})
    names = {name: str(gradients[name]) for name in ("x", "w")}
    both = NetDef(name="n", type=kind, num_workers=2, op=[*ops, *emitted], external_output=names.values())
    home = run(both, **fed)
    return {name: home.fetch(gradient) for name, gradient in names.items()}


def differences(index: int, name: str, dz: Array) -> Array:
    """Return the central differences of sum(dz z), in float64."""
    made = np.zeros(X.shape)
    for place in range(X.size):
        step = np.zeros(X.shape)
        step[place] = 1e-6
        sides: list[Array] = []
        for sign in (1, -1):
            values = {"x": X.astype(np.float64), "w": W.astype(np.float64)}
            values[name] = values[name] + sign * step
            sides.append(wanted(index, values["x"] * values["w"], values["w"]))
        made[place] = (dz * (sides[0] - sides[1])).sum() / 2e-6
    return made


@pytest.mark.parametrize("kind", NET_TYPES)
@pytest.mark.parametrize("index", [0, 1, 2, 7])
@pytest.mark.parametrize("listed", [True, False])
def test_the_gradient_is_that_of_the_branch_that_ran(index: int, kind: str, listed: bool) -> None:
    """For u = x w before it: a branch that does not read u or w gives zeros."""
    nets = [NetDef.FromString(each.SerializeToString()) for each in (*BRANCHES, DEFAULT)]
    for each in nets:
        for op in each.op:
            op.input[:] = ["u" if name == "x" else name for name in op.input]
    op = switch(["u", "w"] if listed else [], ["y"] if listed else [], branches=nets[:3], default=nets[3])
    ops = [operator_def("Mul", ["x", "w"], ["u"]), op, operator_def("Scale", ["y"], ["z"], scale=1.0)]
    dz = np.array([1, 10, -3], np.float32)
    found = gradients_of(ops, {"i": np.array(index), "dz": dz}, kind)
    for name in ("x", "w"):
        np.testing.assert_allclose(found[name], differences(index, name, dz), rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("index", [0, 1, 2])
def test_the_gradient_goes_past_a_branch_that_leaves_a_blob(index: int) -> None:
    """For y = x w, that branch 1 overwrites by 3 w and branch 2 doubles in place."""
    nets = [
        NetDef(name="leaves"),
        net(operator_def("Scale", ["w"], ["y"], scale=3.0), name="overwrites"),
        net(operator_def("Scale", ["y"], ["y"], scale=2.0), name="doubles"),
    ]
    ops = [
        operator_def("Mul", ["x", "w"], ["y"]),
        switch([], ["y"], branches=nets, default=None),
        operator_def("Scale", ["y"], ["z"], scale=1.0),
    ]
    dz = np.array([1, 10, -3], np.float32)
    found = gradients_of(ops, {"i": np.array(index), "dz": dz})
    passed = {0: dz, 1: 0 * dz, 2: 2 * dz}[index]
    np.testing.assert_allclose(found["x"], passed * W, rtol=1e-6)
    np.testing.assert_allclose(found["w"], passed * X + (3 * dz if index == 1 else 0), rtol=1e-6)


@pytest.mark.parametrize("type", ["If", "Switch"])
def test_a_gradient_needs_what_chose_the_branch(type: str) -> None:
    over = net(operator_def("Tanh", ["x"], ["y"]), operator_def("Copy", ["other"], ["i"]), name="overwrites")
    nets: dict[str, Any] = {"then_net": over} if type == "If" else {"branches": [over]}
    with pytest.raises(GradientError, match=rf"{type} needs its input \w+ 'i', which it overwrites"):
        backward_pass([operator_def(type, ["i"], [], **nets)], {"y": "dy"})
