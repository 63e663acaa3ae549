"""Denormals in kernels that pick places: told from 0 within, and as before behind."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.codegen.denormal import with_denormals
from tazza.codegen.fields import Fields
from tazza.codegen.kernel import unavailable
from tazza.codegen.term import Lines
from tazza.operator import run_op
from tests.check import engines_of
from tests.launching import run_kernel

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

BLOCK = Fields("threads", addresses="x y")
LEAST = np.float32(1e-45)


def test_they_are_told_from_0_within_alone() -> None:
    def work(lines: Lines) -> None:
        at = BLOCK.lazily(lines)

        def compare(place: int) -> None:
            above = at.x.of("float").load() > 0.0
            target = at.y.of("i64").at(place)
            lines.do(f"store volatile i64 {above.to_unsigned('i64')}, ptr {target}")

        with_denormals(lines, lambda: compare(0))

    given, found = np.array([LEAST]), np.zeros(1, np.int64)
    run_kernel("denormals", work, 1, given.ctypes.data, found.ctypes.data)
    assert found.tolist() == [1]


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("width", [4, 40])
@pytest.mark.parametrize("along", [0, 1])
def test_who_picks_places_tells_them_from_0(along: int, width: int, sign: int) -> None:
    """On every engine; the same of the smallest."""
    X = np.zeros((width, width), np.float32)
    X[3, :] = X[:, 3] = sign * LEAST
    type = "ArgMax" if sign > 0 else "ArgMin"
    for engine in engines_of(type):
        found = run_op(type, X, engine=engine, axis=along)
        np.testing.assert_array_equal(found.reshape(-1), np.where(np.arange(width) == 3, 0, 3), err_msg=engine)
    if sign > 0:
        for engine in engines_of("TopK"):
            values, places = run_op("TopK", X[:, :3], engine=engine, k=1)[:2]
            assert places.reshape(-1)[3] == 0
            assert values.reshape(-1)[3] == LEAST, engine
