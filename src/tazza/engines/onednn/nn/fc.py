"""Fully connected layers: FC, its gradient, FusedFC, and FCTransposed, a product of matrices.

Letters as in `ops.fc`. oneDNN multiplies (N, K) by (M, K); where X is cut at its axis 1, K may be the extents C, S...
of an image, in whatever order they lie: W's columns are then brought into that order, and the image is not reordered.

W has the layout that oneDNN likes best. The gradient reads it as it lies, and writes dW as it is wished for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from tazza.data_class import dataclass
from tazza.engines.onednn.descriptor import Descriptor, accepts_narrow, lies_here, seen_as_it_lies
from tazza.engines.onednn.epilogue import Epilogue
from tazza.engines.onednn.estimate import product_gradient_ns, product_ns
from tazza.engines.onednn.launch import Constant, PrimitiveLaunch, SequenceLaunch, by_letter
from tazza.engines.onednn.library import Unimplemented
from tazza.engines.onednn.narrow import narrowed
from tazza.engines.onednn.prepare import Answer, onednn, wished
from tazza.engines.onednn.primitive import Attributes, PrimitiveDescriptor, describe
from tazza.operator import LaidOut, OpView
from tazza.ops.nn.fc import FC, FC_GRADIENT, fcs
from tazza.ops.nn.fused import FUSED_FC
from tazza.ops.shape.axis import axes_from
from tazza.runtime.fpmath import FPMATH
from tazza.tensor import ROW_MAJOR, DataType, Layout, Opaque, TensorSpec, channels_last

MOST_RANK = 5
"""Of an image that oneDNN multiplies as it lies."""
TALL_ROWS, TALL_FEATURES = 512, 64
"""Of dY, from which on its product with X is made as one of matrices."""


@dataclass(frozen=True, slots=True)
class Product:
    """X (N, inner...), W (M, inner...) and Y (N, M) as oneDNN sees them; `layout` is that of the blob X."""

    N: int
    M: int
    inner: tuple[int, ...]
    layout: Layout

    @classmethod
    def of(cls, op: OpView, X: TensorSpec, W: TensorSpec) -> Product:
        """Return the product of X and W, which takes X as it is shown if it can."""
        columns = axes_from(op.axis, len(X.shape))
        K = math.prod(X.shape[axis] for axis in columns)
        M = W.size // K
        if len(columns) == len(X.shape) - 1 and _is_image(X):
            return cls(X.shape[0], M, tuple(X.shape[1:]), X.layout)
        return cls(X.size // K, M, (K,), ROW_MAJOR)

    def narrowed(self, X: TensorSpec) -> Product:
        """Return the same product with X in the element type in which kernels shall keep it."""
        dtype = narrowed(X.dtype)
        if dtype is X.dtype or lies_here(replace(X, layout=self.layout)):
            return self
        rows = Descriptor.of(X.shape, dtype, self.layout)
        return replace(self, layout=rows.layout(dtype=X.dtype))

    @property
    def flops(self) -> int:
        """2 N M K."""
        return 2 * self.N * self.M * math.prod(self.inner)

    def source(self, X: TensorSpec) -> Descriptor:
        """Return the descriptor of X or dX."""
        return Descriptor.of(X.shape, X.dtype, self.layout).reshape((self.N, *self.inner))

    def target(self, Y: TensorSpec) -> Descriptor:
        """Return the descriptor of Y or dY."""
        return Descriptor.of((self.N, self.M), Y.dtype)

    def any_weights(self, dtype: DataType) -> Descriptor:
        """Return the descriptor by which W or dW is asked for in the best layout."""
        return Descriptor.any((self.M, *self.inner), dtype)

    def weights(self, W: TensorSpec) -> Iterator[Descriptor]:
        """Yield the descriptor of W or dW as it lies, if it can be seen so."""
        try:
            yield seen_as_it_lies(W).reshape((self.M, *self.inner))
        except Unimplemented:
            return


def _is_image(X: TensorSpec) -> bool:
    if not 2 < len(X.shape) <= MOST_RANK:
        return False
    if isinstance(X.layout, Opaque):
        return seen_as_it_lies(X).dims == tuple(X.shape)
    # A row-major image is as good as a row, and for rows oneDNN has better code.
    return X.layout != ROW_MAJOR and X.layout == channels_last(X.shape)


def _answer(view: Product, operation: str, specs: dict[str, TensorSpec], follow: Epilogue) -> LaidOut:
    """Return Y by a layer, or by a product of matrices, which has a row of biases and W as its transpose."""
    W, b, source, target = specs["W"], specs["b"], view.source(specs["X"]), view.target(specs["Y"])
    layer = operation == "inner_product_forward"
    filters = Descriptor.any((view.M, *view.inner) if layer else (*view.inner, view.M), source.dtype)
    found = describe(
        operation,
        *(("forward_inference",) if layer else ()),
        *(source, filters, Descriptor.of((view.M,) if layer else (1, view.M), b.dtype), target),
        attributes=Attributes(follow.post_ops(target), FPMATH.value),
        flops=view.flops,
    )
    layouts = dict.fromkeys(("b", "Y", "S") if follow.operands else ("b", "Y"), ROW_MAJOR)
    layouts |= {"X": view.layout, "W": found.argument("weights").layout(W.shape, dtype=W.dtype)}
    return LaidOut(follow.launch(found, by_letter(specs, "src", "weights", "bias", "dst")), layouts)


@onednn(FC, FUSED_FC, empty="zero", accepts=accepts_narrow, estimate_ns=product_ns)
def fc(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y = epilogue(X W^T + b, S ...), without an epilogue the layer itself."""
    view = Product.of(op, specs["X"], specs["W"]).narrowed(specs["X"])
    return _answer(view, "inner_product_forward", specs, Epilogue.of(op))


