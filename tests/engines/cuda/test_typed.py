"""Expressions over elements of any types on a device: their types, numbers of the host, what is not compiled."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.codegen.block import Slot
from tazza.engines.cuda.launch import Held
from tazza.engines.cuda.typed import typed_launch, types_of
from tazza.errors import UnsupportedError
from tazza.operator import Expression
from tazza.tensor import DataType, Tensor
from tests.engines.cuda.test_threads import run, there

NAMES = {"a": DataType.INT32, "b": DataType.INT32, "x": DataType.FLOAT}


def test_types() -> None:
    texts = [Expression.parse(text) for text in ("a + b", "a < b", "where(a < b, x, x)")]
    assert types_of(texts, NAMES) == [DataType.INT32, DataType.BOOL, DataType.FLOAT]
    for text, reason in (("a + 1", "has no type"), ("a + x", "is not compiled"), ("a / b", "is not compiled")):
        with pytest.raises(UnsupportedError, match=reason):
            types_of([Expression.parse(text)], NAMES)


def test_a_number_of_the_host_and_what_is_repeated() -> None:
    X, Y = there(np.arange(6, dtype=np.int64).reshape(2, 3)), there(np.zeros((2, 3), np.int64))
    row, n = there(np.array([10, 20, 30], np.int64)), Tensor.from_numpy(np.array([7], np.int64))
    sources = [(DataType.INT64, Slot("x")), (DataType.INT64, Slot("row")), (DataType.INT64, Held(Slot("n")))]
    axes = [(2, (3, 0, 0, 3)), (3, (1, 1, 0, 1))]
    launch = typed_launch((Expression.parse("a0 * a2 + a1"),), sources, [(DataType.INT64, Slot("y"))], axes)
    run(launch, x=X, row=row, n=n, y=Y)
    np.testing.assert_array_equal(Y.plain(), [[10, 27, 44], [31, 48, 65]])
