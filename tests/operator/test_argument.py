"""Arguments that take one of several types, and long lists that are not copied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tazza.errors import ArgumentError
from tazza.operator import SCHEMAS, arg, make_argument
from tazza.proto import OperatorDef

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


def test_arguments_that_count_together_are_not_called_unknown() -> None:
    """`pad_r` alone means nothing: the error had proposed it in its own place, and the log called it unknown."""
    found: set[str] = set()
    for type in SCHEMAS.keys():
        schema = SCHEMAS[type]
        for name, spec in schema.args.items():
            definition = OperatorDef(type=type, arg=[make_argument(name, 1)]) if spec.type is int else OperatorDef()
            if name not in schema.unknown_arguments(definition):
                continue
            found.add(name)
            with pytest.raises(ArgumentError, match=f"{type}: without effect here: '{name}'") as caught:
                schema.typed_view(definition, strict=True)
            assert "did you mean" not in str(caught.value)
            assert schema.reported_arguments(definition) == [f"{type}.{name}"]
    assert found > {"pad_r", "stride_h", "kernel_w", "dilation_h", "adj_h"}
