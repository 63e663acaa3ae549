"""Operators with a wrong index among their inputs, whose memory lies between pages that nobody may touch.

    python -m tests.operator.spoiled TYPE ...

Judges each type in this process, which a read or write outside of the inputs, or of what is allocated, ends at once.
The type is printed before it is judged, and what is wrong with it, as JSON lines.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace

import numpy as np

from tazza.errors import KernelError, TazzaError
from tazza.nets import NetBase, create_net
from tazza.nets.base import PLAN
from tazza.operator import SCHEMAS, Effects, LocalBlobs, Operator, Role, find_schema
from tazza.proto import NetDef, OperatorDef
from tazza.tensor.allocation import using_allocator
from tazza.testing.value import tensor_of
from tests.check import engines_of
from tests.fence import Guarded, between_pages
from tests.judge.draw import CannotDraw, Problem, draw
from tests.judge.hand import Array

SEEDS = 1
"""Problems that are drawn of each operator."""
WRONG = "wrong: "
"""What a line begins with that says what is wrong."""
PLACE = re.compile(r"\b(\w+)\[([\d, ]+)\]")
NUMBER = re.compile(r"-?\d+")
BELOW_ZERO = re.compile(r"-1\b|below 0")


@dataclass(frozen=True)
class Answer:
    """What came of a run: outputs, or the class and text of an error."""

    outputs: tuple[Array, ...] | None
    error: str = ""
    text: str = ""
    changed: str = ""
    """Which input was changed all the same."""

    @property
    def named(self) -> list[str]:
        """The elements that the text names."""
        return [f"{letter}[{place}]" for letter, place in PLACE.findall(self.text)]


class Standing:
    """A plan of an operator between such pages, which runs one problem after another: to make it is most of the work.

    The first of them finds it new, the others as it is after whatever came of those before.
    """

    def __init__(self, *, at_end: bool) -> None:
        """Make nothing yet."""
        self.blobs, self.allocator = LocalBlobs(), Guarded(at_end=at_end)
        self.net: NetBase | None = None

    def run(self, definition: OperatorDef) -> None:
        """Run the plan, which is made if there is none."""
        if self.net is None:
            self.net = create_net(NetDef(op=[definition], type=PLAN), self.blobs)
        self.net.run()

    def close(self) -> None:
        """Close the plan."""
        if self.net is not None:
            self.net.close()


def answer(problem: Problem, way: str, *, at_end: bool) -> Answer:
    """Run a problem between such pages: by an engine, or as a net of the type `plan`; raises as `answer_in`."""
    if way == PLAN:
        with closing(Standing(at_end=at_end)) as standing:
            return answer_in(standing, problem)
    blobs, allocator = LocalBlobs(), Guarded(at_end=at_end)

    def run(definition: OperatorDef) -> None:
        definition.engine = way
        with closing(Operator(definition, blobs)) as operator:
            operator.run()

    return _answered(problem, way, blobs, allocator, run)


def answer_in(standing: Standing, problem: Problem) -> Answer:
    """Run a problem in a plan that stands.

    Raises:
        AssertionError: something was written beside what was allocated.
    """
    return _answered(problem, PLAN, standing.blobs, standing.allocator, standing.run)


def _answered(
    problem: Problem, way: str, blobs: LocalBlobs, allocator: Guarded, run: Callable[[OperatorDef], None]
) -> Answer:
    definition = OperatorDef.FromString(problem.definition.SerializeToString())
    definition.device_option.random_seed = 1
    definition.engine = ""
    for name, array in problem.inputs.items():
        plain = array.dtype.kind == "O" or name in problem.meanings
        value = problem.value(name) if plain else between_pages(array, at_end=allocator.at_end)
        blobs.create_blob(name).set(tensor_of(value))
    with using_allocator(allocator), np.errstate(all="ignore"):
        try:
            run(definition)
            found = Answer(tuple(np.array(blobs.blobs[name].tensor().plain()) for name in definition.output))
        except TazzaError as error:
            found = Answer(None, type(error).__name__, error.message, changed_in(problem, blobs))
    assert not allocator.written_beside(), f"{way} wrote beside what it allocated"
    return found


def changed_in(problem: Problem, blobs: LocalBlobs) -> str:
    """Return the first input whose elements are no longer those that were fed; nothing where all are."""
    for name, array in problem.inputs.items():
        blob = blobs.blobs[name]
        if array.dtype.kind != "O" and blob.is_tensor and blob.tensor().allocated:
            found = np.array(blob.tensor().plain())
            if found.shape != array.shape or found.tobytes() != array.tobytes():
                return name
    return ""


@dataclass(frozen=True)
class Wrong:
    """A problem of which one element of an index was made another one."""

    problem: Problem
    letter: str
    name: str
    place: int
    value: int

    def __str__(self) -> str:
        return f"draw({self.problem.type!r}, {self.problem.seed}) with {self.name}.flat[{self.place}] = {self.value}"

    @property
    def smallest(self) -> bool:
        """Whether the element is the smallest number of its type."""
        return self.value == np.iinfo(self.problem.inputs[self.name].dtype).min

    def unnamed(self, refusal: Answer, *, below_zero: bool) -> str:
        """Return what a refusal does not say: a wrong number and its place, or both sides of a relation.

        A number below 0 is wrong by itself, but where some of them stand for something (`below_zero`).
        """
        if refusal.error == KernelError.__name__:
            return f"nobody has looked at it: {refusal.text}"
        numbers = NUMBER.findall(refusal.text)
        shape = self.problem.inputs[self.name].shape
        at = [str(int(i)) for i in np.unravel_index(self.place, shape)] if max(shape, default=1) > 1 else []
        alone = self.value < 0 and not below_zero
        named = {str(self.value), *at[:1]} <= set(numbers) if alone else len(numbers) >= 2
        return "" if named else f"it does not say which: {refusal.text}"


def wrong_indices(problem: Problem) -> Iterator[Wrong]:
    """Yield the problem with negative numbers, with very large ones, and with extents of what indices may be into."""
    op = problem.schema.view(problem.definition)
    rng = np.random.default_rng(problem.seed)
    extents = {extent for array in problem.inputs.values() for extent in array.shape[:2]}
    for letter, name in zip(op.input_letters, problem.definition.input, strict=True):
        given = problem.inputs[name]
        if problem.schema.inputs_by_letter[letter].role is not Role.INDEX or given.dtype.kind not in "iu":
            continue
        limits, place = np.iinfo(given.dtype), int(rng.integers(0, max(given.size, 1)))
        values = {-1, limits.min, limits.max, *extents, int(given.max(initial=0)) + 1}
        for value in sorted(values if given.size else ()):
            if limits.min <= value <= limits.max:
                spoiled = given.copy()
                spoiled.reshape(-1)[place] = value
                yield Wrong(replace(problem, inputs={**problem.inputs, name: spoiled}), letter, name, place, value)


def differs(one: Answer, other: Answer) -> str:
    """Return how an engine's answer differs from that of the reference; nothing where it does not."""
    if one.changed:
        return f"refused, and {one.changed} is another one"
    if (one.outputs is None) != (other.outputs is None):
        return f"{one.text or 'a result'}; the reference: {other.text or 'a result'}"
    if one.outputs is None or other.outputs is None:
        return "" if one.error == other.error and one.named == other.named else f"{one.text}; reference: {other.text}"
    for mine, theirs in zip(one.outputs, other.outputs, strict=True):
        if mine.shape != theirs.shape:
            return f"{mine.shape} != {theirs.shape}"
        if mine.dtype.kind == "f" and not np.allclose(mine, theirs, rtol=1e-2, atol=1e-2, equal_nan=True):
            return "other numbers"
    return ""


