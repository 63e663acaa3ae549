"""Random problems for every operator that computes tensors, drawn from the schemas.

    problem = draw("Conv", 7)               # the same again from ("Conv", 7)
    results = compute(problem)              # by the reference kernels
    backward = gradients(problem, results)  # the problems of the gradient operators that it emits

A candidate is sketched from the schema (`generic`), by a generator of its family where patterns and ranges do not
suffice (`families`), or it is what a forward operator of the family emits; it counts when schema, inference and the
reference kernel take it. New operators need no line here, unless drawing them finds nothing legal.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tazza.errors import DTypeError, TazzaError
from tazza.operator import (
    SCHEMAS,
    LocalBlobs,
    Operator,
    OpSchema,
    OpView,
    gradient_for_op,
    gradient_name,
    make_argument,
    must_overwrite,
)
from tazza.operator.choice import find_kernel
from tazza.operator.gradient import GradientRule
from tazza.operator.schema import Spec
from tazza.proto import OperatorDef
from tazza.tensor import DataType, Int8Tensor, TensorSpec
from tazza.testing.value import Value, spec_of, tensor_of
from tests.judge import families
from tests.judge.generic import arguments, complete, element_types, extremes, value_of
from tests.judge.hand import GENERATORS, Array, Hand, Shape, Sketch, as_list
from tests.judge.meaning import Meaning, meanings
from tests.judge.values import fill

ATTEMPTS = 300
"""How many candidates are tried before a problem counts as not to be had."""
LARGEST = 100_000
"""How many elements inputs and outputs may have, so that a problem costs milliseconds."""
DEAREST = 4_000_000
"""How many operations it may take."""
SHOWN = 6
"""How many problems show what the gradient of an operator consists of."""

for _module in pkgutil.iter_modules(families.__path__, f"{families.__name__}."):
    importlib.import_module(_module.name)


class CannotDraw(LookupError):
    """No legal problem was found."""


@dataclass(frozen=True)
class Problem:
    """One operator and its inputs. Blobs are named by the schema's letters, variadic ones X_0, X_1 ..."""

    definition: OperatorDef
    inputs: dict[str, Array]
    seed: int = 0
    wild: bool = False
    extreme: bool = False
    argument: str = ""
    """What it was asked to have, whatever its generator draws."""
    given: Mapping[str, Shape] = field(default_factory=dict[str, Shape])
    meanings: Mapping[str, Meaning] = field(default_factory=dict[str, Meaning])
    """What the integers of some inputs stand for."""

    def value(self, name: str) -> Value:
        """Return a copy of an input as it is fed."""
        array, meaning = np.array(self.inputs[name]), self.meanings.get(name)
        return array if meaning is None else Int8Tensor.of(array, meaning)

    @property
    def type(self) -> str:
        """The operator type."""
        return self.definition.type

    @property
    def schema(self) -> OpSchema:
        """The schema of the operator."""
        return SCHEMAS[self.type]

    def __str__(self) -> str:
        """What draws it again."""
        options = "".join(f", {name}=True" for name in ("wild", "extreme") if getattr(self, name))
        asked = f", argument={self.argument!r}" if self.argument else ""
        return f"draw({self.type!r}, {self.seed}{options}{asked})"


def drawable() -> tuple[str, ...]:
    """Return every registered type that computes tensors; kernels that work on blobs and the workspace declare it."""
    return tuple(type for type in sorted(SCHEMAS.keys()) if why_not(type) is None)


def in_bfloat16(type: str) -> bool:
    """Whether a blob of an operator is of bfloat16 alone: none of NumPy's kinds of floats, so no slopes are drawn."""
    schema = SCHEMAS[type]
    letters = (*schema.inputs_by_letter.values(), *schema.outputs_by_letter.values())
    return any(one.taken_on(host=True) == frozenset({DataType.BFLOAT16}) for one in letters)


def why_not(type: str) -> str | None:
    """Return why an operator cannot be drawn, None where it must be."""
    kernel = find_kernel(type, "cpu", "reference")
    return None if kernel.host is None else "its kernel works on the host's blobs and workspace"


