"""What moves numbers: turning, joining, cutting, repeating, choosing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.operators.row import Draw, F, Row, family, torch


@family()
def shape(draw: Draw) -> Iterator[Row]:
    """A million elements, or an image of 64 channels."""
    M, N = draw.square
    x = draw.normal(M, N)
    yield Row("Transpose", [x], lambda x: x.t().contiguous(), gradient=[0])
    B, T, H, D = draw.extent(8, 2), draw.extent(128, 3), draw.extent(16, 5), draw.extent(64, 7)
    heads = draw.normal(B, T, H, D)
    yield Row(
        "Transpose",
        [heads],
        lambda x: x.permute(0, 2, 1, 3).contiguous(),
        {"axes": [0, 2, 1, 3]},
        what="heads",
        gradient=[0],
    )
    C, S = draw.extent(64, 3), draw.extent(56, 5)
    image = draw.normal(B, C, S, S)
    yield Row("NCHW2NHWC", [image], lambda x: x.permute(0, 2, 3, 1).contiguous())
    yield Row("NHWC2NCHW", [image], lambda x: x.permute(0, 3, 1, 2).contiguous())
    other = draw.normal(B, C, S, S)
    yield Row("Concat", [image, other], lambda a, b: torch.cat([a, b], 1), {"axis": 1}, outputs=2, gradient=[0, 1])
    yield Row("Concat", [x, x], lambda a, b: torch.cat([a, b], 0), {"axis": 0}, what="rows", outputs=2)
    even = draw.normal(B, 2 * C, S, S)
    yield Row(
        "Split", [even], lambda x: [one.contiguous() for one in x.chunk(2, 1)], {"axis": 1}, outputs=2, gradient=[0]
    )
    yield Row(
        "Slice",
        [image],
        lambda x: x[:, 1:-1, 2:-1].contiguous(),
        {"starts": [0, 1, 2, 0], "ends": [-1, -2, -2, -1]},
        gradient=[0],
    )
    yield from _copies(draw, x)
    yield from _chosen(draw, x)


def _copies(draw: Draw, x: np.ndarray) -> Iterator[Row]:
    M, N = x.shape
    yield Row("Copy", [x], lambda x: x.clone())
    yield Row("StopGradient", [x], lambda x: x.clone())
    yield Row("Reshape", [x], lambda x: x.clone().view(N, M), {"shape": [N, M]}, outputs=2)
    yield Row("Flatten", [x], lambda x: x.clone().flatten(1))
    yield Row("ExpandDims", [x], lambda x: x.clone().unsqueeze(0), {"dims": [0]})
    yield Row("Cast", [x], lambda x: x.to(torch.int32), {"to": 2}, what="to int32")
    yield Row("Cast", [x], lambda x: x.to(torch.float64), {"to": 13}, what="to float64")
    yield Row("Cast", [draw.whole(99, M, N, dtype=np.int32)], lambda x: x.to(torch.float32), {"to": 1}, what="int32")
    few = draw.normal(draw.extent(100, 6), N)
    yield Row("Tile", [few], lambda x: x.repeat(10, 1), {"tiles": 10, "axis": 0}, gradient=[0])
    yield Row("NumpyTile", [few, np.array([2, 5], np.int64)], lambda x, _: x.repeat(2, 5))
    row = draw.normal(1, N)
    yield Row("Expand", [row, np.array([M, N], np.int64)], lambda x, _: x.expand(M, N).contiguous(), gradient=[0])
    yield Row(
        "Range",
        [np.array(one, np.float32) for one in (0, draw.many, 1)],
        lambda _, __, ___: torch.arange(0.0, draw.many),
    )


def _chosen(draw: Draw, x: np.ndarray) -> Iterator[Row]:
    M, N = x.shape
    yield Row("BooleanMask", [x, draw.yes(M)], lambda x, m: x[m], gradient=[0])
    yield Row("BooleanMask", [x.reshape(-1), draw.yes(M * N)], lambda x, m: x[m], what="single numbers")
    yield Row("BatchPermutation", [x, draw.order(M, np.int32)], lambda x, i: torch.index_select(x, 0, i), gradient=[0])
    labels = draw.whole(100, draw.extent(10_000, 70))
    yield Row("OneHot", [labels, np.array([100], np.int64)], lambda i, _: F.one_hot(i, 100).to(torch.uint8))
    places = np.argsort(draw.between(0, 1, M, N), 1)
    yield Row("Scatter", [x, places, draw.normal(M, N)], lambda x, i, u: torch.scatter(x, 1, i, u), {"axis": 1})
    yield Row(
        "SequenceMask",
        [x, draw.whole(N, M, dtype=np.int32)],
        lambda x, n: x.masked_fill(torch.arange(x.shape[1]) >= n[:, None], -1e9),
        {"mode": "sequence", "fill_val": -1e9},
        gradient=[0],
    )
    size = draw.extent(56, 4)
    image = draw.normal(draw.extent(8, 2), draw.extent(64, 3), size, size)
    yield Row(
        "SpaceToBatch",
        [image],
        lambda x: torch.cat([x[:, :, a::2, b::2] for a in (0, 1) for b in (0, 1)]),
        {"block_size": 2},
    )
