"""Rows in few bits as floats: what a kernel reads of a row is what the format says, wherever vectors end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.codegen.kernel import unavailable
from tazza.engines.native.embedding.lookup import codes_of
from tazza.operator import operator_def
from tazza.ops.embedding.lookup import lookups
from tests.check import run

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

Array = NDArray[Any]
FORMATS = sorted(
    type for type, row in lookups.rows.items() if row.rows.format is not None and codes_of(row) is not None
)


def test_all_formats_but_pruned_tables_are_read() -> None:
    assert {codes_of(lookups.rows[type]) is None for type in lookups.rows if lookups.rows[type].rows.pruned} == {True}
    assert {lookups.rows[type].rows.format for type in FORMATS} == {
        row.rows.format for row in lookups.rows.values() if row.rows.format is not None
    }


@pytest.mark.parametrize("type", FORMATS)
@pytest.mark.parametrize("width", [4, 8, 12, 16, 20, 64, 68, 132])
def test_a_row_alone_is_its_numbers(type: str, width: int) -> None:
    """To the last bit but for one rounding: bags of one row, whatever part of a vector is left at the end."""
    row = lookups.rows[type]
    assert row.rows.format is not None
    x = np.random.default_rng(width).standard_normal((7, width)).astype(np.float32)
    table, picked = row.rows.format.encode(x), np.array([6, 0, 3, 3], np.int64)
    weights = [np.ones(4, np.float32)] if row.reducer.weighted else []
    inputs = [table, *weights, picked, np.ones(4, np.int32)]
    names = [f"i{n}" for n in range(len(inputs))]
    (found,), _ = run(operator_def(type, names, ["Y"]), inputs, "native")
    np.testing.assert_allclose(found, row.rows.format.decode(table)[picked], rtol=2e-7, atol=2e-7)
