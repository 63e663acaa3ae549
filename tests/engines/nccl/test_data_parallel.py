"""Models on two GPUs learn what they learn on two devices of the host: by NCCL, and by copies where nobody asks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from caffe2.proto import caffe2_pb2
from caffe2.python import brew, core, data_parallel_model, model_helper, workspace
from tazza.engines.nccl.library import NCCL
from tests.cuda_there import why_no_device
from tests.device.nccl_library import FakeNccl

pytestmark = pytest.mark.skipif(why_no_device() is None, reason="two GPUs are asked for")
STEPS = 3


@pytest.fixture(autouse=True)
def _own_workspace() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction] -- pytest finds it
    workspace.ResetWorkspace()
    yield
    workspace.ResetWorkspace()


def layers(model: Any, loss_scale: float) -> list[Any]:
    """Two layers and a loss."""
    hidden = brew.relu(model, brew.fc(model, "data", "fc1", 4, 5), "hidden")
    _, loss = model.net.SoftmaxWithLoss([brew.fc(model, hidden, "fc2", 5, 3), "label"], ["softmax", "loss"])
    return [model.net.Scale(loss, loss, scale=loss_scale)]


def update(model: Any) -> None:
    """Learn by hand."""
    rate = model.net.LearningRate([brew.iter(model, "it")], "LR", base_lr=-0.1, policy="fixed")
    one = model.param_init_net.ConstantFill([], "ONE", shape=[1], value=1.0)
    for param in model.GetParams():
        model.net.WeightedSum([param, one, model.param_to_grad[param], rate], param)


def nothing(model: Any) -> None:
    """Feed by hand."""


def losses(on_gpu: bool, use_nccl: bool = False) -> tuple[set[str], list[list[float]]]:
    """Train on two devices; return the operator types of the net, and the losses of both after each step."""
    workspace.ResetWorkspace()
    model = model_helper.ModelHelper(name="parallel")
    settings: dict[str, Any] = {"devices": [0, 1], "cpu_device": not on_gpu, "use_nccl": use_nccl}
    data_parallel_model.Parallelize(model, nothing, layers, update, **settings)
    draw, word = np.random.default_rng(0), "gpu" if on_gpu else "cpu"
    kind = caffe2_pb2.CUDA if on_gpu else caffe2_pb2.CPU

    def feed(name: str, *values: Any) -> None:
        for number, value in enumerate(values):
            option = core.DeviceOption(kind, number if on_gpu else 0)
            workspace.FeedBlob(f"{word}_{number}/{name}", value, option)

    def batch() -> None:
        feed("data", *draw.standard_normal((2, 6, 4)).astype(np.float32))
        feed("label", *draw.integers(0, 3, (2, 6)).astype(np.int32))

    batch()
    workspace.RunNetOnce(model.param_init_net)
    for name, shape in (("fc1_w", (5, 4)), ("fc2_w", (3, 5))):
        value = draw.standard_normal(shape).astype(np.float32)
        feed(name, value, value)
    workspace.CreateNet(model.net)
    found: list[list[float]] = []
    for _ in range(STEPS):
        batch()
        workspace.RunNet(model.net)
        found.append([float(workspace.FetchBlob(f"{word}_{number}/loss")) for number in range(2)])
    return {op.type for op in model.net.Proto().op}, found


@pytest.mark.slow
def test_two_gpus_learn_what_the_host_learns() -> None:
    _, wanted = losses(on_gpu=False)
    by_nccl, first = losses(on_gpu=True, use_nccl=True)
    by_copies, second = losses(on_gpu=True)
    np.testing.assert_allclose(first, wanted, rtol=1e-5)
    np.testing.assert_allclose(second, wanted, rtol=1e-5)
    assert "NCCLAllreduce" in by_nccl
    assert {"Copy", "Sum"} <= by_copies
    library = NCCL.functions().fake
    assert isinstance(library, FakeNccl)
    assert library.calls == ["all reduce"] * (2 * 4 * STEPS)
