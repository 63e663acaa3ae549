"""Convolutions of ResNet-50 on a CUDA device, by cuDNN: the plan that is ranked first beside the fastest of all.

For each distinct convolution, forward and both gradients: microseconds by the device's own clock of the plan that is
taken without a search, of the one that a search takes, and their engines; then the sums over the net.

    python -m benchmarks.gpu_convs [--batch 32]
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import cast

from tazza.device import current_context, device_of
from tazza.engines.cudnn.graph import Behind, Direction, Problem
from tazza.engines.cudnn.image import image_of
from tazza.engines.cudnn.launch import maker_of
from tazza.engines.cudnn.library import CUDNN
from tazza.engines.cudnn.plan import Plan, Wishes, able_candidates, choose_plan
from tazza.engines.cudnn.search import times_of
from tazza.errors import TazzaError
from tazza.graph.inference import infer_net
from tazza.models.zoo import CLASSIFIERS
from tazza.operator import find_schema
from tazza.ops.nn.conv import conv_window
from tazza.tensor import CUDAPlace, DataType, TensorSpec

MODEL = "resnet50"
MOST_PLANS = 12
"""How many of the ranked plans are timed."""
PLACE = CUDAPlace(0)


def convolutions(batch: int) -> Counter[Problem]:
    """Return the convolutions of the net, and how often each stands in it."""
    return Counter(_convolutions(batch))


def _convolutions(batch: int) -> Iterator[Problem]:
    model = CLASSIFIERS[MODEL].inference()
    made = {
        output: spec
        for op in infer_net(model.init_net.proto, {})
        for output, spec in zip(op.definition.output, op.outputs, strict=True)
        if spec is not None
    }
    data = TensorSpec(CLASSIFIERS[MODEL].input_shape(batch), DataType.FLOAT)
    for op in infer_net(model.net.proto, {**made, "data": data}):
        if op.definition.type == "Conv":
            X, W, Y = (cast("TensorSpec", spec) for spec in (*op.inputs[:2], op.outputs[0]))
            view = find_schema("Conv").view(op.definition)
            yield image_of(view, X, W, Y.shape, conv_window(view, X.shape, W.shape)[0])


def timed(problem: Problem, wishes: Wishes) -> tuple[Plan, float, Plan, float]:
    """Return the plan that is ranked first and its seconds, and the fastest of those that fit."""
    maker = maker_of(current_context(PLACE))
    first = choose_plan(maker, problem, wishes)
    assert first is not None, "there is a plan"
    plans = [plan for one in able_candidates(maker, problem, wishes)[:MOST_PLANS] if (plan := one.plan) is not None]
    fitting = [first, *(plan for plan in plans if plan.workspace_bytes <= wishes.limit)]
    times = times_of(PLACE, problem, dict(enumerate(fitting)))
    best = min(times, key=lambda one: times[one])
    return first, times[0], fitting[best], times[best]


def row(title: str, found: Counter[Problem], kind: DataType, wishes: Wishes, steps: tuple[Behind, ...] = ()) -> None:
    """Print the sums of a way to compute, in microseconds, and where the search changes most."""
    for direction in Direction:
        if steps and direction is not Direction.FORWARD:
            continue
        sums, worst = [0.0, 0.0], ("", 0.0)
        for image, count in found.items():
            problem = replace(image, dtype=kind, direction=direction, steps=steps)
            first, own, best, least = timed(problem, wishes)
            sums = [sums[0] + count * own, sums[1] + count * least]
            lost = count * (own - least)
            if lost > worst[1]:
                told = f"X {problem.X.dims} W {problem.W.dims}: engine {first.engine} {own * 1e6:.0f} us"
                worst = f"{told}, engine {best.engine} {least * 1e6:.0f} us", lost
        name = direction.name.lower().replace("_", " ")
        print(
            f"{title:24}{name:18}{sums[0] * 1e6:10.0f}{sums[1] * 1e6:10.0f}{sums[0] / sums[1]:8.2f}  {worst[0]}",
            flush=True,
        )


def main() -> None:
    """Time them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=32)
    batch = parser.parse_args().batch
    try:
        device_of(PLACE)
        CUDNN.functions()
    except TazzaError as error:
        print(f"nothing to time: {error.message}")
        return
    found = convolutions(batch)
    print(f"{len(found)} convolutions of {MODEL}, {found.total()} in all")
    print(f"{'':42}{'ranked us':>10}{'search us':>10}{'ratio':>8}  where most is lost")
    ways = (
        ("float32", DataType.FLOAT, Wishes(), ()),
        ("float32, bias and Relu", DataType.FLOAT, Wishes(), (Behind.BIAS, Behind.STRICT_RELU)),
        ("float32, any order", DataType.FLOAT, Wishes(steady=False), ()),
        ("float32 as TF32", DataType.FLOAT, Wishes(tf32=True), ()),
        ("float16", DataType.FLOAT16, Wishes(), ()),
    )
    for title, kind, wishes, steps in ways:
        try:
            row(title, found, kind, wishes, steps)
        except TazzaError as error:
            print(f"{title}: {error}", flush=True)


if __name__ == "__main__":
    main()
