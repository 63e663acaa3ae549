"""MakeTwoClass and its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ShapeError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]
X = np.linspace(0, 1, 6, dtype=np.float32).reshape(2, 3)


def two_classes(X: Array) -> Array:
    """Return both probabilities of each element."""
    return np.array([[1 - x, x] for x in X.ravel()], np.float32).reshape(*X.shape, 2)


CASES = [
    Case("MakeTwoClass", [X], two_classes, batched=(0,)),
    Case("MakeTwoClass", [X[0, 0]], two_classes, id="rank 0"),
    Case("MakeTwoClassGradient", [X.reshape(3, 2)], X.reshape(3, 2)[:, 1] - X.reshape(3, 2)[:, 0], batched=(0,)),
]


@on_all_engines(CASES)
def test_two_class(case: Case, engine: str) -> None:
    check_op(case, engine)


@pytest.mark.parametrize("shape", [(2, 3), ()])
def test_gradients_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match="the last extent of dY"):
        run_op("MakeTwoClassGradient", np.ones(shape, np.float32))
