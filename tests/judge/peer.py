"""PyTorch as a second judge, where it is installed: of the reference kernels, forward and gradient, in float64.

Counterparts are registered by operator type in `counterparts`. Both sides get the same numbers; how far an element may
be off follows from how far it moves when all numbers do by relative steps, and what jumps then is no rounding.
Gradients are those of a random direction: by autograd there, by the emitted operators here; numbers are moved apart
first, since at ties and kinks each framework has its own.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np

from tazza.errors import TazzaError
from tazza.operator import SCHEMAS, OpView, gradient_for_op
from tazza.operator.gradient import GradientRule
from tests.check import evaluate
from tests.judge.condition import wide
from tests.judge.draw import Problem
from tests.judge.hand import Array
from tests.judge.outcome import Outcome, Verdict

ENGINE, NET = "torch", "float64"
"""What stands in the place of engine and net of an outcome."""
STEP, FINE, DRAWS = 2.0**-24, 2.0**-32, 4
CLOSE = 1e-10
"""What is allowed of a number, and of what it moves for a step of its own size."""
FLOOR = 1e-13
"""What roundings leave of what cancels, as 1 - tanh(x)^2, beside the largest number, or 1."""
JUMP = 0.25
APART = 2.0**-20
"""How far numbers are moved before all else, so that none are equal; probabilities still sum up to 1."""

Tensor: TypeAlias = Any
Counterpart: TypeAlias = Callable[..., "Tensor | Sequence[Tensor | None]"]
COUNTERPARTS: dict[str, Counterpart] = {}
"""Operator type -> function of its view and its inputs, by letter, that returns its outputs, None for one to leave."""


class NoCounterpart(LookupError):
    """PyTorch has nothing that is obviously the same."""


def counterpart(*types: str) -> Callable[[Counterpart], Counterpart]:
    """Register a counterpart for these types."""

    def decorate(function: Counterpart) -> Counterpart:
        for type in types:
            COUNTERPARTS[type] = function
        return function

    return decorate


def why_no_torch() -> str | None:
    """Return why PyTorch does not judge here, None where it does."""
    return None if importlib.util.find_spec("torch") is not None else "PyTorch is not installed"


@functools.cache
def torch() -> Any:
    """Return the module."""
    return importlib.import_module("torch")


def judge_reference(problem: Problem) -> Outcome | None:
    """Return what PyTorch says about the reference kernels; None where it has no say."""
    if why_no_torch() is not None or problem.type not in _loaded() or not _is_tame(problem):
        return None
    told = (str(problem), problem.type, ENGINE, NET)
    try:
        with np.errstate(all="ignore"):
            lines = wrong(problem)
    except NoCounterpart as reason:
        return Outcome(*told, Verdict.REFUSED, str(reason))
    except Exception as error:  # whatever is raised: the reference took the problem
        return Outcome(*told, Verdict.MISMATCH, f"{type(error).__name__}: {error}")
    return Outcome(*told, Verdict.MISMATCH if lines else Verdict.RIGHT, "; ".join(lines))


@functools.cache
def _loaded() -> dict[str, Counterpart]:
    importlib.import_module("tests.judge.counterparts")
    return COUNTERPARTS


def _is_tame(problem: Problem) -> bool:
    """Whether its floats are those of float32, and finite: float64 has no other overflow there."""
    floats = [x for x in problem.inputs.values() if x.dtype.kind not in "biuO"]
    return not problem.wild and all(x.dtype == np.float32 for x in floats)


@dataclass(frozen=True)
class Result:
    """What an operator gives, by blob name: its outputs and the gradients of its inputs, None for what has no say."""

    values: dict[str, Array | None]


def wrong(problem: Problem) -> list[str]:
    """Return a line for each output or gradient in which the reference kernels differ from PyTorch."""
    op = problem.schema.view(problem.definition)
    rng = np.random.default_rng(problem.seed)
    inputs = [_apart(wide(x), rng) if _has_gradient(op) else wide(x) for x in problem.inputs.values()]
    drawn = [rng.standard_normal(y.shape) if y.dtype.kind == "f" else None for y in evaluate(op, inputs)]
    there = by_torch(op, inputs, drawn)
    directions = [d if there.values[f"output {i}"] is not None else None for i, d in enumerate(drawn)]
    here = by_reference(op, inputs, directions)
    around = [by_reference(op, [_moved(x, rng, STEP) for x in inputs], directions) for _ in range(DRAWS)]
    near = by_reference(op, [_moved(x, rng, FINE) for x in inputs], directions)
    return [line for name in there.values for line in _compared(name, here, there, around, near)]


def _has_gradient(op: OpView) -> bool:
    in_place = set(op.definition.input) & set(op.definition.output)
    return isinstance(op.schema.gradient_rule, GradientRule) and not in_place


def _apart(x: Array, rng: np.random.Generator) -> Array:
    """Return numbers of which no two are equal, and none is 0."""
    if x.dtype != np.float64:
        return x
    return np.where(x == 0, rng.uniform(-APART, APART, x.shape), _moved(x, rng, APART))


def _moved(x: Array, rng: np.random.Generator, step: float) -> Array:
    if x.dtype != np.float64:
        return x
    return x * (1.0 + step * rng.uniform(0.5, 1.5, x.shape) * rng.choice((-1.0, 1.0), x.shape))


def by_torch(op: OpView, inputs: Sequence[Array], directions: Sequence[Array | None]) -> Result:
    """Return outputs, and by autograd the gradients of the sum of their products with these directions.

    Raises:
        NoCounterpart: there is nothing that is the same.
    """
    given = [torch().tensor(np.array(x)) for x in inputs]
    for x in given:
        x.requires_grad_(x.is_floating_point())
    found = COUNTERPARTS[op.type](op, **_by_letter(op, given))
    outputs: list[Tensor] = list(cast("Sequence[Tensor]", found)) if isinstance(found, tuple | list) else [found]
    outputs += [None] * (len(directions) - len(outputs))
    values: dict[str, Array | None] = {
        f"output {i}": None if y is None else y.detach().numpy() for i, y in enumerate(outputs[: len(directions)])
    }
    terms: list[Tensor] = [
        (y * torch().tensor(d)).sum()
        for y, d in zip(outputs, directions, strict=False)
        if y is not None and d is not None and y.requires_grad and tuple(y.shape) == d.shape
    ]
    if terms:
        torch().stack(terms).sum().backward()
        values |= {f"gradient {i}": x.grad.numpy() for i, x in enumerate(given) if x.grad is not None}
    return Result(values)


def _by_letter(op: OpView, given: Sequence[Tensor]) -> dict[str, Any]:
    found: dict[str, Any] = {spec.name: [] for spec in op.schema.inputs if spec.variadic}
    for letter, x in zip(op.input_letters, given, strict=True):
        if op.schema.inputs_by_letter[letter].variadic:
            found[letter].append(x)
        else:
            found[letter] = x
    return found


def by_reference(op: OpView, inputs: Sequence[Array], directions: Sequence[Array | None]) -> Result:
    """Return the same by the reference kernels of the operator and of those that its gradient consists of."""
    try:
        outputs = evaluate(op, inputs)
    except TazzaError as error:  # a moved number that does not fit: probabilities that no longer sum up to 1
        raise NoCounterpart(str(error)) from error
    values: dict[str, Array | None] = {f"output {i}": y for i, y in enumerate(outputs)}
    definition = op.definition
    if not _has_gradient(op):
        return Result(values)
    named = [f"{name}_grad" if d is not None else None for name, d in zip(definition.output, directions, strict=True)]
    if not any(named):
        return Result(values)
    try:
        emitted, gradients = gradient_for_op(op, named)
    except TazzaError:
        return Result(values)
    blobs = dict(zip(definition.input, inputs, strict=True)) | dict(zip(definition.output, outputs, strict=True))
    blobs |= {name: d for name, d in zip(named, directions, strict=True) if name is not None and d is not None}
    for step in emitted:
        view = SCHEMAS[step.type].view(step)
        made = evaluate(view, [blobs[name] for name in step.input])
        blobs.update(zip(step.output, made, strict=True))
    values |= {f"gradient {i}": blobs[name] for i, name in enumerate(gradients) if isinstance(name, str)}
    return Result(values)


def _compared(name: str, here: Result, there: Result, around: Sequence[Result], near: Result) -> list[str]:
    wanted, got = there.values[name], here.values.get(name)
    if wanted is None or got is None:
        return []
    if wanted.size == got.size and name.startswith("gradient"):
        wanted = wanted.reshape(got.shape)
    if wanted.shape != got.shape:
        return [f"{name} has the shape {got.shape}, PyTorch gives {wanted.shape}"]
    if got.dtype.kind != "f":
        bad = np.asarray(got != wanted)
    else:
        change = np.max([_far(one.values[name], got) for one in around], axis=0)
        jumps = (_far(near.values[name], got) > JUMP * change) & (change > 0)
        largest = float(np.abs(wanted[np.isfinite(wanted)]).max(initial=1.0))
        bound = CLOSE * (np.abs(wanted) + change / STEP) + FLOOR * largest
        same = (got == wanted) | (np.isnan(got) & np.isnan(wanted))
        bad = ~(same | (np.abs(got - wanted) <= bound) | jumps)
    if not bad.any():
        return []
    place = tuple(int(n[0]) for n in np.nonzero(bad)) if got.ndim else ()
    return [f"{name}: {int(bad.sum())} of {bad.size} elements, at {list(place)} {got[place]!s} for {wanted[place]!s}"]


def _far(one: Array | None, other: Array) -> Array:
    if one is None or one.shape != other.shape:
        return np.full(other.shape, np.inf)
    far = np.abs(np.asarray(one, np.float64) - other)
    return np.where(np.isnan(far), 0.0, far)
