"""Training steps on a CUDA device: by single operators, plans, plans with graphs, and PyTorch: `make bench-gpu`.

LeNet with 64 images and ResNet-50 with 32 learn one batch again and again by SGD with momentum, in float32, never TF32.
A figure is the least time of a step, by the host's clock, of several rounds of some steps each. PyTorch is waited for
at the end of a round, tazza at the end of each step, as its nets do. `host` is the processor time of the calling
thread. PyTorch runs eagerly, as one CUDA graph, and compiled (LeNet; `--compile` for both, which takes minutes), each
in turn; what fails says why, and the others go on.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.job import LEARNING_RATE, MOMENTUM, Arrays
from benchmarks.prepare import draw_inputs, plain_net
from tazza.device import device_option
from tazza.graph.derivation import needed_operators
from tazza.models import Model, sgd, without_debug_info
from tazza.models.training import seed_operators
from tazza.models.zoo import CLASSIFIERS
from tazza.models.zoo.classifier import DATA, LABEL, LOSS
from tazza.nets.plan.recorded import GRAPHS
from tazza.tensor import CPUPlace, CUDAPlace, DataType, Place, TensorSpec
from tazza.workspace import Workspace

DEVICE = CUDAPlace(0)
ROUNDS, WARM = 3, 4
Step = Callable[[], object]


@dataclass(frozen=True)
class Work:
    """A net of the zoo, images of a batch, steps of a round, and whether PyTorch compiles it in good time."""

    name: str
    batch: int
    steps: int
    quick: bool


WORKS = (Work("lenet", 64, 100, quick=True), Work("resnet50", 32, 5, quick=False))


def built(work: Work) -> Model:
    """Return a model that trains by SGD."""
    model = CLASSIFIERS[work.name].training(accuracy=False)
    sgd(model, LEARNING_RATE, momentum=MOMENTUM, nesterov=False)
    model.net.add_external_output(LOSS)
    return model


def filled(model: Model, place: Place) -> Workspace:
    """Return a workspace with the parameters, the same anywhere."""
    workspace, init = Workspace(), without_debug_info(model.init_net.proto)
    init.device_option.CopyFrom(device_option(place))
    seed_operators(init, 1)
    workspace.run_net_once(init)
    return workspace


def timed(step: Step, end: Step, steps: int) -> tuple[float, float]:
    """Return the seconds of a step, and those of the processor that its thread takes."""
    for _ in range(WARM):
        step()
    end()
    best, host = float("inf"), float("inf")
    for _ in range(ROUNDS):
        start, spent = time.perf_counter(), time.thread_time()
        for _ in range(steps):
            step()
        host = min(host, (time.thread_time() - spent) / steps)
        end()
        best = min(best, (time.perf_counter() - start) / steps)
    return best, host


# -- tazza -------------------------------------------------------------------------------------------------------------


@contextmanager
def trains(work: Work, type: str, place: Place = DEVICE) -> Generator[tuple[Step, Workspace]]:
    """Make a net that trains there; what runs a step, and the workspace."""
    model = built(work)
    workspace = filled(model, place)
    for name, value in draw_inputs(work.name, work.batch, {}).items():
        workspace.feed(name, value, place)
    net = without_debug_info(model.net.proto)
    net.type = type
    net.device_option.CopyFrom(device_option(place))
    try:
        yield workspace.create_net(net).run, workspace
    finally:
        workspace.reset()


def tazza_row(work: Work, type: str, graphs: bool) -> tuple[float, float, float]:
    """Return seconds of a step, of the host, and the loss after the last one."""
    with GRAPHS.override(graphs), trains(work, type) as (step, workspace):
        found = timed(step, lambda: None, work.steps)
        return *found, float(workspace.fetch(LOSS))


# -- PyTorch -----------------------------------------------------------------------------------------------------------


def torch_step(work: Work, how: str) -> tuple[Step, Callable[[], float]]:
    """Return what runs a step of the same net from the same parameters on the device, and what tells the loss."""
    from benchmarks.torch_net import torch, torch_module

    torch.backends.cudnn.allow_tf32 = False
    model = built(work)
    held = filled(model, CPUPlace())
    parameters: Arrays = {name: np.asarray(held.fetch(name)) for name in model.parameters}
    forward = needed_operators(without_debug_info(model.net.proto), [LOSS])[0]
    drawn = draw_inputs(work.name, work.batch, {})
    kinds = {DATA: DataType.FLOAT, LABEL: DataType.INT32}
    specs = {name: TensorSpec((1, *value.shape[1:]), kinds[name]) for name, value in drawn.items()}
    net = plain_net(model, forward, LOSS, specs)
    module = torch_module(net, parameters).cuda().train()
    inputs = [torch.from_numpy(drawn[name]).cuda() for name in net.inputs]
    inputs = [value if value.is_floating_point() else value.long() for value in inputs]
    optimizer = torch.optim.SGD(module.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM, fused=True)
    called = torch.compile(module) if how == "compile" else module
    last: list[Any] = [None]

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        last[0] = called(*inputs)
        last[0].backward()
        optimizer.step()

    return (_captured(torch, step) if how == "CUDA graph" else step), lambda: float(last[0].detach())


def _captured(torch: Any, step: Step) -> Step:
    """Return what launches a step as a graph."""
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def torch_row(work: Work, how: str) -> tuple[float, float, float]:
    """Return seconds of a step, of the host, and the loss."""
    from benchmarks.torch_net import torch

    step, loss = torch_step(work, how)
    found = timed(step, torch.cuda.synchronize, work.steps)
    return *found, loss()


# -- the table ---------------------------------------------------------------------------------------------------------


def rows(work: Work, *, compiles: bool) -> Mapping[str, Callable[[], tuple[float, float, float]]]:
    """Return what is timed, by name."""
    found: dict[str, Callable[[], tuple[float, float, float]]] = {
        "simple": lambda: tazza_row(work, "simple", graphs=False),
        "plan": lambda: tazza_row(work, "plan", graphs=False),
        "plan, graphs": lambda: tazza_row(work, "plan", graphs=True),
    }
    if importlib.util.find_spec("torch") is not None:
        hows = ["eager", "CUDA graph", *(["compile"] if compiles or work.quick else [])]
        found |= {f"PyTorch {how}": (lambda how=how: torch_row(work, how)) for how in hows}
    return found


def show_nets(*, compiles: bool = False) -> None:
    """Print a row for each net and way to run it."""
    print(f"{'training step':36}{'ms':>10}{'host ms':>9}{'loss':>10}{'all s':>8}", flush=True)
    for work in WORKS:
        for name, time_it in rows(work, compiles=compiles).items():
            start = time.perf_counter()
            try:
                step, host, loss = time_it()
                told = f"{step * 1e3:10.3f}{host * 1e3:9.3f}{loss:10.4f}"
            except Exception as error:  # the others are wanted too
                told = f"  failed: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            title = f"{work.name} of {work.batch}, {name}"
            print(f"{title:36}{told}{time.perf_counter() - start:8.1f}", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compile", action="store_true", help="let PyTorch compile ResNet-50 too")
    show_nets(compiles=parser.parse_args().compile)


if __name__ == "__main__":
    main()
