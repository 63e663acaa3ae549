"""Tile and Expand: NumPy's words for them, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, ShapeError, TazzaError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]


def values(*shape: int) -> Array:
    """Return float32 numbers, the same in every run."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


X = values(2, 3, 4)
TWO, ONE = np.array([2], np.int32), np.array([1])


def parts(dY: Array, count: int, axis: int) -> Array:
    """Return the sum of equal parts."""
    return np.sum(np.split(dY, count, axis), axis=0)


CASES = [
    Case("Tile", [X], np.tile(X, (1, 2, 1)), {"tiles": 2, "axis": 1}),
    Case("Tile", [X], np.tile(X, (1, 1, 3)), {"tiles": 3, "axis": -1}, id="an axis from the end"),
    Case("Tile", [X], X[:0], {"tiles": 0, "axis": 0}, gradient=False, id="no tile"),  # its parts cannot be told apart
    Case("Tile", [X, TWO], np.tile(X, (1, 2, 1)), {"axis": 1, "tiles": 5}, id="the input before the argument"),
    Case("Tile", [X, TWO.astype(np.int64), ONE], np.tile(X, (1, 2, 1)), id="both by inputs"),
    Case("Tile", [X[:, :0]], X[:, :0].repeat(2, 2), {"tiles": 2, "axis": 2}, id="empty"),
    Case(
        "Tile",
        [np.array([b"a", b"bc"], object)],
        np.array([b"a", b"bc"] * 2, object),
        {"tiles": 2, "axis": 0},
        gradient=False,  # text has none
        id="text",
    ),
    Case("TileGradient", [X], parts(X, 2, 0), {"tiles": 2, "axis": 0}),
    Case("TileGradient", [X, TWO, np.array([2])], parts(X, 2, 2), id="both by inputs"),
    Case("NumpyTile", [X, np.array([2, 1, 3])], np.tile(X, (2, 1, 3)), gradient=False),  # Caffe2 has none
    Case("NumpyTile", [X, np.array([2, 0, 1])], np.zeros((4, 0, 4), "f"), gradient=False, id="no tile"),
    Case("NumpyTile", [X[0, 0, 0], np.zeros(0, np.int64)], X[0, 0, 0], gradient=False, id="rank 0"),
    Case("Expand", [X[:, :1], np.array([5, 1, 3, 1])], np.broadcast_to(X[:, :1], (5, 2, 3, 4)).copy()),
    Case("Expand", [X, np.array([-1, 0])], X, id="below 1 is 1"),
    Case("Expand", [X[0, 0, 0], np.array([2, 2])], np.full((2, 2), X[0, 0, 0]), id="rank 0"),
    Case("Expand", [X[:0], np.array([3, 1])], X[:0], id="empty"),
    Case("ExpandGradient", [X, values(3, 1)], X.sum((0, 2)).reshape(3, 1)),
    Case("ExpandGradient", [X[:0], values(1, 3, 4)], np.zeros((1, 3, 4), "f"), id="of nothing"),
]


@on_all_engines(CASES)
def test_repeated(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[TazzaError], str]] = [
    ("Tile", [X], {"tiles": 2}, ArgumentError, "'axis' is missing"),
    ("Tile", [X], {"axis": 1}, ArgumentError, "'tiles' is missing"),
    ("Tile", [X], {"tiles": -1, "axis": 1}, ArgumentError, "'tiles' = -1"),
    ("Tile", [X], {"tiles": 1, "axis": 3}, ShapeError, "axis = 3"),
    ("Tile", [X, -TWO], {"axis": 1}, ArgumentError, "tiles = -2"),
    ("Tile", [X, np.array([1, 2])], {"axis": 1}, ShapeError, "tiles has the shape"),
    ("TileGradient", [X], {"tiles": 2, "axis": 1}, ShapeError, "extent 3 along axis 1"),
    ("TileGradient", [X], {"tiles": 0, "axis": 1}, ShapeError, "tiles = 0"),
    ("NumpyTile", [X, np.array([1, 2])], {}, ShapeError, "one for each axis"),
    ("NumpyTile", [X, np.array([1, 2, -1])], {}, ShapeError, "none can be negative"),
    ("Expand", [X, np.array([3, 1, 1])], {}, ShapeError, "cannot become"),
    ("ExpandGradient", [X, values(3, 3)], {}, ShapeError, "dY has the shape"),
    ("ExpandGradient", [X, values(1, 2, 3, 4)], {}, ShapeError, "dY has the shape"),
]


@pytest.mark.parametrize(("type", "inputs", "arguments", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], arguments: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **arguments)
