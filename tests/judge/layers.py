"""Layers: every operator by itself, forward and gradient, on every engine, in nets of type `simple` and `plan`."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import Any

import numpy as np

from tazza.errors import TazzaError
from tazza.operator import ENGINES, SCHEMAS, why_unavailable
from tazza.proto import NetDef
from tazza.runtime.fpmath import FPMATH
from tazza.testing.value import data_of
from tazza.workspace import Workspace
from tests.fence import fenced
from tests.judge.draw import CannotDraw, Problem, compute, draw, drawable, gradients, makers_of
from tests.judge.dying_word import now
from tests.judge.exceptions import allowance
from tests.judge.hand import GENERATORS, Array
from tests.judge.outcome import Outcome, Request, Verdict, part
from tests.judge.peer import judge_reference
from tests.judge.verdict import Standard, is_random, rewritten, standard, wrong

NETS = ("simple", "plan")
WILD, FURTHER = 4, 6
"""One of so many problems has wild values, and one an argument that its generator need not know."""
ARGUMENTS, ARGUMENT_ATTEMPTS = 4, 20
"""How many arguments are tried for such a problem, and how many candidates for each."""


def engines_of(type: str) -> list[str]:
    """Return the engines that have a kernel of this type here."""
    return [name for name in ENGINES if why_unavailable(type, "cpu", name) is None]


def drawn_first(only: str = "") -> list[str]:
    """Return the types that layers begin with, each as often as it has engines; gradients follow from them."""
    types = [only] if only else [type for type in drawable() if type in GENERATORS or not makers_of(type)]
    return [type for type in types if not is_random(type) for _ in range(len(engines_of(type)))]


def problems(request: Request) -> Iterator[Problem]:
    """Yield what is asked for: layers evenly over all types, from the seed on."""
    types = drawn_first(request.only)
    if not types:  # what draws random numbers has no result to be judged by
        return
    order = np.random.default_rng(request.seed).permutation(len(types))
    for number in range(request.count):
        type = types[int(order[number % len(types)])]
        seed = request.seed * 100_000 + number
        if number % FURTHER == FURTHER - 1:
            yield further(type, seed)
            continue
        try:
            yield draw(type, seed, wild=number % WILD == WILD - 1)
        except CannotDraw as error:
            raise AssertionError(str(error)) from error


def further(type: str, seed: int) -> Problem:
    """Return a problem with one argument by its declaration alone, a plain one where none of a few is legal."""
    for name in np.random.default_rng(seed).permutation(list(SCHEMAS[type].args))[:ARGUMENTS]:
        with suppress(CannotDraw):
            return draw(type, seed, argument=str(name), attempts=ARGUMENT_ATTEMPTS)
    return draw(type, seed)


@part("layers")
def judge_layers(request: Request) -> Iterator[Outcome]:
    """Yield an outcome for each layer, engine and net type, and for its gradient operators."""
    for number, problem in enumerate(problems(request)):
        for outcome in judge_layer(problem, request.dtype):
            yield replace(outcome, number=number)


def judge_layer(problem: Problem, dtype: str) -> Iterator[Outcome]:
    """Yield outcomes of a problem and of the operators of its gradient; the reference itself is judged by PyTorch."""
    second = judge_reference(problem)
    if second is not None:
        yield second
    yield from judge_problem(problem, dtype)
    with suppress(TazzaError) if problem.argument else nullcontext():  # a gradient may refuse what runs forwards
        for i, backward in enumerate(gradients(problem, compute(problem))):
            yield from judge_problem(backward, dtype, f"gradients({problem})[{i}]")


def judge_problem(
    problem: Problem, dtype: str, again: str = "", ways: Iterable[tuple[str, str]] | None = None
) -> Iterator[Outcome]:
    """Yield an outcome for each engine and net type, or for these of them."""
    if is_random(problem.type):
        return
    told = again if again else str(problem)
    wanted = standard(problem, dtype)
    with FPMATH.override("bf16") if dtype == "bfloat16" else nullcontext():
        for engine, net in itertools.product(engines_of(problem.type), NETS) if ways is None else ways:
            yield _one(problem, wanted, (engine, net, dtype), told)


def _one(problem: Problem, wanted: Standard, way: tuple[str, str, str], told: str) -> Outcome:
    engine, net, dtype = way
    now(f"{told} {engine} {net}")
    try:
        got, ran = run_in_net(problem, engine, net)
    except Exception as error:  # whatever it raises is a mismatch: the reference took the problem
        text = error.message if isinstance(error, TazzaError) else str(error)
        return Outcome(told, problem.type, engine, net, Verdict.MISMATCH, f"{type(error).__name__}: {text}")
    if engine not in ran:
        return Outcome(told, problem.type, engine, net, Verdict.REFUSED)
    lines = list(wrong(got, problem, wanted, allowance(problem, engine, dtype)))
    verdict = Verdict.MISMATCH if lines else Verdict.RIGHT if wanted.decides else Verdict.UNDECIDED
    return Outcome(told, problem.type, engine, net, verdict, "; ".join(lines))


def run_in_net(problem: Problem, engine: str, net: str) -> tuple[dict[str, Array], set[str]]:
    """Run the operator alone in a net of that type; returns its outputs, and the engines that ran.

    All memory lies between pages that nobody may touch: behind them with every second problem, before them else.
    """
    with fenced(at_end=problem.seed % 2 == 0):
        return _ran_in_net(problem, engine, net)


def _ran_in_net(problem: Problem, engine: str, net: str) -> tuple[dict[str, Array], set[str]]:
    definition = NetDef(
        name="layer", type=net, op=[rewritten(problem, engine)], external_output=problem.definition.output
    )
    definition.external_input.extend(problem.inputs)
    workspace = Workspace()
    in_place = set(problem.definition.output) & set(problem.inputs)
    for name in problem.inputs:
        workspace.feed(name, problem.value(name))
    made = workspace.create_net(definition, strict=True)
    with np.errstate(all="ignore"):
        for _ in range(1 if in_place else 2):  # the second run reads what the first one kept
            made.run()
    found: dict[str, Any] = {name: data_of(workspace.fetch(name)) for name in problem.definition.output}
    ran = {row.engine for row in made.explain().rows}
    workspace.reset()
    return found, ran
