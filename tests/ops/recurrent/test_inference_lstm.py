"""InferenceLSTM: against a loop over steps and sequences, unit by unit; what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, SchemaError, ShapeError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]
T, B, F, H = 4, 2, 3, 5


def inputs(L: int, D: int, *, biases: bool, batch_first: bool = False, steps: int = T) -> list[Array]:
    """Return X, the states, and the parameters of all layers."""
    random = np.random.default_rng(L + D)

    def drawn(*shape: int) -> Array:
        return random.uniform(-1, 1, shape).astype(np.float32)

    found = [drawn(*((B, steps, F) if batch_first else (steps, B, F))), drawn(L * D, B, H), drawn(L * D, B, H)]
    for layer in range(L):
        for _ in range(D):
            found += [drawn(4 * H, D * H if layer else F), drawn(4 * H, H)]
            found += [drawn(4 * H), drawn(4 * H)] if biases else []
    return found


def _logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def by_unit(given: list[Array], L: int, D: int, *, biases: bool, batch_first: bool = False) -> tuple[Array, ...]:
    """Return what comes out, by loops in float64."""
    X, hidden, cell, *parameters = (one.astype(np.float64) for one in given)
    layer_in = X.transpose(1, 0, 2) if batch_first else X
    left = iter(parameters)
    for layer in range(L):
        out = np.zeros((*layer_in.shape[:2], D * H))
        for d in range(D):
            w, u = next(left), next(left)
            bias = next(left) + next(left) if biases else np.zeros(4 * H)
            state = layer * D + d
            for b in range(B):
                for step in range(len(layer_in)):
                    t = len(layer_in) - 1 - step if d else step
                    z = [w[k] @ layer_in[t, b] + u[k] @ hidden[state, b] + bias[k] for k in range(4 * H)]
                    for k in range(H):
                        kept = _logistic(z[H + k]) * cell[state, b, k]
                        cell[state, b, k] = kept + _logistic(z[k]) * math.tanh(z[2 * H + k])
                        out[t, b, d * H + k] = _logistic(z[3 * H + k]) * math.tanh(cell[state, b, k])
                    hidden[state, b] = out[t, b, d * H : (d + 1) * H]
        layer_in = out
    return layer_in.transpose(1, 0, 2) if batch_first else layer_in, hidden, cell


def case(L: int, D: int, *, biases: bool, batch_first: bool = False, steps: int = T) -> Case:
    given = inputs(L, D, biases=biases, batch_first=batch_first, steps=steps)
    wanted = by_unit(given, L, D, biases=biases, batch_first=batch_first)
    args = {"num_layers": L, "has_biases": biases, "batch_first": batch_first, "bidirectional": D == 2}
    name = f"{L} layers {D} directions {biases} {batch_first} {steps}"
    return Case("InferenceLSTM", given, wanted, args, outputs=3, slack=4, id=name)


CASES = [
    case(1, 1, biases=False),
    case(1, 1, biases=True, batch_first=True),
    case(3, 1, biases=True),
    case(2, 2, biases=True),
    case(2, 2, biases=False, batch_first=True),
    case(2, 2, biases=True, steps=1),
    case(1, 2, biases=True, steps=0),
]


@on_all_engines(CASES)
def test_stacks(case: Case, engine: str) -> None:
    check_op(case, engine)


GIVEN = inputs(1, 1, biases=True)
REFUSED: list[tuple[list[Array], dict[str, Any], type[Exception], str]] = [
    (GIVEN, {"has_biases": 0}, SchemaError, "4 parameters for 1 layers of 1 directions, which have 2"),
    (GIVEN[:-1], {}, SchemaError, "3 parameters for 1 layers of 1 directions, which have 4"),
    (GIVEN, {"num_layers": 2}, SchemaError, "which have 8"),
    ([GIVEN[0][0], *GIVEN[1:]], {}, ShapeError, "it must have 3 dimensions"),
    (GIVEN, {"batch_first": 1}, ShapeError, "hidden is of 2 sequences, X of 4"),
    ([GIVEN[0], GIVEN[1], GIVEN[2][:, :1], *GIVEN[3:]], {}, ShapeError, "cell"),
    ([*GIVEN[:3], GIVEN[3][:, :2], *GIVEN[4:]], {}, ShapeError, r"parameter 0 has the shape \(20, 2\), it must have"),
    ([*GIVEN[:6], GIVEN[6][:3]], {}, ShapeError, r"parameter 3 has the shape \(3\), it must have \(20\)"),
    ([one.astype(np.float64) for one in GIVEN], {}, DTypeError, "X is float64"),
]


@pytest.mark.parametrize(("given", "args", "error", "text"), REFUSED)
def test_refused(given: list[Array], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op("InferenceLSTM", *given, outputs=3, **args)
