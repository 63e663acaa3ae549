"""Whole models train on a CUDA device to the numbers of the CPU: a DLRM, and an LSTM with its nets of steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from examples.dlrm import ClickLog
from tazza.device import device_option
from tazza.models.training import seed_operators
from tazza.tensor import CPUPlace, CUDAPlace, Place
from tazza.workspace import Workspace
from tests.engines.cuda.models import DLRM, LSTM, MODELS, UPDATES

DEVICE = CUDAPlace(0)
STEPS, TEXT = 3, (4, 3)
"""Steps of a training; characters of a text, and texts."""


def clicks() -> Iterator[Mapping[str, NDArray[Any]]]:
    """Yield what a DLRM is trained with."""
    log = ClickLog(DLRM, bag=3)
    for _ in range(STEPS):
        yield log.draw(7)[0]


def texts() -> Iterator[Mapping[str, NDArray[Any]]]:
    """Yield what an LSTM is trained with."""
    random = np.random.default_rng(3)
    for _ in range(STEPS):
        text = random.integers(0, LSTM.symbols, TEXT)
        labels = random.integers(0, LSTM.symbols, TEXT).astype(np.int32)
        yield {"characters": np.eye(LSTM.symbols, dtype=np.float32)[text], "labels": labels}


BATCHES = {"dlrm": clicks, "lstm": texts}


def trained(name: str, update: str, place: Place, type: str) -> tuple[list[float], dict[str, NDArray[Any]]]:
    """Return losses and parameters."""
    _, model = MODELS[name]()
    UPDATES[update](model)
    for seed, net in enumerate((model.init_net.proto, model.net.proto), 1):
        net.device_option.CopyFrom(device_option(place))
        seed_operators(net, seed)
    model.net.proto.type = type
    model.net.add_external_output("loss")
    workspace, made = Workspace(), None
    workspace.run_net_once(model.init_net.proto)
    losses: list[float] = []
    for batch in BATCHES[name]():
        for blob, values in batch.items():
            workspace.feed(blob, values, place)
        made = workspace.create_net(model.net.proto) if made is None else made
        made.run()
        losses.append(float(workspace.fetch("loss")))
    assert all(workspace.blob(parameter).tensor().place == place for parameter in model.parameters)
    return losses, {parameter: workspace.fetch(parameter) for parameter in model.parameters}


def alike(name: str, update: str, type: str) -> None:
    """Assert that a training on the device gives the numbers of the CPU."""
    losses, found = trained(name, update, DEVICE, type)
    wanted_losses, wanted = trained(name, update, CPUPlace(), "simple")
    np.testing.assert_allclose(losses, wanted_losses, rtol=1e-5)
    for parameter, value in wanted.items():
        np.testing.assert_allclose(found[parameter], value, rtol=1e-4, atol=1e-5, err_msg=parameter)


@pytest.mark.slow
@pytest.mark.parametrize("type", ["simple", "plan"])
@pytest.mark.parametrize("update", ["row-wise adagrad", "sgd"])
def test_dlrm_gives_the_numbers_of_the_cpu(update: str, type: str) -> None:
    alike("dlrm", update, type)


@pytest.mark.slow
@pytest.mark.parametrize("type", ["simple", "async_scheduling", "plan"])
def test_an_lstm_gives_the_numbers_of_the_cpu(type: str) -> None:
    alike("lstm", "adam", type)
