"""Nets of bytes beside PyTorch's quantized operators, whose weights are signed: 128 less than ours, with 0 for 128."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from benchmarks.operators.row import Array, Draw, Peer, Row, family, torch
from tazza.operator import operator_def
from tazza.proto import OperatorDef

SCALE, ZERO, WEIGHT_SCALE = 0.03, 128, 0.02
RESULT_SCALE = 0.5
ONE_OFF = 1.01 / 128
"""Of bytes, where sums are rounded in another order."""


def _bytes_of(name: str, to: str, scale: float = SCALE) -> OperatorDef:
    return operator_def("Int8Quantize", [name], [to], Y_scale=scale, Y_zero_point=ZERO)


def _bytes(x: Any) -> Any:
    return torch.quantize_per_tensor(x, SCALE, ZERO, torch.quint8)


def _images(x: Any) -> Any:
    """Return bytes that lie as ours: channels last."""
    return _bytes(x.permute(0, 3, 1, 2))


def _rows(image: Any) -> Any:
    return image.permute(0, 2, 3, 1)


def _of_bytes(type: str, x: Array, peer: Peer, arguments: Mapping[str, Any]) -> Row:
    """Return the row of an operator that reads the bytes of `x`."""
    first = [_bytes_of("in0", "q0")]
    return Row(type, [x], peer, arguments, first=first, reads=["q0"], steps=True, close=ONE_OFF)


@family()
def quantized(draw: Draw) -> Iterator[Row]:
    """8 images of 64 channels, 28 by 28; rows of 512."""
    N, H, C = draw.extent(8, 2), draw.extent(28, 5), draw.extent(64, 8)
    x = draw.normal(N, H, H, C)
    scales = {"Y_scale": SCALE, "Y_zero_point": ZERO}
    yield Row("Int8Quantize", [x], lambda x: _bytes(x), scales, close=ONE_OFF)
    yield _of_bytes("Int8Dequantize", x, lambda x: _dequantized(_bytes(x)), {})
    yield _of_bytes("Int8Relu", x, lambda x: _rectified(_bytes(x)), scales)
    yield _of_bytes("Int8MaxPool", x, lambda x: _pooled(_images(x)), scales | {"kernel": 2, "stride": 2})
    yield Row(
        "Int8Add",
        [x, draw.normal(N, H, H, C)],
        lambda a, b: _added(_bytes(a), _bytes(b)),
        scales | {"Y_scale": 2 * SCALE},
        first=[_bytes_of("in0", "q0"), _bytes_of("in1", "q1")],
        reads=["q0", "q1"],
        steps=True,
        close=ONE_OFF,
    )
    yield from _products(draw)


def _dequantized(q: Any) -> Callable[[], Any]:
    return lambda: q.dequantize()


def _rectified(q: Any) -> Callable[[], Any]:
    return lambda: torch.relu(q)


def _pooled(q: Any) -> Callable[[], Any]:
    return lambda: _rows(torch.ops.quantized.max_pool2d(q, [2, 2], [2, 2], [0, 0], [1, 1], False))


def _added(a: Any, b: Any) -> Callable[[], Any]:
    return lambda: torch.ops.quantized.add(a, b, 2 * SCALE, ZERO)


def _products(draw: Draw) -> Iterator[Row]:
    N, H, C, M = draw.extent(8, 2), draw.extent(28, 5), draw.extent(64, 8), draw.extent(128, 8)
    results = {"Y_scale": RESULT_SCALE, "Y_zero_point": ZERO}
    biases = operator_def(
        "Int8GivenIntTensorFill", [], ["b"], shape=[M], values=[0] * M, Y_scale=SCALE * WEIGHT_SCALE, Y_zero_point=0
    )
    first = [_bytes_of("in0", "q0"), _bytes_of("in1", "q1", WEIGHT_SCALE), biases]
    yield Row(
        "Int8Conv",
        [draw.normal(N, H, H, C), draw.normal(M, 3, 3, C)],
        _convolved,
        results | {"kernel": 3, "pad": 1, "order": "NHWC"},
        first=first,
        reads=["q0", "q1", "b"],
        steps=True,
        close=ONE_OFF,
    )
    rows, K = draw.extent(256, 5), draw.extent(512, 16)
    yield Row(
        "Int8FC",
        [draw.normal(rows, K), draw.normal(M, K)],
        _multiplied,
        results,
        first=first,
        reads=["q0", "q1", "b"],
        steps=True,
        close=ONE_OFF,
    )


def _weights(w: Any) -> Any:
    return torch.quantize_per_tensor(w, WEIGHT_SCALE, 0, torch.qint8)


def _convolved(x: Any, w: Any) -> Callable[[], Any]:
    weights, zero = _weights(w.permute(0, 3, 1, 2).contiguous()), torch.zeros(len(w))
    packed = torch.ops.quantized.conv2d_prepack(weights, zero, [1, 1], [1, 1], [1, 1], 1)
    image = _images(x)
    return lambda: _rows(torch.ops.quantized.conv2d(image, packed, RESULT_SCALE, ZERO))


def _multiplied(x: Any, w: Any) -> Callable[[], Any]:
    packed = torch.ops.quantized.linear_prepack(_weights(w), torch.zeros(len(w)))
    rows = _bytes(x)
    return lambda: torch.ops.quantized.linear(rows, packed, RESULT_SCALE, ZERO)
