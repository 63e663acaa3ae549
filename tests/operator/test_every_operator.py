"""What must be true of every operator that is registered, without exception."""

from __future__ import annotations

import ast
import doctest
import functools
import os
from pathlib import Path

import numpy as np
import pytest

from tazza.operator import ENGINES, KERNELS, SCHEMAS, ArgSpec, OpSchema, run_op, why_unavailable
from tazza.operator.gradient import GradientRule, NoGradient
from tazza.operator.index import PATH, dump, generate

ALL = sorted(SCHEMAS.keys())
TESTS = Path(__file__).parents[1]


@pytest.fixture(params=ALL)
def schema(request: pytest.FixtureRequest) -> OpSchema:
    return SCHEMAS[request.param]


def test_the_index_is_up_to_date() -> None:
    assert PATH.read_text() == dump(generate()), "run `make index`"


def test_doc_and_source(schema: OpSchema) -> None:
    assert schema.doc.splitlines()[0].endswith((".", ":"))
    assert schema.source or schema.type.endswith(("Gradient", "Grad"))


def test_gradient_or_reason(schema: OpSchema) -> None:
    rule = schema.gradient_rule
    assert isinstance(rule, (GradientRule, NoGradient)), (
        "add @gradient, or no_gradient=ends/forbidden/not_written(reason)"
    )
    assert not isinstance(rule, NoGradient) or rule.reason


def test_arguments_are_explained(schema: OpSchema) -> None:
    def unexplained(spec: ArgSpec) -> bool:
        return not spec.doc

    forward = not schema.type.endswith("Gradient")
    assert not forward or not [name for name, spec in schema.args.items() if unexplained(spec)]


def test_in_place_letters_exist(schema: OpSchema) -> None:
    for out, letters in schema.in_place.items():
        assert out in schema.outputs_by_letter
        assert set(letters) <= set(schema.inputs_by_letter)
    assert set(schema.must_in_place) <= set(schema.outputs_by_letter)


def test_shapes_follow(schema: OpSchema) -> None:
    """Outputs follow from patterns, from `like`, or from an infer function."""
    for spec in schema.outputs:
        known = spec.like is not None or spec.type_name is not None or spec.dims is not None or schema.infers
        assert known or spec.dynamic, f"{spec.name} has no shape rule"


def test_reference_kernel(schema: OpSchema) -> None:
    assert (schema.type, "cpu", "reference") in KERNELS


def test_example(schema: OpSchema) -> None:
    """Examples of tensor operators are run; those that work on files or blobs stand in their family's tests."""
    kernel = KERNELS[schema.type, "cpu", "reference"]
    if kernel.host is not None and not schema.example:
        return
    assert ">>>" in schema.example
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(verbose=False)
    failures: list[str] = []
    test = parser.get_doctest(schema.example, {"run": run_op, "np": np}, schema.type, None, 0)
    runner.run(test, out=failures.append)
    assert not failures, "".join(failures)


def _text(node: ast.AST) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _called(tree: ast.AST, name: str) -> list[ast.Call]:
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == name]


def _without_gradient(case: ast.Call) -> bool:
    return any(k.arg == "gradient" and isinstance(k.value, ast.Constant) and not k.value.value for k in case.keywords)


@functools.cache
def named_in(family: str) -> tuple[set[str | None], set[str | None]]:
    """Return the strings of a family's test file, and those of which `check_op` runs the gradient operator too.

    The latter are all strings of a file that calls `check_op`, but for the types of which every case goes without.
    """
    tree = ast.parse((TESTS / "ops" / f"test_{family}.py").read_text())
    strings = {_text(node) for node in ast.walk(tree)}
    cases = [case for case in _called(tree, "Case") if case.args]
    checked = {_text(case.args[0]) for case in cases if not _without_gradient(case)}
    unchecked = {_text(case.args[0]) for case in cases if _without_gradient(case)} - checked
    return strings, strings - unchecked if _called(tree, "check_op") else set()


def test_a_case_or_a_test_names_it(schema: OpSchema) -> None:
    """A whole string of its family's test file is its type, or the type of the operator whose gradient it is."""
    strings, with_gradient = named_in(schema.module.rsplit(".", 1)[1])
    forward = schema.type.removesuffix("Gradient")
    emitted = forward in SCHEMAS and forward != schema.type and isinstance(SCHEMAS[forward].gradient_rule, GradientRule)
    assert schema.type in strings or (emitted and forward in with_gradient), f"no test of {schema.module} names it"


def test_every_engine_is_listed_with_a_reason_or_kernels() -> None:
    for name in ENGINES:
        engine = ENGINES[name]
        kernels = [type for type in ALL if why_unavailable(type, engine.device, name) is None]
        assert kernels or engine.unavailable() is not None, f"engine {name} has no kernel"


def test_the_engines_that_must_be_there_are() -> None:
    """`TAZZA_REQUIRED_ENGINES` names them, with commas; CI sets it, so that nothing is green on `reference` alone."""
    for name in filter(None, os.environ.get("TAZZA_REQUIRED_ENGINES", "").split(",")):
        assert name in ENGINES, f"engine {name} is required and not registered"
        assert ENGINES[name].unavailable() is None, f"engine {name} is required: {ENGINES[name].unavailable()}"
