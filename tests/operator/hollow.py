"""Operators whose inputs have no element along some axis, or are as drawn, between pages that nobody may touch.

    python -m tests.operator.hollow TYPE ...

Judges each type in this process, which a read or write outside of what there is ends at once. The type is printed
before it is judged, and what is wrong with it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import islice

import numpy as np

from tazza.nets.base import PLAN
from tests.check import engines_of
from tests.judge.draw import Problem
from tests.judge.hand import Array
from tests.operator.spoiled import WRONG, Answer, Standing, answer, answer_in, differs, problems

SEEDS = 1
"""Problems that are drawn of each operator."""


def hollow(problem: Problem) -> Iterator[tuple[str, Problem]]:
    """Yield the problem with each of its extents made 0: in all inputs that have it, and in one of them alone."""
    plain = {
        name: array
        for name, array in problem.inputs.items()
        if array.dtype.kind != "O" and name not in problem.meanings  # bytes have scales for each place of an axis
    }
    for extent in sorted({extent for array in plain.values() for extent in array.shape if extent}):
        having = [name for name, array in plain.items() if extent in array.shape]
        for names in (having, *([name] for name in having if len(having) > 1)):
            cut = {name: without(plain[name], extent) for name in names}
            yield f"{extent} -> 0 in {', '.join(names)}", replace(problem, inputs={**problem.inputs, **cut})


def without(array: Array, extent: int) -> Array:
    """Return an array that has 0 where another one has an extent."""
    return np.zeros([0 if each == extent else each for each in array.shape], array.dtype)


def answered(problem: Problem, way: str, plan: Standing) -> Answer:
    """Return what comes of a run, as `answer`; errors that are none of ours too."""
    try:
        return answer_in(plan, problem) if way == PLAN else answer(problem, way, at_end=plan.allocator.at_end)
    except AssertionError:
        raise
    except Exception as error:
        return Answer(None, type(error).__name__, f"untyped: {type(error).__name__}: {error}")


def judge(kind: str) -> Iterator[str]:
    """Yield what is wrong with an operator: errors without a type, and engines that answer not as the reference.

    What is as drawn is only run: a process that goes on has touched nothing else. What has no elements lies before the
    page behind it, since from there on nothing is its own.
    """
    for problem in islice(problems(kind), SEEDS):
        ways = (*engines_of(kind), PLAN)
        for way in ways:
            for at_end in (True, False):
                answer(problem, way, at_end=at_end)
        with closing(Standing(at_end=True)) as plan:
            for told, one in hollow(problem):
                wanted = answered(one, "reference", plan)
                if wanted.text.startswith("untyped"):
                    yield f"draw({kind!r}, {problem.seed}) with {told}, reference: {wanted.text}"
                for way in ways if wanted.outputs is not None else ():
                    text = "" if way == "reference" else differs(answered(one, way, plan), wanted)
                    if text:
                        yield f"draw({kind!r}, {problem.seed}) with {told}, {way}: {text}"


def main(kinds: list[str]) -> None:
    """Judge operators, and print."""
    for kind in kinds:
        print(kind, flush=True)
        try:
            for line in judge(kind):
                print(f"{WRONG}{line}", flush=True)
        except AssertionError as error:
            print(f"{WRONG}{kind}: {error}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
