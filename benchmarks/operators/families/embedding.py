"""Tables whose rows are stored in a few bits, scale and bias behind them: PyTorch's have the same format."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.operators.row import Draw, Row, family, torch
from tazza.operator import operator_def

FORMATS = {8: "byte", 4: "4bit", 2: "2bit"}


@family()
def embedding(draw: Draw) -> Iterator[Row]:
    """20000 rows of a table of 100000, 64 numbers each; conversions of 20000 rows."""
    rows, few = draw.extent(100_000, 40), draw.extent(20_000, 24)
    table, some = draw.normal(rows, 64), draw.normal(few, 64)
    places, lengths = draw.whole(rows, few, dtype=np.int32), np.full(few // 4, 4, np.int32)
    starts = (np.arange(few // 4 + 1) * 4).astype(np.int32)
    for bits, name in FORMATS.items():
        to, back = f"FloatToFused{bits}BitRowwiseQuantized", f"Fused{bits}BitRowwiseQuantizedToFloat"
        yield Row(to, [some], lambda x, n=name: _of(n, "prepack")(x), close=2e-2)
        yield Row(
            back,
            [some],
            lambda x, n=name: _of(n, "unpack", _of(n, "prepack")(x)),
            first=[operator_def(to, ["in0"], ["packed"])],
            reads=["packed"],
            steps=True,
            close=1e-2,
        )
        yield Row(
            f"SparseLengthsSumFused{bits}BitRowwise",
            [table, places.astype(np.int64), lengths],
            lambda x, i, s, n=name: _of(n, "rowwise_offsets", _of(n, "prepack")(x), i, s, include_last_offset=True),
            first=[operator_def(to, ["in0"], ["packed"])],
            reads=["packed", "in1", "in2"],
            theirs=[table, places, starts],
            steps=True,
            close=1e-2,
        )


def _of(name: str, what: str, *given: Any, **options: Any) -> Callable[..., Any]:
    """Return PyTorch's operator on tables of a format, or a call of it where arguments are given."""
    operator = getattr(torch.ops.quantized, f"embedding_bag_{name}_{what}")
    return (lambda: operator(*given, **options)) if given else operator
