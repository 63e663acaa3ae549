"""FC and FusedFC for few rows on the engine `native/row_product` against the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.operator import operator_def
from tazza.operator.engine import why_unavailable
from tazza.operator.run import run_op
from tests.check import assert_ran, run

Array = NDArray[Any]

pytestmark = pytest.mark.skipif(
    why_unavailable("FC", "cpu", "native/row_product") is not None, reason="nothing can be compiled here"
)


def _arrays(N: int, K: int, M: int) -> list[Array]:
    random = np.random.default_rng(5)
    shapes = ((N, K), (M, K), (M,), (N, M))
    return [random.standard_normal(shape).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize(
    ("N", "K", "M"), [(1, 5, 3), (1, 784, 37), (1, 16, 16), (1, 33, 1), (3, 100, 17), (37, 100, 1)]
)
def test_product_and_epilogue(N: int, K: int, M: int) -> None:
    X, W, b, S = _arrays(N, K, M)
    (Y,), operator = run(operator_def("FC", ["X", "W", "b"], ["Y"]), [X, W, b], "native/row_product")
    assert_ran(operator, "native/row_product")
    bound = 4e-7 * (np.abs(X) @ np.abs(W).T + np.abs(b))
    assert (np.abs(Y - (X.astype(np.float64) @ W.T.astype(np.float64) + b)) <= bound).all()
    args: dict[str, Any] = {"operands": 1, "epilogue": "max(y - s0, 0)"}
    for output in ("Y", "S"):
        definition = operator_def("FusedFC", ["X", "W", "b", "S"], [output], **args)
        (fused,), operator = run(definition, [X, W, b, S.copy()], "native/row_product")
        assert_ran(operator, "native/row_product")
        np.testing.assert_array_equal(fused, np.maximum(Y - S, 0))


def test_rows_and_images_of_any_shape() -> None:
    X, W, b, _ = _arrays(1, 60, 7)
    expected = run_op("FC", X, W, b, engine="reference")
    image, filters = X.reshape(1, 3, 4, 5), W.reshape(7, 3, 4, 5)
    np.testing.assert_allclose(
        run_op("FC", image, filters, b, engine="native/row_product"), expected, rtol=1e-5, atol=1e-6
    )


def test_one_output_of_many_rows_is_not_left_to_others() -> None:
    _, operator = run(operator_def("FC", ["X", "W", "b"], ["Y"]), _arrays(512, 256, 1)[:3])
    assert_ran(operator, "native/row_product")


def test_more_rows_are_left_to_others() -> None:
    X, W, b, _ = _arrays(9, 12, 5)
    definition = operator_def("FC", ["X", "W", "b"], ["Y"])
    _, operator = run(definition, [X, W, b])
    assert str({choice.engine: choice.reason for choice in operator.choices}["native/row_product"]).startswith(
        "could, about"
    )
