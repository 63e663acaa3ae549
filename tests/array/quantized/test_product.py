"""Who computes an exact product: estimates, refusals, requests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.array.quantized import INTEGER_PRODUCTS, IntegerProduct, QTensor
from tazza.array.quantized.factor import Factor
from tazza.array.quantized.product import ProductTask, compute
from tazza.errors import NotFoundError, UnsupportedError
from tazza.tensor import DataType
from tazza.tensor.offer import Offer, Unsupported


def task(m: int, n: int, k: int, precision: int = 4) -> ProductTask:
    def factor(rows: int) -> Factor:
        return Factor(QTensor.of_integers(np.ones((rows, k), np.int8), precision, signed=False))

    return ProductTask(factor(m), factor(n))


def quick_product(task: ProductTask) -> Offer[IntegerProduct] | Unsupported:
    """Claim to be the fastest for more than one row."""
    if task.a.rows == 1:
        return Unsupported("one row is too few")
    return Offer(lambda: np.full((task.a.rows, task.b.rows), 7, task.dtype.numpy), estimate_ns=0.5)


@pytest.fixture
def quick() -> Any:
    INTEGER_PRODUCTS.register("quick", quick_product)
    yield
    INTEGER_PRODUCTS.unregister("quick")


@pytest.mark.usefixtures("quick")
def test_the_least_estimate_is_taken() -> None:
    choice = INTEGER_PRODUCTS.choose(task(2, 3, 5))
    assert choice.engine == "quick"
    assert str(choice).splitlines()[-1] == "quick: taken, about 0.0005 us"
    assert "numpy" in {name for name, _ in choice.others}
    assert compute(task(2, 3, 5)).tolist() == [[7] * 3] * 2
    other = INTEGER_PRODUCTS.choose(task(1, 3, 5))
    assert ("quick", "one row is too few") in other.refusals
    assert other.engine != "quick"
    with pytest.raises(UnsupportedError, match=r"'quick' does not take 1 x 5 integers from 0 to 15 .* one row is too"):
        INTEGER_PRODUCTS.choose(task(1, 3, 5), "quick")


def test_unknown_engine() -> None:
    with pytest.raises(NotFoundError, match="unknown integer product 'abacus'"):
        INTEGER_PRODUCTS.choose(task(1, 1, 1), "abacus")


def test_the_type_follows_from_the_bound() -> None:
    assert task(1, 1, 33_025, precision=8).bound == 33_025 * 255 * 255
    assert task(1, 1, 33_025, precision=8).dtype is DataType.INT32
    assert task(1, 1, 33_026, precision=8).dtype is DataType.INT64


@pytest.mark.parametrize("dims", [(0, 3, 5), (2, 0, 5), (2, 3, 0)])
def test_nothing_to_multiply(dims: tuple[int, int, int]) -> None:
    found = compute(task(*dims))
    assert found.shape == dims[:2]
    assert not found.any()


def test_numpy_is_exact_beyond_float32() -> None:
    x = np.full((1, 300), 255, np.uint8)
    x[0, ::2] = 254
    found = compute(ProductTask(Factor(x), Factor(x)), "numpy")
    assert found.tolist() == [[150 * (255 * 255 + 254 * 254)]]
