"""A layer that remembers, and what its steps do behind their products."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.operators.row import Draw, Row, family, torch


def _lstm_step(_: Any, c: Any, gates: Any, *__: Any) -> Any:
    i, f, o, g = gates.chunk(4, 2)
    cell = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(cell), cell


def _gru_step(h: Any, gates: Any, *_: Any) -> Any:
    _, update, out = gates.chunk(3, 2)
    part = torch.sigmoid(update)
    return part * h + (1 - part) * torch.tanh(out)


def _lstm(x: Any, h: Any, c: Any, *weights: Any) -> Any:
    return torch.lstm(x, (h, c), weights, True, 1, 0.0, False, False, False)


@family()
def recurrent(draw: Draw) -> Iterator[Row]:
    """20 steps of 32 sequences, 256 hidden units; steps of 128 sequences."""
    T, N, D = draw.extent(20, 3), draw.extent(32, 2), draw.extent(256, 5)
    weights = [draw.normal(4 * D, D) / 16, draw.normal(4 * D, D) / 16, draw.normal(4 * D), draw.normal(4 * D)]
    zero = np.zeros((1, N, D), np.float32)
    yield Row(
        "InferenceLSTM",
        [draw.normal(T, N, D), zero, zero, *weights],
        _lstm,
        outputs=3,
    )
    B = draw.extent(128, 3)
    h, c = draw.normal(1, B, D), draw.normal(1, B, D)
    lengths, step = np.full(B, 9, np.int32), np.array([0], np.int32)
    yield Row("LSTMUnit", [h, c, draw.normal(1, B, 4 * D), lengths, step], _lstm_step, outputs=2)
    yield Row("GRUUnit", [h, draw.normal(1, B, 3 * D), lengths, step], _gru_step)
