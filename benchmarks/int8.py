"""What nets of bytes lose and win: `python -m benchmarks.int8 [accuracy] [signal] [speed]`, each line with its aim.

- accuracy: LeNet and a net with residuals learn MNIST here; percent right of 10,000 images, in float32 and in bytes.
- signal: the least ratio of signal to error of the scores of an image, in dB, for a net of 32 x 32 and ResNet-50.
- speed: ResNet-50 as a plan of bytes over one of float32, and over one of bfloat16, run by turns in one process; by the
  clock, and by the processor's time of all threads, which a busy machine hardly changes.

Data lies beside the project, in the folder that TAZZA_SHARED names or `../shared`.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.job import PARAMETERS_FILE, PREDICT_FILE
from benchmarks.prepare import draw_inputs, prepare
from tazza.db.idx import read_idx
from tazza.interop import export_nets, load, parameter_fill
from tazza.interop.int8 import METHODS, array_batches, quantize_nets, watch_nets
from tazza.models import Model, layers, sgd
from tazza.models.net import BlobReference
from tazza.models.zoo.lenet import lenet_scores
from tazza.proto import NetDef
from tazza.proto.message import read_message
from tazza.runtime.fpmath import FPMATH
from tazza.workspace import Workspace

DATA = Path(os.environ.get("TAZZA_SHARED", Path(__file__).parents[2] / "shared")) / "data"
OUT = Path(__file__).parents[1] / "out" / "bench"
POINTS_AT_MOST, SIGNAL_DB = 0.3, 25.0
AT_MOST = {16: 0.40, 1: 0.45}
"""Time of the int8 plan over that of the float32 plan, by batch."""
BATCH, RATE, ROUNDS = 64, 0.05, 1
SEED = 20

Arrays = dict[str, NDArray[Any]]
Nets = tuple[NetDef, NetDef]


# -- accuracy ----------------------------------------------------------------------------------------------------------


def residual_net(*, is_test: bool) -> tuple[Model, BlobReference]:
    """Return a net of two stages with two blocks of two convolutions each, and its scores."""
    model = Model("residual")

    def conv(x: str, name: str, dims: tuple[int, int], stride: int = 1, kernel: int = 3) -> BlobReference:
        y = layers.conv(model, x, name, *dims, kernel, stride=stride, pad=kernel // 2, use_bias=False)
        return layers.spatial_bn(model, y, f"{name}_bn", dims[1], is_test=is_test)

    x = conv("data", "stem", (1, 16), 2)
    x, dim = layers.relu(model, x, x), 16
    for stage, width in enumerate((16, 32)):
        for block in range(2):
            name, stride = f"stage{stage}_{block}", 2 if stage and not block else 1
            y = conv(x, f"{name}_a", (dim, width), stride)
            y = conv(layers.relu(model, y, y), f"{name}_b", (width, width))
            shortcut = x if stride == 1 else conv(x, f"{name}_shortcut", (dim, width), stride, 1)
            y = layers.sum(model, [y, shortcut], f"{name}_sum")
            x, dim = layers.relu(model, y, y), width
    x = layers.average_pool(model, x, "pool", global_pooling=1)
    return model, layers.fc(model, x, "scores", dim, 10)


def lenet_net(*, is_test: bool) -> tuple[Model, BlobReference]:
    """Return LeNet, and its scores."""
    model = Model("lenet")
    return model, lenet_scores(model, "data", is_test=is_test)


def images(name: str) -> Arrays:
    """Return the images, between 0 and 1, and the labels of "train" or "t10k"."""
    x = read_idx(DATA / "mnist" / f"{name}-images-idx3-ubyte.gz")
    return {
        "data": (x[:, None] / np.float32(255)).astype(np.float32),
        "label": read_idx(DATA / "mnist" / f"{name}-labels-idx1-ubyte.gz").astype(np.int32),
    }


def trained(net_of: Callable[..., tuple[Model, BlobReference]], examples: Arrays) -> Nets:
    """Return a net that has seen the images."""
    model, scores = net_of(is_test=False)
    _, loss = layers.softmax_with_loss(model, scores, "label", ["softmax", "loss"])
    model.add_gradients([loss])
    sgd(model, RATE, momentum=0.9, policy="step", stepsize=500, gamma=0.3)
    workspace, random = Workspace(), np.random.default_rng(SEED)
    workspace.run_net_once(model.init_net.proto)
    net = None
    for _ in range(ROUNDS):
        order = random.permutation(len(examples["label"]))
        for start in range(0, len(order) - BATCH + 1, BATCH):
            for name, value in examples.items():
                workspace.feed(name, value[np.sort(order[start : start + BATCH])])
            net = workspace.create_net(model.net.proto) if net is None else net
            net.run()
    return export_nets(model, workspace, outputs=[str(scores)])


def right(nets: Nets, asked: Arrays, output: str) -> float:
    """Return the percentage of images that a net names right."""
    with load(*nets, inputs=["data"]) as predictor:
        parts = [predictor.run(data=part)[output].argmax(1) for part in np.split(asked["data"], 100)]
    return 100 * float((np.concatenate(parts) == asked["label"]).mean())


def accuracy() -> Iterator[str]:
    """Train, quantize by each method, compare."""
    examples, asked = images("train"), images("t10k")
    for name, net_of in (("lenet", lenet_net), ("residual", residual_net)):
        began = time.perf_counter()
        nets = trained(net_of, examples)
        output = nets[1].external_output[0]
        whole = right(nets, asked, output)
        seconds = time.perf_counter() - began
        yield f"{name}, float32: {whole:.2f} % of {len(asked['label'])} (trained in {seconds:.0f} s)"
        seen = watch_nets(*nets, array_batches({"data": examples["data"][:256]}))
        for method in METHODS:
            for weights in ("channel", "tensor"):
                small = seen.quantized(method=method, weights=weights)
                found = right((small.init_net, small.predict_net), asked, output)
                told = f"{found:.2f} %, loses {whole - found:.2f} points, aim: at most {POINTS_AT_MOST}"
                yield f"{name}, int8, {method}, a scale for each {weights}: {told}"


# -- signal ------------------------------------------------------------------------------------------------------------


def without_softmax(net: NetDef) -> str:
    """Take the Softmax off a net, which ends at its scores then; returns their name."""
    last = next(op for op in net.op if op.type == "Softmax")
    net.op.remove(last)
    net.external_output[:] = [last.input[0]]
    return last.input[0]


def small_net() -> tuple[Nets, Arrays, list[Arrays]]:
    """Return the net of 32 x 32, images to judge it with, and others to calibrate it with."""
    folder = DATA / "interop" / "resnet_32x32"
    nets = read_message(folder / "init_net.pb", NetDef), read_message(folder / "predict_net.pb", NetDef)
    given = np.load(folder / "expected.npz")["data"]
    others = np.random.default_rng(SEED).uniform(0, 1, (32, *given.shape[1:])).astype(np.float32)
    return nets, {"data": given}, [{"data": others}]


def large_net() -> tuple[Nets, Arrays, list[Arrays]]:
    """Return ResNet-50 with the numbers that `prepare` draws, and images likewise."""
    made = prepare("resnet50", OUT / "resnet50", training=False)
    stored = np.load(made.folder / PARAMETERS_FILE)
    init = NetDef(name="init", op=[parameter_fill(name, stored[name]) for name in stored.files])
    others = np.random.default_rng(SEED).standard_normal((16, 3, 224, 224)).astype(np.float32)
    inputs = {"data": draw_inputs("resnet50", 16, {})["data"]}
    return (init, read_message(made.folder / PREDICT_FILE, NetDef)), inputs, [{"data": x} for x in np.split(others, 2)]


def least_signal(nets: Nets, small: Nets, inputs: Arrays, output: str) -> float:
    """Return the least ratio of signal to error of an image, in dB; the signal is what differs from the mean."""
    with load(*nets, inputs=["data"]) as one, load(*small, inputs=["data"]) as other:
        wanted, found = (predictor.run(**inputs)[output].astype(np.float64) for predictor in (one, other))
    signal = ((wanted - wanted.mean(1, keepdims=True)) ** 2).sum(1)
    return float(10 * np.log10(signal / ((wanted - found) ** 2).sum(1)).min())


def signal() -> Iterator[str]:
    """Compare the scores of both nets, by each method."""
    for name, source in (("resnet_32x32", small_net), ("resnet50", large_net)):
        nets, inputs, others = source()
        output = without_softmax(nets[1])
        for method in METHODS:
            found = least_signal(nets, quantize_nets(*nets, others, method=method), inputs, output)
            yield f"{name}, {method}: {found:.1f} dB for the worst image, aim: at least {SIGNAL_DB:.0f}"


# -- speed -------------------------------------------------------------------------------------------------------------


def speed() -> Iterator[str]:
    """Run plans of both kinds by turns; of the ratios of neighbours the median is told."""
    nets, _, others = large_net()
    without_softmax(nets[1])
    small = quantize_nets(*nets, others)
    for batch, turns in ((16, 12), (1, 120)):
        inputs = {"data": draw_inputs("resnet50", batch, {})["data"]}
        for fpmath, name in (("", "float32"), ("bf16", "bfloat16")):
            with FPMATH.override(fpmath), load(*nets, inputs=["data"]) as one, load(*small, inputs=["data"]) as other:
                times = np.array([[_seconds(p.run, inputs) for p in (one, other)] for _ in range(turns + 3)])[3:]
            clock, processor = times[..., 0], times[..., 1]
            ratio, (whole, part) = float(np.median(clock[:, 1] / clock[:, 0])), np.median(clock, 0) * 1e3
            aim = AT_MOST[batch] if not fpmath else 1.0
            least, busy = clock.min(0), np.median(processor, 0) * 1e3
            yield (
                f"resnet50, batch {batch}: int8 {part:.1f} ms, {name} {whole:.1f} ms, "
                f"ratio {ratio:.2f} ({least[1] / least[0]:.2f} of the least times), aim: at most {aim}; "
                f"processor {busy[1]:.1f} over {busy[0]:.1f} ms, {busy[1] / busy[0]:.2f}"
            )


def _seconds(run: Any, inputs: Arrays) -> tuple[float, float]:
    """Return seconds of the clock, and of the processor in all threads."""
    began, busy = time.perf_counter(), time.process_time()
    run(**inputs)
    return time.perf_counter() - began, time.process_time() - busy


PARTS = {"accuracy": accuracy, "signal": signal, "speed": speed}

if __name__ == "__main__":
    for part in sys.argv[1:] if len(sys.argv) > 1 else PARTS:
        for line in PARTS[part]():
            print(line, flush=True)
