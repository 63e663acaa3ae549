"""ReduceFrontWeightedSum and its gradient: what is compiled for segments, with all rows in one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from tazza.codegen.block import accepts_rows
from tazza.device import Context
from tazza.engines.native.sparse.segment_reduction import Shapes, Work, segment_launch, write_reduction, write_spread
from tazza.operator import Launch, OpView, Spec, launcher
from tazza.ops.sparse.reduce_front_weighted_sum import REDUCE_FRONT_WEIGHTED_SUM, REDUCE_FRONT_WEIGHTED_SUM_GRADIENT
from tazza.ops.sparse.reducer import WEIGHTED_SUM
from tazza.tensor import DataType, TensorSpec

WORK = Work(WEIGHTED_SUM, None, DataType.FLOAT, 0)


def shapes_of(rows: Spec) -> Shapes:
    """Return the extents of a call on rows of that spec."""
    shape = cast("TensorSpec", rows).shape
    return Shapes(1, math.prod(shape[1:]), shape[0], shape[0])


@launcher(REDUCE_FRONT_WEIGHTED_SUM, engine="native", accepts=accepts_rows)
def prepare_reduce_front_weighted_sum(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launch:
    del context, outputs
    return segment_launch(op, write_reduction, WORK, shapes_of(inputs[0]), "rows of DATA")


@launcher(REDUCE_FRONT_WEIGHTED_SUM_GRADIENT, engine="native", accepts=accepts_rows)
def prepare_reduce_front_weighted_sum_gradient(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launch:
    del context, inputs
    return segment_launch(op, write_spread, WORK, shapes_of(outputs[0]), "rows")
