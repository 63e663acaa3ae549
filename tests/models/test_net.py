"""Names, scopes, inferred inputs, devices and errors of nets that are built."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

import pytest

from tazza.device import device_option, device_scope
from tazza.errors import ArgumentError, DuplicateError, NetError, SchemaError, TazzaError, UnknownOperatorError
from tazza.models import BlobReference, Net, current_scope, name_scope
from tazza.proto import DeviceOption, NetDef
from tazza.tensor import CPUPlace, CUDAPlace
from tazza.workspace import Workspace


def ops(net: Net) -> list[tuple[str, list[str], list[str]]]:
    """Return type, inputs and outputs of each operator."""
    return [(op.type, list(op.input), list(op.output)) for op in net.proto.op]


def test_scopes_as_behaviours_row_1_has_them() -> None:
    net = Net("a")
    with name_scope("s"):
        y = net.add("Relu", "x", "y")
        net.add("Relu", BlobReference("z"), "w")
        with name_scope("t"):
            net.add("Relu", y, "q")
    assert ops(net) == [
        ("Relu", ["s/x"], ["s/y"]),
        ("Relu", ["z"], ["s/w"]),
        ("Relu", ["s/y"], ["s/t/q"]),
    ]


def test_nothing_of_a_scope_is_cleaned() -> None:
    with name_scope("s/"):
        assert current_scope() == "s//"
        with name_scope("t", reset=True):
            assert current_scope() == "t/"
        with name_scope(""):
            assert current_scope() == "s//"
    assert current_scope() == ""


def test_scopes_prefix_blobs_only() -> None:
    with name_scope("s"):
        assert Net("scope_of_nets").name == "scope_of_nets"


def test_net_names_are_unique_as_behaviours_row_3_has_it() -> None:
    names = [Net("row_three").name for _ in range(3)]
    gc.collect()
    Workspace().reset()
    names.append(Net.from_proto(NetDef(name="row_three")).name)
    assert names == ["row_three", "row_three_1", "row_three_2", "row_three_3"]


def test_unique_names_pass_over_those_that_were_chosen() -> None:
    assert [Net(name).name for name in ("chosen", "chosen_1", "chosen")] == ["chosen", "chosen_1", "chosen_2"]


def test_external_inputs_are_inferred_as_behaviours_row_4_has_it() -> None:
    net = Net("e")
    y = net.add("Relu", "x", "y")
    net.add("Sum", [y, "k"], "z")
    other = Net("e2")
    other.add("Relu", y, "r")
    assert list(net.proto.external_input) == ["x", "k"]
    assert list(other.proto.external_input) == ["y"]
    assert list(net.proto.external_output) == []
    net.add_external_output(y, y)
    assert net.external_outputs == ["y"]
    with pytest.raises(DuplicateError, match="defines the blob 'x' already"):
        net.add_external_input("x")
    with pytest.raises(NetError, match="does not define the blob 'nobody'"):
        net.add_external_output("nobody")


def test_an_external_input_of_this_net_may_be_declared_first() -> None:
    net = Net("declared")
    with name_scope("s"):
        x = net.add_external_input("x")
        net.add("Relu", x, "y")
    assert net.external_inputs == ["s/x"]


def test_automatic_names() -> None:
    net = Net("auto_names")
    assert net.add("Relu", "x") == "auto_names/Relu"
    assert net.add("Relu", "x") == "auto_names/Relu_2"
    assert net.add("Relu", "x", 1) == ("auto_names/Relu:0",)
    with name_scope("s"):
        assert net.add("Relu", "x") == "s/auto_names/Relu"
    assert (net.next_name(), net.next_name(), net.next_name("p")) == (
        "auto_names_blob_0",
        "auto_names_blob_1",
        "auto_names/p",
    )


def test_devices_as_behaviours_row_30_has_them() -> None:
    net = Net("dv")
    gpu = device_option(CUDAPlace(1), node_name="N")
    with device_scope(gpu):
        net.add("Relu", "a", "b")
        net.add("Relu", "a", "c", device=device_option(CPUPlace()))
        with device_scope(device_option(CPUPlace())):
            net.add("Relu", "a", "d")
    net.add("Relu", "a", "e")
    found = [(op.HasField("device_option"), op.device_option) for op in net.proto.op]
    assert [(has, o.device_type, o.device_id, o.node_name) for has, o in found] == [
        (True, 1, 1, "N"),
        (True, 0, 0, ""),
        (True, 0, 0, "N"),
        (False, 0, 0, ""),
    ]


def test_gradient_operators_copy_the_device_of_their_operator() -> None:
    net = Net("dg")
    loss = net.add("AveragedLoss", "x", "l", device=device_option(CUDAPlace(1)))
    net.add_gradients([loss])
    assert [(op.type, op.HasField("device_option")) for op in net.proto.op] == [
        ("AveragedLoss", True),
        ("ConstantFill", False),
        ("AveragedLossGradient", True),
    ]


def test_gradients_in_a_scope_as_behaviours_row_2_has_them() -> None:
    net = Net("b", strict=False)
    with name_scope("s"):
        net.add("Relu", "x", "y")
        loss = net.add("AveragedLoss", "y", "loss")
        wrong = Net.from_proto(net.proto).add_gradients(["loss"])
        right = net.add_gradients([loss])
    assert wrong == {"loss": "s/loss_autogen_grad"}
    assert right == {"s/loss": "s/s/loss_autogen_grad", "s/y": "s/y_grad", "s/x": "s/x_grad"}


def test_a_strict_net_refuses_a_loss_that_it_does_not_define() -> None:
    net = Net("strict_loss")
    with name_scope("s"):
        net.add("AveragedLoss", "x", "loss")
    with pytest.raises(NetError, match="does not define the loss 'loss'"):
        net.add_gradients(["loss"])


WRONG: list[tuple[Callable[[Net], object], type[TazzaError], str]] = [
    (lambda net: net.add("Rleu", "x"), UnknownOperatorError, "unknown operator 'Rleu'"),
    (lambda net: net.add("Relu", ["x", "y"]), SchemaError, "Relu has 2 inputs, it takes 1"),
    (lambda net: net.add("Relu", "x", ["y", "z"]), SchemaError, "Relu has 2 outputs, it takes 1"),
    (lambda net: net.add("Relu", "x", alpha=0.1), ArgumentError, "Relu has no argument 'alpha'"),
    (lambda net: net.add("Scale", "x", scale=2), ArgumentError, "'scale' wants float"),
]


@pytest.mark.parametrize(("call", "kind", "text"), WRONG, ids=lambda value: str(value)[:20])
def test_errors_name_the_users_line(call: Callable[[Net], object], kind: type[TazzaError], text: str) -> None:
    with pytest.raises(kind, match=text) as caught:
        call(Net("wrong"))
    assert f"at {Path(__file__)}" in str(caught.value)
    assert "to net 'wrong" in str(caught.value)


def test_a_net_that_is_not_strict_takes_anything() -> None:
    net = Net("lenient", strict=False)
    net.add("NoSuchOperator", "x", "y", nonsense=1)
    assert ops(net) == [("NoSuchOperator", ["x"], ["y"])]


def test_argument_none_is_left_out() -> None:
    net = Net("none")
    net.add("Relu", "x", "y", alpha=None)
    assert list(net.proto.op[0].arg) == []


def test_the_users_line_is_kept_while_building_and_dropped_by_export() -> None:
    net = Net("lines")
    net.add("Relu", "x", "y")
    assert net.proto.op[0].debug_info.startswith(f"{Path(__file__)}:")
    exported = net.export()
    assert not exported.op[0].HasField("debug_info")
    assert net.proto.op[0].HasField("debug_info")


def test_the_proto_may_be_edited() -> None:
    net = Net("edited", strict=False)
    net.add("Relu", "x", "y")
    net.proto.op.add(type="Relu", input=["y"], output=["z"])
    net.add("Relu", "z", "q")
    assert net.external_inputs == ["x"]
    del net.proto.op[1:]
    net.add("Relu", "z", "q")
    assert net.external_inputs == ["x", "z"]


def test_clone_renames_blobs() -> None:
    net = Net("original")
    net.add_external_output(net.add("Relu", "x", "y"))
    copy = net.clone("copy_of_it", rename={"x": "a", "y": "b"})
    assert (copy.name, ops(copy)) == ("copy_of_it", [("Relu", ["a"], ["b"])])
    assert (copy.external_inputs, copy.external_outputs) == (["a"], ["b"])
    assert ops(net) == [("Relu", ["x"], ["y"])]


def test_append_joins_inputs_and_outputs() -> None:
    first, second = Net("first"), Net("second")
    first.add_external_output(first.add("Relu", "x", "y"))
    second.add_external_output(second.add("Relu", "y", "z"), second.add("Relu", "q", "w"))
    first.append(second)
    assert (first.external_inputs, first.external_outputs) == (["x", "q"], ["y", "z", "w"])
    assert [op[1] for op in ops(first)] == [["x"], ["y"], ["q"]]


def test_explicit_engine_and_name_are_stored() -> None:
    net = Net("stored")
    net.add("Relu", "x", "y", name="first", engine="reference", device=DeviceOption())
    op = net.proto.op[0]
    assert (op.name, op.engine, op.HasField("device_option")) == ("first", "reference", True)
