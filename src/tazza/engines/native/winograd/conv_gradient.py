"""Gradients of a convolution by Winograd's algorithm: dX, dW and db.

    dX = conv(dY, W turned by 180 degrees with its channels exchanged), with pads of r - 1 - pad

Where another engine offers dW and db for less, that computes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from tazza.codegen.block import Slot, Word
from tazza.codegen.image import accepts_images, filter_words, float32_gradient, image_layout, image_words
from tazza.data_class import dataclass
from tazza.device import Context
from tazza.engines.native.winograd.code import Code
from tazza.engines.native.winograd.conv import check_flag, find_problem, launch
from tazza.engines.native.winograd.filters import ENGINE
from tazza.engines.native.winograd.tiling import Problem, Tiling, best_tiling
from tazza.engines.native.winograd.weights import WeightsTiling, best_weights_tiling, weights_launch
from tazza.operator import LaidOut, Launch, LaunchChain, OpView, Spec, Unsupported, launcher, rank_engines
from tazza.operator.choice import ask_engines
from tazza.operator.engine import asked_engines
from tazza.operator.kernel import Offered
from tazza.ops.nn.conv import CONV2D_GRADIENT, CONV_GRADIENT
from tazza.proto import OperatorDef
from tazza.runtime.threads import thread_count
from tazza.tensor import ROW_MAJOR, Layout, Strided, TensorSpec
from tazza.tensor.offer import Offer, accepted, answered


@dataclass(frozen=True, slots=True)
class Part:
    """The launch for some of the gradients, and the layouts that it asked for."""

    launch: Launch
    layouts: dict[str, Layout]

    @property
    def laid_out(self) -> LaidOut:
        """The same as an answer."""
        return LaidOut(self.launch, self.layouts)


def transposed(problem: Problem) -> Problem:
    """Return the convolution that gives dX from dY."""
    top, left = (problem.r - 1 - pad for pad in problem.pads)
    return Problem(problem.N, problem.K, problem.C, problem.r, problem.out, problem.image, (top, left))


def own_weights(op: OpView, tiling: WeightsTiling, specs: dict[str, TensorSpec]) -> Part:
    """Return the launch of this engine for dW and db."""
    last = op.order.upper() == "NHWC"
    X, dY, dW = specs["X"], specs["dY"], specs["dW"]
    layout = dW.layout if isinstance(dW.layout, Strided) else ROW_MAJOR
    steps = image_words("x", X, last) | image_words("y", dY, last) | filter_words(dW, layout, last=last)
    made = weights_launch(tiling, steps, bias="db" in specs)
    return Part(made, {"X": image_layout(X, last), "dY": image_layout(dY, last), "dW": layout})


def others_weights(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Offer[Callable[[], Part]] | None:
    """Return the best offer of another engine for dW and db alone, where one says how long it takes."""
    alone = OperatorDef()
    alone.CopyFrom(op.definition)
    alone.engine = ""
    del alone.output[:]
    places = [i for i, letter in enumerate(op.output_letters) if letter != "dX"]
    alone.output.extend(op.definition.output[i] for i in places)
    ranking = [one for one in rank_engines(op.type, context.place.kind, "") if one.engine != ENGINE]
    asking = ask_engines(op.schema.view(alone), ranking, context, inputs, [outputs[i] for i in places])
    found = asking.best()
    if found is None or found[1].estimate_ns is None:
        return None

    def make() -> Part:
        answer = accepted(found[1].run())
        return Part(answer.launch, dict(answer.layouts)) if isinstance(answer, LaidOut) else Part(answer, {})

    return Offer(make, estimate_ns=found[1].estimate_ns)


def prepare_conv_gradient(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Offered:
    """DX, dW and db."""
    specs = float32_gradient(op, inputs, outputs)
    check_flag(op)
    problem = find_problem(op, specs["X"], specs["W"])
    own = best_weights_tiling(problem, thread_count())
    first: Offer[Callable[[], Part]] = Offer(partial(own_weights, op, own, specs), estimate_ns=own.estimate_ns)
    if "dX" not in specs:
        return Offer(lambda: first.run().laid_out, estimate_ns=first.estimate_ns)
    layout = image_layout(specs["dY"], op.order.upper() == "NHWC")
    if ENGINE in asked_engines(op.definition.engine):
        make = partial(_both, op, [first], best_tiling(transposed(problem), thread_count()), specs, layout)
        return Offer(make)
    other = others_weights(op, context, [*inputs[:2], replace(specs["dY"], layout=layout)], outputs)
    tiling = best_tiling(transposed(problem), thread_count())
    ways = sorted((way for way in (first, other) if way is not None), key=_time_ns)
    make = partial(_both, op, ways, tiling, specs, layout)
    return Offer(make, estimate_ns=_time_ns(ways[0]) + tiling.estimate_ns)


def _time_ns(offer: Offer[Callable[[], Part]]) -> float:
    assert offer.estimate_ns is not None, "those without were left out"
    return offer.estimate_ns


def _both(
    op: OpView,
    ways: Sequence[Offer[Callable[[], Part]]],
    tiling: Tiling,
    specs: dict[str, TensorSpec],
    layout: Layout,
) -> LaidOut:
    """Return dW by the first of some ways that reads dY as dX does, and dX behind it."""
    for way in ways:
        first = answered(way.run)
        if not isinstance(first, Unsupported) and first.layouts.get("dY", layout) == layout:
            second = input_gradient(op, tiling, specs)
            return LaidOut(LaunchChain((first.launch, second.launch)), {**first.layouts, **second.layouts})
    raise Unsupported("nothing computes dW from channels-last images")


def input_gradient(op: OpView, tiling: Tiling, specs: dict[str, TensorSpec]) -> Part:
    """Return the launch for dX; `tiling` is that of the convolution from dY to dX."""
    last = op.order.upper() == "NHWC"
    dY, dX = specs["dY"], specs["dX"]
    code = Code(tiling.algorithm, tiling.rows, bias=False, epilogue=None, operands=0)
    blobs: dict[str, Word] = {"X": Slot("dY"), "U": Slot("W"), "b": 0, "Y": Slot("dX")}
    made = launch(tiling, code, dY, dX, last, blobs)
    form = tiling.filters(last=last, turned=True).layout()
    return Part(made, {"W": form, "dY": image_layout(dY, last), "dX": image_layout(dX, last)})


for _schema in (CONV_GRADIENT, CONV2D_GRADIENT):
    launcher(_schema, engine=ENGINE, accepts=accepts_images)(prepare_conv_gradient)
