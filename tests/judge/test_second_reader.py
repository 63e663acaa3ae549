"""Gradients add up: whoever else reads what an operator reads, and however often it reads that itself.

Problems are drawn for every operator that has a gradient. What its own test table shows of the operator alone must hold
beside a reader before it and one behind it, in place, and where two inputs are one blob.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from tazza.errors import GradientError, TazzaError
from tazza.graph import backward_pass
from tazza.operator import SCHEMAS, RowSlices, may_overwrite, must_overwrite, operator_def
from tazza.operator.gradient import GradientRule
from tazza.proto import NetDef, OperatorDef
from tazza.tensor import DataType
from tazza.workspace import Workspace
from tests.judge.draw import Problem, draw, drawable, in_bfloat16
from tests.judge.hand import Array
from tests.sampled import sampled

DIFFERENTIABLE = [
    type
    for type in drawable()
    if isinstance(SCHEMAS[type].gradient_rule, GradientRule)
    and not any(spec.dtypes == frozenset({DataType.FLOAT16}) for spec in SCHEMAS[type].inputs)  # see `problems`
]
MOST = 6
"""How many problems of an operator are drawn at most."""
FEW = 20
"""Attempts to draw a problem of a given shape: many operators take no such shape, and would need all."""
MORE = 2
"""How many of them all laws are shown with."""


def seeded(problem: Problem) -> OperatorDef:
    """Return the definition of a problem for the reference kernels, which draws the same numbers in every run."""
    definition = OperatorDef.FromString(problem.definition.SerializeToString())
    definition.engine = "reference"
    definition.device_option.random_seed = 1
    return definition


def run_backward(
    ops: Sequence[OperatorDef], feeds: Mapping[str, Array], weights: Mapping[str, Array]
) -> tuple[dict[str, Array], Workspace]:
    """Run a net and its backward pass from given gradients; returns the dense gradients by blob."""
    emitted, gradients = backward_pass(ops, {name: f"{name}_given" for name in weights})
    workspace = Workspace()
    for name, value in feeds.items():
        workspace.feed(name, np.array(value))
    for name, value in weights.items():
        workspace.feed(f"{name}_given", np.array(value))
    with np.errstate(all="ignore"):
        workspace.run_net_once(NetDef(op=[*ops, *emitted]))
    found: dict[str, Array] = {}
    for name, gradient in gradients.items():
        if isinstance(gradient, RowSlices):
            rows, values = workspace.fetch(gradient.indices), workspace.fetch(gradient.values)
            found[name] = np.zeros_like(workspace.fetch(name))
            if values.size:  # nothing is taken from nothing, whatever the indices say
                np.add.at(found[name], rows.reshape(-1), values.reshape(-1, *found[name].shape[1:]))
        elif gradient is not None:
            found[name] = workspace.fetch(gradient)
    return found, workspace


def outputs_of(definition: OperatorDef, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Return what an operator gives."""
    workspace = Workspace()
    for name, value in feeds.items():
        workspace.feed(name, np.array(value))
    with np.errstate(all="ignore"):
        workspace.run_operator(definition)
    return {name: np.array(workspace.fetch(name)) for name in definition.output}


def weights_for(outputs: Mapping[str, Array], seed: int) -> dict[str, Array]:
    """Return random gradients of those outputs that have one."""
    rng = np.random.default_rng(seed)
    floats = {name: y for name, y in outputs.items() if y.dtype.kind == "f"}
    return {name: np.asarray(rng.uniform(0.5, 1.5, y.shape), y.dtype) for name, y in floats.items()}


def readers(name: str, value: Array) -> Iterator[tuple[OperatorDef, Array]]:
    """Yield operators that read a blob, and the factor by which they multiply it: one makes dX, one hands dY on."""
    if value.dtype == np.float32:
        yield operator_def("Scale", [name], ["reader"], scale=3.0), np.asarray(3.0, np.float32)
    yield operator_def("Sum", [name], ["reader"]), np.asarray(1.0, value.dtype)


def assert_adds_up(found: Array, parts: Sequence[Array], context: str) -> None:
    """Assert that a gradient is the sum of the others, to the rounding of that sum."""
    with np.errstate(all="ignore"):
        wanted = sum(part.astype(np.float64) for part in parts)
        size = sum(np.abs(part).astype(np.float64) for part in parts)
        close = np.abs(found - wanted) <= 4 * np.finfo(found.dtype).eps * size
    assert found.shape == parts[0].shape, context
    same = close | (np.isnan(found) & np.isnan(wanted)) | (found == wanted)
    assert np.all(same), f"{context}: {found} is not the sum of {parts}"


