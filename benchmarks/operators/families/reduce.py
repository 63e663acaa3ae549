"""Sums, means and extremes; the best few."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.operators.row import FAST, OTHER, Draw, Peer, Row, family, torch

BY_AXIS: dict[str, Peer] = {
    "ReduceSum": lambda x, a: torch.sum(x, a, True),
    "ReduceMean": lambda x, a: torch.mean(x, a, True),
    "ReduceMax": lambda x, a: torch.amax(x, a, True),
    "ReduceMin": lambda x, a: torch.amin(x, a, True),
    "ReduceL1": lambda x, a: torch.linalg.vector_norm(x, 1, a, True),
    "ReduceL2": lambda x, a: torch.linalg.vector_norm(x, 2, a, True),
}
FRONT: dict[str, Peer] = {
    "ReduceFrontSum": lambda x: torch.sum(x, 0),
    "ReduceFrontMean": lambda x: torch.mean(x, 0),
    "ReduceFrontMax": lambda x: torch.amax(x, 0),
    "ReduceBackSum": lambda x: torch.sum(x, 1),
    "ReduceBackMean": lambda x: torch.mean(x, 1),
    "ReduceBackMax": lambda x: torch.amax(x, 1),
}


@family(FAST)
def reduce(draw: Draw) -> Iterator[Row]:
    """A thousand rows of a thousand."""
    M, N = draw.square
    x = draw.normal(M, N)
    for type, peer in BY_AXIS.items():
        for what, axis in {"rows": 1, "columns": 0}.items():
            yield Row(type, [x], lambda x, p=peer, a=axis: p(x, a), {"axes": [axis]}, what=what, gradient=[0])
        yield Row(type, [x], lambda x, p=peer: p(x, (0, 1)), {"axes": [0, 1]}, what="all", gradient=[0])
    for type, peer in FRONT.items():
        yield Row(type, [x], peer, gradient=[0])
    cube = x.reshape(1, M, N)
    yield Row("RowwiseMax", [cube], lambda x: torch.amax(x, 2), gradient=[0])
    yield Row("ColwiseMax", [cube], lambda x: torch.amax(x, 1), gradient=[0])
    yield Row("SumElements", [x], lambda x: torch.sum(x), gradient=[0])
    yield Row("SumSqrElements", [x], lambda x: torch.linalg.vector_norm(x).square())
    yield Row("LpNorm", [x.reshape(-1)], lambda x: torch.linalg.vector_norm(x).square(), {"p": 2}, gradient=[0])
    yield Row("LpNorm", [x.reshape(-1)], lambda x: torch.linalg.vector_norm(x, 1), {"p": 1}, what="p=1", gradient=[0])
    yield Row(
        "Moments",
        [x],
        lambda x: torch.var_mean(x, 1, correction=0)[::-1],
        {"axes": [1]},
        outputs=2,
    )
    yield Row("ArgMax", [x], lambda x: torch.argmax(x, 1), {"axis": 1})
    yield Row("ArgMin", [x], lambda x: torch.argmin(x, 1), {"axis": 1})


@family(OTHER)
def sorting(draw: Draw) -> Iterator[Row]:
    """The largest of rows; quantiles."""
    M, N = draw.square
    x = draw.normal(M, N)
    yield Row("TopK", [x], lambda x: torch.topk(x, 5, 1)[0], {"k": 5}, outputs=2, gradient=[0])
    yield Row("Unique", [draw.whole(1000, draw.many)], lambda x: torch.unique(x))
