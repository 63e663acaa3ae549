"""Products of matrices as engines compute them: C = alpha A B + beta C on strided arrays, one kernel for each form.

Letters: A is (batch..., M, K), B (batch..., K, N), C (batch..., M, N); an extent 1 of a batch broadcasts. Transposition
is no matter of this file: a transposed matrix is one with its strides swapped.

`PRODUCTS` maps an engine to its maker, `maker(form) -> Multiply | str`: the string is the reason why it does not take
that form. Engines are asked by falling priority. NumPy's BLAS is always there and takes everything.

    @PRODUCTS.registering("onednn", help="oneDNN's matmul", priority=20)
    def matmul(form: ProductForm) -> Multiply | str: ...

State: what was prepared, for the forms that were used last (`functools.lru_cache`, which threads may share).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tazza.registry import Registry
from tazza.runtime.blas import set_blas_threads, threads_for
from tazza.runtime.flags import kernel_flags
from tazza.runtime.threads import thread_count
from tazza.tensor.dim import Dim
from tazza.tensor.dtype import DataType
from tazza.tensor.filling import load_fillers

__all__ = ["PRODUCTS"]

Array: TypeAlias = NDArray[Any]

Multiply: TypeAlias = Callable[[Array, Array, Array, float], None]
"""`multiply(A, B, C, alpha)` writes C, whose memory is that of neither factor; any number of threads may be in it."""

_HALVES = (DataType.FLOAT16, DataType.BFLOAT16)

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


@dataclass(frozen=True, slots=True)
class ProductForm:
    """A product without its addresses: three operands, whether alpha is anything but 1, and beta (0: C is not read)."""

    a: Form
    b: Form
    c: Form
    scaled: bool
    beta: float

    @property
    def flops(self) -> int:
        """Operations of the product itself."""
        return 2 * math.prod(self.c.dims) * self.a.dims[-1]


PRODUCTS: Registry[str, Callable[[ProductForm], Multiply | str]] = Registry("engine of products")


@dataclass(frozen=True, slots=True)
class Prepared:
    """The kernel of a form, the engine it is of, and why those before it were passed over."""

    engine: str
    multiply: Multiply
    refusals: tuple[tuple[str, str], ...]


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
    prepare_product(a, b, target, alpha, beta).multiply(a, b, target, alpha)
    if target is not c:
        np.copyto(c, target)


def prepare_product(a: Array, b: Array, c: Array, alpha: float = 1.0, beta: float = 0.0) -> Prepared:
    """Return the kernel that `product_into` would run."""
    arrays = a.shape, a.strides, a.dtype, b.shape, b.strides, b.dtype, c.shape, c.strides, c.dtype
    return _prepared(arrays, alpha != 1, beta, (thread_count(), kernel_flags()))


def explain_product(a: Array, b: Array, c: Array, alpha: float = 1.0, beta: float = 0.0) -> str:
    """Tell which engine would compute C = alpha A B + beta C, and why others would not.

    >>> x = np.ones((2, 2), np.int64); print(explain_product(x, x, x).splitlines()[-1])
    numpy: taken
    """
    found = prepare_product(a, b, c, alpha, beta)
    return "\n".join([*(f"{name}: {reason}" for name, reason in found.refusals), f"{found.engine}: taken"])


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


@functools.lru_cache(maxsize=1024)
def _prepared(arrays: tuple[Any, ...], scaled: bool, beta: float, setting: Hashable) -> Prepared:
    """Ask the engines; `setting` is what else their answers may depend on: threads and flags."""
    del setting
    a, b, c = (Form.of(*arrays[i : i + 3]) for i in (0, 3, 6))
    form = ProductForm(a, b, c, scaled, beta)
    refusals = list(load_fillers("product").items())
    makers = [(name, PRODUCTS.entry(name)) for name in PRODUCTS.registered()]
    ranked = sorted(((name, entry) for name, entry in makers if entry is not None), key=lambda one: -one[1].priority)
    for name, entry in ranked:
        answer = entry.value(form)
        if isinstance(answer, str) and (form.scaled or form.beta != 0):
            answer = _in_two_steps(form, entry.value)
        if not isinstance(answer, str):
            return Prepared(name, answer, tuple(refusals))
        refusals.append((name, answer))
    raise AssertionError("NumPy takes every form")


def _in_two_steps(form: ProductForm, maker: Callable[[ProductForm], Multiply | str]) -> Multiply | str:
    """Let an engine that knows neither alpha nor beta make A B, and combine it with C behind that."""
    wide = DataType.FLOAT if form.c.dtype in _HALVES else form.c.dtype  # so that the result is rounded once
    apart = Form(form.c.dims, Dim(form.c.dims).strides(), wide)
    plain = maker(replace(form, c=apart, scaled=False, beta=0.0))
    if isinstance(plain, str):
        return plain
    multiply = plain

    def multiply_and_combine(a: Array, b: Array, c: Array, alpha: float) -> None:
        product = np.empty(c.shape, wide.numpy)
        multiply(a, b, product, 1.0)
        _combine(product, c, alpha, form.beta)

    return multiply_and_combine


# -- NumPy -------------------------------------------------------------------------------------------------------------


@PRODUCTS.registering("numpy", help="the BLAS behind NumPy; other element types through one that it has")
def numpy_product(form: ProductForm) -> Multiply | str:
    """Take every form. float16 and bfloat16 are computed in float32 and rounded once, integers modulo 2 ** bits."""
    threads = threads_for(form.flops)
    direct = form.a.dtype in (DataType.FLOAT, DataType.DOUBLE) and not form.scaled and form.beta == 0
    product = _product_of(form.a.dtype)

    def multiply(a: Array, b: Array, c: Array, alpha: float) -> None:
        former = set_blas_threads(threads)
        try:
            if direct:
                np.matmul(a, b, out=c)
            else:
                _combine(product(a, b), c, alpha, form.beta)
        finally:
            set_blas_threads(former)

    return multiply


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
    return np.matmul if dtype in (DataType.FLOAT, DataType.DOUBLE) else _half_product


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
