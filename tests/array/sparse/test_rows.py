"""Gradients of some rows: as names in graphs, as tensors, and from the one to the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tazza.array.sparse import RowSlices, row_slices
from tazza.array.sparse.rows import rows_of_dense
from tazza.errors import DTypeError, ShapeError
from tazza.operator import Gradient
from tazza.tensor import DataType, Tensor
from tazza.workspace import Workspace

ROWS = 6


@st.composite
def gradients(draw: st.DrawFn) -> tuple[RowSlices[Tensor], np.ndarray[Any, Any]]:
    indices = np.array(draw(st.lists(st.integers(0, ROWS - 1), max_size=12)), draw(st.sampled_from(["i4", "i8"])))
    rest = draw(st.sampled_from([(), (3,), (2, 5)]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    values = rng.integers(-4, 5, (len(indices), *rest)).astype(draw(st.sampled_from(["f4", "f8", "i4"])))
    dense = np.zeros((ROWS, *rest), values.dtype)
    np.add.at(dense, indices, values)
    return row_slices(indices, values), dense


@settings(max_examples=50)
@given(gradients())
def test_rows_stand_for_their_sum(case: tuple[RowSlices[Tensor], np.ndarray[Any, Any]]) -> None:
    gradient, dense = case
    np.testing.assert_array_equal(gradient.to_dense(ROWS).array, dense)
    single = gradient.coalesce()
    np.testing.assert_array_equal(single.indices.array, np.unique(gradient.indices.array))
    np.testing.assert_array_equal(single.to_dense(ROWS).array, dense)
    assert single.coalesce() is single
    np.testing.assert_array_equal((gradient + single).to_dense(ROWS).array, 2 * dense)
    np.testing.assert_array_equal(rows_of_dense(gradient.to_dense(ROWS)).to_dense(ROWS).array, dense)
    target = Tensor.from_numpy(np.ones_like(dense))
    version = target.storage.version
    gradient.add_to(target, -2)
    np.testing.assert_array_equal(target.array, 1 - 2 * dense)
    assert target.storage.version > version


def test_a_gradient_of_a_graph_is_fetched() -> None:
    names: Gradient = RowSlices("w_grad_indices", "w_grad_values")
    workspace = Workspace()
    workspace.feed("w_grad_indices", np.array([[4, 1], [1, 0]]))  # two lookups of two rows each
    workspace.feed("w_grad_values", np.arange(12, dtype=np.float32).reshape(2, 2, 3))
    assert isinstance(names, RowSlices)
    gradient = names.fetched(workspace.fetch)
    assert gradient.indices.shape == (4,)
    np.testing.assert_array_equal(gradient.to_dense(5).array[1], [3 + 6, 4 + 7, 5 + 8])
    workspace.create_blob("both").set(gradient)
    assert workspace.blob("both").type_name == "tazza.RowSlices"


def test_what_does_not_fit_is_said() -> None:
    gradient = row_slices([1, 5], np.ones((2, 3), np.float32))
    with pytest.raises(ShapeError, match="row 5 of element 1 is outside of 0 to 4"):
        gradient.to_dense(5)
    with pytest.raises(ShapeError, match="row 5 of element 1"):
        gradient.add_to(Tensor.from_numpy(np.ones((5, 3), np.float32)))
    with pytest.raises(ShapeError, match="row shapes differ"):
        gradient.add_to(Tensor.from_numpy(np.ones((6, 4), np.float32)))
    with pytest.raises(DTypeError, match="types differ"):
        gradient.add_to(Tensor((6, 3), DataType.DOUBLE))
    with pytest.raises(ShapeError, match="have different shapes"):
        _ = gradient + row_slices([1], np.ones((1, 4), np.float32))
    with pytest.raises(DTypeError, match="types differ"):
        _ = gradient + row_slices([1], np.ones((1, 3)))
    with pytest.raises(ShapeError, match=r"values Dim\(3, 2\) do not begin with Dim\(2\)"):
        row_slices([1, 2], np.ones((3, 2)))
    with pytest.raises(DTypeError, match="not integers"):
        row_slices([1.5], np.ones((1, 2)))
    with pytest.raises(ShapeError, match="has no rows"):
        rows_of_dense(Tensor.from_numpy(np.array(3.0)))
