"""Alias, AliasWithName: any element type, and a gradient that is handed on."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.errors import SchemaError
from tazza.operator import find_schema, gradient_for_op, operator_def
from tests.check import Case, check_op, on_all_engines, run

X = np.arange(15, dtype=np.float32).reshape(3, 5)
TEXT = np.array([b"a", b"", b"longer"], object)
CASES = [
    Case("Alias", [X], X, batched=(0,)),
    Case("Alias", [np.arange(6).reshape(2, 3)], np.arange(6).reshape(2, 3), gradient=False, id="integers"),
    Case("Alias", [TEXT], TEXT, gradient=False, id="text"),
    Case("AliasWithName", [X], X, {"is_backward": True}, batched=(0,), id="named"),
    Case("AliasWithName", [TEXT], TEXT, id="named text"),
]


@on_all_engines(CASES)
def test_alias(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_the_gradient_is_that_of_the_output() -> None:
    definition = operator_def("Alias", ["X"], ["Y"])
    assert gradient_for_op(find_schema("Alias").view(definition), ["dY"]) == ([], ["dY"])


def test_never_in_place() -> None:
    with pytest.raises(SchemaError, match="in place of"):
        run(operator_def("Alias", ["X"], ["X"]), [X])


def test_a_name_is_an_argument() -> None:
    definition = operator_def("AliasWithName", ["X"], ["X"], is_backward=True)
    definition.arg.add(name="name", s=b"kept")
    assert find_schema("AliasWithName").view(definition).arguments["name"] == "kept"
    np.testing.assert_array_equal(run(definition, [X])[0][0], X)
