"""What operators touch: by name, through nets within, and which of it every run makes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.errors import DuplicateError, NotFoundError, SchemaError
from tazza.operator import (
    SCHEMAS,
    Cost,
    LocalBlobs,
    OpView,
    Touched,
    arg,
    blob,
    operator_def,
    read_first,
    schema,
    touched_by,
    touches,
)
from tazza.operator.owner import BlobOwner
from tazza.operator.touches import all_named
from tazza.proto import NetDef, OperatorDef
from tazza.registry import Hook
from tazza.tensor import Tensor
from tazza.workspace import Workspace


def shell(inputs: list[str], outputs: list[str], *ops: OperatorDef) -> OperatorDef:
    """Return an operator that nobody declares, with a net within."""
    return operator_def("TestShell", inputs, outputs, net=NetDef(name="inner", op=ops))


def relu(x: str, y: str) -> OperatorDef:
    return operator_def("Relu", [x], [y])


def test_an_operator_touches_what_its_net_does() -> None:
    found = touches(shell(["a"], ["b"], relu("hidden", "t"), relu("t", "made"), relu("a", "a")))
    assert found.reads == ("a", "hidden")
    assert found.writes == ("b", "t", "made", "a")
    assert found.certain == {"b"}


def test_nets_in_nets_are_seen() -> None:
    found = touches(shell([], [], shell([], [], relu("deep", "t")), relu("t", "u")))
    assert found.reads == ("deep", "t")
    assert set(found.writes) == {"t", "u"}


def test_control_inputs_come_before() -> None:
    op = relu("x", "y")
    op.control_input.append("z")
    assert touches(op).after == ("z",)
    assert touches(op).reads == ("x",)
    assert touches(shell([], [], op)).after == ("z",)


def test_what_a_branch_may_leave_is_taken_over() -> None:
    ops = [shell([], [], relu("x", "y")), relu("y", "z")]
    assert read_first(ops) == ("x", "y")
    assert read_first(ops, perhaps_made=True) == ("x",)
    assert touched_by(NetDef(op=ops)).certain == {"z"}


def owners(home: Workspace) -> list[BlobOwner]:
    local = LocalBlobs(parent=home)
    return [home, local, home.child(), local.child({}, shared=True)]


def test_every_owner_has_children_and_nets() -> None:
    home = Workspace()
    home.feed("x", np.array([-1, 2], np.float32))
    for owner in owners(home):
        net = owner.child({"inner": "x"}).net(NetDef(name="n", op=[relu("inner", "y")]))
        net.run()
        (operator,) = net.operators
        assert operator.outputs[0].tensor().plain().tolist() == [0, 2]
        net.close()
    assert not home.has_blob("y")


def test_forwarded_names_lead_to_several_workspaces_beside_a_parent() -> None:
    first, second = Workspace(), Workspace()
    first.feed("a", np.array([1], np.float32))
    second.feed("b", np.array([2], np.float32))
    child = first.child({"b": (second, "b")}, shared=True)
    net = child.net(NetDef(name="n", op=[operator_def("Sum", ["a", "b"], ["c"]), relu("c", "b")]))
    net.run()
    assert second.fetch("b").tolist() == [3]
    assert child.blobs.keys() == {"c"}
    child.create_blob("a").set(Tensor.from_numpy(np.array([5], np.float32)))
    assert first.fetch("a").tolist() == [5]
    assert first.child({"b": (second, "b")}).get_blob("a") is None


def test_a_hook_is_filled_once() -> None:
    hook: Hook[int] = Hook("number", "math")
    with pytest.raises(NotFoundError, match="math brings no number"):
        hook.get()
    hook.fill(1)
    hook.fill(1)
    with pytest.raises(DuplicateError):
        hook.fill(2)


@pytest.mark.parametrize("lists", [True, False])
def test_only_what_declares_it_is_listed(lists: bool) -> None:
    """Lists that look as if they held anything are left alone, unless the schema says that they do."""
    made = schema(
        "TestLists",
        "For tests.",
        inputs=[blob("X", type_name="*", variadic=True, optional=True)],
        outputs=[blob("Y", type_name="*", variadic=True, optional=True)],
        lists_anything=lists,
    )

    @made.touches
    def within(op: OpView) -> Touched:
        del op
        return touched_by(NetDef(op=[relu("hidden", "made")]))

    try:
        (found,) = all_named([operator_def("TestLists", ["x"], ["y"])])
        assert list(found.input) == (["x", "hidden"] if lists else ["x"])
        assert list(found.output) == (["y", "made"] if lists else ["y"])
    finally:
        SCHEMAS.unregister("TestLists")


@pytest.mark.parametrize("type", [NetDef, list[NetDef]])
def test_a_gradient_needs_a_word_on_what_nets_name(type: Any) -> None:
    """Neither `lists_anything` nor `binds_nets`: a gradient would be that of what the definition lists alone."""
    made = schema("TestUndeclared", "For tests.", args=[arg("body", type, None)])
    try:
        with pytest.raises(SchemaError, match="nets in body, whose names mean nothing yet"):
            made.gradient(lambda g: [])
    finally:
        SCHEMAS.unregister("TestUndeclared")


@pytest.mark.parametrize("refused", [True, False])
def test_one_of_several_nets_is_certain_of_what_all_write(refused: bool) -> None:
    """Where a missing one does nothing, nothing is certain; and nets cost what their operators do, by default."""
    made = schema("TestOneOf", "For tests.", args=[arg("several", list[NetDef]), arg("other", NetDef, None)])
    made.runs_one_of("several", "other", refused_without=["other"] if refused else [])
    first = NetDef(op=[relu("x", "y"), relu("y", "t")])
    second = NetDef(op=[relu("w", "y")])
    try:
        found = touches(operator_def("TestOneOf", [], [], several=[first, second]))
        assert (found.reads, found.writes) == (("x", "w"), ("y", "t"))
        assert found.certain == ({"y"} if refused else frozenset())
        op = made.view(operator_def("TestOneOf", [], [], several=[first, second], other=second))
        assert touches(op).certain == {"y"}
        assert made.infer_cost(op, (), ()) == Cost()
        with pytest.raises(SchemaError, match="runs_one_of names 'nope', which is no argument"):
            made.runs_one_of("nope")
    finally:
        SCHEMAS.unregister("TestOneOf")
