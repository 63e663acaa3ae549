"""Gradients of a convolution by Winograd's algorithm: dX, dW and db.

    dX = conv(dY, W turned by 180 degrees with its channels exchanged), with pads of r - 1 - pad

Where dW is not worth it, the next engine that has it computes dW and db.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tazza.codegen.block import Slot
from tazza.codegen.image import accepts_images, filter_steps, float32_gradient, image_layout, image_steps
from tazza.device import Context
from tazza.engines.winograd.code import Code
from tazza.engines.winograd.conv import (
    FASTER,
    choose,
    find_problem,
    launch,
    named_here,
    switched_off,
)
from tazza.engines.winograd.filters import ENGINE
from tazza.engines.winograd.tiling import Problem
from tazza.engines.winograd.weights import best_weights_tiling, weights_launch
from tazza.errors import UnsupportedError
from tazza.operator import LaidOut, Launch, LaunchChain, OpView, Spec, Unsupported, launcher, rank_engines
from tazza.operator.choice import choose_kernel
from tazza.ops.nn.conv import CONV2D_GRADIENT, CONV_GRADIENT
from tazza.proto import OperatorDef
from tazza.runtime.threads import thread_count
from tazza.tensor import ROW_MAJOR, Layout, Strided, TensorSpec


@dataclass(frozen=True, slots=True)
class Part:
    """The launch for some of the gradients, and the layouts that it asked for."""

    launch: Launch
    layouts: dict[str, Layout]


def transposed(problem: Problem) -> Problem:
    """Return the convolution that gives dX from dY."""
    top, left = (problem.r - 1 - pad for pad in problem.pads)
    return Problem(problem.N, problem.K, problem.C, problem.r, problem.out, problem.image, (top, left))


def own_weights(op: OpView, problem: Problem, specs: dict[str, TensorSpec]) -> Part | Unsupported:
    """Return the launch of this engine for dW and db, or that the direct algorithm is as fast."""
    tiling = best_weights_tiling(problem, thread_count())
    reason = None if named_here(op) else switched_off()
    if reason is not None:
        return Unsupported(reason)
    if not named_here(op) and tiling.cycles > FASTER * tiling.direct_cycles:
        return Unsupported("the direct algorithm is as fast for dW")
    last = op.order.upper() == "NHWC"
    X, dY, dW = specs["X"], specs["dY"], specs["dW"]
    layout = dW.layout if isinstance(dW.layout, Strided) else ROW_MAJOR
    steps = image_steps(X, last), image_steps(dY, last), filter_steps(dW, layout, last=last)
    made = weights_launch(tiling, steps, bias="db" in specs)
    return Part(made, {"X": image_layout(X, last), "dY": image_layout(dY, last), "dW": layout})


def others_weights(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Part | Unsupported:
    """Return the launch of another engine for dW and db alone."""
    alone = OperatorDef()
    alone.CopyFrom(op.definition)
    alone.engine = ""
    del alone.output[:]
    kept = [i for i, letter in enumerate(op.output_letters) if letter != "dX"]
    alone.output.extend(op.definition.output[i] for i in kept)
    ranking = [one for one in rank_engines(op.type, context.place.kind, "") if one.engine != ENGINE]
    try:
        found = choose_kernel(op.schema.view(alone), ranking, context, inputs, [outputs[i] for i in kept])
    except UnsupportedError as error:
        return Unsupported(f"dW alone is computed by no other engine: {error.hint}")
    return Part(found.launch, dict(found.layouts))


def prepare_conv_gradient(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> LaidOut | Unsupported:
    """DX, dW and db."""
    specs = float32_gradient(op, inputs, outputs)
    if isinstance(specs, Unsupported):
        return specs
    problem = find_problem(op, specs["X"], specs["W"])
    if isinstance(problem, Unsupported):
        return problem
    first = own_weights(op, problem, specs)
    if "dX" not in specs:
        return first if isinstance(first, Unsupported) else LaidOut(first.launch, first.layouts)
    layout = image_layout(specs["dY"], op.order.upper() == "NHWC")
    second = input_gradient(op, transposed(problem), specs)
    if isinstance(second, Unsupported):
        return second
    if isinstance(first, Unsupported):
        first = others_weights(op, context, [*inputs[:2], replace(specs["dY"], layout=layout)], outputs)
    if isinstance(first, Unsupported):
        return first
    if first.layouts.get("dY", layout) != layout:
        return Unsupported("no other engine computes dW from channels-last images")
    return LaidOut(LaunchChain((first.launch, second.launch)), {**first.layouts, **second.layouts})


def input_gradient(op: OpView, problem: Problem, specs: dict[str, TensorSpec]) -> Part | Unsupported:
    """Return the launch for dX, or that the direct algorithm is as fast; `problem` is the one from dY to dX."""
    tiling = choose(op, problem)
    if isinstance(tiling, Unsupported):
        return tiling
    last = op.order.upper() == "NHWC"
    dY, dX = specs["dY"], specs["dX"]
    code = Code(tiling.algorithm, tiling.rows, bias=False, epilogue=None, operands=0)
    made = launch(tiling, code, dY, dX, last, (Slot("dY"), Slot("W"), 0, Slot("dX")))
    form = tiling.filters(last=last, turned=True).layout()
    return Part(made, {"W": form, "dY": image_layout(dY, last), "dX": image_layout(dX, last)})


for _schema in (CONV_GRADIENT, CONV2D_GRADIENT):
    launcher(_schema, engine=ENGINE, accepts=accepts_images)(prepare_conv_gradient)
