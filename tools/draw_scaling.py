"""Compute how ResNet-50 scales for docs/machines.md, and draw it: `python -m tools.draw_scaling`.

Measured are one step of one rank on this machine, operator by operator, the least of some; all else is computed by
`tazza.distributed.scaling` for networks whose two numbers are given here.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from tazza.distributed.buckets import backward_span, gradients_of, in_buckets
from tazza.distributed.data_parallel import BUCKET_BYTES
from tazza.distributed.scaling import Bucket, MeasuredStep, Network
from tazza.models import sgd
from tazza.models.training import seed_operators
from tazza.models.zoo import CLASSIFIERS
from tazza.observers.drawing import new_figure, save_figure
from tazza.observers.recorder import Recorder
from tazza.tensor import Tensor
from tazza.workspace import Workspace

DOCS = Path(__file__).parent.parent / "docs"
PAGE, PICTURE = "machines.md", "machines_scaling.svg"
BEGIN, END = "<!-- the table -->\n", "<!-- the end of the table -->\n"
NET, BATCH, RUNS = "resnet50", 4, 4
RANKS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
NETWORKS = (Network("10 Gbit/s, 30 µs", 30e-6, 1.25e9), Network("100 Gbit/s, 3 µs", 3e-6, 12.5e9))
FASTER = 50
"""How many times as fast as here a rank may be, for the second half of the table: as an accelerator is."""


def measured(net: str = NET, batch: int = BATCH, runs: int = RUNS) -> MeasuredStep:
    """Return the step of one rank: the least time that each operator took in some runs."""
    model = CLASSIFIERS[net].training(accuracy=False)
    sgd(model, 0.1, momentum=0.9)
    for proto in (model.init_net.proto, model.net.proto):
        seed_operators(proto, 1)
    workspace = Workspace()
    random = np.random.default_rng(1)
    workspace.feed("data", random.normal(size=(batch, 3, 224, 224)).astype(np.float32))
    workspace.feed("label", random.integers(0, 1000, batch).astype(np.int32))
    workspace.run_net_once(model.init_net.proto)
    made = workspace.create_net(model.net.proto)
    made.run()
    least: dict[int, float] = {}
    for _ in range(runs):
        with Recorder(made) as recorder:
            made.run()
            for position, *_, started_s, ended_s in (record[1:5] for record in recorder.records):
                least[position] = min(least.get(position, float("inf")), ended_s - started_s)
    times_s = [least[position] for position in range(len(made.operators))]
    behind_s = np.cumsum(times_s)
    span = backward_span(model.net.proto)
    gradients = gradients_of(model.net.proto)
    sizes = {name: workspace.blob(name).get(Tensor).nbytes for one in gradients for name in one.blobs}
    buckets = [
        Bucket(float(behind_s[one.ready]), sum(sizes[name] for name in one.blobs))
        for one in in_buckets(gradients, sizes, BUCKET_BYTES)
    ]
    end_s = float(behind_s[span.stop - 1])
    return MeasuredStep(buckets, end_s, float(behind_s[-1]) - end_s)


def faster(step: MeasuredStep, times: float) -> MeasuredStep:
    """Return the step of a rank that computes so many times as fast."""
    buckets = [replace(one, ready_s=one.ready_s / times) for one in step.buckets]
    return MeasuredStep(buckets, step.backward_s / times, step.update_s / times)


def table(steps: dict[str, MeasuredStep]) -> str:
    """Return the table of the page."""
    heads = [f"{name}; {network.name}" for name in steps for network in NETWORKS]
    lines = ["| ranks | " + " | ".join(heads) + " |", "|---:|" + "---:|" * len(heads)]
    for ranks in RANKS:
        cells = [
            f"{step.on(network, ranks) * 1e3:,.1f} ms, {step.efficiency(network, ranks):.0%}"
            for step in steps.values()
            for network in NETWORKS
        ]
        lines.append(f"| {ranks} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def draw(steps: dict[str, MeasuredStep], path: Path) -> None:
    """Draw the share of the speed of single ranks over their number."""
    figure = new_figure(7.0, 4.0)
    axes = figure.add_subplot(1, 1, 1, xlabel="ranks", ylabel="efficiency", title="ResNet-50, computed", xscale="log")
    for name, step in steps.items():
        for network in NETWORKS:
            shares = [step.efficiency(network, ranks) for ranks in RANKS]
            axes.plot(RANKS, shares, marker="o", label=f"{name}; {network.name}")
    axes.set_xticks(RANKS, [str(ranks) for ranks in RANKS])
    axes.minorticks_off()
    axes.set_ylim(0, 1.05)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    save_figure(figure, path)


def main() -> None:
    """Measure, compute, and write the page and its picture."""
    step = measured()
    steps = {"as here": step, f"{FASTER} times as fast": faster(step, FASTER)}
    nbytes = sum(bucket.nbytes for bucket in step.buckets)
    text = (
        f"Measured: a step of one rank, {BATCH} images of 224 x 224, {step.alone_s:.2f} s, {step.update_s:.3f} s of it"
        f" for updates; {nbytes / 1e6:.1f} MB of gradients in {len(step.buckets)} buckets. All else is computed.\n\n"
    )
    page = DOCS / PAGE
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, _, behind = rest.partition(END)
    page.write_text(before + BEGIN + text + table(steps) + END + behind, encoding="utf-8")
    draw(steps, DOCS / PICTURE)


if __name__ == "__main__":
    main()