def check_second_readers(problem: Problem) -> int:
    """Check every input that has a gradient with another reader before the operator, and behind it."""
    definition, feeds = seeded(problem), problem.inputs
    if set(definition.input) & set(definition.output):
        return 0  # what must be in place has no reader behind it
    weights = weights_for(outputs_of(definition, feeds), problem.seed)
    try:
        alone, _ = run_backward([definition], feeds, weights)
    except TazzaError:
        return 0  # this one has no gradient
    count, rows = 0, _sparse([definition], weights)
    for name, value in feeds.items():
        if name not in alone or value.dtype.kind != "f":
            continue  # of what is no float nobody adds gradients
        if name in rows:
            count += _check_twin(definition, feeds, weights, (name, alone[name]))
            continue
        for reader, factor in readers(name, value):
            given = weights_for({"reader": value}, 7)
            for ops in ([reader, definition], [definition, reader]):
                found, _ = run_backward(ops, feeds, {**weights, **given})
                assert_adds_up(found[name], [alone[name], factor * given["reader"]], f"{problem}, {name}")
                for other in alone.keys() - {name, *definition.output}:
                    np.testing.assert_array_equal(found[other], alone[other], err_msg=f"{problem}: {other}")
                count += 1
    return count


def _sparse(ops: Sequence[OperatorDef], weights: Iterable[str]) -> set[str]:
    """Return the blobs whose gradients are of some rows: they are added to their like only."""
    _, gradients = backward_pass(ops, {name: f"{name}_given" for name in weights})
    return {name for name, gradient in gradients.items() if isinstance(gradient, RowSlices)}


def _check_twin(
    definition: OperatorDef, feeds: Mapping[str, Array], weights: Mapping[str, Array], alone: tuple[str, Array]
) -> int:
    """Check that two equal operators give a blob twice the gradient of one."""
    twin = OperatorDef.FromString(definition.SerializeToString())
    twin.output[:] = [f"{name}_twin" for name in definition.output]
    both = {**weights, **{f"{name}_twin": w for name, w in weights.items()}}
    found, _ = run_backward([definition, twin], feeds, both)
    assert_adds_up(found[alone[0]], [alone[1], alone[1]], f"{definition.type} twice, {alone[0]}")
    return 1


def check_one_blob(problem: Problem) -> int:
    """Check that an operator which reads a blob twice gives it the sum of what it gives two blobs."""
    definition, count = seeded(problem), 0
    if set(definition.input) & set(definition.output):
        return 0
    for one, two in itertools.combinations(problem.inputs, 2):
        x, y = problem.inputs[one], problem.inputs[two]
        if x.shape != y.shape or x.dtype != y.dtype or x.dtype.kind != "f":
            continue
        feeds = {**problem.inputs, two: x}
        merged = OperatorDef.FromString(definition.SerializeToString())
        merged.input[:] = [one if name == two else name for name in merged.input]
        try:
            weights = weights_for(outputs_of(definition, feeds), problem.seed)
            apart, _ = run_backward([definition], feeds, weights)
        except TazzaError:  # one is no legal value of the other, such as places that are reals, or it has no gradient
            continue
        if one not in apart or two not in apart:
            continue
        found, _ = run_backward([merged], feeds, weights)
        assert_adds_up(found[one], [apart[one], apart[two]], f"{problem}, {one} for {two}")
        count += 1
    return count


def in_place_of(problem: Problem) -> Iterator[tuple[OperatorDef, str, str]]:
    """Yield the operator with each output in place of each input that it may overwrite, with both names."""
    schema = problem.schema
    op = schema.view(problem.definition)
    for output, target in enumerate(op.definition.output):
        for place in () if must_overwrite(op, output) else may_overwrite(op, output):
            source = op.definition.input[place]
            aliased = seeded(problem)
            aliased.output[output] = source
            yield aliased, source, target


def check_in_place(problem: Problem) -> tuple[int, int]:
    """Check that an operator in place has the gradients that it has out of place, or says that it has none.

    Its output is the end of the net, or is read behind it: there the gradients of what it overwrites, and of what it
    writes, have one name.
    """
    definition, feeds, checked, refused = seeded(problem), problem.inputs, 0, 0
    if set(definition.input) & set(definition.output):
        return 0, 0
    outputs = outputs_of(definition, feeds)
    weights = weights_for(outputs, problem.seed)
    try:
        alone, _ = run_backward([definition], feeds, weights)
    except TazzaError:
        return 0, 0
    for aliased, source, target in in_place_of(problem):
        same = outputs[target].size == feeds[source].size and outputs[target].dtype == feeds[source].dtype
        if "broadcast" in problem.schema.args:  # what is summed takes the shape that the blob has then
            same = same and outputs[target].shape == feeds[source].shape
        if not same or target not in weights:
            continue
        for end in (source, "behind"):
            behind = [] if end == source else [operator_def("Copy", [source], [end])]
            done = _checked_in_place(problem, aliased, behind, alone, weights, (source, target, end))
            checked, refused = checked + done, refused + (not done)
    return checked, refused


