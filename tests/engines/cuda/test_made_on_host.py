"""Operators that read nothing of the device: made on the host, with its numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.device import device_option
from tazza.operator import operator_def, run_op, why_unavailable
from tazza.proto import NetDef
from tazza.tensor import CUDAPlace
from tazza.workspace import Workspace

DEVICE = CUDAPlace(0)


@pytest.mark.parametrize("type", ["XavierFill", "GaussianFill", "ConstantFill", "UniformIntFill"])
def test_fillers_give_the_numbers_of_the_cpu(type: str) -> None:
    found: list[tuple[Any, Any]] = []
    workspace = Workspace()
    for place in ("there", "here"):
        net = NetDef(name=place)
        made = operator_def(type, [], [place], shape=[3, 5])
        made.device_option.random_seed = 7
        if place == "there":
            made.device_option.MergeFrom(device_option(DEVICE))
        net.op.add().CopyFrom(made)
        created = workspace.create_net(net)
        created.run()
        first = workspace.fetch(place)
        created.run()
        found.append((first, workspace.fetch(place)))
    np.testing.assert_array_equal(found[0], found[1])
    assert workspace.blob("there").tensor().place == DEVICE


def test_the_learning_rate_follows_a_counter_of_the_host() -> None:
    where: dict[str, Any] = {"policy": "step", "stepsize": 2, "gamma": 0.5, "base_lr": 1.0}
    found = [
        float(np.asarray(run_op("LearningRate", np.array([step]), device=device_option(DEVICE), **where)))
        for step in range(5)
    ]
    assert found == [1.0, 1.0, 0.5, 0.5, 0.25]


def test_what_reads_or_keeps_something_is_left_to_others() -> None:
    for type in ("Relu6", "Copy", "Print"):
        assert why_unavailable(type, DEVICE.kind, "cuda") is not None
