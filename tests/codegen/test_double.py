"""Functions of float64 numbers: largest errors against longer ones."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.codegen import double
from tazza.codegen.kernel import OWN, unavailable
from tazza.codegen.loop import lanes_of, sweep
from tazza.codegen.term import Lines, Term
from tazza.tensor import DataType
from tests.launching import pointer_at, word_at

pytestmark = [
    pytest.mark.skipif(unavailable() is not None, reason=str(unavailable())),
    pytest.mark.skipif(np.finfo(np.longdouble).nmant <= 52, reason="there are no longer numbers than float64"),
]

Array = NDArray[Any]
RANDOM = np.random.default_rng(3)
FUNCTIONS: dict[str, tuple[Callable[[Term], Term], Callable[[Array], Array]]] = {
    "log": (double.log, np.log),
    "sin": (lambda x: double.sine_cosine(x)[0], np.sin),
    "cos": (lambda x: double.sine_cosine(x)[1], np.cos),
}


def compute(name: str, x: Array) -> Array:
    """Run a function over numbers."""

    def work(lines: Lines) -> None:
        v = lanes_of(lines, DataType.DOUBLE)
        source, target = pointer_at(lines, 2), pointer_at(lines, 3)

        def body(i: Term, mask: Term | None, carried: Sequence[Term]) -> Sequence[Term]:
            given = v.load(source, i, mask, v.constant(1.0))
            v.store(FUNCTIONS[name][0](given), target, i, mask)
            return carried

        sweep(v, 0, word_at(lines, 1), body)

    y = np.empty_like(x)
    block = np.array([1, x.size, x.ctypes.data, y.ctypes.data], np.int64)
    ctypes.CFUNCTYPE(*[ctypes.c_int64] * 5)(OWN.compiled(f"float64 {name}", work))(block.ctypes.data, 0, 0, 0)
    return y


NUMBERS = {
    "log": np.concatenate([np.exp(RANDOM.uniform(-700, 700, 20_001)), 1 - RANDOM.integers(0, 2**24, 20_001) / 2**24]),
    "sin": np.concatenate([RANDOM.uniform(-(2**20), 2**20, 20_001), RANDOM.uniform(-7, 7, 20_001)]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_error(name: str) -> None:
    x = NUMBERS.get(name, NUMBERS["sin"])
    wanted = FUNCTIONS[name][1](x.astype(np.longdouble))
    ulps = np.abs(compute(name, x) - wanted) / np.spacing(np.abs(wanted.astype(np.float64)))
    assert float(ulps.max()) < 1
