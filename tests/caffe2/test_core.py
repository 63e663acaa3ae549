"""What `core` and its neighbours give for calls at the edges, as the genuine modules were seen to answer (1.8.1)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from caffe2.python import core, scope, workspace


def filled(name: str) -> Any:
    net = core.Net(name)
    net.ConstantFill([], f"{name}_made", shape=[1], value=1.0)
    return net


@pytest.mark.parametrize("several", [False, True])
def test_a_step_of_nets_may_be_said_to_run_side_by_side(several: bool) -> None:
    """Which means nothing to nets, as there; a step that has nets already refuses it."""
    nets = [filled("one"), filled("two")] if several else filled("alone")
    step = core.execution_step("q", nets, concurrent_substeps=True, num_concurrent_instances=2)
    assert step.Proto().concurrent_substeps
    assert workspace.RunPlan(core.Plan(step))
    late = core.ExecutionStep("late", filled("other"))
    with pytest.raises(AssertionError, match="Cannot have both network and substeps"):
        late.SetConcurrentSubsteps(True)


def test_a_step_without_a_name_is_called_step() -> None:
    assert core.execution_step("", filled("n")).Name().split("_")[0] == "step"


def test_a_net_of_the_step_makes_the_blob_that_stops_it() -> None:
    workspace.ResetWorkspace()
    check = core.Net("check")
    check.ConstantFill([], "stop", shape=[1], value=True, dtype=core.DataType.BOOL)
    step = core.execution_step("s", [filled("body"), check], should_stop_blob=core.BlobReference("stop"))
    assert workspace.RunPlan(core.Plan(step))
    assert workspace.FetchBlob("stop").tolist() == [True]


def test_no_name_of_a_scope_adds_nothing() -> None:
    with core.NameScope("outer"), core.NameScope(None):
        assert scope.CurrentNameScope() == "outer/"


def test_an_input_from_outside_lies_on_the_cpu() -> None:
    """Whichever device reads it first: it is copied there."""
    net = core.Net("reads")
    net.Proto().external_input.append("x")
    with core.DeviceScope(core.DeviceOption(1, 0)):
        net.Relu("x", "y")
    made, places = core.InjectCrossDeviceCopies(net)
    found = [(op.type, list(op.input), list(op.output)) for op in made.Proto().op]
    assert found == [("CopyCPUToGPU", ["x"], ["x_gpu_0"]), ("Relu", ["x_gpu_0"], ["y"])]
    assert {name: place.device_type for name, place in places.items()} == {"x": 0, "x_gpu_0": 1, "y": 1}


def test_a_part_of_a_net_may_be_cut_at_names_that_it_does_not_have() -> None:
    net = filled("whole")
    part, (made,) = net.ClonePartial("part", {"absent": "there"}, ["whole_made"])
    assert list(part.Proto().external_input) == ["there"]
    assert str(made) == "part/whole_made"


@pytest.mark.parametrize("given", [5, None, core.BlobReference("fed")])
def test_a_blob_is_asked_for_by_its_name(given: object) -> None:
    workspace.FeedBlob("fed", np.zeros(1))
    assert workspace.HasBlob("fed")
    assert workspace.HasBlob(b"fed")
    with pytest.raises(TypeError, match="has_blob"):
        workspace.HasBlob(given)


def test_the_mask_of_an_array_is_left_behind() -> None:
    workspace.FeedBlob("masked", np.ma.array([1.0, 2.0], mask=[False, True]))
    assert workspace.FetchBlob("masked").tolist() == [1, 2]


def test_the_type_of_what_has_none_has_a_number() -> None:
    assert core.DataType.UNDEFINED == 0
