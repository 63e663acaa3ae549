"""Broadcasting of two operands: agrees with NumPy's, whatever the shapes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tazza.errors import ShapeError
from tazza.operator import find_schema, operator_def, run_op
from tazza.ops.math.broadcast import joint_dims, summed, under
from tazza.tensor import DataType, TensorSpec

EXTENTS = st.lists(st.sampled_from([0, 1, 2, 3]), max_size=4).map(tuple)
ADD = find_schema("Add")
PLAIN = ADD.view(operator_def("Add", ["a", "b"], ["c"]))


@given(EXTENTS, EXTENTS)
def test_the_joint_shape_is_that_of_numpy(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    specs = [TensorSpec(dims, DataType.FLOAT) for dims in (first, second)]
    try:
        joint = joint_dims(PLAIN, *specs)
    except ShapeError:
        joint = None
    try:
        wanted = np.broadcast_shapes(first, second)
    except ValueError:
        wanted = None
    assert joint == wanted


@given(EXTENTS, st.data())
def test_what_lies_under_a_fits(dims: tuple[int, ...], data: st.DataObject) -> None:
    """A cut of the dims of A, with ones put at its ends, gives them back when it is broadcast, and sums alike."""
    start = data.draw(st.integers(0, len(dims)))
    end = data.draw(st.integers(start, len(dims)))
    inner = sorted(data.draw(st.tuples(st.integers(start, end), st.integers(start, end))))
    b = tuple(n if inner[0] <= i < inner[1] else 1 for i, n in enumerate(dims))[start:end]
    op = ADD.view(operator_def("Add", ["a", "b"], ["c"], broadcast=1, axis=start))
    laid = [n for n in under(op, dims, b) if n is not None]
    assert np.broadcast_shapes(dims, laid) == dims
    total = summed(np.ones(dims), laid, np.zeros(b))
    assert total.shape == b
    assert total.sum() == np.prod(dims)


@pytest.mark.parametrize("type", ["Add", "Sub", "Mul", "Div", "LT"])
@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_one_number_lies_under_any_tensor(type: str, axis: int) -> None:
    """Whatever its rank, and whatever the axis: as in genuine Caffe2."""
    for dims in ((), (1,), (3,), (2, 3)):
        A = np.full(dims, 3, np.float32)
        wanted = run_op(type, A, np.full(dims, 2, np.float32))
        for rank in range(4):
            B = np.full((1,) * rank, 2, np.float32)
            np.testing.assert_array_equal(run_op(type, A, B, broadcast=1, axis=axis), wanted, strict=True)
