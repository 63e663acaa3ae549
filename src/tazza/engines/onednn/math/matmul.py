"""Products of matrices: MatMul, BatchMatMul and FusedMatMul.

Letters as in `ops.matmul`. A and B are read as they lie: transposition is another order of strides, of which oneDNN has
every one. Y is row-major.
"""

from __future__ import annotations

import math
from typing import cast

from tazza.data_class import dataclass
from tazza.engines.onednn.descriptor import Descriptor
from tazza.engines.onednn.epilogue import Epilogue
from tazza.engines.onednn.library import Unimplemented
from tazza.engines.onednn.prepare import Answer, onednn
from tazza.engines.onednn.primitive import Attributes, describe
from tazza.operator import LaidOut, OpView
from tazza.ops.math.matmul import BATCH_MATMUL, MATMUL
from tazza.ops.nn.fused import FUSED_MATMUL
from tazza.runtime.fpmath import FPMATH
from tazza.tensor import ROW_MAJOR, Layout, Opaque, TensorSpec


@dataclass(frozen=True)
class Side:
    """One factor as matrices: its blob, and its extents (batch..., rows, columns) before they are swapped."""

    spec: TensorSpec
    dims: tuple[int, ...]
    swapped: bool

    def see(self, layout: Layout) -> Descriptor:
        """Return the factor as it stands in the product, if its blob lies in that layout.

        Raises:
            Unimplemented: so it cannot be seen as matrices.
        """
        if isinstance(layout, Opaque):
            raise Unimplemented(f"{self.spec} lies in a form that is no matrix")
        found = Descriptor.of(self.spec.shape, self.spec.dtype, layout).reshape(self.dims)
        rank = len(self.dims)
        return found.permute((*range(rank - 2), rank - 1, rank - 2)) if self.swapped else found

    @property
    def layouts(self) -> tuple[Layout, ...]:
        """The layouts to try: as it lies, then row-major."""
        return tuple(dict.fromkeys((self.spec.layout, ROW_MAJOR)))


def _product(op: OpView, a: Side, b: Side, Y: TensorSpec) -> LaidOut:
    """Return Y = a b with what follows, and the layouts in which it reads A and B.

    Raises:
        Unimplemented: oneDNN has nothing but its reference code.
    """
    follow, refusal = Epilogue.of(op), Unimplemented("oneDNN multiplies no such matrices")
    for layouts in ((first, second) for first in a.layouts for second in b.layouts):
        try:
            left, right = a.see(layouts[0]), b.see(layouts[1])
            batch = map(max, left.dims[:-2], right.dims[:-2])
            target = Descriptor.of((*batch, left.dims[-2], right.dims[-1]), Y.dtype)
            attributes = Attributes(follow.post_ops(target), FPMATH.value)
            flops = 2 * Y.size * right.dims[-2]
            found = describe("matmul", left, right, None, target, attributes=attributes, flops=flops).unless_slow
        except Unimplemented as error:
            refusal = error
            continue
        operands = {"S": ROW_MAJOR} if follow.operands else {}
        launch = follow.launch(found, {"src": "A", "weights": "B", "dst": "Y"})
        return LaidOut(launch, {"A": layouts[0], "B": layouts[1], **operands})
    try:
        raise refusal
    finally:
        del refusal  # its traceback holds this frame


def _matrix(op: OpView, side: str, spec: TensorSpec) -> Side:
    axis = cast("int", op.arguments[f"axis_{side}"])
    dims = (math.prod(spec.shape[:axis]), math.prod(spec.shape[axis:]))
    return Side(spec, dims, bool(op.arguments[f"trans_{side}"]))


@onednn(FUSED_MATMUL)
@onednn(MATMUL, empty="zero")
def matmul(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y = epilogue(A B, S ...), without an epilogue the product itself."""
    return _product(op, _matrix(op, "a", specs["A"]), _matrix(op, "b", specs["B"]), specs["Y"])


@onednn(BATCH_MATMUL, empty="zero")
def batch_matmul(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y[i] = A[i] B[i]."""
    A, B = specs["A"], specs["B"]
    a, b = tuple(A.shape), tuple(B.shape)
    first, second = (a[:-2], a[-2:] if len(a) > 1 else (1, *a)), (b[:-2], b[-2:] if len(b) > 1 else (*b, 1))
    batches = _joined(first[0], second[0])
    trans_a, trans_b = len(a) > 1 and bool(op.trans_a), len(b) > 1 and bool(op.trans_b)
    if math.prod(second[0]) == 1 and not trans_a:
        # One B for all matrices of A: their rows are the rows of one matrix.
        sides = Side(A, (A.size // A.shape[-1], A.shape[-1]), swapped=False), Side(B, second[1], trans_b)
    else:
        sides = Side(A, (*batches[0], *first[1]), trans_a), Side(B, (*batches[1], *second[1]), trans_b)
    return _product(op, *sides, specs["Y"])


def _joined(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return two batches that broadcast with equal rank: one axis each where they have as many matrices, or one has 1.

    >>> _joined((4, 7), (4, 7)), _joined((4, 7), (1, 1)), _joined((4, 7), (7,))
    (((28,), (28,)), ((28,), (1,)), ((4, 7), (1, 7)))
    """
    rank = max(len(first), len(second))
    a, b = ((1,) * (rank - len(dims)) + dims for dims in (first, second))
    if a == b or 1 in (math.prod(a), math.prod(b)):
        return (math.prod(a),), (math.prod(b),)
    return a, b