@onednn(fcs["FCTransposed"], accepts=accepts_narrow, estimate_ns=product_ns)
def fc_transposed(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y = X W + b."""
    X, K, M = specs["X"], specs["W"].size // specs["b"].size, specs["b"].size
    return _answer(Product(X.size // K, M, (K,), ROW_MAJOR).narrowed(X), "matmul", specs, Epilogue.of(op))


@onednn(FC_GRADIENT, empty="zero", estimate_ns=product_gradient_ns)
def fc_gradient(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Compute dW and db by one primitive, dX by another; dX lies like X."""
    X, W, dW = specs["X"], specs["W"], specs["dW"]
    view = Product.of(op, X, W)
    layouts: dict[str, Layout] = {"X": view.layout, "dY": ROW_MAJOR, "dW": ROW_MAJOR, "db": ROW_MAJOR}
    steps = _tall_weights(view, specs)
    if not steps:
        found = _describe_weights(view, specs)
        steps = [PrimitiveLaunch(found, {"src": "X", "diff_dst": "dY", "diff_weights": "dW", "diff_bias": "db"})]
        layouts["dW"] = found.argument("diff_weights").layout(dW.shape)
    if "dX" in specs:
        data = _describe_data(view, specs)
        steps.append(PrimitiveLaunch(data, {"diff_dst": "dY", "weights": "W", "diff_src": "dX"}))
        layouts |= {"W": data.argument("weights").layout(W.shape), "dX": view.layout}
    return LaidOut(SequenceLaunch(tuple(steps)), layouts)


def _tall_weights(view: Product, specs: dict[str, TensorSpec]) -> list[PrimitiveLaunch]:
    """Return dW and db as products, of dY^T and of a row of ones; none where the code for layers is as fast.

    That code takes up to half as long again where there are more rows than columns of X.
    """
    X, dY, dW, db = (specs[letter] for letter in ("X", "dY", "dW", "db"))
    tall = view.N >= TALL_ROWS and view.N > math.prod(view.inner) and view.M >= TALL_FEATURES
    if not tall or view.layout != ROW_MAJOR or wished(dW):
        return []
    rows = Descriptor.of(dY.shape, dY.dtype).reshape((view.N, view.M))
    inner = Descriptor.of(X.shape, X.dtype).reshape((view.N, math.prod(view.inner)))
    slopes = Descriptor.of((view.M, math.prod(view.inner)), dW.dtype)
    ones, sums = (Descriptor.of((1, count), db.dtype) for count in (view.N, view.M))
    try:
        found = describe("matmul", rows.permute((1, 0)), inner, None, slopes, flops=view.flops).unless_slow
        total = describe("matmul", ones, rows, None, sums, attributes=Attributes()).unless_slow
    except Unimplemented:
        return []
    return [
        PrimitiveLaunch(found, {"src": "dY", "weights": "X", "dst": "dW"}),
        PrimitiveLaunch(total, {"src": Constant(1.0), "weights": "dY", "dst": "db"}),
    ]


def _describe_weights(view: Product, specs: dict[str, TensorSpec]) -> PrimitiveDescriptor:
    dW, bias = specs["dW"], Descriptor.of((view.M,), specs["db"].dtype)
    wishes = [*(view.weights(dW) if wished(dW) else ()), *view.weights(TensorSpec(dW.shape, dW.dtype))]
    given = view.source(specs["X"]), bias, view.target(specs["dY"]), None
    return _first(view, "weights", [*wishes, view.any_weights(dW.dtype)], *given)


def _describe_data(view: Product, specs: dict[str, TensorSpec]) -> PrimitiveDescriptor:
    W = specs["W"]
    given = view.source(specs["dX"]), view.target(specs["dY"]), None
    return _first(view, "data", [*view.weights(W), view.any_weights(W.dtype)], *given)


def _first(
    view: Product, of: str, wishes: list[Descriptor], source: Descriptor, *given: Descriptor | None
) -> PrimitiveDescriptor:
    """Return what the first layout of weights gets that has code; for row-major ones the matrix product is as fast."""
    for one in wishes[:-1]:
        with suppress(Unimplemented):
            return describe(f"inner_product_backward_{of}", source, one, *given, flops=view.flops).unless_slow
    return describe(f"inner_product_backward_{of}", source, wishes[-1], *given, flops=view.flops)
