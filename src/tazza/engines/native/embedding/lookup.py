"""Sums and means of rows in few bits that indices pick: codes become floats in registers, where they are added up.

What joins rows, and how segments are shared by threads, is that of reductions of segments.
"""

from __future__ import annotations

import math

import numpy as np

from tazza.engines.native import native
from tazza.engines.native.embedding.codes import Codes
from tazza.engines.native.sparse.segment_reduction import Shapes, Work, segment_launch, write_reduction
from tazza.operator import Launch, OpView, Unsupported
from tazza.ops.embedding.lookup import Lookup, lookups
from tazza.ops.sparse.segment import BY_LENGTHS
from tazza.tensor import DataType, TensorSpec

LETTERS = {"SCALARS": "WEIGHTS"}
"""What reductions call an input -> what lookups do."""


def codes_of(row: Lookup) -> Codes | None:
    """Return how a table keeps its rows; None where these are found by way of a mapping."""
    format = row.rows.format
    if row.rows.pruned:
        return None
    if format is None:
        return Codes(8, DataType.FLOAT, beside=True)
    return Codes(format.room, DataType.FLOAT if format.scalars is np.float32 else DataType.FLOAT16)


@native(*(lookups[type] for type, row in lookups.rows.items() if codes_of(row) is not None))
def prepare_lookup(op: OpView, specs: dict[str, TensorSpec]) -> Launch:
    """Compile the reduction of rows of this format."""
    Y, INDICES, DATA, row = specs["Y"], specs["INDICES"], specs["DATA"], lookups.rows[op.type]
    if "WEIGHTS" in specs and specs["WEIGHTS"].size < INDICES.size:
        raise Unsupported("there are fewer WEIGHTS than INDICES")
    work = Work(row.reducer, BY_LENGTHS, DataType.UINT8, 8 * INDICES.dtype.itemsize, codes=codes_of(row))
    shapes = Shapes(specs["LENGTHS"].size, math.prod(Y.shape[1:]), INDICES.size, DATA.shape[0])
    return segment_launch(op, write_reduction, work, shapes, "INDICES", LETTERS)
