"""Lazy expressions over tensors of a device: the numbers of the CPU, left on the device; what is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.array import apply, assign, evaluate, lazy, matmul
from tazza.array.deferred import Lazy, bind
from tazza.errors import DTypeError, ShapeError, UnsupportedError
from tazza.tensor import CUDAPlace, Tensor
from tazza.tensor.transfer import to_place
from tests.cuda_grid import backwards

DEVICE = CUDAPlace(0)


def operands() -> dict[str, NDArray[Any]]:
    """Return arrays of several types and shapes, which broadcast."""
    random = np.random.default_rng(3)
    return {
        "x": random.standard_normal((3, 1, 5)).astype(np.float32),
        "y": random.standard_normal((4, 5)).astype(np.float32),
        "d": random.standard_normal((3, 4, 5)),
        "n": random.integers(-9, 9, (3, 4, 5)),
        "k": random.integers(1, 4, (4, 1)).astype(np.int32),
        "b": random.integers(0, 2, (5,)).astype(bool),
        "h": random.standard_normal((4, 5)).astype(np.float16),
    }


def there(value: NDArray[Any]) -> Tensor:
    """Return a copy on the device."""
    return to_place(Tensor.from_numpy(value), DEVICE)


Given: TypeAlias = "Mapping[str, Lazy]"
EXPRESSIONS: dict[str, Callable[[Given], Lazy]] = {
    "one function": lambda g: apply("exp", g["x"]),
    "fused, with numbers": lambda g: 2 * g["x"] * g["y"] + 1 - apply("tanh", g["y"]) / 3,
    "integers": lambda g: (g["n"] // g["k"]) * 3 + g["n"] % g["k"] - apply("maximum", g["n"], g["k"]),
    "mixed types": lambda g: g["n"] + g["x"] + g["d"] * 2,
    "truths": lambda g: apply("where", (g["x"] > 0) & g["b"], g["n"], -g["n"]),
    "comparisons": lambda g: g["x"] <= g["y"],
    "halves are rounded": lambda g: g["h"] * g["h"] + g["y"].cast("float16"),
    "casts": lambda g: (g["d"] * 3).cast("int32"),
    "angles": lambda g: apply("sin", g["d"]) + apply("cos", g["y"] * 1000),
    "a sum": lambda g: (g["x"] * g["y"]).sum(axis=(0, 2)),
    "a mean, with its axis": lambda g: (g["x"] + g["y"]).mean(axis=1, keepdims=True),
    "extremes": lambda g: (g["x"] * g["y"]).max(axis=2) - (g["x"] * g["y"]).min(),
    "a reduction within": lambda g: g["x"] * g["y"] - (g["x"] * g["y"]).mean(axis=2, keepdims=True),
    "just an operand": lambda g: g["y"],
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_the_numbers_of_the_cpu(name: str) -> None:
    given, make = operands(), EXPRESSIONS[name]
    wanted = make({key: lazy(value) for key, value in given.items()}).evaluate()
    with backwards():
        found = make({key: lazy(there(value)) for key, value in given.items()}).evaluate()
        plain = np.asarray(found.plain())
    assert (found.place, found.dtype, found.shape) == (DEVICE, wanted.dtype, wanted.shape)
    np.testing.assert_allclose(plain, np.asarray(wanted.plain()), rtol=2e-6, atol=2e-6)


def test_targets_that_are_operands() -> None:
    x = there(np.arange(6, dtype=np.float32).reshape(2, 3))
    assign(x, lazy(x) * x + 1)
    np.testing.assert_array_equal(x.plain(), [[1, 2, 5], [10, 17, 26]])
    assign(x, x[:1])
    np.testing.assert_array_equal(x.plain(), [[1, 2, 5], [1, 2, 5]])
    a, b = there(np.array([1, 2], np.float32)), there(np.array([5, 7], np.float32))
    evaluate([lazy(b), lazy(a)], [a, b])
    np.testing.assert_array_equal([a.plain(), b.plain()], [[5, 7], [1, 2]])


def test_views() -> None:
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    found = (lazy(there(x)[1::2, 1:].T) + 1).evaluate()
    np.testing.assert_array_equal(found.plain(), x[1::2, 1:].T + 1)


@pytest.mark.parametrize(
    ("one", "other"), [((2, 3), (3, 5)), ((3,), (3, 5)), ((2, 3), (3,)), ((3,), (3,)), ((4, 2, 3), (3, 5))]
)
def test_products_of_matrices(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    random = np.random.default_rng(5)
    a, b = (random.standard_normal(shape).astype(np.float32) for shape in (one, other))
    found = matmul(there(a), there(b))
    assert found.place == DEVICE
    np.testing.assert_allclose(found.plain(), a @ b, rtol=1e-5, atol=1e-6)


def test_eager_arithmetic_stays_there() -> None:
    x = there(np.array([1, 2, 3], np.float32))
    found = (x + x) * 2 - x / 2
    assert found.place == DEVICE
    np.testing.assert_array_equal(found.plain(), [3.5, 7, 10.5])


def test_what_is_refused() -> None:
    x, y = there(np.ones((2, 3), np.float32)), Tensor.from_numpy(np.ones((2, 3), np.float32))
    with pytest.raises(UnsupportedError, match="an operand is on the host, others are on cuda:0"):
        (lazy(x) + y).evaluate()
    with pytest.raises(UnsupportedError, match="the target is on cpu"):
        assign(y, lazy(x) + 1)
    with pytest.raises(ShapeError, match="does not fit the target"):
        assign(there(np.ones(3, np.float32)), lazy(x))
    with pytest.raises(DTypeError, match="without a cast"):
        assign(there(np.ones((2, 3), np.int32)), lazy(x))
    with pytest.raises(UnsupportedError, match="it reduces float32"):
        (lazy(x) > 0).any().evaluate()
    with pytest.raises(UnsupportedError, match="atan2f is not written for a GPU"):
        apply("atan2", x, x).evaluate()
    with pytest.raises(UnsupportedError, match="matmul: x1 is"):
        matmul(x, y)
    with pytest.raises(ShapeError, match="K = 3, x2"):
        matmul(x, x)
    with pytest.raises(UnsupportedError, match="are not bound"):
        bind([lazy(x) + 1])
    assert (lazy(x) + 1).explain() == "a kernel of its own on cuda:0"