def draw(
    type: str,
    seed: int,
    *,
    dtype: DataType | None = None,
    wild: bool = False,
    extreme: bool = False,
    given: Mapping[str, Shape] | None = None,
    argument: str = "",
    attempts: int = ATTEMPTS,
) -> Problem:
    """Return a problem of an operator: the same for the same arguments.

    Args:
        type: the operator type.
        seed: which one.
        dtype: element type of the inputs that may have it.
        wild: scatter very large, tiny, infinite and other odd values over the floats.
        extreme: put arguments at and beyond the edges of their ranges; the problem may be one to refuse.
        given: shapes of inputs, by blob name.
        argument: one to be given, with a value by its declaration.
        attempts: candidates that are drawn at the most.

    Raises:
        CannotDraw: no candidate was legal, or the operator is none of `drawable()`.
    """
    reason = why_not(type)
    if reason is not None:
        raise CannotDraw(f"{type}: {reason}")
    pinned = {} if given is None else {name: tuple(shape) for name, shape in given.items()}
    last: Exception | None = None
    for attempt in range(attempts):
        hand = Hand(np.random.default_rng([seed, attempt, zlib.crc32(type.encode())]), pinned, dtype, wild)
        try:
            found = _candidate(type, hand)
            if argument:
                found = _having(found, argument, hand)
            if _fits(found, pinned):
                compute(found)
                return _finished(replace(found, seed=seed, wild=wild, extreme=extreme, given=pinned), hand)
        except (TazzaError, CannotDraw) as error:
            last = error
    raise CannotDraw(f"{type}, seed {seed}: no legal problem in {attempts} attempts, the last one: {last}")


def _finished(problem: Problem, hand: Hand) -> Problem:
    """Return the problem with arguments at their edges, where that is wished."""
    if not problem.extreme:
        return problem
    present: dict[str, Any] = {argument.name: argument for argument in problem.definition.arg}
    changed = extremes(hand, problem.schema, present)
    definition = OperatorDef.FromString(problem.definition.SerializeToString())
    del definition.arg[:]
    for name, value in changed.items():
        definition.arg.append(value if value is present.get(name) else make_argument(name, value))
    return replace(problem, definition=definition)


def _having(problem: Problem, name: str, hand: Hand) -> Problem:
    """Return the problem with an argument that is given, or has another value."""
    rank = max((x.ndim for x in problem.inputs.values()), default=2)
    value = value_of(hand, problem.schema.args[name], rank)
    if value is None:
        raise CannotDraw(f"{problem.type}: nothing tells a value of {name}")
    definition = OperatorDef.FromString(problem.definition.SerializeToString())
    kept = [one for one in definition.arg if one.name != name]
    del definition.arg[:]
    definition.arg.extend([*kept, make_argument(name, value)])
    problem.schema.view(definition, strict=True)
    return replace(problem, definition=definition, argument=name)


def _fits(problem: Problem, pinned: Mapping[str, Shape]) -> bool:
    return all(name in problem.inputs and problem.inputs[name].shape == shape for name, shape in pinned.items())


def _candidate(type: str, hand: Hand) -> Problem:
    forwards = () if type in GENERATORS else makers_of(type)
    return _sketched(SCHEMAS[type], hand) if not forwards else _emitted(type, hand, hand.pick(forwards))


def _sketched(schema: OpSchema, hand: Hand) -> Problem:
    generator = GENERATORS.get(schema.type)
    with np.errstate(all="ignore"):  # statistics of wild numbers
        sketch = complete(hand, schema, Sketch() if generator is None else generator(hand, schema))
    if generator is None:
        sketch.arguments = arguments(hand, schema, sketch)
    dtypes = element_types(hand, schema)
    by_letter: dict[str, list[Array]] = {}
    for letter in (*sketch.shapes, *sketch.values):
        if letter in sketch.values:
            by_letter[letter] = as_list(sketch.values[letter])
        elif letter in sketch.shapes:
            by_letter[letter] = [fill(hand, shape, dtypes[letter]) for shape in as_list(sketch.shapes[letter])]
    outputs = _output_count(hand, schema) if sketch.outputs is None else sketch.outputs
    found = _assemble(schema, sketch, by_letter, outputs)
    return replace(found, meanings=meanings(hand, schema, found.inputs))


def _output_count(hand: Hand, schema: OpSchema) -> int:
    least = sum(not spec.optional for spec in schema.outputs)
    return hand.integer(least, len(schema.outputs)) if hand.chance(0.6) else least


