"""FC, FCTransposed and their gradients: products, biases and sums of rows among them, by a vector of ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from tazza.codegen.block import Slot, accepts_rows
from tazza.device import Context
from tazza.engines.cublas import KIND, NAME
from tazza.engines.cublas.product import LARGEST, TYPES, Ones, Product, ProductLaunch
from tazza.operator import Launch, OpSchema, OpView, Spec, Unsupported, launcher
from tazza.ops.nn.fc import fc_gradients, fcs
from tazza.ops.shape.axis import cut, product
from tazza.tensor import TensorSpec


def matrix_extents(op: OpView, axis: str, letter: str, spec: TensorSpec) -> tuple[int, int]:
    """Return rows and columns of a blob that is cut at an axis."""
    rows, columns = (product(part) for part in cut(op, axis, letter, spec.shape))
    assert rows is not None, "its shape is known"
    assert columns is not None, "its shape is known"
    return rows, columns


def refusal(specs: Sequence[Spec], extents: Sequence[int]) -> Unsupported | None:
    """Return why no product is made of these, or None."""
    kinds = {spec.dtype for spec in specs if isinstance(spec, TensorSpec)}
    if len(kinds) != 1 or not kinds <= TYPES.keys():
        return Unsupported(f"it multiplies floating point of one type, not {', '.join(map(str, specs))}")
    return Unsupported("an extent is beyond 2^31 - 1") if max(extents) > LARGEST else None


def _layer(features_first: bool) -> Callable[..., Launch | Unsupported]:
    def prepare(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launch | Unsupported:
        del context
        X, W = (cast("TensorSpec", spec) for spec in inputs[:2])
        N, K = matrix_extents(op, "axis", "X", X)
        M = cast("TensorSpec", inputs[2]).size
        reason = refusal([*inputs, *outputs], (N, K, M))
        if reason is not None:
            return reason
        del W
        Y = Slot("Y")
        return ProductLaunch(
            X.dtype,
            (
                Product(Ones(N), Slot("b"), Y, (N, M, 1)),
                Product(Slot("X"), Slot("W"), Y, (N, M, K), (False, features_first), added=True),
            ),
        )

    return prepare


def _gradient(features_first: bool) -> Callable[..., Launch | Unsupported]:
    def prepare(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launch | Unsupported:
        del context
        X = cast("TensorSpec", inputs[0])
        N, K = matrix_extents(op, "axis", "X", X)
        M = cast("TensorSpec", outputs[1]).size
        needed = [*inputs, *outputs] if len(outputs) > 2 else [inputs[0], inputs[2], *outputs]  # W is not read then
        reason = refusal(needed, (N, K, M))
        if reason is not None:
            return reason
        x, W, dY = Slot("X"), Slot("W"), Slot("dY")
        weights = (
            Product(dY, x, Slot("dW"), (M, K, N), (True, False))
            if features_first
            else Product(x, dY, Slot("dW"), (K, M, N), (True, False))
        )
        products = [weights, Product(Ones(N), dY, Slot("db"), (1, M, N))]
        if len(outputs) > 2:
            products.append(Product(dY, W, Slot("dX"), (N, K, M), (False, not features_first)))
        return ProductLaunch(X.dtype, products)

    return prepare


def _register(schemas: Sequence[OpSchema], make: Callable[[bool], Callable[..., Launch | Unsupported]]) -> None:
    for schema, features_first in zip(schemas, (True, False), strict=True):
        prepare = make(features_first)
        prepare.__module__ = __name__
        launcher(schema, engine=NAME, device=KIND, accepts=accepts_rows)(prepare)


_register([fcs["FC"], fcs["FCTransposed"]], _layer)
_register([fc_gradients["FCGradient"], fc_gradients["FCTransposedGradient"]], _gradient)
