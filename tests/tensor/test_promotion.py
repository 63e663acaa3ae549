"""Type promotion against NumPy within a kind, laws over all types, and Python numbers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tazza.errors import ArgumentError, DTypeError
from tazza.tensor import DataType
from tazza.tensor.promotion import can_cast, float_type, kind_of, promote, result_type

TYPES = [dtype for dtype in DataType if dtype is not DataType.STRING]
NUMPYS = [dtype for dtype in TYPES if dtype is not DataType.BFLOAT16]


def test_types_of_numpy_promote_as_there() -> None:
    for a, b in itertools.product(NUMPYS, NUMPYS):
        assert promote(a, b).numpy == np.promote_types(a.numpy, b.numpy)


def test_promotion_is_a_join() -> None:
    for a, b in itertools.product(TYPES, TYPES):
        common = promote(a, b)
        assert common is promote(b, a)
        assert promote(common, a) is common
        assert kind_of(common) == max(kind_of(a), kind_of(b))
    for a, b, c in itertools.product((DataType.BFLOAT16, DataType.FLOAT16, DataType.INT8, DataType.DOUBLE), repeat=3):
        assert promote(promote(a, b), c).is_float == promote(a, promote(b, c)).is_float


def test_bfloat16_is_as_wide_as_float16() -> None:
    assert promote(DataType.BFLOAT16, DataType.FLOAT16) is DataType.FLOAT
    assert promote(DataType.BFLOAT16, DataType.UINT8) is DataType.BFLOAT16
    assert promote(DataType.BFLOAT16, DataType.INT16) is DataType.FLOAT
    assert promote(DataType.BFLOAT16, DataType.INT64) is DataType.DOUBLE


def test_functions_of_integers_are_computed_as_numpy_does() -> None:
    for dtype in NUMPYS:
        assert float_type(dtype).numpy == np.sqrt(np.ones(1, dtype.numpy)).dtype
    assert float_type(DataType.BFLOAT16) is DataType.BFLOAT16


def test_python_numbers_take_the_type_of_arrays() -> None:
    assert result_type(DataType.BFLOAT16, 2, 0.5) is DataType.BFLOAT16
    assert result_type(True, DataType.UINT8) is DataType.UINT8
    assert result_type(np.zeros(2, np.int16), np.float32(1)) is DataType.FLOAT
    assert result_type(np.float64(1), DataType.FLOAT) is DataType.DOUBLE
    assert [result_type(x) for x in (True, 1, 1.0)] == [DataType.BOOL, DataType.INT64, DataType.DOUBLE]


@pytest.mark.parametrize(
    ("operands", "message"),
    [
        ((DataType.INT32, 1.5), r"1.5 is of the kind floating point, the array's int32 is not"),
        ((DataType.BOOL, 2), "2 is of the kind integers"),
        ((DataType.STRING,), "strings are not computed with"),
        (("a", DataType.BOOL), "str is neither an array"),
    ],
)
def test_what_does_not_promote(operands: tuple[DataType, ...], message: str) -> None:
    with pytest.raises(DTypeError, match=message):
        result_type(*operands)


def test_nothing_has_no_type() -> None:
    with pytest.raises(ArgumentError, match="it got 0"):
        result_type()


def test_casts_never_lower_the_kind() -> None:
    for a, b in itertools.product(NUMPYS, NUMPYS):
        wider = np.can_cast(a.numpy, b.numpy, "same_kind") or (a, b) in UNSIGNED_PAIRS
        assert can_cast(a, b) == wider, (a, b)


UNSIGNED_PAIRS = {
    (a, b) for a in NUMPYS for b in NUMPYS if a.numpy.kind == "i" and b.numpy.kind == "u"
}  # NumPy takes the sign for a kind of its own
