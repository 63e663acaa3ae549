"""oneDNN's matmul under the products of the array floor (array/product.py): float32 and bfloat16 with strides.

alpha is a tensor of one element that a post-op multiplies by, so that all alphas share a primitive; beta is 0, or 1
as a post-op that adds what C holds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza.array.product import PRODUCTS, Beta, Form, Multiply, ProductForm
from tazza.engines.onednn.descriptor import Descriptor
from tazza.engines.onednn.launch import Direct
from tazza.engines.onednn.library import Unimplemented, unavailable
from tazza.engines.onednn.primitive import (
    Accumulate,
    Attributes,
    Binary,
    PostOp,
    PrimitiveDescriptor,
    describe,
    post_op,
)
from tazza.errors import UnavailableError
from tazza.runtime.fpmath import FPMATH
from tazza.tensor import DataType, Dim, Strided
from tazza.tensor.offer import Offer, Unsupported

Array = NDArray[Any]
TYPES = (DataType.FLOAT, DataType.BFLOAT16)

LEAST_FLOPS = 1_000_000
"""Below, NumPy's call is cheaper by more than the kernel could be faster."""


KERNEL_BYTES = 160 << 10
"""What oneDNN holds for a product of one form, measured over 500 of them, roughly."""


@PRODUCTS.solving("onednn", dtype=TYPES, help="oneDNN's matmul", priority=20)
def matmul(form: ProductForm) -> Offer[Multiply]:
    """Return the kernel of a form, or why there is none."""
    reason = unavailable()
    if reason is not None:
        raise Unsupported(reason)
    if form.flops < LEAST_FLOPS:
        raise Unsupported(f"{form.flops} operations < {LEAST_FLOPS}: NumPy is done before a call is put together")
    if form.beta is Beta.OTHER:
        raise Unsupported("a primitive is made for one beta, which is 0 or 1 here")
    found = _describe(form)
    if found.is_slow or (form.a.dtype is DataType.BFLOAT16 and not found.is_best):
        raise Unsupported(f"oneDNN has only code that is slower than NumPy's BLAS for it ({found.implementation})")
    return Offer(_multiply(found, form.scaled), nbytes=KERNEL_BYTES)


def _describe(form: ProductForm) -> PrimitiveDescriptor:
    follow: list[PostOp] = []
    rank = len(form.c.dims)
    if form.scaled:
        follow.append(Binary("binary_mul", Descriptor.of((1,) * rank)))
    if form.beta is Beta.ONE:
        follow.append(Accumulate(1.0))
    operands = [_descriptor(one, rank) for one in (form.a, form.b, form.c)]
    attributes = Attributes(tuple(follow), FPMATH.value)
    a, b, c = operands
    # Products keep their kernels within a bound of bytes (array/product.py); a second cache would hold them longer.
    return describe("matmul", a, b, None, c, attributes=attributes, flops=form.flops, kept=False)


def _descriptor(form: Form, rank: int) -> Descriptor:
    """Return the descriptor of an operand with as many axes as the result has.

    Raises:
        Unimplemented: elements are read twice or backwards.
    """
    missing = (1,) * (rank - len(form.dims))
    dims, strides = Dim((*missing, *form.dims)), (*missing, *form.strides)
    if any(extent > 1 and step <= 0 for step, extent in zip(strides, dims, strict=True)):
        raise Unimplemented(f"strides {strides} of {dims} repeat elements or run backwards")
    # The step of an extent of 1 is never taken, yet oneDNN goes by it: it looks for a side with step 1.
    known = zip(strides, dims, dims.strides(), strict=True)
    steps = [dense if extent == 1 else step for step, extent, dense in known]
    if dims[-1] == 1:
        steps[-1] = 1
    elif dims[-2] == 1:
        steps[-2] = dims[-1] if steps[-1] == 1 else 1
    return Descriptor.of(dims, form.dtype, Strided(tuple(steps)))


def _multiply(found: PrimitiveDescriptor, scaled: bool) -> Multiply:
    own = Direct(found, "src", "weights", "dst", *([post_op(0)] if scaled else []))

    def multiply(a: Array, b: Array, c: Array, alpha: float, beta: float) -> None:
        del beta  # as the form says
        reason = unavailable()
        if reason is not None:
            raise UnavailableError(f"engine 'onednn' is not available: {reason}")
        factor = [np.array([alpha], np.float32)] if scaled else []
        own.run(*(array.ctypes.data for array in (a, b, c, *factor)))

    return multiply
