"""Exact products of integers: who can compute them, and who is the fastest for a given one.

Letters: C = A B^T; A is (M, K), B is (N, K), C is (M, N): every element is the sum of K products of two integers, in
int32 where no sum can leave it, else in int64.

`INTEGER_PRODUCTS` holds those who multiply; engines fill it from files `integer_product.py` (see tensor/tasks.py). All
have one priority and estimate their time; the least is taken. NumPy can do all of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tazza.array.quantized.factor import Factor
from tazza.data_class import dataclass
from tazza.runtime.threads import thread_count
from tazza.tensor.dtype import DataType, numpy_dtype
from tazza.tensor.offer import Offer
from tazza.tensor.place import Place
from tazza.tensor.tasks import CPU, Tasks

IntegerProduct: TypeAlias = Callable[[], npt.NDArray[Any]]
"""Returns C, (M, N) of the task's type."""


@dataclass(frozen=True, slots=True)
class ProductTask:
    """A product to be computed: its two factors."""

    a: Factor
    b: Factor
    place: Place = CPU

    @property
    def rank(self) -> int:
        """2: matrices."""
        return 2

    @property
    def sizes(self) -> tuple[int, int, int]:
        """M, N, K."""
        return self.a.rows, self.b.rows, self.a.depth

    @property
    def bound(self) -> int:
        """No element of C, nor a sum of some of its products, has a larger absolute value."""
        return self.a.depth * self.a.largest * self.b.largest

    @property
    def dtype(self) -> DataType:
        """The element type of C."""
        return DataType.INT32 if self.bound < 2**31 else DataType.INT64

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


INTEGER_PRODUCTS: Tasks[ProductTask, IntegerProduct] = Tasks("integer product", "integer_product")
"""By engine; what it offers is called when none of M, N, K is 0."""


def compute(task: ProductTask, engine: str | None = None) -> npt.NDArray[Any]:
    """Return C; `engine` asks for one.

    Raises:
        NotFoundError: no such engine multiplies integers.
        UnsupportedError: the engine that was asked for cannot.
    """
    m, n, _ = task.sizes
    choice = INTEGER_PRODUCTS.choose(task, engine)
    return choice.run() if task.products else np.zeros((m, n), task.dtype.numpy)


_EXACT = ((24, "float32", 0.03), (53, "float64", 0.06), (63, "int64", 2.0))
"""Bits of whole numbers that a type has all of, the type, and ns for a product on one thread."""


def _each_ns(bound: int) -> float:
    return next(each for bits, _, each in _EXACT if bound <= 2**bits)


@INTEGER_PRODUCTS.solving("numpy", help="BLAS, where floating-point numbers are exact")
def numpy_product(task: ProductTask) -> Offer[IntegerProduct]:
    """BLAS on floating-point numbers, which are exact as long as every sum is a whole number that they have."""
    m, n, k = task.sizes
    work = task.products * _each_ns(task.bound) / thread_count()
    estimate_ns = 60_000 + work + (m + n) * k + m * n + task.unpacking_ns(1.0)
    return Offer(functools.partial(_multiply, task), estimate_ns=estimate_ns)


def _multiply(task: ProductTask) -> npt.NDArray[Any]:
    kind = next(numpy_dtype(one) for bits, one, _ in _EXACT if task.bound <= 2**bits)
    a, b = (one.integers().astype(kind) for one in (task.a, task.b))
    return np.matmul(a, b.T).astype(task.dtype.numpy)
