"""Convolution by Winograd's algorithm: Conv, Conv2D, and FusedConv with any epilogue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from tazza.codegen.block import BlockLaunch, Slot, Word
from tazza.codegen.image import accepts_images, conv_layouts, image_layout, image_problem, image_words
from tazza.device import Context
from tazza.engines.native.winograd import SOURCES
from tazza.engines.native.winograd.algorithm import FORMS
from tazza.engines.native.winograd.code import BLOCK, Code
from tazza.engines.native.winograd.filters import ENGINE
from tazza.engines.native.winograd.tiling import Problem, Tiling, best_tiling
from tazza.operator import LaidOut, OpView, Spec, Unsupported, kernel_key, launcher
from tazza.operator.choice import VARIANTS, Variant
from tazza.operator.engine import asked_engines
from tazza.operator.kernel import Offered
from tazza.ops.nn.conv import CONV, CONV2D, conv_window
from tazza.ops.nn.fused import FUSED_CONV, epilogue_of
from tazza.runtime.flags import flag
from tazza.runtime.threads import thread_count
from tazza.tensor import TensorSpec
from tazza.tensor.offer import Offer
from tazza.tensor.residue import residue_bytes

ENABLED = flag("winograd", True, "let convolutions run by Winograd's algorithm where it is faster", kernels=True)


def find_problem(op: OpView, X: TensorSpec, W: TensorSpec) -> Problem:
    """Return the convolution as a problem, where it is one for this engine."""
    window, dims = conv_window(op, X.shape, W.shape)
    last = op.order.upper() == "NHWC"
    if window.rank != 2 or window.stride != (1, 1) or window.dilation != (1, 1) or op.group != 1:
        raise Unsupported("it takes two dimensions, stride 1, dilation 1 and one group")
    if window.kernel not in ((3, 3), (5, 5)):
        raise Unsupported(f"it takes filters of 3 x 3 and 5 x 5, not of {window.kernel[0]} x {window.kernel[1]}")
    N, *rest = X.shape
    C, H, width = (rest[-1], *rest[:2]) if last else tuple(rest)
    out = (int(dims[0] or 0), int(dims[1] or 0))
    return Problem(N, C, W.shape[0], window.kernel[0], (H, width), out, (window.head[0], window.head[1]))


def check_flag(op: OpView) -> None:
    """Refuse where the flag keeps this engine out and the operator does not name it."""
    if not ENABLED.value and ENGINE not in asked_engines(op.definition.engine):
        raise Unsupported("the flag winograd is off")


def launch(
    tiling: Tiling, code: Code, X: TensorSpec, Y: TensorSpec, last: bool, blobs: Mapping[str, Word]
) -> BlockLaunch:
    """Return the launch; `blobs` say where X, U, b and Y lie if not in those of their letters."""
    words = BLOCK.words(
        **{"threads": min(tiling.threads, tiling.blocks * tiling.slices)},
        **blobs,
        **tiling.problem.words(tiling.algorithm.m),
        **image_words("x", X, last),
        **image_words("y", Y, last),
        **{"block_rows": tiling.block_rows, "slice_panels": tiling.slice_panels, "slices": tiling.slices},
        **{"u_matrix": tiling.filters(last=last).matrix_floats, "scratch_floats": tiling.scratch_floats},
    )
    address = SOURCES.compiled(code.description, code.write, rewrite=False)
    words += tuple(Slot("S", i) for i in range(code.operands))
    return BlockLaunch(address, words, 4 * tiling.scratch_floats * tiling.threads)


def prepare_conv(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Offered:
    """Y = epilogue(conv(X, W, b), S ...)."""
    del context
    problem, X, Y = image_problem(find_problem, op, inputs, outputs)
    check_flag(op)
    tiling = best_tiling(problem, thread_count())
    # U and a residue, in place of W; of nets that do not say what their inputs are W stays, too.
    held = tiling.filter_bytes + residue_bytes(problem.weights) - 4 * problem.weights
    return Offer(partial(_answer, op, tiling, X, Y), estimate_ns=tiling.estimate_ns, nbytes=held)


def _answer(op: OpView, tiling: Tiling, X: TensorSpec, Y: TensorSpec) -> LaidOut:
    last = op.order.upper() == "NHWC"
    fused = op.type == FUSED_CONV.type
    operands = op.operands if fused else 0
    with_bias = "b" in op.input_letters
    code = Code(tiling.algorithm, tiling.rows, with_bias, epilogue_of(op) if fused else None, operands)
    layout = image_layout(X, last)
    made = launch(tiling, code, X, Y, last, {"U": Slot("W")} | ({} if with_bias else {"b": 0}))
    form = tiling.filters(last=last).layout()
    return LaidOut(made, conv_layouts(op, layout, form, image_layout(Y, last), operands))


def variants(op: OpView, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> list[Variant]:
    """Return the ways with tiles of each size, for who times them; whatever the model says of the direct algorithm."""
    problem, X, Y = image_problem(find_problem, op, inputs, outputs)
    check_flag(op)
    tilings = {m: best_tiling(problem, thread_count(), m) for m, r in FORMS if r == problem.r}
    return [Variant(f"tiles of {m} x {m}", _answer(op, one, X, Y)) for m, one in tilings.items()]


for _schema in (CONV, CONV2D, FUSED_CONV):
    launcher(_schema, engine=ENGINE, accepts=accepts_images)(prepare_conv)
    VARIANTS.register(kernel_key(_schema.type, ENGINE), variants, help="tiles of each size")
