"""Targets: what a function may write to is one rule for all that take `out`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tazza.array as ta
from tazza.errors import UnsupportedError
from tazza.tensor import Tensor

EYE = np.eye(2)
WRITERS: dict[str, Callable[[Tensor], object]] = {
    "gemm": lambda out: ta.gemm(EYE, EYE, out=out),
    "sparse_matmul": lambda out: ta.sparse_matmul(ta.CSR.from_dense(EYE), EYE, out=out),
    "assign": lambda out: ta.assign(out, EYE),
    "evaluate": lambda out: (ta.lazy(EYE) + 1).evaluate(out),
    "planned": lambda out: ta.bind([ta.lazy(EYE) + 1], [out]),
    "iadd": lambda out: out.__iadd__(EYE),
    "setitem": lambda out: out.__setitem__(0, 5.0),
    "set_elements": lambda out: ta.set_elements(out, 3.0),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_target_whose_elements_overlap_is_refused_by_all(name: str) -> None:
    for out in (
        Tensor.from_numpy(np.zeros(5)).view((2, 2), strides=(1, 1)),
        ta.broadcast_to(Tensor.from_numpy(np.zeros(2)), (2, 2)),
    ):
        with pytest.raises(UnsupportedError, match=r"cannot be written to"):
            WRITERS[name](out)
        assert not np.any(out.plain())
        assert not out.numpy().flags.writeable


@pytest.mark.parametrize("name", WRITERS)
def test_a_target_may_have_gaps_and_any_order(name: str) -> None:
    out = Tensor.from_numpy(np.zeros(12)).view((2, 2), offset=1, strides=(2, 7))
    WRITERS[name](out)
    assert out.numpy().flags.writeable
    assert name == "planned" or np.any(out.plain())


@pytest.mark.parametrize(
    ("shape", "strides", "expected"),
    [
        ((2, 3), (3, 1), False),
        ((2, 3), (1, 2), False),
        ((2, 3), (2, 1), True),
        ((2, 3), (0, 1), True),
        ((1, 3), (0, 1), False),
        ((0, 3), (0, 0), False),
        ((2, 2, 2), (1, 2, 3), True),
    ],
)
def test_which_steps_overlap(shape: tuple[int, ...], strides: tuple[int, ...], expected: bool) -> None:
    assert ta.Strided(strides).overlaps_itself(ta.Dim(shape)) is expected