def problems(type: str) -> Iterator[Problem]:
    """Yield some problems of an operator."""
    for seed in range(SEEDS):
        with suppress(CannotDraw):
            yield draw(type, seed)


def judge(type: str) -> Iterator[str]:
    """Yield what is wrong with an operator.

    Engines answer as the reference does, and errors say what is wrong. Who takes -1 takes the smallest number too, as
    what hashes or compares numbers, or its schema says what numbers below 0 stand for: else NumPy counts them from
    behind.
    """
    for problem in problems(type):
        wrong = list(wrong_indices(problem))
        told = [answer(one.problem, "reference", at_end=True) for one in wrong]
        taken = {(one.name, one.value) for one, it in zip(wrong, told, strict=True) if it.outputs is not None}
        plans = {at_end: Standing(at_end=at_end) for at_end in (False, True)}
        for one, it in zip(wrong, told, strict=True):
            below_zero = says_below_zero(one) or (one.name, -1) in taken
            text = "" if it.outputs is not None else one.unnamed(it, below_zero=below_zero)
            if (
                not text
                and one.smallest
                and it.outputs is None
                and (one.name, -1) in taken
                and not says_below_zero(one)
            ):
                text = "-1 is taken, and nobody says what it stands for"
            if text:
                yield f"{one}, reference: {text}"
            yield from among_engines(one, it, plans[one.value >= 0])
        for plan in plans.values():
            plan.close()


def among_engines(wrong: Wrong, told: Answer, plan: Standing) -> Iterator[str]:
    """Yield where engines answer in another way than they should; the page is on the side to which a number leads."""
    at_end = plan.allocator.at_end
    for way in (*engines_of(wrong.problem.type), PLAN):
        if way == "reference" and at_end:
            continue  # it is what was told
        stands = way == PLAN and SCHEMAS[wrong.problem.type].effects is Effects.PURE  # numbers that are drawn go on
        found = answer_in(plan, wrong.problem) if stands else answer(wrong.problem, way, at_end=at_end)
        text = differs(found, told)
        if text:
            yield f"{wrong}, {way}: {text}"


def says_below_zero(wrong: Wrong) -> bool:
    """Whether a schema, or that of the operator whose gradient it is, tells what numbers below 0 stand for."""
    types = {wrong.problem.type, wrong.problem.type.removesuffix("Gradient")}
    schemas = [SCHEMAS[type] for type in sorted(types) if type in SCHEMAS]
    docs = [one.inputs_by_letter[wrong.letter].doc for one in schemas if wrong.letter in one.inputs_by_letter]
    return any(BELOW_ZERO.search(text) for text in (*docs, *(one.doc for one in schemas)))


def main() -> None:
    """Judge what the command line names."""
    for type in sys.argv[1:]:
        assert find_schema(type).type == type
        print(type, flush=True)
        for found in judge(type):
            print(f"{WRONG}{found}", flush=True)


if __name__ == "__main__":
    main()
