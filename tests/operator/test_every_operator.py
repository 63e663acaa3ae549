"""What must be true of every operator that is registered, without exception."""

from __future__ import annotations

import ast
import doctest
import functools
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tazza.graph.text import parse_net
from tazza.operator import ENGINES, SCHEMAS, Effects, OpSchema, kernel_for, run_op, why_unavailable
from tazza.operator.gradient import GradientRule, NoGradient
from tazza.operator.in_place import Each
from tazza.operator.index import PATH, dump, generate
from tests.sampled import sampled

ALL = sorted(SCHEMAS.keys())
TESTS = Path(__file__).parents[1]


def test_the_index_is_up_to_date() -> None:
    assert PATH.read_text() == dump(generate()), "run `make index`"


def lacking(holds: Callable[[OpSchema], bool]) -> list[str]:
    """Return the types of which something does not hold; one test for all of them takes a tenth of one for each."""
    return [type for type in ALL if not holds(SCHEMAS[type])]


def test_doc_and_source() -> None:
    assert lacking(lambda schema: schema.doc.splitlines()[0].endswith((".", ":"))) == []
    assert lacking(lambda schema: bool(schema.source) or schema.type.endswith(("Gradient", "Grad"))) == []


def test_gradient_or_reason() -> None:
    def told(schema: OpSchema) -> bool:
        rule = schema.gradient_rule
        return isinstance(rule, GradientRule) or (isinstance(rule, NoGradient) and bool(rule.reason))

    assert lacking(told) == [], "add @gradient, or no_gradient=ends/forbidden/not_written(reason)"


def test_a_gradient_operator_has_the_defaults_of_its_forward_operator() -> None:
    """What a net leaves out is left out of the gradient too: each would compute by a default of its own."""

    def alike(schema: OpSchema) -> bool:
        behind = SCHEMAS.get(f"{schema.type}Gradient")
        if behind is None or not isinstance(schema.gradient_rule, GradientRule):
            return True
        shared = schema.args.keys() & behind.args.keys()
        return all(schema.args[n].required or schema.args[n].default == behind.args[n].default for n in shared)

    assert lacking(alike) == []


def test_arguments_are_explained() -> None:
    def explained(schema: OpSchema) -> bool:
        return schema.type.endswith("Gradient") or all(spec.doc for spec in schema.args.values())

    assert lacking(explained) == []


def test_in_place_letters_exist() -> None:
    def exist(schema: OpSchema) -> bool:
        outputs, inputs = set(schema.outputs_by_letter), set(schema.inputs_by_letter)
        rules = [*schema.in_place.items(), *schema.must_in_place.items()]
        named = [place.letter if isinstance(place, Each) else place for _, places in rules for place in places]
        return {out for out, _ in rules} <= outputs and {name for name in named if isinstance(name, str)} <= inputs

    assert lacking(exist) == []


def test_shapes_follow() -> None:
    """Outputs follow from patterns, from `like`, or from an infer function."""

    def follow(schema: OpSchema) -> bool:
        return schema.infers or all(
            spec.like is not None or spec.type_name is not None or spec.dims is not None or spec.dynamic
            for spec in schema.outputs
        )

    assert lacking(follow) == []


def test_reference_kernel() -> None:
    """What computes has a definition that the host runs; other work may be for some device alone."""

    def has(schema: OpSchema) -> bool:
        if schema.effects in (Effects.PURE, Effects.RANDOM):
            return kernel_for(schema.type, "cpu", "reference") is not None
        asked = ((device, name) for name in ENGINES for device in ENGINES[name].devices)
        return any(why_unavailable(schema.type, device, name) is None for device, name in asked)

    assert lacking(has) == []


@pytest.mark.parametrize("type", sampled(ALL))
def test_example(type: str) -> None:
    """Examples of tensor operators are run; those that work on files or blobs stand in their family's tests."""
    schema = SCHEMAS[type]
    kernel = kernel_for(schema.type, "cpu", "reference")
    if (kernel is None or kernel.host is not None) and not schema.example:
        return
    assert ">>>" in schema.example
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(verbose=False)
    failures: list[str] = []
    test = parser.get_doctest(schema.example, {"run": run_op, "np": np, "net": parse_net}, schema.type, None, 0)
    runner.run(test, out=failures.append)
    assert not failures, "".join(failures)


def _text(node: ast.AST) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _called(nodes: list[ast.AST], name: str) -> list[ast.Call]:
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    return [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == name]


def _without_gradient(case: ast.Call) -> bool:
    return any(k.arg == "gradient" and isinstance(k.value, ast.Constant) and not k.value.value for k in case.keywords)


@functools.cache
def named_in(module: str) -> tuple[set[str | None], set[str | None]]:
    """Return the strings of a family's test file, and those of which `check_op` runs the gradient operator too.

    The latter are all strings of a file that calls `check_op`, but for the types of which every case goes without.
    """
    *field, family = module.removeprefix("tazza.ops.").split(".")
    nodes = list(ast.walk(ast.parse((TESTS / "ops" / "/".join(field) / f"test_{family}.py").read_text())))
    strings = {_text(node) for node in nodes}
    cases = [case for case in _called(nodes, "Case") if case.args]
    checked = {_text(case.args[0]) for case in cases if not _without_gradient(case)}
    unchecked = {_text(case.args[0]) for case in cases if _without_gradient(case)} - checked
    return strings, strings - unchecked if _called(nodes, "check_op") else set()


@pytest.mark.slow
def test_a_case_or_a_test_names_it() -> None:
    """A whole string of its family's test file is its type, or the type of the operator whose gradient it is."""

    def named(schema: OpSchema) -> bool:
        strings, with_gradient = named_in(schema.module)
        forward = schema.type.removesuffix("Gradient")
        other = forward in SCHEMAS and forward != schema.type
        emitted = other and isinstance(SCHEMAS[forward].gradient_rule, GradientRule)
        return schema.type in strings or (emitted and forward in with_gradient)

    assert lacking(named) == [], "no test of the family's file names it"


def test_every_engine_is_listed_with_a_reason_or_kernels() -> None:
    for name in ENGINES:
        engine = ENGINES[name]
        kernels = [
            type for type in ALL if any(why_unavailable(type, device, name) is None for device in engine.devices)
        ]
        assert kernels or engine.unavailable() is not None, f"engine {name} has no kernel"


def test_the_engines_that_must_be_there_are() -> None:
    """`TAZZA_REQUIRED_ENGINES` names them, with commas; CI sets it, so that nothing is green on `reference` alone."""
    for name in filter(None, os.environ.get("TAZZA_REQUIRED_ENGINES", "").split(",")):
        assert name in ENGINES, f"engine {name} is required and not registered"
        assert ENGINES[name].unavailable() is None, f"engine {name} is required: {ENGINES[name].unavailable()}"
