"""In-place rules as data: which input positions an output may, or must, be written over, for each form."""

from __future__ import annotations

import itertools
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from tazza.errors import SchemaError
from tazza.operator import (
    FLOAT,
    SCHEMAS,
    OpSchema,
    anything,
    beside,
    blob,
    each,
    ends,
    may_overwrite,
    must_overwrite,
    operator_def,
    schema,
)
from tazza.operator.in_place import InPlace


@contextmanager
def variadic(in_place: InPlace = None, must_in_place: InPlace = None) -> Generator[OpSchema]:
    """Declare an operator of many inputs and outputs."""
    yield schema(
        "TestInPlace",
        "For tests.",
        inputs=[blob("A", FLOAT), blob("X", FLOAT, variadic=True, optional=True)],
        outputs=[blob("B", like="A"), blob("Y", like="X", variadic=True, optional=True)],
        in_place=in_place,
        must_in_place=must_in_place,
        no_gradient=ends("test"),
    )
    SCHEMAS.unregister("TestInPlace")


FORMS: list[tuple[InPlace, list[set[int]]]] = [
    (None, [set(), set(), set()]),
    ({"Y": "X"}, [set(), {1}, set()]),
    ({"Y": each("X")}, [set(), {1}, {2}]),
    ({"Y": (each("X"), "A")}, [set(), {0, 1}, {2}]),
    ({"B": anything()}, [{0, 1, 2}, set(), set()]),
    (anything(), [{0, 1, 2}, {0, 1, 2}, {0, 1, 2}]),
]
"""A form, and for outputs B, Y, Y which of the inputs A, X, X they may overwrite."""


@pytest.mark.parametrize(("form", "allowed"), FORMS)
def test_forms(form: InPlace, allowed: list[set[int]]) -> None:
    """For every assignment of the names of inputs and new ones to outputs, the schema refuses what is not allowed."""
    with variadic(in_place=form) as made:
        free = made.view(operator_def("TestInPlace", ["a", "x", "y"], ["p", "q", "r"]))
        assert [set(may_overwrite(free, output)) for output in range(3)] == allowed
        for names in itertools.product("axyp", "axyq", "axyr"):
            legal = len(set(names)) == 3 and all(
                name not in "axy" or "axy".index(name) in allowed[output] for output, name in enumerate(names)
            )
            definition = operator_def("TestInPlace", ["a", "x", "y"], list(names))
            if legal:
                made.view(definition)
            else:
                with pytest.raises(SchemaError, match=r"in place of|writes a blob twice"):
                    made.view(definition)


def test_an_input_that_is_read_twice_is_overwritten_where_both_may_be() -> None:
    with variadic(in_place=anything()) as made:
        made.view(operator_def("TestInPlace", ["a", "x", "x"], ["b", "x"]))
    with variadic(in_place={"Y": each("X")}) as made, pytest.raises(SchemaError, match="cannot write Y in place of X"):
        made.view(operator_def("TestInPlace", ["a", "x", "x"], ["b", "x"]))


@pytest.mark.parametrize(("form", "forced"), FORMS[1:])
def test_forms_that_must(form: InPlace, forced: list[set[int]]) -> None:
    with variadic(must_in_place=form) as made:
        for names in itertools.product("axyp", "axyq", "axyr"):
            legal = len(set(names)) == 3
            for output, name in enumerate(names):
                over = {"axy"[place] for place in forced[output]}
                legal &= name in over if over else name not in "axy"
            definition = operator_def("TestInPlace", ["a", "x", "y"], list(names))
            if legal:
                op = made.view(definition)
                assert [set(must_overwrite(op, output)) for output in range(3)] == forced
            else:
                with pytest.raises(SchemaError, match=r"in place of|writes a blob twice"):
                    made.view(definition)


def test_what_must_be_overwritten_need_not_be_there() -> None:
    with variadic(must_in_place={"B": "X"}) as made:
        assert must_overwrite(made.view(operator_def("TestInPlace", ["a"], ["b"])), 0) == ()
        with pytest.raises(SchemaError, match="output B = 'b' must be in place of input X = 'x'"):
            made.view(operator_def("TestInPlace", ["a", "x"], ["b"]))


def test_what_must_be_overwritten_beside_another_input() -> None:
    with variadic(in_place={"B": "A"}, must_in_place={"B": beside("X", "A")}) as made:
        assert must_overwrite(made.view(operator_def("TestInPlace", ["a"], ["b"])), 0) == ()
        assert must_overwrite(made.view(operator_def("TestInPlace", ["a", "x"], ["a"])), 0) == (0,)
        with pytest.raises(SchemaError, match="output B = 'b' must be in place of input A = 'a'"):
            made.view(operator_def("TestInPlace", ["a", "x"], ["b"]))
