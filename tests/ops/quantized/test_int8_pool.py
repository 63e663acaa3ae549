"""Pooling of bytes: windows of the numbers that they stand for, one at a time."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tazza.tensor import Int8Tensor
from tests.check import Case, check_op, on_all_engines
from tests.ops.quantized.numbers import octets, quantized, real

X = octets(2, 5, 7, 3)


def expected(type: str, kernel: tuple[int, int], stride: int, pad: int, to: tuple[float, int]) -> Any:
    """A mean counts padding as 0, a maximum does not see it."""

    def compute(x: Int8Tensor) -> Int8Tensor:
        average = "Average" in type
        padded = np.pad(real(x), ((0, 0), (pad, pad), (pad, pad), (0, 0)), constant_values=0.0 if average else -np.inf)
        out = [(extent - k) // stride + 1 for extent, k in zip(padded.shape[1:3], kernel, strict=True)]
        y = np.empty((padded.shape[0], *out, padded.shape[3]))
        for i, j in itertools.product(*map(range, out)):
            window = padded[:, i * stride : i * stride + kernel[0], j * stride : j * stride + kernel[1]]
            y[:, i, j] = window.mean((1, 2)) if average else window.max((1, 2))
        return quantized(np.maximum(y, 0) if "Relu" in type else y, *to)

    return compute


OTHER: dict[str, Any] = {"Y_scale": 0.1, "Y_zero_point": 90}
CASES = [
    Case(type, (x,), expected(type, kernel, stride, pad, to), {**args, "order": "NHWC"}, batched=(0,), id=name)
    for type in ("Int8MaxPool", "Int8MaxPoolRelu", "Int8AveragePool", "Int8AveragePoolRelu")
    for name, x, kernel, stride, pad, to, args in (
        ("as X", X, (3, 2), 2, 0, (0.05, 120), {"kernels": [3, 2], "stride": 2}),
        ("padded", X, (3, 3), 2, 1, (0.05, 120), {"kernel": 3, "stride": 2, "pad": 1}),
        ("zero point 0", X._replace(zero_point=0), (3, 3), 2, 1, (0.05, 0), {"kernel": 3, "stride": 2, "pad": 1}),
        ("other scale", X, (3, 3), 1, 0, (0.1, 90), {"kernel": 3, **OTHER}),
        ("whole", X, (5, 7), 1, 0, (0.1, 90), {"global_pooling": 1, **OTHER}),
    )
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)
