"""Pointwise operators, products of matrices, distances."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.operators.row import FAST, Draw, F, Peer, Row, family, torch

ANY_NUMBER: dict[str, Peer] = {
    "Abs": lambda x: torch.abs(x),
    "Negative": lambda x: torch.neg(x),
    "Erf": lambda x: torch.erf(x),
    "Exp": lambda x: torch.exp(x),
    "Sqr": lambda x: torch.square(x),
    "Sin": lambda x: torch.sin(x),
    "Cos": lambda x: torch.cos(x),
    "Tan": lambda x: torch.tan(x),
    "Atan": lambda x: torch.atan(x),
    "Sinh": lambda x: torch.sinh(x),
    "Cosh": lambda x: torch.cosh(x),
    "Cube": lambda x: torch.pow(x, 3),
}
POSITIVE: dict[str, Peer] = {
    "Log": lambda x: torch.log(x),
    "Sqrt": lambda x: torch.sqrt(x),
    "Rsqrt": lambda x: torch.rsqrt(x),
    "Reciprocal": lambda x: torch.reciprocal(x),
    "Cbrt": lambda x: torch.pow(x, 1 / 3),
    "Asin": lambda x: torch.asin(x),
    "Acos": lambda x: torch.acos(x),
    "Logit": lambda x: torch.logit(x, 1e-6),
}
NO_GRADIENT: dict[str, Peer] = {
    "Ceil": lambda x: torch.ceil(x),
    "Floor": lambda x: torch.floor(x),
    "Sign": lambda x: torch.sign(x),
    "IsNaN": lambda x: torch.isnan(x),
    "ReplaceNaN": lambda x: torch.nan_to_num(x, 0.0),
}
ARITHMETIC: dict[str, Peer] = {
    "Add": lambda a, b: torch.add(a, b),
    "Sub": lambda a, b: torch.sub(a, b),
    "Mul": lambda a, b: torch.mul(a, b),
    "Div": lambda a, b: torch.div(a, b),
}
COMPARISONS: dict[str, Peer] = {
    "EQ": lambda a, b: torch.eq(a, b),
    "NE": lambda a, b: torch.ne(a, b),
    "LT": lambda a, b: torch.lt(a, b),
    "LE": lambda a, b: torch.le(a, b),
    "GT": lambda a, b: torch.gt(a, b),
    "GE": lambda a, b: torch.ge(a, b),
}
LOGIC: dict[str, Peer] = {
    "And": lambda a, b: torch.logical_and(a, b),
    "Or": lambda a, b: torch.logical_or(a, b),
    "Xor": lambda a, b: torch.logical_xor(a, b),
}
BITS: dict[str, Peer] = {
    "BitwiseAnd": lambda a, b: torch.bitwise_and(a, b),
    "BitwiseOr": lambda a, b: torch.bitwise_or(a, b),
    "BitwiseXor": lambda a, b: torch.bitwise_xor(a, b),
}
SEVERAL: dict[str, Peer] = {
    "Max": lambda a, b: torch.maximum(a, b),
    "Min": lambda a, b: torch.minimum(a, b),
    "Mean": lambda a, b: (a + b) / 2,
    "Sum": lambda a, b: torch.add(a, b),
}
BY_ROWS: dict[str, Peer] = {
    "CosineSimilarity": lambda a, b: F.cosine_similarity(a, b),
    "DotProduct": lambda a, b: torch.linalg.vecdot(a, b),
    "L1Distance": lambda a, b: F.pairwise_distance(a, b, 1.0, 0.0),
    "SquaredL2Distance": lambda a, b: torch.sum(torch.square(a - b), 1) / 2,
}


@family(FAST)
def math(draw: Draw) -> Iterator[Row]:
    """One million elements."""
    x, positive = draw.normal(draw.many), draw.between(0.05, 0.95, draw.many)
    for type, peer in ANY_NUMBER.items():
        yield Row(type, [x], peer, gradient=[0])
    for type, peer in POSITIVE.items():
        yield Row(type, [positive], peer, gradient=[0])
    for type, peer in NO_GRADIENT.items():
        yield Row(type, [x], peer)
    yield Row("Clip", [x], lambda x: torch.clamp(x, -0.5, 0.7), {"min": -0.5, "max": 0.7}, gradient=[0])
    yield Row("Scale", [x], lambda x: torch.mul(x, 2.5), {"scale": 2.5}, gradient=[0])
    yield Row("Pow", [positive], lambda x: torch.pow(x, 2.5), {"exponent": 2.5}, gradient=[0])
    yield Row("Mod", [draw.whole(1000, draw.many)], lambda x: torch.remainder(x, 7), {"divisor": 7})
    yield from _binary(draw, x, positive)
    yield from _choices(draw, x)


def _binary(draw: Draw, x: np.ndarray, positive: np.ndarray) -> Iterator[Row]:
    y = draw.normal(draw.many)
    few = draw.whole(9, draw.many, dtype=np.float32)
    for type, peer in ARITHMETIC.items():
        yield Row(type, [x, positive], peer, gradient=[0, 1])
    for type, peer in COMPARISONS.items():
        yield Row(type, [few, few[::-1].copy()], peer)
    for type, peer in LOGIC.items():
        yield Row(type, [draw.yes(draw.many), draw.yes(draw.many)], peer)
    yield Row("Not", [draw.yes(draw.many)], lambda x: torch.logical_not(x))
    for type, peer in BITS.items():
        yield Row(type, [draw.whole(1 << 20, draw.many, dtype=np.int32) for _ in range(2)], peer)
    for type, peer in SEVERAL.items():
        yield Row(type, [x, y], peer, gradient=[0, 1])
    yield Row("Sum", [x, y, positive], lambda a, b, c: a + b + c, what="three")
    yield Row("SumRelu", [x, y], lambda a, b: torch.relu(a + b))
    weights = [np.array([0.3], np.float32), np.array([0.7], np.float32)]
    yield Row(
        "WeightedSum",
        [x, weights[0], y, weights[1]],
        lambda a, _, b, __: torch.mul(a, 0.3).add_(b, alpha=0.7),
    )


def _choices(draw: Draw, x: np.ndarray) -> Iterator[Row]:
    M, N = draw.square
    a, b = draw.normal(M, N), draw.normal(M, N)
    for type, peer in ARITHMETIC.items():
        yield Row(type, [a, draw.between(0.5, 2, N)], peer, {"broadcast": 1}, what="a row to each", gradient=[0, 1])
    yield Row("Where", [draw.yes(M, N), a, b], lambda c, x, y: torch.where(c, x, y))
    yield Row(
        "Conditional", [draw.yes(M), a, b], lambda c, x, y: torch.where(c[:, None], x, y), what="whole rows", most=1.2
    )
    yield Row("RowMul", [a, draw.normal(M)], lambda x, w: x * w[:, None])
    yield Row("ReduceTailSum", [a], lambda x: torch.sum(x, 1))
    for type, peer in BY_ROWS.items():
        yield Row(type, [a, b], peer, gradient=[0, 1])
    edges = np.linspace(-2, 2, 20, dtype=np.float32)
    bounds = None if torch is None else torch.from_numpy(edges)
    yield Row("Bucketize", [x], lambda x: torch.bucketize(x, bounds), {"boundaries": edges.tolist()}, most=1.2)
    members = [3, 5, 7, 11, 13]
    yield Row(
        "IsMemberOf",
        [draw.whole(20, draw.many)],
        lambda x: torch.isin(x, torch.tensor(members)),
        {"value": members},
        most=1.2,
    )


@family(FAST)
def matmul(draw: Draw) -> Iterator[Row]:
    """Products of matrices."""
    M, K, N = draw.extent(512, 5), draw.extent(768, 7), draw.extent(640, 3)
    yield Row("MatMul", [draw.normal(M, K), draw.normal(K, N)], lambda a, b: a @ b, gradient=[0, 1])
    yield Row(
        "MatMul",
        [draw.normal(M, K), draw.normal(N, K)],
        lambda a, b: a @ b.T,
        {"trans_b": 1},
        what="turned",
        gradient=[0, 1],
    )
    G, m = draw.extent(64, 4), draw.extent(128, 5)
    yield Row("BatchMatMul", [draw.normal(G, m, 64), draw.normal(G, 64, m)], lambda a, b: a @ b, gradient=[0, 1])
    X, W, b = draw.normal(M, K), draw.normal(N, K), draw.normal(N)
    yield Row("FC", [X, W, b], lambda x, w, b: F.linear(x, w, b), gradient=[0, 1, 2])
    yield Row("FCTransposed", [X, W.T.copy(), b], lambda x, w, b: torch.addmm(b, x, w), gradient=[0, 1, 2])
    one = draw.normal(1, K)
    yield Row("FC", [one, W, b], lambda x, w, b: F.linear(x, w, b), what="one row", gradient=[0, 1, 2])
