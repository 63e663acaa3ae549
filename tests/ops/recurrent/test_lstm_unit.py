"""LSTMUnit and its gradient: against one unit after the other; and what is refused."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, SchemaError, ShapeError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]


def values(*shape: int, seed: int = 0) -> Array:
    """Return float32 numbers around 0, the same in every run."""
    return np.random.default_rng((seed, *shape)).standard_normal(shape, np.float32)


def whole(*numbers: int) -> Array:
    """Return int32 numbers."""
    return np.array(numbers, np.int32)


def sigmoid(x: float) -> float:
    """Return the logistic function."""
    return 1 / (1 + math.exp(-x))


def by_unit(*blobs: Array, bias: float = 0.0, drop: bool = False) -> list[Array]:
    """Return H and C, one unit after the other; blobs as the operator takes them, with or without lengths."""
    H_prev, C_prev, gates, *rest = blobs
    lengths = rest[0] if len(rest) == 2 else np.full(H_prev.shape[1], 1 << 30)
    H, C = np.zeros(H_prev.shape), np.zeros(C_prev.shape)
    D = H_prev.shape[2]
    for n in range(H_prev.shape[1]):
        for d in range(D):
            if rest[-1].item() >= lengths.ravel()[n]:
                H[0, n, d], C[0, n, d] = (0, 0) if drop else (H_prev[0, n, d], C_prev[0, n, d])
                continue
            i, f, o, g = (float(gates[0, n, quarter * D + d]) for quarter in range(4))
            C[0, n, d] = sigmoid(f + bias) * C_prev[0, n, d] + sigmoid(i) * math.tanh(g)
            H[0, n, d] = sigmoid(o) * math.tanh(C[0, n, d])
    return [H, C]


def state(N: int, D: int) -> list[Array]:
    """Return H_prev, C_prev and gates."""
    return [values(1, N, D), values(1, N, D, seed=1), 2 * values(1, N, 4 * D, seed=2)]


LENGTHS, STEP = whole(0, 4, 2, 1, 3), whole(2)
RAGGED = [*state(5, 3), LENGTHS, STEP]

CASES = [
    Case("LSTMUnit", RAGGED, by_unit, outputs=2),
    Case("LSTMUnit", RAGGED, partial(by_unit, drop=True), {"drop_states": 1}, outputs=2, id="states dropped"),
    Case("LSTMUnit", RAGGED, partial(by_unit, bias=1.5), {"forget_bias": 1.5}, outputs=2, id="bias"),
    Case("LSTMUnit", [*state(2, 19), STEP], by_unit, {"sequence_lengths": 0}, outputs=2, id="no lengths"),
    Case("LSTMUnit", [*state(3, 64), whole(9, 9, 9), STEP], by_unit, outputs=2, id="whole vectors"),
    Case("LSTMUnit", [*state(40, 100), np.full(40, 9, "i"), STEP], by_unit, outputs=2, slack=2, id="several threads"),
    Case("LSTMUnit", [*state(0, 3), whole(), STEP], by_unit, outputs=2, id="no sequences"),
]


@on_all_engines(CASES)
def test_lstm_unit(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_gates_far_from_zero() -> None:
    """Sigmoids and tanh end at 0 and 1, also where exp overflows."""
    gates = np.array([[[1e4, -1e4, 1e4, -1e4]]], "f")
    for engine in ("reference", "native"):
        H, C = run_op("LSTMUnit", [[[5.0]]], [[[3.0]]], gates, whole(1), whole(0), outputs=2, engine=engine)
        np.testing.assert_allclose([H.item(), C.item()], [math.tanh(-1), -1], rtol=1e-6)


REFUSED: list[tuple[list[Any], dict[str, Any], type[Exception], str]] = [
    ([*state(5, 3)[:2], values(1, 5, 11), LENGTHS, STEP], {}, ShapeError, "gates have G = 11, the state has D = 3"),
    ([*state(5, 3), LENGTHS[:4], STEP], {}, ShapeError, r"seq_lengths \(4\) are not one for each of N = 5"),
    ([*state(5, 3), LENGTHS, whole(1, 2)], {}, ShapeError, "timestep"),
    ([*state(5, 3), LENGTHS.astype(np.int64), STEP], {}, DTypeError, "seq_lengths is int64, it must be int32"),
    ([x[0] for x in state(5, 3)] + [LENGTHS, STEP], {}, ShapeError, "H_prev has rank 2"),
    ([*state(5, 3), LENGTHS], {}, SchemaError, "4 inputs with sequence_lengths = 1, timestep is missing"),
    ([np.concatenate([x, x]) for x in state(5, 3)] + [LENGTHS, STEP], {}, ShapeError, "H_prev"),
]


@pytest.mark.parametrize(("inputs", "args", "error", "text"), REFUSED)
def test_refused(inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op("LSTMUnit", *inputs, outputs=2, **args)
