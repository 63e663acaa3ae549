"""BatchGather and its gradient, compiled: the reference's bits on any number of threads; a wrong index is named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.codegen import kernel
from tazza.codegen.kernel import unavailable
from tazza.errors import NumericError
from tazza.operator import operator_def
from tazza.runtime.threads import NUM_THREADS
from tests.check import run

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

Array = NDArray[Any]
INDICES = np.array([[3, 0, 3], [1, 3, 2]])


def results(shape: tuple[int, ...], indices: Array, engine: str) -> tuple[Array, Array]:
    """Return what is gathered, and the gradient of it."""
    random = np.random.default_rng(len(shape))
    x = random.standard_normal(shape).astype(np.float32)
    (y,), _ = run(operator_def("BatchGather", ["x", "i"], ["y"]), [x, indices], engine)
    dy = random.standard_normal(y.shape).astype(np.float32)
    (dx,), _ = run(operator_def("BatchGatherGradient", ["x", "i", "dy"], ["dx"]), [x, indices, dy], engine)
    return y, dx


@pytest.mark.parametrize("shape", [(5, 4), (5, 4, 3), (5, 4, 2, 17), (0, 4), (5, 4, 0), (1, 4)])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_it_is_the_reference(shape: tuple[int, ...], dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = results(shape, INDICES.astype(dtype), "reference")
    monkeypatch.setattr(kernel, "THREAD_NS", 0.01)
    for count in (1, 3):
        with NUM_THREADS.override(count):
            found = results(shape, INDICES.astype(dtype), "native")
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("index", [-1, 4])
def test_a_wrong_index_is_named(index: int) -> None:
    x, indices = np.zeros((2, 4), np.float32), np.array([0, index])
    with pytest.raises(NumericError, match="INDICES"):
        run(operator_def("BatchGather", ["x", "i"], ["y"]), [x, indices], "native")
    gradient = operator_def("BatchGatherGradient", ["x", "i", "dy"], ["dx"])
    with pytest.raises(NumericError, match="INDICES"):
        run(gradient, [x, indices, np.zeros((2, 2), np.float32)], "native")
