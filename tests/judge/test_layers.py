"""A fixed small part of `make judge`: layers on all engines against the reference in float64, and that it can fail."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tazza.engines.onednn.nn import conv_gradient
from tazza.operator import ENGINES, SCHEMAS
from tazza.tensor import DataType
from tests.judge.condition import STEPPED, in_float64, stepwise
from tests.judge.draw import CannotDraw, Problem, compute, draw, drawable, gradients
from tests.judge.exceptions import DECLARED, EXCUSED, Declared
from tests.judge.layers import drawn_first, engines_of, judge_layer, judge_layers, judge_problem, run_in_net
from tests.judge.outcome import Outcome, Request, Verdict
from tests.judge.verdict import is_random, standard, wrong
from tests.sampled import sampled

ROOT = Path(__file__).parents[2]


def mismatches(outcomes: list[Outcome]) -> list[str]:
    return [f"{o.again} {o.engine} {o.net}: {o.text}" for o in outcomes if o.verdict is Verdict.MISMATCH]


def undecided(outcomes: Sequence[Outcome]) -> float:
    """Return the share of outcomes of which nothing can be said."""
    return sum(outcome.verdict is Verdict.UNDECIDED for outcome in outcomes) / len(outcomes)


@pytest.mark.slow
def test_a_few_layers() -> None:
    outcomes = list(judge_layers(Request(15, seed=1)))
    assert mismatches(outcomes) == []
    assert undecided(outcomes) <= 0.05
    assert sum(outcome.verdict is Verdict.RIGHT for outcome in outcomes) > 40


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_layers(dtype: str) -> None:
    outcomes = list(judge_layers(Request(60, seed=2, dtype=dtype)))
    assert mismatches(outcomes) == []
    assert undecided(outcomes) <= 0.05
    assert {outcome.engine for outcome in outcomes if outcome.verdict is Verdict.RIGHT} >= {
        "native",
        "onednn",
        "reference",
    }


@pytest.mark.slow
def test_normalization_over_any_number_of_channels() -> None:
    """Wide windows, channels that are no multiple of anything, large numbers: where sums must not slide."""
    outcomes = [one for seed in range(24) for one in judge_layer(draw("LRN", seed, wild=seed % 3 == 0), "float32")]
    assert mismatches(outcomes) == []


@pytest.mark.slow
def test_pads_around_a_single_slice_make_several_windows() -> None:
    """The gradient of a maximum over (1, H, W) with pads along the first dimension."""
    for seed in (48, 96):
        assert mismatches(list(judge_layer(draw("MaxPool", seed), "float32"))) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("type", "engine", "least"),
    [
        ("Conv", "native/winograd", 5),
        ("Conv", "native/few_channels", 4),
        ("Conv", "native/row_product", 2),
        ("FC", "native/row_product", 10),
        ("SpatialBN", "native/channels_last", 5),
    ],
)
def test_engines_that_choose_are_reached(type: str, engine: str, least: int) -> None:
    """Of 40 problems of a type so many at least are taken by an engine that takes few."""
    if engine not in engines_of(type):
        pytest.skip(f"{engine} has no {type} here")
    assert sum(engine in run_in_net(draw(type, seed), engine, "simple")[1] for seed in range(40)) >= least


@pytest.mark.slow
def test_products_of_tall_matrices_are_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[bool] = []
    plain = conv_gradient.tall_product

    def counted(*arguments: Any) -> Any:
        found = plain(*arguments)
        taken.append(found is not None)
        return found

    monkeypatch.setattr(conv_gradient, "tall_product", counted)
    for seed in range(60):
        problem = draw("Conv", seed)
        if "b" not in problem.inputs and "order" in {argument.name for argument in problem.definition.arg}:
            for backward in gradients(problem, compute(problem)):
                run_in_net(backward, "onednn", "simple")
    assert sum(taken) >= 2


def judged(problem: Problem, got: dict[str, np.ndarray]) -> list[str]:
    return list(wrong(got, problem, standard(problem)))


def test_a_wrong_element_is_seen() -> None:
    """An error of a few dozen roundings in one element, whatever is large beside it."""
    problem = draw("FC", 3)
    got = compute(problem)
    assert judged(problem, got) == []
    y = got["Y"].reshape(-1)
    y[3] += 1e-3 * abs(y[3]) + 1e-4
    assert judged(problem, got)[0].startswith("Y: 1 of ")


def test_a_number_in_place_of_nan_is_seen() -> None:
    problem = draw("Tanh", 1)
    x = problem.inputs["X"].reshape(-1)
    x[0] = np.nan
    got = compute(problem)
    assert judged(problem, got) == []
    got["Y"].reshape(-1)[0] = 0
    assert judged(problem, got) != []


def test_a_number_or_the_other_sign_in_place_of_infinity_is_seen() -> None:
    problem = draw("Negative", 1)
    problem.inputs["X"].reshape(-1)[0] = np.inf
    got = compute(problem)
    assert judged(problem, got) == []
    for value in (5.0, np.inf, np.nan):
        got["Y"].reshape(-1)[0] = value
        assert judged(problem, got) != [], value


def test_nothing_is_decided_where_any_number_would_do() -> None:
    """All elements behind a number whose square overflows: it is no success that they are not wrong."""
    problem = draw("FC", 3)
    assert standard(problem).decides
    problem.inputs["W"][...] = 1e30
    assert not standard(problem).decides


@pytest.mark.parametrize(
    "type",
    [
        type
        for type in sorted(drawable())
        if not is_random(type) and (type in STEPPED or SCHEMAS[type].formulas is not None)
    ],
)
def test_steps_are_those_of_the_operator(type: str) -> None:
    """What computes step by step what an operator gives, each step rounded, gives just that where none is."""
    problem = draw(type, 4)
    op, inputs = problem.schema.view(problem.definition), list(problem.inputs.values())
    plain = in_float64(op, inputs)
    with np.errstate(all="ignore"):
        found = stepwise(op, inputs, plain, lambda shape, terms: np.ones(shape))
    for one, y in zip(plain if found is None else found, plain, strict=True):
        if y.dtype == object:  # names
            np.testing.assert_array_equal(one, y)
            continue
        rounded = 1e-3 if y.dtype == np.float16 else 1e-6  # what it gives is float16, where it takes nothing else
        np.testing.assert_allclose(one, y, rtol=rounded, atol=rounded)


def test_a_tie_has_one_answer() -> None:
    """An operator that rounds nothing is judged to the last bit, at its kinks too."""
    problem = draw("Relu", 3)
    x = problem.inputs["X"]
    x[...] = np.round(x)
    backward = gradients(problem, compute(problem))[0]
    got = compute(backward)
    assert judged(backward, got) == []
    got["dX"] = np.where(backward.inputs["Y"] == 0, backward.inputs["dY"], got["dX"])
    assert judged(backward, got) != []


def test_where_denormals_count_as_zeros_sums_have_roundings_of_their_own_size() -> None:
    """1e-40 and 0 in one window: whoever takes them for equal adds what both windows give."""
    (problem,) = gradients(forward := draw("MaxPool3D", 6100519, wild=True), compute(forward))
    assert mismatches(list(judge_problem(problem, "float32"))) == []


def test_what_is_asked_for_runs() -> None:
    problem = draw("Relu", 1)
    for engine in engines_of("Relu"):
        for net in ("simple", "plan"):
            assert engine in run_in_net(problem, engine, net)[1]


def test_exceptions_are_documented() -> None:
    text = (ROOT / "docs" / "differences.md").read_text()
    for one in DECLARED:
        assert f"| {one.row}" in text
        assert one.engine in ENGINES


def excused(one: Declared, draws: int) -> int:
    """Return how many elements an exception excuses in wild problems that it is about, until there are some."""
    before = EXCUSED[one.row]
    types = [type for type in drawable() if one.types(type) and one.engine in engines_of(type) and not is_random(type)]
    for seed in range(draws):
        for type in types:
            problem = draw(type, seed, wild=not one.dtype)
            if one.dtype and "X" in problem.inputs and problem.inputs["X"].dtype == np.float32:
                problem.inputs["X"].reshape(-1)[::5] = np.inf
            if one.about(problem):
                list(judge_problem(problem, one.dtype if one.dtype else "float32", ways=[(one.engine, "simple")]))
            if EXCUSED[one.row] > before:
                return EXCUSED[one.row] - before
    return 0


@pytest.mark.slow
@pytest.mark.parametrize("one", DECLARED, ids=lambda one: one.row)
def test_exceptions_are_needed(one: Declared) -> None:
    """An exception that excuses nothing hides what comes in its place: it goes."""
    if ENGINES[one.engine].unavailable() is not None:
        pytest.skip(str(ENGINES[one.engine].unavailable()))
    assert excused(one, 60) > 0


MANY_AXES = (2, 3, 2, 5, 1, 2, 3)
FEW = 8
"""Attempts to draw a problem: what takes any rank hardly needs a second one, what takes no such rank would need all."""


@pytest.mark.slow
@pytest.mark.parametrize("rank", [5, 6, 7])
def test_blobs_of_many_axes(rank: int, soak: int) -> None:
    """Libraries have primitives up to some rank, and not all of them say so: GroupNorm of six axes was wrong."""
    if rank != 6 and soak == 1:
        pytest.skip("with --soak")
    judged, wrong = set[str](), list[str]()
    for type in dict.fromkeys(drawn_first()):
        letter = SCHEMAS[type].inputs[0] if SCHEMAS[type].inputs else None
        if letter is None:
            continue
        given = {f"{letter.name}_0" if letter.variadic else letter.name: MANY_AXES[:rank]}
        try:
            problem = draw(type, rank, dtype=DataType.FLOAT, given=given, attempts=FEW * soak)
        except (CannotDraw, IndexError, ValueError):  # an image has at most five, a matrix two
            continue
        wrong += mismatches(list(judge_layer(problem, "float32")))
        judged.add(type)
    assert not wrong, "\n".join(wrong)
    assert len(judged) > 300


FEW_AXES = ((2, 3), (2, 0, 3), (2,), (1, 1, 1), (0, 3), (), (2, 3, 5))


@pytest.mark.parametrize("type", sampled([type for type in drawable() if SCHEMAS[type].inputs], 64))
def test_blobs_of_few_axes(type: str, soak: int) -> None:
    """Of images no dimension may be left, rows may have no elements: on every engine as on the reference, or a reason.

    Each type takes one of these shapes, those with windows two, and with `--soak` all.
    """
    letter = SCHEMAS[type].inputs[0]
    name = f"{letter.name}_0" if letter.variadic else letter.name
    first = zlib.crc32(type.encode()) % len(FEW_AXES)
    few = FEW_AXES[:2] if "kernel" in SCHEMAS[type].args else FEW_AXES[first : first + 1]
    for shape in few if soak == 1 else FEW_AXES:
        with suppress(CannotDraw, IndexError, ValueError, ZeroDivisionError):  # most take no such blob
            problem = draw(type, 0, given={name: shape}, dtype=DataType.FLOAT, attempts=FEW * soak)
            assert mismatches(list(judge_layer(problem, "float32"))) == []
