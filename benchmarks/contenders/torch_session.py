"""PyTorch: eager, channels-last, compiled; predictions on tensors under `inference_mode`, training steps of SGD.

Settings: `channels_last` puts weights and images that way; `compile` compiles, predictions with frozen weights.
bfloat16 is by autocast.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any

from numpy.typing import NDArray

from benchmarks.job import BFLOAT16, LEARNING_RATE, MOMENTUM, Job, Session
from benchmarks.torch_net import torch, torch_module


def start(job: Job) -> Session:
    """Return a session for the job."""
    torch.set_num_threads(job.threads)
    torch.set_flush_denormal(True)
    return _Trains(job) if job.training else _Predicts(job)


class _Torch:
    def __init__(self, job: Job) -> None:
        self.job = job
        self.found: Any = None
        self.module: Any = None
        self.inputs: list[Any] = []

    def note(self) -> str:
        """Return version and settings."""
        return f"torch {torch.__version__}{''.join(f', {name}' for name, on in self.job.settings.items() if on)}"

    def load(self) -> None:
        """Make module and inputs."""
        net = self.job.net
        self.module = torch_module(net, self.job.parameters())
        given = self.job.inputs()
        self.inputs = [torch.from_numpy(given[name]) for name in net.inputs]
        # Classes are int64 in torch.
        self.inputs = [value if value.is_floating_point() else value.long() for value in self.inputs]
        if self.job.settings.get("channels_last"):
            form = torch.channels_last
            self.module = self.module.to(memory_format=form)
            self.inputs = [v.contiguous(memory_format=form) if v.dim() == 4 else v for v in self.inputs]

    def compiled(self) -> bool:
        """Whether to compile; on first use this loads the compiler."""
        return bool(self.job.settings.get("compile"))

    def autocast(self) -> Any:
        """Return the context in which the net computes."""
        if self.job.precision != BFLOAT16:
            return contextlib.nullcontext()
        return torch.autocast("cpu", dtype=torch.bfloat16)

    def result(self) -> NDArray[Any]:
        """Return the probabilities, or the loss."""
        return self.found.detach().float().reshape(-1 if self.job.training else self.found.shape).numpy()


class _Predicts(_Torch):
    def load(self) -> None:
        """Make the module, compiled if wanted."""
        super().load()
        self.module.eval().requires_grad_(False)
        if self.compiled():
            inductor: Any = __import__("torch._inductor.config", fromlist=["config"])
            inductor.freezing = True
            self.module = torch.compile(self.module)

    def run(self) -> None:
        """Predict a batch."""
        with torch.inference_mode(), self.autocast():
            self.found = self.module(*self.inputs)


class _Trains(_Torch):
    optimizer: Any

    def load(self) -> None:
        """Make module and optimizer."""
        super().load()
        self.module.train()
        options = {"lr": LEARNING_RATE, "momentum": MOMENTUM, "fused": True}
        self.optimizer = torch.optim.SGD(self.module.parameters(), **options)
        if self.compiled():
            sys.setrecursionlimit(10_000)  # a long straight graph is traced recursively
            self.module = torch.compile(self.module)

    def run(self) -> None:
        """Train one step."""
        self.optimizer.zero_grad(set_to_none=True)
        with self.autocast():
            self.found = self.module(*self.inputs)
        self.found.backward()
        self.optimizer.step()
