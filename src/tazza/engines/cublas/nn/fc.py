"""FC, FCTransposed and their gradients: products, biases and sums of rows among them, by a vector of ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tazza.codegen.block import Slot
from tazza.engines.cublas import cublas_kernel
from tazza.engines.cublas.product import LARGEST, TYPES, Ones, Product, ProductLaunch
from tazza.operator import Launch, OpSchema, OpView, Spec, Unsupported
from tazza.ops.nn.fc import fc_gradients, fcs
from tazza.ops.shape.axis import cut, product
from tazza.tensor import TensorSpec


def matrix_extents(op: OpView, axis: str, letter: str, spec: TensorSpec) -> tuple[int, int]:
    """Return rows and columns of a blob that is cut at an axis."""
    rows, columns = (product(part) for part in cut(op, axis, letter, spec.shape))
    assert rows is not None, "its shape is known"
    assert columns is not None, "its shape is known"
    return rows, columns


def check_product(specs: Sequence[Spec], extents: Sequence[int]) -> None:
    """Refuse what no product is made of."""
    kinds = {spec.dtype for spec in specs if isinstance(spec, TensorSpec)}
    if len(kinds) != 1 or not kinds <= TYPES.keys():
        raise Unsupported(f"it multiplies floating point of one type, not {', '.join(map(str, specs))}")
    if max(extents) > LARGEST:
        raise Unsupported("an extent is beyond 2^31 - 1")


def _register(layer: OpSchema, gradient: OpSchema, *, features_first: bool) -> None:
    """Register a layer whose W is (M, K) where features come first, else (K, M)."""

    @cublas_kernel(layer)
    def fc(op: OpView, X: TensorSpec, W: TensorSpec, b: TensorSpec, Y: TensorSpec) -> Launch:
        (N, K), M = matrix_extents(op, "axis", "X", X), b.size
        check_product([X, W, b, Y], (N, K, M))
        bias = Product(Ones(N), Slot("b"), Slot("Y"), (N, M, 1))
        turned = False, features_first
        return ProductLaunch(X.dtype, (bias, Product(Slot("X"), Slot("W"), Slot("Y"), (N, M, K), turned, added=True)))

    @cublas_kernel(gradient)
    def fc_gradient(op: OpView, X: TensorSpec, db: TensorSpec, specs: Mapping[str, TensorSpec]) -> Launch:
        (N, K), M = matrix_extents(op, "axis", "X", X), db.size
        read = [one for letter, one in specs.items() if letter != "W" or "dX" in specs]  # W is read for dX
        check_product(read, (N, K, M))
        x, W, dY = Slot("X"), Slot("W"), Slot("dY")
        weights = (
            Product(dY, x, Slot("dW"), (M, K, N), (True, False))
            if features_first
            else Product(x, dY, Slot("dW"), (K, M, N), (True, False))
        )
        products = [weights, Product(Ones(N), dY, Slot("db"), (1, M, N))]
        if "dX" in specs:
            products.append(Product(dY, W, Slot("dX"), (N, K, M), (False, not features_first)))
        return ProductLaunch(X.dtype, products)


_register(fcs["FC"], fc_gradients["FCGradient"], features_first=True)
_register(fcs["FCTransposed"], fc_gradients["FCTransposedGradient"], features_first=False)
