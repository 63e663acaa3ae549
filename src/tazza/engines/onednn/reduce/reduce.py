"""ReduceSum, ReduceMean, ReduceL1 and ReduceL2 of floats.

oneDNN has fast code for the last axis only. So X is brought into the form (K, R) first where it lies otherwise: K
elements that stay, R that are reduced. Long rows are reduced in turns, which keeps the rounding of sums small and gives
all threads a part. L1 and L2 are sums of abs(X) and X * X.

ReduceMax and ReduceMin are not here: oneDNN's begin with the lowest and the highest finite number, so they lose
infinities, and they may lose a NaN.
"""

from __future__ import annotations

import math

from tazza.engines.onednn.descriptor import Descriptor
from tazza.engines.onednn.estimate import passes_ns
from tazza.engines.onednn.launch import Operand, Part, PrimitiveLaunch, SequenceLaunch
from tazza.engines.onednn.nn.layer_norm import pointwise
from tazza.engines.onednn.prepare import Answer, onednn
from tazza.engines.onednn.primitive import Attributes, describe
from tazza.engines.onednn.shape.copy import reorder
from tazza.operator import LaidOut, OpView, Unsupported
from tazza.ops.reduce.reduce import reduced_axes, reductions
from tazza.tensor import ROW_MAJOR, DataType, Opaque, TensorSpec

FLOATS = frozenset({DataType.FLOAT, DataType.BFLOAT16, DataType.FLOAT16})
ALGORITHMS = {
    "ReduceSum": "reduction_sum",
    "ReduceMean": "reduction_mean",
    "ReduceL1": "reduction_sum",
    "ReduceL2": "reduction_sum",
}
BEFORE = {"ReduceL1": "eltwise_abs", "ReduceL2": "eltwise_square"}
PASSES = 2
"""Passes of a plain loop over X that its reduction takes as long as."""
LONGEST = 4096
"""Elements that are reduced in one turn, where their number has a divisor up to this."""


def reduce(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y from X."""
    X = specs["X"]
    if X.dtype not in FLOATS:
        return Unsupported(f"X is {X.dtype.label}: oneDNN reduces floats of 4 and 2 bytes")
    axes = reduced_axes(op, X.shape)
    kept = [axis for axis in range(len(X.shape)) if axis not in axes]
    count = math.prod(X.shape[axis] for axis in axes)
    layout = ROW_MAJOR if isinstance(X.layout, Opaque) else X.layout
    shown = Descriptor.of(X.shape, X.dtype, layout)
    turned = shown.permute((*kept, *axes)) if X.shape else shown
    plain = Descriptor.of(turned.dims, X.dtype)
    operand: Operand = "X"
    steps: list[PrimitiveLaunch] = []
    if turned.layout() != plain.layout():
        steps.append(PrimitiveLaunch(reorder(turned, plain), {"src": "X", "dst": Part("rows")}))
        operand = Part("rows")
    if op.type in BEFORE:
        steps.append(pointwise(BEFORE[op.type], 0.0, 0.0, plain, operand, Part("rows")))
        operand = Part("rows")
    steps += _turns(ALGORITHMS[op.type], X, count, operand)
    if op.type == "ReduceL2":
        steps.append(pointwise("eltwise_sqrt", 0.0, 0.0, Descriptor.of((X.size // count,), X.dtype), "Y", "Y"))
    return LaidOut(SequenceLaunch(tuple(steps)), {"X": layout})


def _turns(algorithm: str, X: TensorSpec, count: int, operand: Operand) -> list[PrimitiveLaunch]:
    """Return the steps that reduce each `count` elements in a row to one, the last one to Y."""
    steps: list[PrimitiveLaunch] = []
    rows = X.size
    for place, extent in enumerate(_factors(count)):
        rows //= extent
        last = rows == X.size // count
        target: Operand = "Y" if last else Part(f"turn {place}")
        steps.append(_reduction(algorithm, Descriptor.of((rows, extent), X.dtype), operand, target))
        operand = target
    return steps


def _reduction(algorithm: str, rows: Descriptor, source: Operand, target: Operand) -> PrimitiveLaunch:
    """Return the launch that reduces the rows of a matrix.

    Raises:
        Unimplemented: oneDNN has nothing but its reference code.
    """
    column = Descriptor.of((rows.dims[0], 1), rows.dtype)
    if rows == column:
        return PrimitiveLaunch(reorder(rows, column), {"src": source, "dst": target})
    found = describe("reduction", algorithm, rows, column, 0.0, 0.0, attributes=Attributes()).unless_slow
    return PrimitiveLaunch(found, {"src": source, "dst": target})


def _factors(count: int) -> list[int]:
    """Return the numbers of elements that are reduced in each turn: their product is `count`.

    >>> _factors(7), _factors(3 * 4096), _factors(1)
    ([7], [4096, 3], [1])
    """
    found: list[int] = []
    while count > LONGEST:
        divisor = max(extent for extent in range(1, LONGEST + 1) if count % extent == 0)
        if divisor == 1:
            break
        found.append(divisor)
        count //= divisor
    return [*found, count] if count > 1 or not found else found


def reduce_ns(op: OpView, specs: dict[str, TensorSpec]) -> float:
    """Return about how long it takes: its passes over X, each of which counts for some of a plain loop."""
    X = specs["X"]
    axes = reduced_axes(op, X.shape)
    turned = any(X.shape[axis] > 1 for axis in range(min(axes, default=0), len(X.shape)) if axis not in axes)
    return passes_ns(PASSES + 2 * (turned + (op.type in BEFORE)), X)


for _type in ALGORITHMS:
    onednn(reductions[_type], empty="zero", estimate_ns=reduce_ns)(reduce)
