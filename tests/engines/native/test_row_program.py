"""Kernels of operators that state what they make of rows: each has one, and says what it does not take."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.codegen.kernel import unavailable
from tazza.engines.native.row_program import LONG
from tazza.operator import KERNELS, SCHEMAS, find_schema, kernel_key, operator_def
from tazza.operator.row_program import ROW_RULES
from tests.check import run

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

Array = NDArray[Any]


def reason(type: str, *inputs: Array, outputs: int = 1, **args: Any) -> str | None:
    """Return why this engine does not take a call, None where it does."""
    names = [f"x{i}" for i in range(len(inputs))]
    definition = operator_def(type, names, [f"y{i}" for i in range(outputs)], engine="native", **args)
    _, operator = run(definition, list(inputs))
    return next((choice.reason for choice in operator.choices if choice.engine == "native"), "it was not asked")


def test_every_schema_with_rows_has_a_kernel() -> None:
    for name in SCHEMAS:
        find_schema(name)
    assert {"ReduceBackSum", "Moments", "LpNorm"} <= set(ROW_RULES)
    assert all(kernel_key(name, "native") in KERNELS for name in ROW_RULES)


@pytest.mark.parametrize("type", ["ReduceSumGradient", "ReduceMeanGradient", "ReduceMaxGradient", "ReduceL2Gradient"])
@pytest.mark.parametrize("shape", [(5, LONG - 1), (5, LONG + 1), (1, 300), (7, 1001), (70, 4000), (0, 300)])
def test_rows_that_become_columns(type: str, shape: tuple[int, int]) -> None:
    draw = np.random.default_rng(sum(shape))
    X = draw.integers(-9, 9, shape).astype(np.float32)
    dY, Y = (draw.integers(-9, 9, (1, shape[1])).astype(np.float32) for _ in range(2))
    definition = operator_def(type, ["dY", "X", "Y"], ["dX"], axes=[0])
    found = [run(definition, [dY, X, Y], engine)[0][0] for engine in ("native", "reference")]
    np.testing.assert_allclose(*found, rtol=1e-6)


def test_what_is_refused() -> None:
    x = np.ones((2, 3, 5, 7), np.float32)
    assert reason("ReduceMax", x, axes=[1, 2]) is None
    assert reason("ReduceMax", x, axes=[0, 3]) is None
    assert "lie apart" in str(reason("ReduceMax", x, axes=[1, 3]))
    assert "float32, not X of float64" in str(reason("ReduceMax", x.astype(float), axes=[1]))
    assert "a row has no element" in str(reason("ReduceMax", x[:, :0], axes=[1]))
    assert reason("ReduceMax", x[:0], axes=[1]) is None
    assert "lengths say" in str(reason("ReduceFrontSum", x, np.full((3, 5, 7), 1, np.int32)))
    assert "which no formula can name" in str(reason("LearningRateAdaption", x[0, 0, 0, :1], x, x, lr_alpha=np.nan))
