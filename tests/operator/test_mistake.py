"""Mistakes in declarations: each is told where it stands, by operator and letter, before anything runs."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tazza.errors import ArgumentError, DuplicateError, SchemaError, TazzaError
from tazza.operator import (
    FLOAT,
    HALVES,
    KERNELS,
    SCHEMAS,
    Array,
    Cost,
    Effects,
    OpSchema,
    OpView,
    Role,
    Spec,
    arg,
    as_many,
    blob,
    each,
    engine,
    find_schema,
    forget_function,
    formula,
    host_kernel,
    kernel,
    launcher,
    operator_def,
    pairs,
    schema,
    together,
)
from tazza.operator.engine import ENGINES, why_unavailable
from tazza.proto import NetDef
from tazza.tensor import Blob

TYPE = "TestMistake"
X, Y = blob("X", FLOAT, "N *S"), blob("Y", "X", "N *S")
W = blob("W", FLOAT, "M K", optional=True)


def declare(**changed: Any) -> OpSchema:
    """Declare an operator that is right but for what is changed."""
    right: dict[str, Any] = {"inputs": [X], "outputs": [Y], "effects": Effects.PURE, "no_gradient": None}
    return schema(TYPE, "Y = X.", **(right | changed))


def with_arg(*args: Any, **ranges: Any) -> Callable[[], object]:
    return lambda: declare(args=[arg("alpha", *args, **ranges)])


def rule(name: str, function: Callable[..., Any]) -> Callable[[], object]:
    return lambda: getattr(declare(), name)(function)


def made_by(make: Callable[..., Any], function: Callable[..., Any], **options: Any) -> Callable[[], object]:
    return lambda: make(declare(), **options)(function)


def copy(X: Array, Y: Array) -> None:
    Y[...] = X


def other_kernel(X: Array, y: Array) -> None:
    y[...] = X


def silent_kernel(X: Array) -> None:
    del X


def other_host_kernel(x: Blob) -> None:
    del x


def other_infer(op: OpView, Z: Spec) -> Spec:
    del op
    return Z


def infer_alone(X: Spec) -> Spec:
    return X


def cost_of_inputs(op: OpView, X: Spec) -> Cost:
    del op, X
    return Cost()


MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    # letters
    "a letter that is no name": (lambda: declare(inputs=[blob("X Y")]), "the letter 'X Y' is no name"),
    "a letter twice": (lambda: declare(inputs=[X, X]), "two inputs have the letter 'X'"),
    "a letter that kernels use": (
        lambda: declare(inputs=[blob("op")]),
        "op cannot be the name of an argument or letter",
    ),
    "types that are a list": (
        lambda: declare(inputs=[blob("X", cast("Any", ["float"]))]),
        r"types of X are \['float'\]",
    ),
    "types of things that are no types": (
        lambda: declare(inputs=[blob("X", cast("Any", frozenset({"float"})))]),
        r"types of X are frozenset",
    ),
    "the type of a letter that is not there": (
        lambda: declare(outputs=[blob("Y", "Z", "*S")]),
        "dtypes of Y names 'Z', which is no input, nor is it an element type",
    ),
    "an element type by a name that is none": (
        lambda: declare(inputs=[blob("X", "flot32", "*S")]),
        r"did you mean float32 (?s:.*)element types are DataType\.FLOAT",
    ),
    "like a letter that is not there": (
        lambda: declare(outputs=[blob("Y", like="x")]),
        "like of Y names 'x'(?s:.*)mean X",
    ),
    "a pattern with a sign": (lambda: declare(inputs=[blob("X", FLOAT, "N C*2")]), "'N C\\*2' of X has 'C\\*2', which"),
    "more types than any on devices": (
        lambda: declare(inputs=[blob("X", elsewhere=HALVES)]),
        "X takes frozenset.* on devices, beside None",
    ),
    "more types of what follows": (
        lambda: declare(inputs=[blob("X", FLOAT), blob("Z", "X", elsewhere=HALVES, role=Role.DATA)]),
        "Z takes frozenset.* on devices, beside 'X'",
    ),
    "more types of an output": (
        lambda: declare(outputs=[blob("Y", FLOAT, elsewhere=HALVES)]),
        "the output Y has other types on devices",
    ),
    "a pattern with commas": (lambda: declare(inputs=[blob("X", FLOAT, "N, C")]), "has 'N,', which is no dimension"),
    "two runs": (lambda: declare(inputs=[blob("X", FLOAT, "*S C *T")]), r"of X has 2 runs, \*S and \*T"),
    "as many elements, beside others": (
        lambda: declare(inputs=[blob("X", FLOAT, "N #S")]),
        "has '#S', which is no dim",
    ),
    "a dimension of no input": (
        lambda: kernel(declare(outputs=[blob("Y", "X", "N M")]))(copy),
        "dimension 'M' of output Y is that of no input",
    ),
    "a run of no input": (
        lambda: kernel(declare(outputs=[blob("Y", "X", "N *s")]))(copy),
        r"'\*s' of output Y(?s:.*)mean S",
    ),
    # places and relations
    "in place, an output that is not there": (
        lambda: declare(in_place={"Z": "X"}),
        "in_place names 'Z', which is no output",
    ),
    "in place of what is not there": (
        lambda: declare(in_place={"Y": ("X", "W")}),
        "in_place names 'W', which is no input",
    ),
    "each of what is not there": (lambda: declare(in_place={"Y": each("W")}), "in_place names 'W', which is no input"),
    "forced in place": (lambda: declare(must_in_place={"Y": "x"}), "must_in_place names 'x'(?s:.*)did you mean X"),
    "as many as what is not there": (
        lambda: declare(relations=[as_many("many", "X")]),
        "names 'many', which is no letter",
    ),
    "as many, of one": (lambda: declare(relations=[as_many("Y", "X")]), "as_many names 'Y', which is not variadic"),
    "in turn, one": (lambda: declare(relations=[pairs("X", "Y")]), "pairs names 'X', which is not variadic"),
    "together, needed": (lambda: declare(inputs=[X, W], relations=[together("X", "W")]), "'X', which is not optional"),
    # arguments
    "an argument twice": (
        lambda: declare(args=[arg("a", int, 1), arg("a", float, 1.0)]),
        "two arguments are called 'a'",
    ),
    "a letter that is an argument": (
        lambda: declare(args=[arg("definition", int, 1)]),
        "definition cannot be the name",
    ),
    "a type that no argument has": (with_arg(complex, 1j), "argument 'alpha' cannot be declared as <class 'complex'>"),
    "a default of another type": (with_arg(float, 1), "the default 1 of argument 'alpha' is not of its type"),
    "a default that is text": (with_arg(int, "1"), "the default '1' of argument 'alpha' is not of its type, int\n"),
    "a list with another type within": (with_arg(list[int], [1, 2.5]), r"the default \[1, 2.5\] of argument 'alpha'"),
    "a default below": (with_arg(int, -1, minimum=0), "'alpha' = -1 is below its minimum 0"),
    "a default above": (with_arg(float, 2.0, maximum=1.0), "'alpha' = 2.0 is above its maximum 1.0"),
    "a default that is none of the choices": (
        with_arg(str, "c", choices=("a", "b")),
        "'alpha' = 'c' is not one of 'a', 'b'",
    ),
    "a default with one that is out of range": (with_arg(list[int], [1, 0], minimum=1), "'alpha' = 0 is below"),
    "a range that is empty": (with_arg(int, minimum=2, maximum=1), "'alpha' is >= 2 and <= 1: nothing is both"),
    # the operator
    "a type with blanks": (lambda: schema("Test Mistake", "Y = X.", inputs=[X]), "'Test Mistake' is no operator type"),
    "no type": (lambda: schema("", "Y = X.", inputs=[X]), "'' is no operator type"),
    "a type of tazza": (
        lambda: schema("Relu", "Y = X.", inputs=[X]),
        r"'Relu' is declared already, in .*relu\.py, line \d",
    ),
    "a type twice": (
        lambda: (declare(), declare()),
        r"'TestMistake' is declared already, in .*test_mistake\.py, line",
    ),
    "effects that are none": (lambda: declare(effects="pure"), "its effects are 'pure'"),
    "nets whose names mean nothing": (
        lambda: declare(args=[arg("net", NetDef, None)]).gradient(lambda g: []),
        "has a gradient maker and nets in net",
    ),
    # rules
    "infer of other letters": (rule("infer", other_infer), r"infer of TestMistake cannot be called with \(op, X\)"),
    "infer without the operator": (rule("infer", infer_alone), "infer of TestMistake cannot be called"),
    "cost without the outputs": (
        rule("cost", cost_of_inputs),
        r"cost of TestMistake cannot be called with \(op, X, Y\)",
    ),
    "images of what is not there": (lambda: declare().batched("Z"), "batched names 'Z', which is no input"),
    "hands on what is not there": (lambda: declare().hands_on("Y"), "hands_on names 'Y', which is no input"),
    "commutes, not there": (lambda: declare().commutes("Z"), "commutes names 'Z', which is no input"),
    "a training argument that is not there": (
        lambda: declare().trains_unless("is_test"),
        "names 'is_test', which is no arg",
    ),
    # kernels and engines
    "a kernel of another letter": (made_by(kernel, other_kernel), "does not know: y(?s:.*)did you mean Y"),
    "a kernel that can write nothing": (
        made_by(kernel, silent_kernel),
        "takes none of its outputs, Y: (?s:.*)name 'Y' among",
    ),
    "a host kernel of another letter": (
        made_by(host_kernel, other_host_kernel),
        "does not know: x(?s:.*)did you mean X",
    ),
    "an engine that is not there": (
        made_by(kernel, copy, engine="onednnn"),
        "no engine 'onednnn'(?s:.*)did you mean onednn",
    ),
    "an engine for other devices": (
        made_by(launcher, copy, engine="gemm", device="cuda"),
        "'gemm' is for cpu, not for 'cuda'",
    ),
    "a device that is not there": (made_by(kernel, copy, device="gpu"), "'reference' is for any, cpu, not for 'gpu'"),
    "a kernel twice": (
        lambda: [kernel(find_or_declare())(copy) for _ in range(2)],
        r"kernel .*'TestMistake', 'cpu', 'ref",
    ),
    "an engine without a name": (lambda: engine("", "nothing"), "'' is no name of an engine"),
    "an engine with a comma": (lambda: engine("a,b", "two"), "'a,b' is no name of an engine"),
    "an engine of an unknown device": (
        lambda: engine("mine", "m", device="cudo"),
        "for devices 'cudo'(?s:.*)did you mean cuda",
    ),
    "an engine twice": (lambda: engine("onednn", "another"), "engine 'onednn' is registered already"),
    # formulas
    "a formula of no output": (lambda: formula(declare(), y="X"), "has no output 'y'(?s:.*)did you mean Y"),
    "a formula of other letters": (
        lambda: formula(declare(), Y="x + 1"),
        "formula 'x \\+ 1' of Y names: x(?s:.*)mean X",
    ),
    "a formula that is no expression": (
        lambda: formula(declare(), Y="X if X else 0"),
        "formula of Y: .*not of this language",
    ),
    "a formula that casts": (lambda: formula(declare(), Y="int32(X)"), "of Y names: int32"),
    "a number of other letters": (
        lambda: formula(declare(), scalars={"k": "beta"}, Y="k * X"),
        "of scalar k names: beta",
    ),
    "no formula": (lambda: formula(declare()), "give its formulas as texts or as a function"),
}


def find_or_declare() -> OpSchema:
    found = SCHEMAS.get(TYPE)
    return declare() if found is None else found


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Forget what a mistake left."""
    yield
    for type in (TYPE, "Test Mistake", ""):
        forget_function(type)
    for name in ("", "a,b", "mine"):
        ENGINES.unregister(name)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_where_it_stands(name: str) -> None:
    mistake, message = MISTAKES[name]
    assert all(("Relu" in SCHEMAS, "onednn" in ENGINES))  # what a mistake is compared with is there from now on
    before = set(KERNELS.registered())
    with pytest.raises(TazzaError, match=message) as caught:
        mistake()
    assert isinstance(caught.value, SchemaError | DuplicateError | ArgumentError)
    (where,) = [line for line in caught.value.where if line.startswith("declared in ")]
    assert f"{Path(__file__).name}, line " in where, where
    assert set(KERNELS.registered()) - before <= {(TYPE, "cpu", "reference")}


