"""Every operator that computes tensors can be drawn: whoever registers one that cannot, adds a generator."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tazza.operator import SCHEMAS
from tazza.tensor import DataType
from tests.judge.draw import CannotDraw, Problem, compute, draw, drawable, gradients, makers_of, why_not
from tests.judge.hand import GENERATORS
from tests.judge.layers import ARGUMENT_ATTEMPTS
from tests.sampled import few

SEEDS, MORE = 2, 8
"""How many problems of each type are drawn, and where these happen to be equal (two empty ones)."""
FEW_ATTEMPTS, FEW_ELEMENTS = 100, 3
SINGLE = {"LearningRate"}
"""Operators of single numbers."""
ENOUGH = 60
"""So many problems give each optional input."""
NOBODY_READS = {"unused"}


@pytest.mark.slow
def test_every_operator_has_legal_problems() -> None:
    """No operator is left out, and what is drawn is what its schema and reference kernel take."""
    found = {type: [draw(type, seed, attempts=FEW_ATTEMPTS) for seed in range(SEEDS)] for type in drawable()}
    assert [type for type in sorted(SCHEMAS.keys()) if type not in found and why_not(type) is None] == []
    assert sorted(GENERATORS.keys() - found.keys()) == [], "who has a generator is drawn"
    assert len(found) > 200
    for type, problems in found.items():
        assert all(problem.type == type for problem in problems)
        others = itertools.chain(problems[1:], (draw(type, seed) for seed in range(SEEDS, MORE)))
        assert any(_bytes(problem) != _bytes(problems[0]) for problem in others), type


def _bytes(problem: Problem) -> bytes:
    return problem.definition.SerializeToString() + repr([x.tolist() for x in problem.inputs.values()]).encode()


def _elements(type: str, seed: int) -> int:
    """Return how many elements the largest blob of a problem has."""
    problem = draw(type, seed, attempts=FEW_ATTEMPTS)
    return max(x.size for x in (*problem.inputs.values(), *compute(problem).values()))


@pytest.mark.slow
def test_problems_have_more_than_single_numbers() -> None:
    """Inputs that must agree and are drawn apart do so where each has one element: nothing would be judged by that."""
    types = (type for type in drawable() if SCHEMAS[type].inputs)
    single = {type for type in types if all(_elements(type, seed) <= FEW_ELEMENTS for seed in range(MORE))}
    assert single == SINGLE


@pytest.mark.slow
def test_optional_inputs_are_given() -> None:
    """What no problem has is judged by nothing; blobs that are no tensors come from other operators."""
    missing: dict[str, list[str]] = {}
    for type in drawable():
        letters = {one.name for one in SCHEMAS[type].inputs if one.optional and one.only_tensors}
        for seed in range(ENOUGH):
            if not letters:
                break
            problem = draw(type, seed, attempts=FEW_ATTEMPTS)
            letters -= set(problem.schema.view(problem.definition).input_letters)
        if letters - NOBODY_READS:
            missing[type] = sorted(letters)
    assert missing == {}


@pytest.mark.slow
def test_arguments_are_given(soak: int) -> None:
    """Any that has a value by its declaration alone, but a few that are legal beside some values of others only."""
    types = [type for type in drawable() if type in GENERATORS or not makers_of(type)]
    alone = 0
    missing: list[str] = []
    for type in few(types, len(types) if soak > 1 else len(types) // 8):
        for name in SCHEMAS[type].args:
            told = ""
            for seed in range(3):
                try:
                    draw(type, seed, argument=name, attempts=ARGUMENT_ATTEMPTS)
                    alone += 1
                    break
                except CannotDraw as error:
                    told = str(error)
            else:
                if "without effect here" not in told and "nothing tells a value" not in told:
                    missing.append(told)
    assert len(missing) < 0.05 * alone, "\n".join(missing)


@pytest.mark.slow
def test_a_problem_is_drawn_again() -> None:
    for type in ("Conv", "ConvGradient", "Concat", "SoftmaxWithLoss", "Pointwise"):
        first, again = draw(type, 5, wild=True), draw(type, 5, wild=True)
        assert first.definition == again.definition
        for name, value in first.inputs.items():
            np.testing.assert_array_equal(value, again.inputs[name])


def test_operators_that_work_on_the_host_say_so() -> None:
    with pytest.raises(CannotDraw, match="CreateDB: its kernel works on the host"):
        draw("CreateDB", 0)


def test_given_shapes() -> None:
    """A chain asks for an operator that takes the shape it has."""
    for seed in range(8):
        assert draw("Conv", seed, given={"X": (2, 17, 6, 5)}).inputs["X"].shape == (2, 17, 6, 5)
        assert draw("Add", seed, given={"B": (2, 5)}).inputs["B"].shape == (2, 5)
        assert draw("Relu", seed, given={"X": (3, 7)}, dtype=DataType.FLOAT).inputs["X"].shape == (3, 7)
        assert draw("Concat", seed, given={"X_0": (3, 7)}).inputs["X_0"].shape == (3, 7)


def test_gradients_come_with_their_inputs() -> None:
    problem = draw("FC", 1)
    (backward,) = gradients(problem, compute(problem))
    assert backward.type == "FCGradient"
    assert list(backward.inputs) == ["X", "W", "dY"]
    assert list(compute(backward)) == ["dW", "db", "dX"]


@pytest.mark.slow
def test_extremes_are_well_typed() -> None:
    """Arguments beyond their ranges are stored in the field of their type, and the definition can be read back."""
    changed = 0
    for seed in range(20):
        plain, extreme = draw("Conv", seed), draw("Conv", seed, extreme=True)
        assert list(plain.inputs) == list(extreme.inputs)
        changed += plain.definition != extreme.definition
    assert changed > 10


def test_a_gradient_of_nothing_may_be_refused() -> None:
    """Tiles are 0 in some: forward that runs, and what it was made of is lost."""
    drawn = [draw("Tile", seed) for seed in range(10)]
    found = [(compute(problem)["Y"].size, len(gradients(problem, compute(problem)))) for problem in drawn]
    assert {number for size, number in found if size == 0} == {0}
    assert {number for size, number in found if size} == {1}
