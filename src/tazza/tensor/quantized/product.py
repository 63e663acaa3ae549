"""Exact products of integers: who can compute them, and who is the fastest for a given one.

Letters: C = A B^T; A is (M, K), B is (N, K), C is (M, N): every element is the sum of K products of two integers, in
int32 where no sum can leave it, else in int64.

`INTEGER_PRODUCTS` holds those who multiply; engines fill it from files `integer_product.py`. Each says what it cannot
do, and estimates the time of what it can; the least is taken. NumPy can do all of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tazza.errors import UnsupportedError
from tazza.registry import Registry
from tazza.runtime.threads import thread_count
from tazza.tensor.filling import load_fillers
from tazza.tensor.quantized.factor import Factor


@dataclass(frozen=True, slots=True)
class ProductTask:
    """A product to be computed: its two factors."""

    a: Factor
    b: Factor

    @property
    def sizes(self) -> tuple[int, int, int]:
        """M, N, K."""
        return self.a.rows, self.b.rows, self.a.depth

    @property
    def bound(self) -> int:
        """No element of C, nor a sum of some of its products, has a larger absolute value."""
        return self.a.depth * self.a.largest * self.b.largest

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type of C."""
        return np.dtype(np.int32 if self.bound < 2**31 else np.int64)

    @property
    def products(self) -> int:
        """M N K."""
        m, n, k = self.sizes
        return m * n * k

    def unpacking_ns(self, each_ns: float) -> float:
        """Return what it takes to make plain integers of packed factors, at so much for an element."""
        return sum(one.rows * one.depth * each_ns for one in (self.a, self.b) if one.is_packed)

    def __str__(self) -> str:
        m, n, k = self.sizes
        a, b = (f"{one.limits[0]} to {one.limits[1]}" for one in (self.a, self.b))
        return f"{m} x {k} integers from {a} times {k} x {n} from {b}, in {self.dtype}"


class IntegerProduct(ABC):
    """Multiplies matrices of integers, exactly."""

    @abstractmethod
    def refusal(self, task: ProductTask) -> str | None:
        """Return why it cannot compute this, or None."""

    @abstractmethod
    def estimate_ns(self, task: ProductTask) -> float:
        """Return how long it takes, roughly, when what it keeps of the factors is there."""

    @abstractmethod
    def compute(self, task: ProductTask) -> npt.NDArray[Any]:
        """Return C, (M, N) of `task.dtype`; none of M, N, K is 0."""


def _load(_: str) -> None:
    load_fillers("integer_product")


INTEGER_PRODUCTS: Registry[str, IntegerProduct] = Registry("integer product", loader=_load)
"""By engine."""


@dataclass(frozen=True, slots=True)
class ProductChoice:
    """Who computes a product: the engine, the estimates of all that can (engine, ns), and the reasons of the others."""

    engine: str
    estimates: tuple[tuple[str, float], ...]
    refusals: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        lines = [f"{name}: about {ns / 1000:.3g} us{' (taken)' * (name == self.engine)}" for name, ns in self.estimates]
        return "\n".join((*lines, *(f"{name}: {reason}" for name, reason in self.refusals)))


def choose(task: ProductTask, engine: str | None = None) -> ProductChoice:
    """Return who computes this; `engine` asks for one.

    Raises:
        NotFoundError: no such engine multiplies integers.
        UnsupportedError: the engine that was asked for cannot.
    """
    missing = tuple(load_fillers("integer_product").items())
    if engine is not None:
        reason = INTEGER_PRODUCTS[engine].refusal(task)
        if reason is not None:
            raise UnsupportedError(f"engine {engine!r} cannot multiply {task}: {reason}", hint="leave the engine out")
        return ProductChoice(engine, ((engine, INTEGER_PRODUCTS[engine].estimate_ns(task)),), missing)
    estimates: list[tuple[str, float]] = []
    refusals: list[tuple[str, str]] = []
    for name in INTEGER_PRODUCTS.registered():
        reason = INTEGER_PRODUCTS[name].refusal(task)
        if reason is None:
            estimates.append((name, INTEGER_PRODUCTS[name].estimate_ns(task)))
        else:
            refusals.append((name, reason))
    estimates.sort(key=lambda pair: pair[1])
    return ProductChoice(estimates[0][0], tuple(estimates), (*refusals, *missing))


def compute(task: ProductTask, engine: str | None = None) -> npt.NDArray[Any]:
    """Return C; see `choose`."""
    m, n, _ = task.sizes
    name = choose(task, engine).engine
    if task.products == 0:
        return np.zeros((m, n), task.dtype)
    return INTEGER_PRODUCTS[name].compute(task)


class _NumPyProduct(IntegerProduct):
    """BLAS on floating-point numbers, which are exact as long as every sum is a whole number that they have."""

    def refusal(self, task: ProductTask) -> str | None:
        del task
        return None

    def estimate_ns(self, task: ProductTask) -> float:
        m, n, k = task.sizes
        work = task.products * _each_ns(task.bound) / thread_count()
        return 60_000 + work + (m + n) * k + m * n + task.unpacking_ns(1.0)

    def compute(self, task: ProductTask) -> npt.NDArray[Any]:
        kind = next(np.dtype(one) for bits, one, _ in _EXACT if task.bound <= 2**bits)
        a, b = (one.integers().astype(kind) for one in (task.a, task.b))
        return np.matmul(a, b.T).astype(task.dtype)


_EXACT = ((24, "float32", 0.03), (53, "float64", 0.06), (63, "int64", 2.0))
"""Bits of whole numbers that a type has all of, the type, and ns for a product on one thread."""


def _each_ns(bound: int) -> float:
    return next(each for bits, _, each in _EXACT if bound <= 2**bits)


INTEGER_PRODUCTS.register("numpy", _NumPyProduct(), help="BLAS, where floating-point numbers are exact")
