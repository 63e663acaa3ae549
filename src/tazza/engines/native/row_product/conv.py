"""Convolutions whose window is the whole image: Y (N, M) = epilogue(X W^T + b), one row for each image.

Nets have them where an image was pooled to one pixel (squeeze and excitation, classifiers of 1 x 1), and where a fully
connected layer was written as a convolution. X (N, C, ...) and W (M, C, ...) lie in the same order, whichever it is, so
that a row of W meets an image element by element, as in `fc`, whose kernel this is. Libraries bring W into the panels
of their convolutions, and wake threads by the work of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import cast

from tazza.codegen.block import accepts_rows, all_float32
from tazza.device import Context
from tazza.engines.native.row_product.fc import ENGINE, rows_launch, rows_ns
from tazza.operator import OpView, Spec, Unsupported, kernel_key, launcher
from tazza.operator.choice import VARIANTS, Variant
from tazza.operator.kernel import Offered
from tazza.ops.nn.conv import CONVS, conv_window
from tazza.ops.nn.fused import FUSED_CONV
from tazza.ops.nn.window import channels_first_dims
from tazza.tensor import TensorSpec
from tazza.tensor.offer import Offer


def find_problem(op: OpView, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> tuple[TensorSpec, int, int]:
    """Return the spec of W, N and M, or why this is no product of rows."""
    if not all_float32(*inputs, *outputs):
        raise Unsupported("it computes in float32")
    X, W, Y = (cast("TensorSpec", spec) for spec in (*inputs[:2], outputs[0]))
    window, out = conv_window(op, X.shape, W.shape)
    image = channels_first_dims(op.order, X.shape)[2:]
    spread = any(step != 1 < count for step, count in zip(window.dilation, window.kernel, strict=True))
    if tuple(image) != window.kernel or any(window.head) or any(one != 1 for one in out) or spread or op.group != 1:
        raise Unsupported(f"its window is not the whole image, in one group: {window.kernel} over {tuple(image)}")
    if X.size == 0 or Y.size == 0:
        raise Unsupported("there is nothing to compute")
    return W, X.shape[0], W.shape[0]


def prepare_conv(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Offered:
    """Compile Y = epilogue(X W^T + b, S ...)."""
    del context
    found = find_problem(op, inputs, outputs)
    W, N, _ = found
    return Offer(partial(rows_launch, op, *found), estimate_ns=rows_ns(W, N))


def variants(op: OpView, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> list[Variant]:
    """Return its only way, for who times it."""
    return [Variant.only(rows_launch(op, *find_problem(op, inputs, outputs)))]


for _schema in (*CONVS, FUSED_CONV):
    launcher(_schema, engine=ENGINE, accepts=accepts_rows, batch_invariant=True)(prepare_conv)
    VARIANTS.register(kernel_key(_schema.type, ENGINE), variants, help="its only way")
