"""Who computes an exact product: estimates, refusals, requests."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tazza.errors import NotFoundError, UnsupportedError
from tazza.tensor.quantized import INTEGER_PRODUCTS, IntegerProduct, QTensor
from tazza.tensor.quantized.factor import Factor
from tazza.tensor.quantized.product import ProductTask, choose, compute


def task(m: int, n: int, k: int, precision: int = 4) -> ProductTask:
    def factor(rows: int) -> Factor:
        return Factor(QTensor.of_integers(np.ones((rows, k), np.int8), precision, signed=False))

    return ProductTask(factor(m), factor(n))


class Quick(IntegerProduct):
    """Claims to be the fastest for more than one row."""

    def refusal(self, task: ProductTask) -> str | None:
        return "one row is too few" if task.a.rows == 1 else None

    def estimate_ns(self, task: ProductTask) -> float:
        del task
        return 0.5

    def compute(self, task: ProductTask) -> npt.NDArray[Any]:
        return np.full((task.a.rows, task.b.rows), 7, task.dtype)


@pytest.fixture
def quick() -> Any:
    INTEGER_PRODUCTS.register("quick", Quick())
    yield
    INTEGER_PRODUCTS.unregister("quick")


@pytest.mark.usefixtures("quick")
def test_the_least_estimate_is_taken() -> None:
    choice = choose(task(2, 3, 5))
    assert choice.engine == "quick"
    assert str(choice).startswith("quick: about 0.0005 us (taken)\n")
    assert {"quick", "numpy"} <= {name for name, _ in choice.estimates}
    assert compute(task(2, 3, 5)).tolist() == [[7] * 3] * 2
    other = choose(task(1, 3, 5))
    assert ("quick", "one row is too few") in other.refusals
    assert other.engine != "quick"
    with pytest.raises(
        UnsupportedError, match=r"'quick' cannot multiply 1 x 5 integers from 0 to 15 .* one row is too"
    ):
        choose(task(1, 3, 5), "quick")


def test_unknown_engine() -> None:
    with pytest.raises(NotFoundError, match="unknown integer product 'abacus'"):
        choose(task(1, 1, 1), "abacus")


def test_the_type_follows_from_the_bound() -> None:
    assert task(1, 1, 33_025, precision=8).bound == 33_025 * 255 * 255
    assert task(1, 1, 33_025, precision=8).dtype == np.int32
    assert task(1, 1, 33_026, precision=8).dtype == np.int64


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