def _assemble(schema: OpSchema, sketch: Sketch, by_letter: dict[str, list[Array]], outputs: int) -> Problem:
    """Return the problem whose blobs are in the order, and have the names, of the letters."""
    count = sum(len(arrays) for arrays in by_letter.values())
    definition = OperatorDef(type=schema.type, name="")
    given = ((name, value) for name, value in sketch.arguments.items() if value is not None)
    definition.arg.extend(make_argument(name, value) for name, value in given)
    definition.input.extend(f"in{i}" for i in range(count))
    definition.output.extend(f"out{i}" for i in range(outputs))
    op = schema.typed_view(definition, strict=True)
    left = {letter: list(arrays) for letter, arrays in by_letter.items()}
    if any(not left.get(letter) or not left[letter] for letter in set(op.input_letters)):
        raise CannotDraw(f"{schema.type}: {count} inputs stand for {op.input_letters}, drawn were {list(by_letter)}")
    inputs = [left[letter].pop(0) if left[letter] else None for letter in op.input_letters]
    if any(array is None for array in inputs) or any(left.values()):
        raise CannotDraw(f"{schema.type}: {count} inputs stand for {op.input_letters}, drawn were {list(by_letter)}")
    names = letters_as_names(schema, op.input_letters)
    del definition.input[:], definition.output[:]
    definition.input.extend(names)
    definition.output.extend(sketch.over.get(name, name) for name in _output_names(op, names))
    schema.view(definition, strict=True)
    found = {name: array for name, array in zip(names, inputs, strict=True) if array is not None}
    return Problem(definition, found)


def letters_as_names(schema: OpSchema, letters: tuple[str, ...]) -> list[str]:
    """Return the name of each blob: its letter, with a number where that is variadic."""
    declared = schema.inputs_by_letter | schema.outputs_by_letter
    counts: dict[str, int] = {}
    names: list[str] = []
    for letter in letters:
        number = counts.get(letter, 0)
        counts[letter] = number + 1
        names.append(f"{letter}_{number}" if declared[letter].variadic else letter)
    return names


def _output_names(op: OpView, inputs: list[str]) -> list[str]:
    found: list[str] = []
    for position, name in enumerate(letters_as_names(op.schema, op.output_letters)):
        forced = must_overwrite(op, position)
        found.append(inputs[forced[0]] if forced else f"{name}_out" if name in inputs else name)
    return found


def compute(problem: Problem, engine: str = "reference", *, times: int = 1) -> dict[str, Array]:
    """Run the operator on copies of the inputs; returns its outputs by blob name.

    It may be so many times as large as a problem that is drawn.

    Raises:
        TazzaError: it is not legal.
    """
    _require_small(problem, times)
    definition = OperatorDef.FromString(problem.definition.SerializeToString())
    definition.engine = engine
    blobs = LocalBlobs()
    for name in problem.inputs:
        blobs.create_blob(name).set(tensor_of(problem.value(name)))
    operator = Operator(definition, blobs, strict=True)
    try:
        with np.errstate(all="ignore"):
            operator.run()
        return {name: np.array(blobs.blobs[name].tensor().plain()) for name in definition.output}
    finally:
        operator.close()


def _require_small(problem: Problem, times: int) -> None:
    """Refuse what would take long, before it runs.

    Raises:
        CannotDraw: it has too many elements or operations.
        TazzaError: it is not legal.
    """
    op = problem.schema.view(problem.definition)
    specs, outputs = _inferred(problem, op)
    known = [spec for spec in outputs if isinstance(spec, TensorSpec) and spec.shape_known]
    elements = sum(spec.size for spec in (*specs, *known))
    if elements > LARGEST * times:
        raise CannotDraw(f"{problem.type}: {elements} elements are more than {LARGEST}")
    if len(known) == len(outputs):
        flops = problem.schema.infer_cost(op, specs, known).flops
        if flops > DEAREST * times:
            raise CannotDraw(f"{problem.type}: {flops} operations are more than {DEAREST}")


def _inferred(problem: Problem, op: OpView) -> tuple[list[TensorSpec], tuple[Spec | None, ...]]:
    """Return the specs of inputs and outputs.

    Raises:
        TazzaError: the inputs do not fit.
    """
    arrays = list(problem.inputs.values())
    specs = [spec_of(problem.value(name)) for name in problem.inputs]
    found = problem.schema.infer_specs(op, specs, lambda letter: arrays[op.input_letters.index(letter)])
    return specs, found.specs


# -- gradient operators ------------------------------------------------------------------------------------------------


