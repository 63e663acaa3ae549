"""Arguments that take one of several types, and long lists that are not copied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tazza.errors import ArgumentError
from tazza.operator import arg, make_argument

SCALAR = arg("value", float | int | bytes, None)
NUMBERS = arg("values", Sequence[float] | Sequence[int], None)


@pytest.mark.parametrize(("value", "read"), [(2, 2), (2.0, 2.0), ("ab", b"ab"), (True, 1)])
def test_a_union_gives_the_type_that_was_stored(value: Any, read: Any) -> None:
    found = SCALAR.read(make_argument("value", value))
    assert (type(found), found) == (type(read), read)


def test_a_union_refuses_other_fields() -> None:
    with pytest.raises(ArgumentError, match=r"wants float \(field 'f'\) or int .* or bytes .*, it is stored as ints"):
        SCALAR.read(make_argument("value", [1, 2]))
    with pytest.raises(ArgumentError, match=r"wants floats .* or ints .*, it is stored as strings"):
        NUMBERS.read(make_argument("values", ["a"]))


def test_sequences_are_what_is_stored() -> None:
    argument = make_argument("values", [0.5, 2.0])
    assert list(NUMBERS.read(argument)) == [0.5, 2.0]
    np.testing.assert_array_equal(np.array(NUMBERS.read(make_argument("values", [3, 4])), np.int64), [3, 4])
    assert len(NUMBERS.read(make_argument("values", []))) == 0


def test_ranges_hold_for_each_member_of_a_union() -> None:
    positive = arg("value", float | int, None, minimum=0)
    with pytest.raises(ArgumentError, match="'value' = -1 is below its minimum 0"):
        positive.read(make_argument("value", -1))


def test_types_that_arguments_cannot_have() -> None:
    with pytest.raises(ArgumentError, match="cannot be declared as"):
        arg("value", float | dict, None)
