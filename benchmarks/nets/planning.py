"""What a plan costs and saves, on ResNet-50: `python -m benchmarks.nets planning`.

Three things: how long it takes until a net is rewritten, compiled and has its weights laid out; the memory for
activations of a training step, planned and not; and how much slower a plan runs beside a thread of Python that never
rests, each on a processor of its own. The last tells how often a plan waits for the interpreter's lock.
"""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Generator
from contextlib import closing, contextmanager

import numpy as np

from benchmarks.nets.turns import Turn, timed
from tazza.graph.inference import infer_net
from tazza.models import Model, sgd
from tazza.models.zoo import CLASSIFIERS
from tazza.models.zoo.classifier import DATA, LABEL, LOSS
from tazza.nets.base import NetBase
from tazza.nets.plan import PlanNet
from tazza.operator import Spec
from tazza.proto import NetDef
from tazza.runtime.threads import at_most_threads
from tazza.tensor import DataType, Tensor, TensorSpec
from tazza.workspace import Workspace

NET = "resnet50"
BATCHES = {True: 2, False: 16}
"""Of the training step, quickly or not."""
ALONE, BESIDE = "alone", "beside Python"
SIZES = {True: 64, False: 224}
"""Height and width of an image, quickly or not."""
USUAL_RUNS = 5


def compile_s(*, quick: bool) -> float:
    """Return what making a plan and its first run take beyond a usual run, in seconds; a process can tell it once."""
    made = _workspace(CLASSIFIERS[NET].inference(size=SIZES[quick]), 1, quick=quick)
    definition = _planned(CLASSIFIERS[NET].inference(size=SIZES[quick]))
    start = time.perf_counter()
    with closing(made.create_net(definition)) as net:
        net.run()
        first_s = time.perf_counter() - start
        usual_s = statistics.median(timed(net.run)(0.0) for _ in range(USUAL_RUNS))
    return first_s - usual_s


def activation_bytes(*, quick: bool) -> tuple[int, int]:
    """Return the bytes for what a training step computes, as a plan and by a net that keeps every blob.

    Of the second, parameters and their gradients are left out. The plan's have these gradients in them.
    """
    model = CLASSIFIERS[NET].training(size=SIZES[quick], accuracy=False)
    sgd(model, 0.001, momentum=0.9, nesterov=False)
    model.net.add_external_output(LOSS)
    made = _workspace(model, BATCHES[quick], quick=quick)
    definition = _planned(model)
    kept = {name for one in model.parameters for name in (one, f"{one}_grad")}
    values = {name: blob.value for name in made.blob_names() if (blob := made.get_blob(name)) is not None}
    known: dict[str, Spec] = {
        name: TensorSpec(value.spec.dims, value.dtype) for name, value in values.items() if isinstance(value, Tensor)
    }
    sizes: dict[str, int] = {}
    for op in infer_net(definition, known):
        for name, spec in zip(op.definition.output, op.outputs, strict=True):
            if isinstance(spec, TensorSpec) and spec.shape_known and name not in kept and name not in known:
                sizes[name] = max(sizes.get(name, 0), spec.nbytes)
    with closing(made.create_net(definition)) as net:
        net.run()
        assert isinstance(net, PlanNet)
        return net.explain().arena_bytes, sum(sizes.values())


@contextmanager
def turns(*, quick: bool) -> Generator[dict[str, Turn]]:
    """Yield the contestants: a plan on one thread, alone and beside a busy thread of Python."""
    cpus = sorted(os.sched_getaffinity(0))
    model = CLASSIFIERS[NET].inference(size=SIZES[quick])
    made = _workspace(model, 1, quick=quick)
    with at_most_threads(1), closing(made.create_net(_planned(model))) as net, _busy_thread(cpus[-1]) as busy:
        os.sched_setaffinity(threading.get_native_id(), {cpus[0]})
        try:
            yield {ALONE: timed(net.run), BESIDE: _beside(net, busy)}
        finally:
            os.sched_setaffinity(threading.get_native_id(), cpus)


def _beside(net: NetBase, busy: threading.Event) -> Turn:
    usual = timed(net.run)

    def turn(seconds: float) -> float:
        busy.set()
        try:
            return usual(seconds)
        finally:
            busy.clear()

    return turn


@contextmanager
def _busy_thread(cpu: int) -> Generator[threading.Event]:
    """Yield an event; while it is set, a thread counts, on that processor."""
    active, ended = threading.Event(), threading.Event()

    def count() -> None:
        os.sched_setaffinity(threading.get_native_id(), {cpu})
        number = 0
        while not ended.is_set():
            active.wait()
            number += 1

    thread = threading.Thread(target=count, name="busy")
    thread.start()
    try:
        yield active
    finally:
        ended.set()
        active.set()
        thread.join()


def _workspace(model: Model, batch: int, *, quick: bool) -> Workspace:
    """Return a workspace with parameters, noise for images and a label for each."""
    made = Workspace()
    made.run_net_once(model.init_net.proto)
    shape = CLASSIFIERS[NET].input_shape(batch, size=SIZES[quick])
    made.feed(DATA, np.random.default_rng(0).standard_normal(shape, np.float32))
    made.feed(LABEL, np.zeros(batch, DataType.INT32.numpy))
    return made


def _planned(model: Model) -> NetDef:
    definition = NetDef()
    definition.CopyFrom(model.net.proto)
    definition.type = "plan"
    return definition
