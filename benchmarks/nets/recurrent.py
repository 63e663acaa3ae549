"""Two LSTMs of 512 over 50 steps, 32 sequences: a run, and a step of training: `python -m benchmarks.nets recurrent`.

Beside a plan runs PyTorch's LSTM of two layers, with the same weights; both give the same numbers before anything is
timed. A layer that is linear in each step gives 10 scores, whose cross entropy is the loss; SGD has a momentum.

What cannot be undercut is the products: of T N rows of D, and T times N rows of H, with 4 H columns, for each layer;
2 (D + H) 4 H T N floating-point operations a layer, 13.4 10^9 for both, and three times that, less the gradient of the
data, for a step of training. `limit_s` says how long they take at the rate of one such product.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks.job import LEARNING_RATE, MOMENTUM, Arrays
from benchmarks.nets.turns import Turn, timed
from tazza.models import Model, layers, sgd
from tazza.models.recurrent import lstm
from tazza.operator import operator_def
from tazza.proto import NetDef
from tazza.runtime.threads import thread_count
from tazza.workspace import Workspace

PLAN, TORCH = "plan", "torch"
AIMS = {False: 0.9, True: 0.8}
"""What the ratio to PyTorch should at most be, of a run and of a step of training."""
LAYERS, CLASSES = ("l0", "l1"), 10
OF_TORCH = (0, 1, 3, 2)
"""Gates of PyTorch, in, forget, cell, out, by their places here: in, forget, out, cell."""
CLOSE = 1e-4
"""What results may differ by, of the largest."""


class BenchmarkError(RuntimeError):
    """Contestants do not compute the same."""


@dataclass(frozen=True, slots=True)
class Work:
    """Extents: T steps of N sequences, with H elements of an input and of a state."""

    T: int = 50
    N: int = 32
    H: int = 512
    training: bool = False

    @property
    def name(self) -> str:
        """What the work is called."""
        return f"LSTM 2 x {self.H}, {self.T} steps, batch {self.N}{', training' if self.training else ''}"

    @property
    def flops(self) -> int:
        """Floating-point operations of the products of a run."""
        product = 2 * self.T * self.N * self.H * 4 * self.H
        return product * (len(LAYERS) * 2 * 3 - 1 if self.training else len(LAYERS) * 2)

    def small(self) -> Work:
        """Return the same with few steps and elements."""
        return Work(5, 3, 8, self.training)


def numbers(work: Work) -> Arrays:
    """Return parameters, sequences and labels."""
    random = np.random.default_rng(0)
    H, gates = work.H, 4 * work.H
    shapes = {f"{layer}/{name}_w": (gates, H) for layer in LAYERS for name in ("i2h", "gates_t")}
    shapes |= {f"{layer}/{name}_b": (gates,) for layer in LAYERS for name in ("i2h", "gates_t")}
    shapes |= {f"{layer}/initial_{name}_state": (H,) for layer in LAYERS for name in ("hidden", "cell")}
    shapes |= {"scores_w": (CLASSES, H), "scores_b": (CLASSES,)}
    found = {name: (random.uniform(-1, 1, shape) / H**0.5).astype(np.float32) for name, shape in shapes.items()}
    found |= {name: 0 * value for name, value in found.items() if name.endswith("_state")}
    found["data"] = random.standard_normal((work.T, work.N, H), np.float32)
    found["label"] = random.integers(0, CLASSES, work.T * work.N).astype(np.int32)
    return found


def net(work: Work) -> tuple[NetDef, NetDef]:
    """Return the init net and the net, as a plan."""
    model = Model("recurrent")
    x = "data"
    for layer in LAYERS:
        x = lstm(model, x, layer, work.H, work.H, forward_only=not work.training)[0]
    scores = layers.fc(model, x, "scores", work.H, CLASSES, axis=2)
    if work.training:
        rows = model.net.add("Reshape", scores, ["rows", "_"], shape=[-1, CLASSES])[0]
        model.net.add("SoftmaxWithLoss", [rows, "label"], ["softmax", "loss"])
        model.add_gradients(["loss"])
        sgd(model, LEARNING_RATE, momentum=MOMENTUM, nesterov=False)
    model.net.add_external_output("loss" if work.training else "scores")
    model.net.proto.type = PLAN
    return model.init_net.proto, model.net.proto


def planned(work: Work, given: Arrays) -> tuple[Callable[[], None], Callable[[], Any]]:
    """Return what runs the plan, and what gives its result."""
    home = Workspace()
    init, made = net(work)
    home.run_net_once(init)
    for name, value in given.items():
        home.feed(name, value)
    return home.create_net(made).run, lambda: home.fetch(made.external_output[-1])


def of_torch(work: Work, given: Arrays) -> tuple[Callable[[], None], Callable[[], Any]]:
    """Return the same of PyTorch."""
    torch: Any = import_module("torch")
    torch.set_num_threads(thread_count())
    torch.set_flush_denormal(True)
    module = torch.nn.ModuleDict({"lstm": torch.nn.LSTM(work.H, work.H, 2), "scores": torch.nn.Linear(work.H, CLASSES)})
    parameters = dict(module.named_parameters())
    for place, layer in enumerate(LAYERS):
        for name, ours in (("ih", "i2h"), ("hh", "gates_t")):
            for kind, end in (("weight", "w"), ("bias", "b")):
                value = given[f"{layer}/{ours}_{end}"]
                turned = value.reshape(4, -1)[list(OF_TORCH)].reshape(value.shape)
                parameters[f"lstm.{kind}_{name}_l{place}"].data.copy_(torch.from_numpy(turned))
    for kind, end in (("weight", "w"), ("bias", "b")):
        parameters[f"scores.{kind}"].data.copy_(torch.from_numpy(given[f"scores_{end}"]))
    data, label = torch.from_numpy(given["data"]), torch.from_numpy(given["label"]).long()
    optimizer = torch.optim.SGD(module.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM, fused=True)
    found: list[Any] = []

    def predict() -> None:
        with torch.inference_mode():
            found[:] = [module["scores"](module["lstm"](data)[0])]

    def train() -> None:
        optimizer.zero_grad(set_to_none=True)
        scores = module["scores"](module["lstm"](data)[0])
        found[:] = [torch.nn.functional.cross_entropy(scores.reshape(-1, CLASSES), label)]
        found[0].backward()
        optimizer.step()

    return (train if work.training else predict), lambda: found[0].detach().numpy()


@contextmanager
def turns(work: Work) -> Generator[dict[str, Turn]]:
    """Yield the contestants.

    Raises:
        BenchmarkError: their results differ, after two runs.
    """
    given = numbers(work)
    makers = {PLAN: planned, **({TORCH: of_torch} if find_spec("torch") is not None else {})}
    runs: dict[str, Callable[[], None]] = {}
    results: Arrays = {}
    for name, make in makers.items():
        runs[name], result = make(work, given)
        for _ in range(2):
            runs[name]()
        results[name] = np.asarray(result())
    span = float(np.abs(results[PLAN]).max())
    for name, found in results.items():
        if not np.allclose(found.reshape(-1), results[PLAN].reshape(-1), rtol=0, atol=CLOSE * span):
            raise BenchmarkError(f"results of {name} are not those of {PLAN}")
    yield {name: timed(run) for name, run in runs.items()}


def limit_s(work: Work) -> Turn:
    """Return the turn of the products of a work, at the rate of one with T N rows."""
    random = np.random.default_rng(1)
    home = Workspace()
    for name, shape in {"x": (work.T * work.N, work.H), "w": (4 * work.H, work.H), "b": (4 * work.H,)}.items():
        home.feed(name, random.standard_normal(shape, np.float32))
    product = operator_def("FC", ["x", "w", "b"], ["y"])
    made = home.create_net(NetDef(name="product", type=PLAN, op=[product], external_output=["y"]))
    count = work.flops / (2 * work.T * work.N * work.H * 4 * work.H)
    turn = timed(made.run)
    return lambda seconds: count * turn(seconds)
