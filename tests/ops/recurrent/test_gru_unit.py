"""GRUUnit and its gradient: against one unit after the other; and what is refused."""

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


def by_unit(*blobs: Array, drop: bool = False) -> Array:
    """Return H, one unit after the other; blobs as the operator takes them, with or without lengths."""
    H_prev, gates, *rest = blobs
    _, N, D = H_prev.shape
    lengths = rest[0] if len(rest) == 2 else np.full(N, 1 << 30)
    H = np.zeros(H_prev.shape)
    for n in range(N):
        for d in range(D):
            before = float(H_prev[0, n, d])
            if rest[-1].item() >= lengths.ravel()[n]:
                H[0, n, d] = 0 if drop else before
                continue
            update, output = float(gates[0, n, D + d]), float(gates[0, n, 2 * D + d])
            kept = 0.5 * (1 + math.tanh(update / 2))
            H[0, n, d] = math.tanh(output) + kept * (before - math.tanh(output))
    return H


def state(N: int, D: int) -> list[Array]:
    """Return H_prev and gates."""
    return [values(1, N, D), 2 * values(1, N, 3 * D, seed=1)]


LENGTHS, STEP = np.array([0, 4, 2, 1, 3], np.int32), np.array([2], np.int32)
RAGGED = [*state(5, 3), LENGTHS, STEP]
CASES = [
    Case("GRUUnit", RAGGED, by_unit, slack=2),
    Case("GRUUnit", RAGGED, partial(by_unit, drop=True), {"drop_states": 1}, slack=2, id="states dropped"),
    Case("GRUUnit", [*state(2, 7), STEP], by_unit, {"sequence_lengths": 0}, slack=2, id="no lengths"),
    Case("GRUUnit", [*state(0, 3), LENGTHS[:0], STEP], by_unit, id="no sequences"),
]


@on_all_engines(CASES)
def test_gru_unit(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_a_sequence_that_has_ended_hands_its_gradient_on() -> None:
    slopes = values(1, 5, 3, seed=2)
    for drop in (0, 1):
        dH_prev, dgates = run_op(
            "GRUUnitGradient", *RAGGED, values(1, 5, 3, seed=3), slopes, outputs=2, drop_states=drop
        )
        ended = LENGTHS <= STEP
        np.testing.assert_array_equal(dgates[0, ended], 0)
        np.testing.assert_array_equal(dH_prev[0, ended], 0 if drop else slopes[0, ended])


REFUSED: list[tuple[list[Any], dict[str, Any], type[Exception], str]] = [
    ([state(5, 3)[0], values(1, 5, 8), LENGTHS, STEP], {}, ShapeError, "gates have G = 8, the state has D = 3"),
    ([state(5, 3)[0], values(1, 4, 9), LENGTHS, STEP], {}, ShapeError, "gates"),
    ([*state(5, 3), LENGTHS[:4], STEP], {}, ShapeError, r"seq_lengths \(4\) are not one for each of N = 5"),
    ([*state(5, 3), LENGTHS.astype(np.int64), STEP], {}, DTypeError, "seq_lengths is int64"),
    ([np.concatenate([x, x]) for x in state(5, 3)] + [LENGTHS, STEP], {}, ShapeError, "H_prev"),
    ([*state(5, 3), LENGTHS], {}, SchemaError, "timestep is missing"),
    ([*RAGGED, LENGTHS], {}, SchemaError, "5 inputs, it takes 3 or 4"),
]


@pytest.mark.parametrize(("inputs", "args", "error", "text"), REFUSED)
def test_refused(inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op("GRUUnit", *inputs, **args)
