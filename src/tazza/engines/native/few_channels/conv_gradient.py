"""Gradients of convolutions of images with few channels: dW and db, and with a stride of 1 dX behind them.

Plans do not ask for the gradient of what a net reads; nets of other types have that blob, and pay for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tazza.codegen.block import BlockLaunch
from tazza.codegen.image import accepts_images, filter_words, float32_gradient, image_layout, image_words
from tazza.codegen.kernel import lane_count
from tazza.device import Context
from tazza.engines.native.few_channels import SOURCES
from tazza.engines.native.few_channels.conv import (
    Problem,
    compute_ns,
    find_problem,
    image_source,
    packing_words,
)
from tazza.engines.native.few_channels.filters import ENGINE
from tazza.engines.native.few_channels.image_gradient import Turned, image_launch, turned
from tazza.engines.native.few_channels.packing import Packing
from tazza.engines.native.few_channels.weights_code import BLOCK, WeightsCode
from tazza.operator import LaidOut, LaunchChain, OpView, Spec, launcher
from tazza.operator.kernel import Offered
from tazza.ops.nn.conv import CONV2D_GRADIENT, CONV_GRADIENT
from tazza.runtime.machine import machine
from tazza.runtime.threads import thread_count
from tazza.tensor import ROW_MAJOR, Strided, TensorSpec
from tazza.tensor.offer import Offer

NUMBERS = {16: range(14, 4, -1), 8: range(6, 3, -1), 4: range(6, 3, -1)}
"""L -> numbers of a window in a register tile: as many as there are registers for, or fewer that leave less over."""
MOST_SUM_BYTES = 192 << 10
"""What sums may take in the cache of a core."""
CACHE_SHARE = 0.6
"""Part of the rate of the last cache at which larger ones are read and written."""
ROW_PIXELS = 2.0
"""Pixels of a row of dY that take as long as to read and write the sums, which every row does."""


def prepare_conv_gradient(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Offered:
    """DW, db and dX."""
    del context
    specs = float32_gradient(op, inputs, outputs)
    problem = find_problem(op, specs["X"], specs["W"])
    if "dX" not in specs:
        return Offer(partial(_answer, op, problem, specs), estimate_ns=_estimate_ns(problem))
    back = turned(problem)
    make = partial(_with_image, op, problem, back, specs)
    return Offer(make, estimate_ns=_estimate_ns(problem) + back.estimate_ns)


def _with_image(op: OpView, problem: Problem, back: Turned, specs: dict[str, TensorSpec]) -> LaidOut:
    """Return dW and db, and dX behind them: both read dY with its channels last."""
    first, second = _answer(op, problem, specs), image_launch(op, back, specs)
    return LaidOut(LaunchChain((first.launch, second.launch)), {**first.layouts, **second.layouts})


def _numbers(problem: Problem) -> tuple[int, int]:
    """Return the numbers of a register tile, and those of a row of a window filled up to whole tiles."""
    run = problem.window.kernel[1] * problem.C
    numbers = min(NUMBERS[lane_count()], key=lambda count: -(-run // count) * count)
    return numbers, -(-run // numbers) * numbers


def _estimate_ns(problem: Problem) -> float:
    """Return what it takes: sums are read and written with every row, and some are of nothing."""
    kH, kW = problem.window.kernel
    _, run = _numbers(problem)
    used = kW * problem.C / run * problem.K / (problem.panels * 2 * lane_count())
    products_ns = compute_ns(problem, used) * (1 + ROW_PIXELS / problem.out[1])
    nbytes = 8 * lane_count() * problem.panels * kH * run
    rows = problem.N * problem.out[0]
    far_bytes = 2 * nbytes * rows if nbytes > MOST_SUM_BYTES else 0
    far_ns = far_bytes / (CACHE_SHARE * machine().cache_bytes_per_ns * thread_count())
    return products_ns + far_ns


def _answer(op: OpView, problem: Problem, specs: dict[str, TensorSpec]) -> LaidOut:
    last = op.order.upper() == "NHWC"
    X, dY, dW = specs["X"], specs["dY"], specs["dW"]
    source, planes = image_source(X, problem.C, last)
    (kH, kW), across = problem.window.kernel, problem.window.stride[1]
    code = WeightsCode(Packing(problem.C, kW, across, planes), _numbers(problem)[0], "db" in specs)
    layout = dW.layout if isinstance(dW.layout, Strided) else ROW_MAJOR
    packing, packed = packing_words(problem, planes=planes)
    own = packed + problem.panels * (kH * code.run + 1) * 2 * lane_count()
    words = BLOCK.words(
        **packing | {"scratch_floats": own, "packed_floats": packed, "oW": problem.out[1], "K": problem.K},
        **image_words("y", dY, last),
        **filter_words(dW, layout, last=last),
        **({} if code.bias else {"db": 0}),
    )
    address = SOURCES.compiled(code.description, code.write, rewrite=False)
    launch = BlockLaunch(address, words, 4 * own * packing["threads"])
    layouts = {"X": source, "dY": image_layout(dY, last), "dW": layout}
    return LaidOut(launch, layouts | ({"db": ROW_MAJOR} if code.bias else {}))


for _schema in (CONV_GRADIENT, CONV2D_GRADIENT):
    launcher(_schema, engine=ENGINE, accepts=accepts_images)(prepare_conv_gradient)
