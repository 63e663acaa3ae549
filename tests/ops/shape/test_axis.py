"""Cutting shapes at an axis: which axes there are, unknown extents, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tazza.errors import ShapeError
from tazza.operator import OpView, find_schema, operator_def
from tazza.ops.shape.axis import cut, product, require_one_element, shapes_agree


def softmax(axis: int) -> OpView:
    """Return a view of an operator with that axis."""
    return find_schema("Softmax").view(operator_def("Softmax", ["x"], ["y"], axis=axis))


@settings(max_examples=30)
@given(st.lists(st.none() | st.integers(0, 9), min_size=1, max_size=5), st.data())
def test_both_parts_make_the_shape(dims: list[int | None], data: st.DataObject) -> None:
    axis = data.draw(st.integers(-len(dims), len(dims) - 1))
    before, behind = cut(softmax(axis), "axis", "X", dims)
    assert [*before, *behind] == dims
    assert len(behind) == (-axis if axis < 0 else len(dims) - axis)
    rows, columns, elements = product(before), product(behind), product(dims)
    assert elements is None if rows is None or columns is None else elements == rows * columns


@pytest.mark.parametrize("axis", [-3, 2, 5])
def test_axes_outside_are_refused(axis: int) -> None:
    with pytest.raises(ShapeError, match=rf"axis = {axis} is not an axis of X, which has 2 dimensions \(2, \?\)"):
        cut(softmax(axis), "axis", "X", (2, None))


def test_rank_0_has_no_axis() -> None:
    with pytest.raises(ShapeError, match="X must have at least one dimension"):
        cut(softmax(0), "axis", "X", ())


def test_unknown_extents_fit_all() -> None:
    assert shapes_agree((None, 3), (2, 3))
    assert not shapes_agree((None, 3), (2, 5))
    assert not shapes_agree((None,), (2, 3))


def test_one_element() -> None:
    require_one_element(softmax(1), "w", (1, 1))
    require_one_element(softmax(1), "w", (None,))
    require_one_element(softmax(1), "w", None)
    with pytest.raises(ShapeError, match=r"w has the shape \(2, 1\), it must have 1 element"):
        require_one_element(softmax(1), "w", (2, 1))
