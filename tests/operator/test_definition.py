"""OperatorDefs from Python values, and reading their arguments back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.errors import ArgumentError, DTypeError
from tazza.models import Net
from tazza.operator import arg, find_argument, make_argument, operator_def, run_op, stored_fields
from tazza.operator.registry import SCHEMAS
from tazza.proto import NetDef, OperatorDef, TensorProto
from tazza.tensor import DataType


@pytest.mark.parametrize(
    ("value", "field", "stored"),
    [
        (True, "i", 1),
        (7, "i", 7),
        (np.int64(7), "i", 7),
        (0.5, "f", 0.5),
        (np.float32(0.5), "f", 0.5),
        (np.float32, "i", 1),
        (np.dtype("int8"), "i", 7),
        (float, "i", 13),
        (DataType.BOOL, "i", 5),
        ("text", "s", b"text"),
        (b"\xff", "s", b"\xff"),
        ((1, 2), "ints", [1, 2]),
        ([True, False], "ints", [1, 0]),
        (np.array([1, 2]), "ints", [1, 2]),
        ([0.5, 2.0], "floats", [0.5, 2.0]),
        (["a", b"b"], "strings", [b"a", b"b"]),
        (NetDef(name="n"), "n", NetDef(name="n")),
        (TensorProto(name="t"), "t", TensorProto(name="t")),
        (OperatorDef(type="X"), "s", OperatorDef(type="X").SerializeToString()),
        ([NetDef(name="n")], "nets", [NetDef(name="n")]),
    ],
)
def test_the_type_of_a_value_selects_the_field(value: Any, field: str, stored: Any) -> None:
    """behaviours.md row 6."""
    made = make_argument("a", value)
    assert stored_fields(made) == [field]
    found = getattr(made, field)
    assert (list(found) if isinstance(stored, list) else found) == stored


def test_none_is_left_out() -> None:
    """behaviours.md row 6."""
    assert [a.name for a in operator_def("X", a=1, e=None).arg] == ["a"]


@pytest.mark.parametrize("value", [[1, 2.5], [1, "a"], object(), {"a": object()}])
def test_mixed_lists_and_other_types_are_refused(value: Any) -> None:
    """behaviours.md row 6."""
    with pytest.raises(ArgumentError):
        make_argument("a", value)


def test_an_operator_reads_exactly_one_field() -> None:
    """behaviours.md row 6: 2 is an int, and no float argument."""
    with pytest.raises(ArgumentError, match="argument 'scale' wants float"):
        run_op("Scale", [1.0], scale=2)
    with pytest.raises(ArgumentError, match="argument 'kernel' wants int"):
        run_op("MaxPool", np.zeros((1, 1, 4, 4), np.float32), kernel=2.0)
    np.testing.assert_array_equal(run_op("Scale", [1.0], scale=2.0), [2])


@pytest.mark.parametrize("window", [{"kernel": 3 / 1}, {"kernel": 3, "pad": (3 - 1) / 2}, {"kernels": [4 / 2, 2.0]}])
def test_a_quotient_is_told_how_it_is_written(window: dict[str, Any]) -> None:
    """In programs of Python 2 it was a whole number."""
    with pytest.raises(ArgumentError, match=r"a // b is an int"):
        run_op("MaxPool", np.zeros((1, 1, 4, 4), np.float32), **window)


def test_floats_are_those_that_a_message_can_hold() -> None:
    """A bound of 0.7 lets the argument 0.7 pass, though it is stored as float32."""
    spec = arg("r", float, 0.1, minimum=0.7)
    assert spec.read(make_argument("r", 0.7)) == np.float32(0.7)
    assert spec.default == np.float32(0.1)


def test_of_several_arguments_of_one_name_the_first_counts() -> None:
    definition = operator_def("X", a=1)
    definition.arg.append(make_argument("a", 2))
    found = find_argument(definition, "a")
    assert found is not None
    assert found.i == 1


NAMES = [("int32", 2), ("float32", 1), ("float", 1), ("FLOAT", 1), ("double", 13), ("bool", 5)]
"""What people call element types, and the numbers of these."""


@pytest.mark.parametrize(("name", "number"), NAMES)
def test_names_of_element_types_are_stored_as_numbers(name: str, number: int) -> None:
    net = Net("n")
    net.add("Cast", ["x"], ["y"], to=name)
    net.add("CreateMap", [], ["m"], key_dtype="int64", value_dtype="int32")
    assert [argument.i for op in net.proto.op for argument in op.arg] == [number, 10, 2]


def test_every_argument_that_names_a_type_takes_names() -> None:
    taken = {name for type in SCHEMAS for name, spec in SCHEMAS[type].args.items() if spec.takes_type}
    assert taken == {"dtype", "from_type", "key_dtype", "to", "value_dtype"}
    made = run_op("ConstantFill", shape=[2], dtype="float64", value=1.5)
    assert DataType.of(made) is DataType.DOUBLE


def test_a_type_that_the_format_lacks() -> None:
    with pytest.raises(DTypeError, match="bfloat16 has no number"):
        run_op("ConstantFill", shape=[2], dtype="bfloat16")
    with pytest.raises(DTypeError, match="'floaty' is not an element type"):
        run_op("ConstantFill", shape=[2], dtype="floaty")
    with pytest.raises(ArgumentError, match="to = 'floaty' is no element type"):
        run_op("Cast", 1.0, to="floaty")