def _checked_in_place(
    problem: Problem,
    aliased: OperatorDef,
    behind: list[OperatorDef],
    alone: Mapping[str, Array],
    weights: Mapping[str, Array],
    names: tuple[str, str, str],
) -> bool:
    """Check one operator in place, with what reads it; False where it says that in place it has no gradient."""
    (source, target, end), feeds = names, problem.inputs
    renamed = {end if name == target else name: w for name, w in weights.items()}
    start, (reader, _) = operator_def("Copy", ["origin"], [source]), list(readers(source, feeds[source]))[-1]
    given = weights_for({"reader": feeds[source]}, 7)
    moved = {"origin" if name == source else name: value for name, value in feeds.items()}
    try:
        found, _ = run_backward([start, reader, aliased, *behind], moved, {**renamed, **given})
    except GradientError as error:
        if "in place" not in str(error):
            raise
        return False
    parts = [*([alone[source]] if source in alone else []), given["reader"]]
    assert_adds_up(found["origin"], parts, f"{problem}, {target} in place of {source}")
    for other in (found.keys() & alone.keys()) - {source, "origin", *problem.definition.output}:
        np.testing.assert_array_equal(found[other], alone[other], err_msg=f"{problem} in place: {other}")
    return True


def problems(type: str, seeds: Iterable[int], **options: Any) -> Iterator[Problem]:
    """Yield problems of an operator; those that cannot be had are left out."""
    for seed in seeds:
        try:
            found = draw(type, seed, **options)
        except (LookupError, ValueError, ZeroDivisionError):  # CannotDraw, or a generator that has no such shape
            continue
        if all(value.dtype != np.float16 for value in found.inputs.values()):  # Sum has no float16, as in Caffe2
            yield found


def until_checked(check: Callable[[Problem], int], type: str, enough: int) -> int:
    """Check problems until `enough` of their blobs have been checked, or `MOST` problems; returns how many were."""
    checked = 0
    for one in problems(type, range(MOST)):
        checked += check(one)
        if checked >= enough:
            break
    return checked


@pytest.mark.parametrize("type", sampled(DIFFERENTIABLE))
def test_gradients_with_a_second_reader(type: str) -> None:
    """All but those whose gradients nobody can add, of 16 bits alone, and those that overwrite what has a gradient."""
    checked = until_checked(check_second_readers, type, 4)
    assert checked or SCHEMAS[type].must_in_place or in_bfloat16(type) or not list(problems(type, range(MOST)))


@pytest.mark.parametrize("type", sampled(DIFFERENTIABLE))
def test_gradients_where_two_inputs_are_one_blob(type: str) -> None:
    for one in problems(type, range(2)):
        check_one_blob(one)


@pytest.mark.parametrize("type", sampled(type for type in DIFFERENTIABLE if SCHEMAS[type].in_place))
def test_gradients_in_place(type: str) -> None:
    """Problems are drawn until some are not refused: a gradient may need what it overwrites in some forms only."""
    checked = refused = 0
    for one in problems(type, range(2 * MOST)):
        done = check_in_place(one)
        checked, refused = checked + done[0], refused + done[1]
        if checked >= 4:
            break
    assert checked + refused >= 4


@pytest.mark.slow
@pytest.mark.parametrize("type", DIFFERENTIABLE)
def test_gradients_of_more_problems(type: str, soak: int) -> None:
    """Those that the tests above may not have come to."""
    for one in problems(type, range(max(0, MOST - MORE * soak), MOST)):
        check_second_readers(one)
        check_one_blob(one)
        check_in_place(one)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(), (0,), (0, 3)], ids=str)
@pytest.mark.parametrize("type", DIFFERENTIABLE)
def test_gradients_of_scalars_and_of_nothing(type: str, shape: tuple[int, ...]) -> None:
    first = SCHEMAS[type].inputs[0]
    name = f"{first.name}_0" if first.variadic else first.name
    for one in problems(type, range(1), given={name: shape}, attempts=FEW):
        check_second_readers(one)
        check_one_blob(one)
        check_in_place(one)
