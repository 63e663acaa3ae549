"""Families that are tables: what a row must be, and what a family gives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from tazza.errors import SchemaError
from tazza.operator import KERNELS, SCHEMAS, Effects, OpSchema, blob, ends, family, gradients_of, kernel_key, schema


@dataclass(frozen=True, slots=True)
class Row:
    """A row."""

    words: str


@dataclass
class Loose:
    """A row that could change."""

    words: str = field(default="")


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Forget the types that a test has declared."""
    yield
    for type in SCHEMAS.registered():
        if type.startswith("Test"):
            SCHEMAS.unregister(type)
            if kernel_key(type, "reference") in KERNELS:
                KERNELS.unregister(kernel_key(type, "reference"))


def _declared(type: str, doc: str) -> OpSchema:
    return schema(type, doc, inputs=[blob("X", dims="*S")], outputs=[blob("Y", like="X")], effects=Effects.PURE)


def test_a_family_is_a_mapping_in_the_order_of_its_table() -> None:
    @family({"TestTwo": Row("two"), "TestOne": Row("one")})
    def tests(type: str, row: Row) -> OpSchema:
        return _declared(type, f"Y = {row.words}.")

    assert list(tests) == ["TestTwo", "TestOne"]
    assert tests["TestOne"] is SCHEMAS["TestOne"]
    assert [one.doc for one in tests.schemas] == ["Y = two.", "Y = one."]
    assert tests.rows["TestTwo"] == Row("two")
    assert SCHEMAS["TestTwo"].family is tests
    assert SCHEMAS["TestTwo"].module == __name__
    assert repr(tests) == "Family(tests: TestTwo, TestOne)"


def test_types_that_differ_by_name_only_have_no_rows() -> None:
    @family("TestOne", "TestTwo")
    def tests(type: str) -> OpSchema:
        return _declared(type, "Y = X.")

    assert list(tests) == ["TestOne", "TestTwo"]
    assert dict(tests.rows) == {"TestOne": None, "TestTwo": None}


def test_gradient_operators_share_the_rows() -> None:
    @family({"TestOne": Row("one")})
    def forward(type: str, row: Row) -> OpSchema:
        return _declared(type, f"Y = {row.words}.")

    @family(gradients_of(forward))
    def backward(type: str, row: Row) -> OpSchema:
        return schema(type, row.words, outputs=[blob("dX")], effects=Effects.PURE, no_gradient=ends("enough"))

    assert list(backward) == ["TestOneGradient"]
    assert backward.rows["TestOneGradient"] is forward.rows["TestOne"]


def test_a_row_cannot_be_changed() -> None:
    with pytest.raises(SchemaError, match=r"the row of 'TestOne' is a Loose"):
        family({"TestOne": Loose()})
    with pytest.raises(SchemaError, match=r"the row of 'TestOne' is a list"):
        family({"TestOne": [1]})


def test_a_row_declares_its_own_type() -> None:
    with pytest.raises(SchemaError, match="the row 'TestOne' declared 'TestTwo'"):

        @family("TestOne")
        def tests(type: str) -> OpSchema:
            return _declared("TestTwo", type)


def test_a_table_has_rows_each_type_once() -> None:
    with pytest.raises(SchemaError, match="at least one row"):
        family({})
    with pytest.raises(SchemaError, match="names a type twice: TestOne, TestOne"):
        family("TestOne", "TestOne")