def test_nothing_is_left_of_a_schema_that_is_wrong() -> None:
    with pytest.raises(SchemaError):
        declare(in_place={"Z": "X"})
    assert TYPE not in SCHEMAS
    assert declare().declared_at.startswith(f"{__file__}, line ")


def test_names_are_proposed_in_one_place() -> None:
    """Hints are of one form: nobody else looks for names that are near."""
    package = Path(__file__).parents[2] / "src" / "tazza"
    asking = [
        path.name
        for path in package.rglob("*.py")
        if "difflib" in (text := path.read_text(encoding="utf-8"))
        and any(
            isinstance(node, ast.Import | ast.ImportFrom) and "difflib" in ast.unparse(node)
            for node in ast.parse(text).body
        )
    ]
    assert asking == ["near_names.py"]


@pytest.mark.parametrize(
    ("ask", "proposed"),
    [
        (lambda: find_schema("Conv").view(operator_def("Conv", ["x", "w"], ["y"], kernal=3), strict=True), "kernel"),
        (
            lambda: find_schema("LeakyRelu").view(operator_def("LeakyRelu", ["x"], ["y"], Alpha=0.5), strict=True),
            "alpha",
        ),
        (lambda: find_schema("LeakyRellu"), "LeakyRelu"),
        (lambda: ENGINES["natiev"], "native"),
    ],
)
def test_near_names_are_proposed(ask: Callable[[], object], proposed: str) -> None:
    with pytest.raises(TazzaError, match=f"did you mean .*{proposed}"):
        ask()
    assert why_unavailable("Relu", "cpu", "natiev") == "no such engine; did you mean native?"
