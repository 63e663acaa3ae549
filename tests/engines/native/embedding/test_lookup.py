"""Sums of rows in few bits: the bits do not hang on how many threads there are; nothing is read by a wrong index."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.codegen import kernel
from tazza.codegen.kernel import unavailable
from tazza.engines.native.embedding.lookup import codes_of
from tazza.errors import NumericError
from tazza.operator import operator_def
from tazza.ops.embedding.lookup import lookups
from tazza.ops.embedding.row_format import EIGHT
from tazza.runtime.threads import NUM_THREADS
from tests.check import run

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

Array = NDArray[Any]
COMPILED = sorted(type for type, row in lookups.rows.items() if codes_of(row) is not None)


def inputs_of(type: str, *, bags: int = 11, width: int = 24) -> list[Array]:
    """Return a table, bags of 0 to 4 of its rows, and what else the operator takes."""
    row, random = lookups.rows[type], np.random.default_rng(len(type))
    x = random.standard_normal((13, width)).astype(np.float32)
    lengths = random.integers(0, 5, bags).astype(np.int32)
    picked: Array = random.integers(0, len(x), int(lengths.sum()))
    weights = [random.standard_normal(picked.size).astype(np.float32)] if row.reducer.weighted else []
    if row.rows.format is not None:
        return [row.rows.format.encode(x), *weights, picked, lengths]
    codes = random.integers(0, 256, x.shape).astype(np.uint8)
    return [codes, *weights, picked, lengths, random.standard_normal((len(x), 2)).astype(np.float32)]


def found(type: str, inputs: list[Array], engine: str) -> Array:
    (Y,), _ = run(operator_def(type, [f"i{n}" for n in range(len(inputs))], ["Y"]), inputs, engine)
    return Y


@pytest.mark.parametrize("type", COMPILED)
def test_it_is_the_reference(type: str) -> None:
    inputs = inputs_of(type)
    wanted = found(type, inputs, "reference")
    atol = 1e-6 * float(np.abs(wanted).max())  # terms are as large as the largest sums, and may cancel
    np.testing.assert_allclose(found(type, inputs, "native"), wanted, rtol=1e-6, atol=atol)


@pytest.mark.parametrize("type", COMPILED)
def test_threads_change_no_bit(type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs, results = inputs_of(type), list[Array]()
    monkeypatch.setattr(kernel, "THREAD_NS", 0.01)
    for count in (1, 2, 5):
        with NUM_THREADS.override(count):
            results.append(found(type, inputs, "native"))
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])


@pytest.mark.parametrize("index", [-1, 13])
def test_a_wrong_index_is_named(index: int) -> None:
    type = "SparseLengthsSumFused8BitRowwise"
    table = EIGHT.encode(np.zeros((13, 4), np.float32))
    with pytest.raises(NumericError, match=rf"INDICES\[2\].*{index}"):
        found(type, [table, np.array([0, 1, index]), np.array([1, 2], np.int32)], "native")
