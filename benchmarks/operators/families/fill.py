"""What makes numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.operators.row import Draw, Row, family, torch


@family()
def fill(draw: Draw) -> Iterator[Row]:
    """A million of them."""
    M, N = draw.square
    shape = {"shape": [M, N]}
    yield Row("ConstantFill", [], lambda: torch.full((M, N), 0.5), shape | {"value": 0.5})
    yield Row("UniformFill", [], lambda: torch.rand(M, N), shape, random=True)
    yield Row("GaussianFill", [], lambda: torch.randn(M, N), shape, random=True)
    whole = shape | {"min": 0, "max": 99}
    yield Row("UniformIntFill", [], lambda: torch.randint(0, 100, (M, N), dtype=torch.int32), whole, random=True)
    xavier, msra = torch is not None, torch is not None
    yield Row(
        "XavierFill",
        [],
        (lambda: torch.nn.init.uniform_(torch.empty(M, N), -((3 / N) ** 0.5), (3 / N) ** 0.5)) if xavier else None,
        shape,
        random=True,
    )
    yield Row(
        "MSRAFill",
        [],
        (lambda: torch.nn.init.normal_(torch.empty(M, N), 0.0, (2 / M) ** 0.5)) if msra else None,
        shape,
        random=True,
    )
    n = draw.many
    yield Row("RangeFill", [np.zeros(n, np.float32)], lambda _: torch.arange(0.0, n))
    yield Row("DiagonalFill", [], lambda: torch.diag(torch.full((M,), 2.0)), {"shape": [M, M], "value": 2.0})
    some = draw.normal(draw.extent(100_000, 50))
    given: Any = None if torch is None else torch.from_numpy(some)
    values = {"values": some.tolist(), "shape": [len(some)]}
    yield Row("GivenTensorFill", [], lambda: given.clone(), values)