def gradients(problem: Problem, results: Mapping[str, Array], hand: Hand | None = None) -> list[Problem]:
    """Return the problems of all operators that the gradient of this one consists of, for a random dY.

    Outputs that are no floats have no gradient; there is nothing to return where the operator refuses to give any.
    """
    schema, definition = problem.schema, problem.definition
    if not isinstance(schema.gradient_rule, GradientRule):
        return []
    hand = Hand(np.random.default_rng([problem.seed, zlib.crc32(problem.type.encode())])) if hand is None else hand
    op = schema.view(definition)
    floats = [np.issubdtype(results[name].dtype, np.floating) for name in definition.output]
    named = [f"{name}_grad" if float else None for name, float in zip(definition.output, floats, strict=True)]
    blobs: dict[str, Array] = {**problem.inputs, **results}
    for name, gradient in zip(definition.output, named, strict=True):
        if gradient is not None:
            blobs[gradient] = fill(hand, results[name].shape, DataType.of(results[name]))
    try:
        emitted, _ = gradient_for_op(op, named)
    except TazzaError:
        return []
    for name in definition.input:  # sums over batches are there before
        if any(gradient_name(name) in step.input for step in emitted) and gradient_name(name) not in blobs:
            blobs[gradient_name(name)] = fill(hand, blobs[name].shape, DataType.of(blobs[name]))
    found: list[Problem] = []
    for step in emitted:
        one = renamed(step, blobs, problem)
        found.append(one)
        try:
            made = compute(one, times=4)
        except TazzaError as error:
            if not _may_refuse(error, results):
                raise
            return found[:-1]
        blobs.update(zip(step.output, made.values(), strict=True))
    return found


def _may_refuse(error: TazzaError, results: Mapping[str, Array]) -> bool:
    """Whether an operator may have no gradient of these results.

    Types such as float16 have none, in Caffe2 neither. Nobody can tell of how much there is nothing: Caffe2's
    TileGradient divided by the number of tiles.
    """
    return isinstance(error, DTypeError) or any(result.size == 0 for result in results.values())


def renamed(step: OperatorDef, blobs: Mapping[str, Array], origin: Problem) -> Problem:
    """Return the problem of an operator whose blobs have other names than its letters."""
    schema = SCHEMAS[step.type]
    definition = OperatorDef.FromString(step.SerializeToString())
    op = schema.typed_view(definition)
    names = letters_as_names(schema, op.input_letters)
    written = _output_names(op, names)
    for position, name in enumerate(step.output):
        if name in step.input:
            written[position] = names[list(step.input).index(name)]
    inputs = {own: np.array(blobs[name]) for own, name in zip(names, step.input, strict=True)}
    del definition.input[:], definition.output[:]
    definition.input.extend(names)
    definition.output.extend(written)
    return Problem(definition, inputs, origin.seed, origin.wild)


def _emitted(type: str, hand: Hand, forward: str) -> Problem:
    pinned, hand.given = hand.given, {}
    try:
        problem = _candidate(forward, hand)
        found = [one for one in gradients(problem, compute(problem), hand) if one.type == type]
    finally:
        hand.given = pinned
    if not found:
        raise CannotDraw(f"{forward} did not emit {type}")
    return hand.pick(found)


@functools.cache
def makers_of(type: str) -> tuple[str, ...]:
    """Return the operators of the same family whose gradient this type is, where it has no gradient of its own.

    What they emit is found by drawing them, so that nothing about names is guessed.
    """
    if isinstance(SCHEMAS[type].gradient_rule, GradientRule):
        return ()
    return tuple(forward for forward, emitted in emitted_in(SCHEMAS[type].module).items() if type in emitted)


@functools.cache
def emitted_in(module: str) -> dict[str, frozenset[str]]:
    """Return for each operator of a family the types that its gradient consists of."""
    members = [type for type in SCHEMAS.keys() if SCHEMAS[type].module == module]
    forwards = [type for type in sorted(members) if isinstance(SCHEMAS[type].gradient_rule, GradientRule)]
    return {type: _emitted_by(type) for type in forwards}


def _emitted_by(type: str) -> frozenset[str]:
    """Return the types that an operator's gradient consists of: nothing is run, sketches that pass inference tell.

    What is missed here is missed loudly: the gradient operator has no problem then.
    """
    types: set[str] = set()
    shown = 0
    for attempt in range(ATTEMPTS):
        hand = Hand(np.random.default_rng([attempt, zlib.crc32(type.encode())]))
        with suppress(TazzaError, CannotDraw):
            types.update(step.type for step in _steps(_candidate(type, hand)))
            shown += 1
        if shown == SHOWN:
            break
    return frozenset(types)


def _steps(problem: Problem) -> list[OperatorDef]:
    """Return the operators of the gradient, for a slope of every output that may have one."""
    op = problem.schema.view(problem.definition)
    outputs = zip(problem.definition.output, _inferred(problem, op)[1], strict=True)
    slopes = [
        None if isinstance(spec, TensorSpec) and not spec.dtype.is_float else f"{name}_grad" for name, spec in outputs
    ]
    return gradient_for_op(op, slopes)[0]
