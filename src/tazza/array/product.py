"""Products of matrices as engines compute them: C = alpha A B + beta C on strided arrays, one kernel for each form.

Letters: A is (batch..., M, K), B (batch..., K, N), C (batch..., M, N); an extent 1 of a batch broadcasts. Transposition
is no matter of this file: a transposed matrix is one with its strides swapped.

`PRODUCTS` holds the engines (see tensor/tasks.py), which fill it from files `product.py`. NumPy's BLAS is always there
and takes everything.

State: `CHOICES`, what was chosen for the forms that were used last, as many as hold `MOST_BYTES`.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tazza.data_class import dataclass
from tazza.runtime.blas import set_blas_threads, threads_for
from tazza.runtime.cache import Cache
from tazza.runtime.threads import thread_count
from tazza.tensor.dim import Dim
from tazza.tensor.dtype import DataType
from tazza.tensor.offer import Offer, Unsupported, answered
from tazza.tensor.place import Place
from tazza.tensor.tasks import CPU, Solver, Taken, Tasks

__all__ = ["PRODUCTS"]

Array: TypeAlias = NDArray[Any]

Multiply: TypeAlias = Callable[[Array, Array, Array, float, float], None]
"""`multiply(A, B, C, alpha, beta)` writes C, whose memory is that of neither factor; many threads may be in it."""

_HALVES = (DataType.FLOAT16, DataType.BFLOAT16)
_BLAS_TYPES = (DataType.FLOAT, DataType.DOUBLE)

MOST_BYTES = 32 << 20
"""Of kernels that are kept for the next product of their form."""
CHOICE_BYTES = 4096
"""What a choice takes besides its kernel, roughly."""
EXACT_BITS = 53
"""Integers below 2 ** 53 and their sums are exact in float64."""


@dataclass(frozen=True, slots=True)
class Form:
    """What a kernel may depend on of one operand: extents, strides in elements, element type.

    The stride of an axis of extent 1 counts as 0, since it is never taken.
    """

    dims: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DataType

    @staticmethod
    def of(dims: tuple[int, ...], strides_bytes: tuple[int, ...], dtype: np.dtype[Any]) -> Form:
        """Return the form of an array with such strides, which are whole elements.

        >>> Form.of((2, 1, 3), (12, 8, 4), np.dtype("f4")).strides
        (3, 0, 1)
        """
        steps = (0 if n == 1 else step // dtype.itemsize for n, step in zip(dims, strides_bytes, strict=True))
        return Form(dims, tuple(steps), DataType.of(dtype))


class Beta(enum.Enum):
    """What a kernel may know of beta: another number is no other kernel."""

    ZERO = "0"
    """C is not read."""
    ONE = "1"
    OTHER = "any number"

    @staticmethod
    def of(beta: float) -> Beta:
        """Return what a kernel knows of this number.

        >>> Beta.of(0), Beta.of(0.5)
        (<Beta.ZERO: '0'>, <Beta.OTHER: 'any number'>)
        """
        return Beta.ZERO if beta == 0 else Beta.ONE if beta == 1 else Beta.OTHER


@dataclass(frozen=True, slots=True)
class ProductForm:
    """A product without its addresses: three operands, whether alpha is anything but 1, what is known of beta."""

    a: Form
    b: Form
    c: Form
    scaled: bool
    beta: Beta
    place: Place = CPU

    @property
    def dtype(self) -> DataType:
        """The element type of the factors."""
        return self.a.dtype

    @property
    def rank(self) -> int:
        """The number of axes of C."""
        return len(self.c.dims)

    def __str__(self) -> str:
        return f"{list(self.a.dims)} @ {list(self.b.dims)} of {self.dtype}"

    @property
    def flops(self) -> int:
        """Operations of the product itself."""
        return 2 * math.prod(self.c.dims) * self.a.dims[-1]


class _Products(Tasks[ProductForm, Multiply]):
    """Engines need not know alpha and beta."""

    def _answer(self, solver: Solver[ProductForm, Multiply] | Unsupported, task: ProductForm) -> _Answer:
        answer = super()._answer(solver, task)
        if isinstance(answer, Offer) or isinstance(solver, Unsupported):
            return answer
        if task.beta is Beta.OTHER and task.c.dtype in _BLAS_TYPES:
            found = _scaled_first(task, solver)
            if isinstance(found, Offer):
                return found
        return _in_two_steps(task, solver) if task.scaled or task.beta is not Beta.ZERO else answer


_Answer: TypeAlias = "Offer[Multiply] | Unsupported"
PRODUCTS: Tasks[ProductForm, Multiply] = _Products("engine of products", "product")


CHOICES: Cache[Hashable, Taken[Multiply]] = Cache("products", MOST_BYTES // CHOICE_BYTES, MOST_BYTES, kernels=True)
"""What was chosen, by form."""


def product_into(a: Array, b: Array, c: Array, alpha: float = 1.0, beta: float = 0.0) -> None:
    """Write C = alpha A B + beta C; shapes and dtypes fit, which the caller has seen to.

    C may share memory with A or B; the product is made apart then. With beta = 0 C is not read: it may hold NaN.
    """
    if c.size == 0:
        return
    if a.shape[-1] == 0:
        _scale(c, beta)
        return
    if c.ndim > 2:
        a, b, c = _simplified(_unrepeated(a), _unrepeated(b), c)
    target = np.empty_like(c) if np.may_share_memory(c, a) or np.may_share_memory(c, b) else c
    if target is not c and beta != 0:
        np.copyto(target, c)
    prepare_product(a, b, target, alpha, beta).run(a, b, target, alpha, beta)
    if target is not c:
        np.copyto(c, target)


def prepare_product(a: Array, b: Array, c: Array, alpha: float = 1.0, beta: float = 0.0) -> Taken[Multiply]:
    """Return the kernel that `product_into` would run."""
    arrays = a.shape, a.strides, a.dtype, b.shape, b.strides, b.dtype, c.shape, c.strides, c.dtype
    scaled, known = alpha != 1, Beta.of(beta)
    # What else answers depend on: the engines and threads; the cache knows the flags.
    key = arrays, scaled, known, PRODUCTS.generation, thread_count()
    found = CHOICES.get(key)
    if found is None:
        of_a, of_b, of_c = (Form.of(one.shape, one.strides, one.dtype) for one in (a, b, c))
        found = PRODUCTS.choose(ProductForm(of_a, of_b, of_c, scaled, known))
        CHOICES.put(key, found, CHOICE_BYTES + found.offer.nbytes)
    return found


def explain_product(a: Array, b: Array, c: Array, alpha: float = 1.0, beta: float = 0.0) -> str:
    """Tell which engine would compute C = alpha A B + beta C, and why others would not.

    >>> x = np.ones((2, 2), np.int64); print(explain_product(x, x, x).splitlines()[-1])
    numpy: taken
    """
    return str(prepare_product(a, b, c, alpha, beta))


def _unrepeated(array: Array) -> Array:
    """Return a factor with extent 1 where its batch only repeats, as `np.broadcast_to` makes it."""
    batch = zip(array.shape[:-2], array.strides[:-2], strict=True)
    index = tuple(slice(0, 1) if step == 0 and extent > 1 else slice(None) for extent, step in batch)
    return array[index] if slice(0, 1) in index else array


def _simplified(a: Array, b: Array, c: Array) -> tuple[Array, Array, Array]:
    """Return the same product as one of two matrices, where one B stands behind all of A and A and C are row-major."""
    one_b = math.prod(b.shape[:-2]) == 1
    if one_b and a.flags.c_contiguous and c.flags.c_contiguous and a.shape[:-2] == c.shape[:-2]:
        return a.reshape(-1, a.shape[-1]), b.reshape(b.shape[-2:]), c.reshape(-1, c.shape[-1])
    return a, b, c


def _scale(c: Array, beta: float) -> None:
    if beta == 0:
        c.fill(0)
    else:
        np.multiply(c, beta, out=c, casting="unsafe")


def _in_two_steps(form: ProductForm, solver: Solver[ProductForm, Multiply]) -> _Answer:
    """Let an engine that knows neither alpha nor beta make A B, and combine it with C behind that."""
    wide = DataType.FLOAT if form.c.dtype in _HALVES else form.c.dtype  # so that the result is rounded once
    apart = Form(form.c.dims, Dim(form.c.dims).strides(), wide)
    plain = answered(partial(solver, replace(form, c=apart, scaled=False, beta=Beta.ZERO)))
    if isinstance(plain, Unsupported):
        return plain

    def multiply_and_combine(a: Array, b: Array, c: Array, alpha: float, beta: float) -> None:
        product = np.empty(c.shape, wide.numpy)
        plain.run(a, b, product, 1.0, 0.0)
        _combine(product, c, alpha, beta)

    return replace(plain, run=multiply_and_combine)


def _scaled_first(form: ProductForm, solver: Solver[ProductForm, Multiply]) -> _Answer:
    """Let an engine that adds to C find beta C there."""
    adding = answered(partial(solver, replace(form, beta=Beta.ONE)))
    if isinstance(adding, Unsupported):
        return adding

    def scale_and_add(a: Array, b: Array, c: Array, alpha: float, beta: float) -> None:
        with np.errstate(over="ignore"):
            np.multiply(c, beta, out=c)
        adding.run(a, b, c, alpha, 1.0)

    return replace(adding, run=scale_and_add)


# -- NumPy -------------------------------------------------------------------------------------------------------------


@PRODUCTS.solving("numpy", help="the BLAS behind NumPy; other element types through one that it has")
def numpy_product(form: ProductForm) -> Offer[Multiply]:
    """Take every form. float16 and bfloat16 are computed in float32 and rounded once, integers modulo 2 ** bits."""
    threads = threads_for(form.flops)
    direct = form.a.dtype in _BLAS_TYPES and not form.scaled and form.beta is Beta.ZERO
    product = _product_of(form.a.dtype)

    def multiply(a: Array, b: Array, c: Array, alpha: float, beta: float) -> None:
        former = set_blas_threads(threads)
        try:
            if direct:
                np.matmul(a, b, out=c)
            else:
                _combine(product(a, b), c, alpha, beta)
        finally:
            set_blas_threads(former)

    return Offer(multiply)


def _combine(product: Array, c: Array, alpha: float, beta: float) -> None:
    """Write c = alpha product + beta c, computed in the type of the product, which may be a wider one."""
    kind = product.dtype.type
    if alpha != 1:
        product = product * kind(alpha)
    if beta != 0:
        product = product + c.astype(product.dtype) * kind(beta)
    with np.errstate(over="ignore"):  # beyond the range of a narrow type is infinity
        np.copyto(c, product, casting="unsafe")


def _product_of(dtype: DataType) -> Callable[[Array, Array], Array]:
    if not dtype.is_float:
        return _integer_product
    return np.matmul if dtype in _BLAS_TYPES else _half_product


def _half_product(a: Array, b: Array) -> Array:
    wide = np.empty((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1]), np.float32)
    product_into(a.astype(np.float32), b.astype(np.float32), wide)  # by whichever engine is best at float32
    return wide


def _integer_product(a: Array, b: Array) -> Array:
    """Return A B of integers, by the BLAS where float64 is exact for these values, which is some 50 times faster."""
    bound = _magnitude(a) * _magnitude(b) * a.shape[-1]
    if bound < 2**EXACT_BITS:
        return np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int64)
    return np.matmul(a.astype(np.int64), b.astype(np.int64))  # wraps around as the narrower types do


def _magnitude(array: Array) -> int:
    return max(abs(int(array.min())), abs(int(array.max()))) if array.size else 0
