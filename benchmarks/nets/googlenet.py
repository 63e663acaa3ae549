"""GoogLeNet on one image, by nets that run its branches side by side and by `simple`: `... benchmarks.nets googlenet`.

All may use all threads. Each has a workspace of its own, with the same numbers in it; before anything is timed, their
results are compared to the last bit.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager

import numpy as np

from benchmarks.job import Arrays
from benchmarks.nets.turns import Turn, timed
from tazza.models import Model
from tazza.models.zoo import CLASSIFIERS
from tazza.models.zoo.classifier import DATA, SOFTMAX
from tazza.nets.base import NetBase
from tazza.proto import NetDef
from tazza.workspace import Workspace

BASE, AIMED = "simple", "async_scheduling"
AGAIN = "simple again"
"""A control: how far it is from `simple` is the noise."""
TYPES = {BASE: BASE, AIMED: AIMED, AGAIN: BASE, "dag": "dag", "plan": "plan"}
SIZE, QUICK_SIZE = 224, 64


class BenchmarkError(RuntimeError):
    """Contestants do not compute the same."""


@contextmanager
def turns(*, quick: bool) -> Generator[dict[str, Turn]]:
    """Yield the contestants; quickly means a small image.

    Raises:
        BenchmarkError: their results differ.
    """
    size = QUICK_SIZE if quick else SIZE
    model = CLASSIFIERS["googlenet"].inference(size=size, width=0.25 if quick else 1.0)
    numbers = _numbers(model, size)
    with ExitStack() as opened:
        nets: dict[str, NetBase] = {}
        results: Arrays = {}
        for name, net_type in TYPES.items():
            made, nets[name] = _created(model, numbers, net_type)
            opened.callback(nets[name].close)
            nets[name].run()
            results[name] = np.asarray(made.fetch(SOFTMAX))
        exact = [name for name, net_type in TYPES.items() if net_type != "plan"]  # which may round otherwise
        differ = [name for name in exact if not np.array_equal(results[name], results[BASE])]
        if differ:
            raise BenchmarkError(f"results of {', '.join(differ)} are not those of {BASE}")
        yield {name: timed(net.run) for name, net in nets.items()}


def _created(model: Model, numbers: Arrays, net_type: str) -> tuple[Workspace, NetBase]:
    made, definition = Workspace(), NetDef()
    for name, value in numbers.items():
        made.feed(name, value)
    definition.CopyFrom(model.net.proto)
    definition.type = net_type
    return made, made.create_net(definition)


def _numbers(model: Model, size: int) -> Arrays:
    """Return parameters, and an image of noise."""
    drawn = Workspace()
    drawn.run_net_once(model.init_net.proto)
    image = np.random.default_rng(0).standard_normal(CLASSIFIERS["googlenet"].input_shape(1, size=size), np.float32)
    return {DATA: image} | {parameter.blob: drawn.fetch(parameter.blob) for parameter in model.parameters.values()}
