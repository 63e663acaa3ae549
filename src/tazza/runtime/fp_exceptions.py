"""Two flags of Caffe2's: a run of an operator fails where its arithmetic divides by zero, is invalid, or overflows.

NumPy tells what arithmetic did, so operators run on engines that compute by it while a flag is set: vector code and
libraries divide by zero and overflow in lanes that nobody keeps, or leave no trace where they do. Products of matrices
are libraries' there too, and tell nothing. A net of type `plan` is not looked at: several of its operators are one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

import numpy as np

from tazza.errors import NumericError
from tazza.runtime.flags import flag

THROW = flag(
    "caffe2_operator_throw_if_fp_exceptions",
    False,
    "an operator that divides by zero or computes what is not defined fails, outside of plans",
    kernels=True,
)
THROW_OVERFLOW = flag(
    "caffe2_operator_throw_if_fp_overflow_exceptions",
    False,
    "an operator whose result is too large for its type fails, outside of plans",
    kernels=True,
)

_NAMES = {"divide by zero": "division by zero", "invalid value": "an invalid operation", "overflow": "overflow"}
"""NumPy's name -> ours."""


def asked() -> bool:
    """Whether one of the flags is set."""
    return THROW.value or THROW_OVERFLOW.value


def guarded(call: Callable[[], None]) -> Callable[[], None]:
    """Return a call that also raises what the flags ask for; where they ask for nothing, the call itself."""
    return raised()(call) if asked() else call


@contextmanager
def raised() -> Generator[None]:
    """Raise what the flags ask for, where the work within does it.

    Raises:
        NumericError: it divided by zero, was invalid, or overflowed.

    >>> with THROW.override(True), raised():
    ...     np.float32([1]) / np.float32([0])
    Traceback (most recent call last):
        ...
    tazza.errors.NumericError: division by zero
      hint: Caffe2's flags caffe2_operator_throw_if_fp_exceptions and ..._fp_overflow_exceptions ask for this error
    """
    told: list[str] = []
    on = "call" if THROW.value else "ignore"
    over = "call" if THROW_OVERFLOW.value else "ignore"
    with np.errstate(divide=on, invalid=on, over=over, under="ignore", call=lambda what, _: told.append(what)):
        yield
    if told:
        hint = "Caffe2's flags caffe2_operator_throw_if_fp_exceptions and ..._fp_overflow_exceptions ask for this error"
        raise NumericError(_NAMES[told[0]], hint=hint)
