"""Roles of inputs: every schema declares them, and what can be checked of a declaration is."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tazza.errors import TazzaError
from tazza.graph.roles import roles_of
from tazza.operator import SCHEMAS, BlobSpec, Gradient, OpSchema, Role, blob, find_schema, gradient_for_op
from tazza.operator.arity import letters_of
from tazza.operator.gradient import GradientRule
from tazza.operator.in_place import Anything, Each
from tazza.proto import NetDef, OperatorDef
from tazza.tensor import DataType
from tests.judge.draw import CannotDraw, Problem, compute, draw, drawable

TABLE = Path(os.environ.get("TAZZA_SHARED", Path(__file__).parents[3] / "shared")) / "reference" / "ops.json"
WHOLE = {DataType.INT32, DataType.INT64}
KEPT = {Role.STATE, Role.PARAMETER}


def schemas() -> Iterator[OpSchema]:
    """Yield all schemas."""
    yield from (find_schema(type) for type in sorted(SCHEMAS.keys()))


def dtypes(schema: OpSchema, spec: BlobSpec) -> set[DataType]:
    """Return the element types that a letter may have; none where anything may be."""
    if isinstance(spec.dtypes, str):
        return dtypes(schema, (schema.inputs_by_letter | schema.outputs_by_letter)[spec.dtypes])
    if spec.dtypes is None:
        return set()
    return {spec.dtypes} if isinstance(spec.dtypes, DataType) else set(spec.dtypes)


def test_whole_numbers_beside_reals_are_no_data() -> None:
    """What can be nothing but int32 or int64, in an operator of real numbers, says where, how large or how often."""
    wrong = [
        f"{schema.type}.{spec.name}"
        for schema in schemas()
        for spec in schema.inputs
        if spec.role is Role.DATA and (own := dtypes(schema, spec)) and own <= WHOLE
        if any(DataType.FLOAT in dtypes(schema, other) for other in (*schema.inputs, *schema.outputs))
    ]
    assert wrong == []


def test_what_is_no_tensor_is_kept() -> None:
    """Mutexes, readers, queues, counters: whoever is given one finds in it what was there before; lists are values."""
    handles = [
        (schema.type, spec.name, spec.role)
        for schema in schemas()
        for spec in schema.inputs
        if spec.type_name not in (None, "*") and "vector<" not in str(spec.type_name)
    ]
    assert {"AtomicIter", "TensorProtosDBInput"} <= {type for type, _, _ in handles}
    assert [each for each in handles if each[2] is not Role.STATE] == []


def test_what_must_be_overwritten_is_kept() -> None:
    forced = [
        (schema.type, place, schema.inputs_by_letter[place].role)
        for schema in schemas()
        for places in schema.must_in_place.values()
        for place in places
        if isinstance(place, str)
    ]
    assert {"Iter", "SpatialBN", "ScatterWeightedSum"} <= {type for type, _, _ in forced}
    assert [each for each in forced if each[2] not in KEPT] == []


def test_what_grows_in_place_is_kept() -> None:
    """Samples, windows, data sets: an output of an extent of its own that has to be an input holds it from before."""
    grown = [
        (schema.type, letter, schema.inputs_by_letter[letter].role)
        for schema in schemas()
        for output, places in schema.must_in_place.items()
        if schema.outputs_by_letter[output].dynamic
        for place in places
        if (letter := place.letter if isinstance(place, Each) else str(place)) in schema.inputs_by_letter
    ]
    assert {"Append", "AtomicAppend", "ReservoirSampling", "LastNWindowCollector"} <= {type for type, _, _ in grown}
    assert [each for each in grown if each[2] not in KEPT] == []


@pytest.mark.skipif(not TABLE.is_file(), reason=f"there is no '{TABLE}'; TAZZA_SHARED can name the folder above it")
def test_what_caffe2_enforced_in_place_is_kept() -> None:
    """Of an input that Caffe2 wants overwritten the schema demands the same; one of its own is state or a parameter."""
    recorded = json.loads(TABLE.read_text())["operators"]
    checked = 0
    for schema in schemas():
        enforced: list[tuple[int, int]] = recorded.get(schema.type, {}).get("inplace_enforced", [])
        for place, output in enforced:
            letter = letters_of(schema.inputs, 2 * place + len(schema.inputs), schema.relations)[place]
            over = letters_of(schema.outputs, output + len(schema.outputs), schema.relations)[output]
            places = schema.must_in_place.get(over, ())
            assert any(each in (letter, Each(letter), Anything()) for each in places), (schema.type, place, output)
            assert schema.inputs_by_letter[letter].role in KEPT or schema.inputs_by_letter[letter].variadic
            checked += 1
    assert checked >= 4


def drawn(seed: int) -> Iterator[Problem]:
    """Yield a problem of each operator that has a gradient, as far as one can be drawn; `tests/judge` demands it."""
    for type in drawable():
        if isinstance(find_schema(type).gradient_rule, GradientRule):
            with suppress(CannotDraw):
                yield draw(type, seed)


def emitted_by(problem: Problem) -> tuple[Sequence[OperatorDef], Sequence[Gradient]]:
    """Return the gradient operators of a problem, and the gradients of its inputs; nothing where it has none."""
    op = problem.schema.view(problem.definition)
    try:
        return gradient_for_op(op, [f"{name}_grad" for name in op.definition.output])
    except TazzaError:  # with these arguments
        return [], [None] * len(op.input_letters)


@pytest.mark.slow
def test_only_parameters_state_and_data_have_gradients() -> None:
    """The backward pass gives no gradient of an index, nor of what only says how large something is."""
    for problem in drawn(3):
        op = problem.schema.view(problem.definition)
        _, made = emitted_by(problem)
        for letter, gradient in zip(op.input_letters, made, strict=True):
            if gradient is not None:
                role = problem.schema.inputs_by_letter[letter].role
                assert role not in (Role.INDEX, Role.SHAPE), f"{problem.type}.{letter}"


@pytest.mark.parametrize(
    "type", [type for type in drawable() if Role.SHAPE in {s.role for s in find_schema(type).inputs}]
)
def test_values_of_what_says_a_size_do_not_matter(type: str) -> None:
    """Of real numbers that are there for their shape alone, others give the same result."""
    schema = find_schema(type)
    for seed in range(4):
        problem = draw(type, seed)
        problem.definition.device_option.random_seed = 1
        op = schema.view(problem.definition)
        results = compute(problem)
        for letter, name in zip(op.input_letters, problem.definition.input, strict=True):
            value, spec = problem.inputs[name], schema.inputs_by_letter[letter]
            if spec.role is Role.SHAPE and value.dtype.kind == "f" and not spec.host and letter != "scales":
                again = compute(replace(problem, inputs={**problem.inputs, name: value * 3 + 7}))
                for output, result in results.items():
                    np.testing.assert_array_equal(again[output], result, err_msg=f"{type}: {letter} -> {output}")


@pytest.mark.parametrize(
    "type", [type for type in drawable() if Role.SHAPE in {s.role for s in find_schema(type).inputs}]
)
def test_sizes_pick_no_elements(type: str) -> None:
    """Whole numbers in another order give results of other shapes or the same elements; those that pick are indices."""
    schema = find_schema(type)
    for seed in range(4):
        problem = draw(type, seed)
        problem.definition.device_option.random_seed = 1
        results = compute(problem)
        for letter, name in zip(schema.view(problem.definition).input_letters, problem.definition.input, strict=True):
            value = problem.inputs[name]
            if schema.inputs_by_letter[letter].role is not Role.SHAPE or value.dtype.kind != "i" or value.size < 2:
                continue
            turned = value.reshape(-1)[::-1].reshape(value.shape)
            with suppress(TazzaError):  # sizes in that order may not fit together
                again = compute(replace(problem, inputs={**problem.inputs, name: turned}))
                if all(again[output].shape == result.shape for output, result in results.items()):
                    for output, result in results.items():
                        np.testing.assert_array_equal(again[output], result, err_msg=f"{type}: {letter} -> {output}")


@pytest.mark.slow
def test_gradient_operators_take_what_the_forward_operator_took() -> None:
    """A blob that both read has one role for both, unless the gradient wants its shape alone."""
    compared = 0
    for problem in drawn(5):
        own = roles_of(NetDef(op=[problem.definition]))
        emitted, _ = emitted_by(problem)
        for step in emitted:
            if isinstance(find_schema(step.type).gradient_rule, GradientRule):
                continue  # an operator of its own, whose inputs stand for other things here
            for name, roles in roles_of(NetDef(op=[step])).items():
                if name in own and roles != frozenset({Role.SHAPE}):
                    assert roles <= own[name] | {Role.SHAPE}, f"{problem.type} -> {step.type}: {name}"
                    compared += 1
    assert compared > 60


def takes_gradients(schema: OpSchema) -> bool:
    """Whether one of its inputs is the gradient of another, or of an output: `dY` beside whatever."""
    names = [spec.name for spec in schema.inputs]
    return any(name[0] == "d" and (name[1:] in names or name[1:2].isupper()) for name in names)


def test_an_input_behind_the_first_says_what_it_is_for() -> None:
    """A forgotten role would look like declared data; what gradient operators take, the forward operator declares."""
    forgotten = [
        f"{schema.type}.{spec.name}"
        for schema in schemas()
        if not takes_gradients(schema)
        for spec in schema.inputs[1:]
        if not spec.says_role
    ]
    assert forgotten == []
    assert not blob("X").says_role
    assert blob("X", role=Role.DATA).says_role
