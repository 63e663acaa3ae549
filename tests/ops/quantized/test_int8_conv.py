"""Convolutions of bytes, against convolutions of the numbers that they stand for, element by element."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tazza.errors import ArgumentError, DTypeError, ShapeError
from tazza.operator import run_op
from tazza.tensor import Int8Tensor
from tazza.testing.value import STEPS
from tests.check import Case, check_op, engines_of, on_all_engines
from tests.ops.quantized.numbers import by_channel, octets, quantized, real, whole

SCALE, POINT = 1.5, 110
TO: dict[str, Any] = {"order": "NHWC", "Y_scale": SCALE, "Y_zero_point": POINT}


def convolved(X: Int8Tensor, W: Int8Tensor, b: Int8Tensor, **how: Any) -> Any:
    """Sum over the kernel and the channels of a group, one output at a time."""
    stride, pad, group = how.get("stride", 1), how.get("pad", 0), how.get("group", 1)
    x = np.pad(real(X), ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    w, unit = real(W), np.float64(X.scale) * np.broadcast_to(np.reshape(W.scale, -1), len(W.data))
    N, H, V, _ = x.shape
    M, kH, kW, c = w.shape
    y = np.empty((N, (H - kH) // stride + 1, (V - kW) // stride + 1, M))
    for i, j, m in itertools.product(range(y.shape[1]), range(y.shape[2]), range(M)):
        first = m // (M // group) * c
        patch = x[:, i * stride : i * stride + kH, j * stride : j * stride + kW, first : first + c]
        y[:, i, j, m] = (patch * w[m]).sum((1, 2, 3)) + b.data[m] * unit[m]
    return y


def expected(relu: bool = False, **how: Any) -> Any:
    def compute(X: Int8Tensor, W: Int8Tensor, b: Int8Tensor, S: Int8Tensor | None = None) -> Int8Tensor:
        y = convolved(X, W, b, **how) + (0 if S is None else real(S))
        return quantized(np.maximum(y, 0) if relu else y, SCALE, POINT)

    return compute


X, W, b = octets(2, 5, 7, 4), octets(6, 3, 3, 4, scale=0.02, zero_point=128), whole(6, 0.001)
MANY = by_channel(W, 0.01, 0.03, 128)
MANY_b = by_channel(b, 0.0005, 0.0015)
S = octets(2, 5, 7, 6, scale=0.7, zero_point=90, seed=3)
WINDOWS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("plain", (X, W, b), {"kernel": 3}),
    ("step", (X, W, b), {"kernel": 3, "stride": 2, "pad": 1}),
    ("channels", (X, MANY, MANY_b), {"kernel": 3, "pad": 1}),
    ("groups", (X, octets(6, 3, 3, 2, scale=0.02, zero_point=128), b), {"kernel": 3, "group": 2}),
    ("depthwise", (X, octets(4, 3, 3, 1, scale=0.05, zero_point=128), whole(4, 0.0025)), {"kernel": 3, "group": 4}),
    ("shifted", (X, W._replace(zero_point=101), b), {"kernel": 3}),
    ("zero", (X._replace(zero_point=0), W, b), {"kernel": 3, "pad": 2}),
]


def how(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if name != "kernel"}


ALONE = [
    Case(type, inputs, expected(relu, **how(args)), {**args, **TO}, batched=(0,), id=name)
    for type, relu in (("Int8Conv", False), ("Int8ConvRelu", True))
    for name, inputs, args in WINDOWS
]
SUMMED = [
    Case(
        "Int8FusedConv", (X, w, c, S), expected(relu, pad=1), {"kernel": 3, "pad": 1, "relu": int(relu), **TO}, id=name
    )
    for name, w, c, relu in (("one", W, b, False), ("relu", W, b, True), ("channels", MANY, MANY_b, True))
]


DEEP, DEEP_W = octets(2, 5, 6, 7, 24), octets(24, 2, 2, 4, 1, scale=0.05, zero_point=128)
"""Where oneDNN is wrong: more than 16 channels, filters of a multiple of 16 elements."""


def by_volumes(X: Int8Tensor, W: Int8Tensor, b: Int8Tensor) -> Int8Tensor:
    """Give each channel a filter of its own, over three dimensions."""
    windows = np.lib.stride_tricks.sliding_window_view(real(X), W.data.shape[1:4], (1, 2, 3))  # (N, D, H, V, C, k k k)
    y = np.einsum("ndhvcijk,cijk->ndhvc", windows, real(W)[..., 0]) + b.data * np.float64(X.scale) * W.scale
    return quantized(y, SCALE, POINT)


VOLUMES = [
    Case(
        "Int8Conv",
        (DEEP, DEEP_W, whole(24, 0.0025)),
        by_volumes,
        {"kernels": [2, 2, 4], "group": 24, **TO},
        id="depthwise over volumes",
    )
]


@on_all_engines([*ALONE, *SUMMED, *VOLUMES])
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


@pytest.mark.slow
def test_windows_that_reach_far_out_of_the_image(soak: int) -> None:
    """Up to ten rows of what stands for 0, in images and volumes: oneDNN was wrong there, or ended the process."""
    engines = [engine for engine in engines_of("Int8Conv") if engine != "reference"]
    for seed in range(160 * soak):
        rng = np.random.default_rng(seed)
        rank = 2 + seed % 2
        k, image = rng.integers((1, 6, 2)[-rank:], (3, 12, 8)[-rank:]), rng.integers(4, 13 if rank == 2 else 7, rank)
        head, tail = rng.integers(0, k), rng.integers(0, k)
        tail = np.maximum(tail, k - head - image)
        x = octets(2, *image.tolist(), int(rng.choice((64, 80, 128))), zero_point=int(rng.choice((0, 77))), seed=seed)
        w = octets(48, *k.tolist(), x.data.shape[-1], scale=0.002, zero_point=128, seed=seed)
        given = (x, w, whole(48, float(x.scale * w.scale)))
        window = {
            "kernels": k.tolist(),
            "pads": [*head.tolist(), *tail.tolist()],
            "strides": rng.integers(1, 4, rank).tolist(),
        }
        wanted = run_op("Int8Conv", *given, engine="reference", **window, **TO).data.astype(int)
        for engine in engines:
            found = run_op("Int8Conv", *given, engine=engine, **window, **TO).data.astype(int)
            assert np.abs(found - wanted).max() <= STEPS, (engine, window, x.data.shape, x.zero_point)


def test_the_scale_of_a_bias_does_not_count() -> None:
    """As in Caffe2; where filters have one scale, on every engine."""
    for engine in ("reference", "onednn"):
        results = [run_op("Int8Conv", X, W, c, engine=engine, kernel=3, **TO).data for c in (b, b._replace(scale=7.0))]
        np.testing.assert_array_equal(*results)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(DTypeError, match="must be PerTensor"):
        run_op("Int8Conv", X.data, W, b, kernel=3, **TO)
    last = W._replace(scale=np.full((1, 1, 1, 4), 0.5, np.float32), zero_point=np.full((1, 1, 1, 4), 128, np.int32))
    with pytest.raises(ShapeError, match="axis 3"):
        run_op("Int8Conv", X, last, b, kernel=3, **TO)
    with pytest.raises(ArgumentError, match="NCHW"):
        run_op("Int8Conv", X, W, b, kernel=3, order="NCHW")
    with pytest.raises(ShapeError, match="S has the shape"):
        run_op("Int8FusedConv", X, W, b, S, kernel=3, **TO)
