"""YellowFin: step by step in float64, with the root of the cubic among all roots; what is refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ShapeError
from tazza.operator import find_schema, run_op
from tests.check import Case, check_op, engines_of, on_all_engines

Array = NDArray[Any]
LETTERS = list(find_schema("YellowFin").inputs_by_letter)


def values(*shape: int, seed: int = 0) -> Array:
    """Return float32 numbers of that shape, the same in every run."""
    return np.random.default_rng([sum(shape), seed]).standard_normal(shape).astype(np.float32)


@dataclass
class Tuner:
    """The paper's algorithm on Python's numbers: all curvatures are kept, and averages are sums of what was seen."""

    weights: Array
    beta: float = 0.999
    width: int = 20
    epsilon: float = 1e-6
    nesterov: bool = False
    debias: bool = True
    lr: float = 0.1
    mu: float = 0.0
    velocity: Any = 0.0
    seen: dict[str, list[Any]] = field(default_factory=dict[str, list[Any]])

    def average(self, name: str, value: Any) -> Any:
        """Note a value and return the average of all: each has the weight (1 - beta) beta^age."""
        own = self.seen.setdefault(name, [])
        own.append(value)
        return sum((1 - self.beta) * self.beta**age * one for age, one in enumerate(reversed(own)))

    def step(self, t: int, g: Array) -> None:
        """Take step t."""
        before = self.velocity
        self.velocity = self.mu * before + self.lr * g
        self.weights = self.weights - (self.mu * self.velocity + self.lr * g if self.nesterov else self.velocity)
        square = max(float((g**2).sum()), self.epsilon)
        mean, mean_square = self.average("g", g), self.average("square", square)
        D = self.average("D", self.average("norm", square**0.5) / mean_square)
        if t < 1:
            return
        logs = self.seen.setdefault("log", [])
        logs.append(np.log(square))
        least, largest = (self.average(of.__name__, of(logs[-self.width :])) for of in (min, max))
        if t < 2:
            return
        share = 1 - self.beta**t if self.debias else 1.0
        h, H = np.exp(least / share), np.exp(largest / share)
        C = max(mean_square / share - float(((mean / share) ** 2).sum()), self.epsilon)
        p = (D / share * h) ** 2 / 2 / C
        roots = np.roots([1, -3, 3 + p, -1])  # (x - 1)^3 + p x
        root = float(roots[np.abs(roots.imag).argmin()].real)
        spread = ((np.sqrt(H / h) - 1) / (np.sqrt(H / h) + 1)) ** 2
        mu = max(root**2, spread)
        self.mu = self.beta * self.mu + (1 - self.beta) * mu
        self.lr = self.beta * self.lr + (1 - self.beta) * (1 - mu**0.5) ** 2 / h


def began(*shape: int, width: int = 20) -> dict[str, Array]:
    """Return what a training begins with."""
    zero = np.zeros(shape, np.float32)
    one = {"lr": np.array([0.1], np.float32), "mu": np.zeros(1, np.float32)}
    state = {"window": np.zeros(width, np.float32), "g_avg": zero, "g2_avg": zero, "averages": np.zeros(5, np.float32)}
    return {"W": values(*shape), "M": zero, **one, **state}


@pytest.mark.parametrize("engine", engines_of("YellowFin"))
@pytest.mark.parametrize(
    "arguments",
    [{}, {"nesterov": 1, "beta": 0.5}, {"zero_debias": 0}, {"curv_win_width": 3, "beta": 0.9, "epsilon": 20.0}],
)
def test_step_by_step(arguments: dict[str, Any], engine: str) -> None:
    width = arguments.get("curv_win_width", 20)
    state = began(2, 3, width=width)
    tuner = Tuner(
        state["W"].astype(np.float64),
        float(np.float32(arguments.get("beta", 0.999))),
        width,
        arguments.get("epsilon", 1e-6),
        bool(arguments.get("nesterov", 0)),
        bool(arguments.get("zero_debias", 1)),
    )
    for t in range(9):
        dW = values(2, 3, seed=t + 1) * (1 + t % 3)
        tuner.step(t, dW.astype(np.float64))
        found = run_op("YellowFin", *state.values(), dW, np.array([t]), engine=engine, **arguments)
        state.update(zip(list(state), found, strict=True))
        wanted = {"W": tuner.weights, "M": tuner.velocity, "lr": tuner.lr, "mu": tuner.mu}
        for letter, value in wanted.items():
            np.testing.assert_allclose(state[letter], np.broadcast_to(value, state[letter].shape), rtol=1e-4, atol=1e-6)
    assert state["lr"] != np.float32(0.1)


def first_step(*inputs: Array) -> tuple[Array, ...]:
    """Return what step 0 leaves: lr and mu are those before it, the window is empty."""
    W, M, lr, mu, window, g_avg, g2_avg, averages, dW, _ = (one.astype(np.float64) for one in inputs)
    moved, square = mu * M + lr * dW, np.square(dW).sum()
    means = 0.75 * averages[:2] + 0.25 * np.array([np.sqrt(square), square])
    distance = 0.75 * averages[4] + 0.25 * means[0] / means[1]
    seen = np.array([*means, *averages[2:4], distance])
    return W - moved, moved, lr, mu, window, 0.75 * g_avg + 0.25 * dW, 0.75 * g2_avg + 0.25 * dW**2, seen


def given(*shape: int) -> list[Array]:
    """Return a state in the middle of a training, a gradient and step 0."""
    numbers = [values(*shape, seed=seed) for seed in range(5)]
    one = [np.array([0.125], np.float32), np.array([0.5], np.float32)]
    rest = [numbers[2], numbers[3] ** 2, values(5, seed=6) ** 2, numbers[4], np.array([0])]
    return [numbers[0], numbers[1], *one, values(20, seed=5), *rest]


CASES = [
    Case("YellowFin", given(4, 3), first_step, {"beta": 0.75}),
    Case("YellowFin", given(7), first_step, {"beta": 0.75}, id="a list"),
]


@on_all_engines(CASES)
def test_first_step(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_gradients_of_zero_count_as_epsilon() -> None:
    state = began(3)
    zero = np.zeros(3, np.float32)
    for t in range(3):
        found = run_op("YellowFin", *state.values(), zero, np.array([t]), epsilon=0.5)
        state.update(zip(list(state), found, strict=True))
    np.testing.assert_allclose(state["window"][:3], [np.log(0.5), np.log(0.5), 0], rtol=1e-6)
    np.testing.assert_array_equal(state["W"], began(3)["W"])


REFUSED = [
    ("M", values(3, 4), r"M has the shape \(3, 4\), W has \(4, 3\)"),
    ("dW", values(12), r"dW has the shape \(12\), W has \(4, 3\)"),
    ("g_avg", values(11), r"g_avg has the shape \(11\), W \(4, 3\)"),
    ("window", values(19), "window has 19 elements, it must have 20"),
    ("averages", values(4), "averages has 4 elements, it must have 5"),
    ("lr", values(2), r"lr has the shape \(2\), it must have 1 element"),
    ("iter", np.array([1, 2]), r"iter has the shape \(2\), it must have 1 element"),
]


@pytest.mark.parametrize(("letter", "value", "text"), REFUSED)
def test_refused(letter: str, value: Array, text: str) -> None:
    inputs = dict(zip(LETTERS, given(4, 3), strict=True)) | {letter: value}
    with pytest.raises(ShapeError, match=text):
        run_op("YellowFin", *inputs.values())
