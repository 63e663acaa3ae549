"""Sum of tensors of one shape, in the layout of the first; in place over any of them."""

from __future__ import annotations

from collections import Counter

from tazza.engines.onednn.descriptor import Descriptor, accepts_narrow, unless_mixed
from tazza.engines.onednn.estimate import passes_ns
from tazza.engines.onednn.launch import Operand, PrimitiveLaunch
from tazza.engines.onednn.library import constant
from tazza.engines.onednn.prepare import Answer, onednn
from tazza.engines.onednn.primitive import describe
from tazza.operator import LaidOut, OpView, Unsupported
from tazza.ops.math.sum import SUM
from tazza.tensor import DataType, Layout, Strided, TensorSpec

FLOATS = frozenset({DataType.FLOAT, DataType.BFLOAT16, DataType.FLOAT16})


SUM_PASSES = 1.5
"""Plain passes over its blobs that a sum of more than two takes as long as."""


def sum_ns(op: OpView, specs: dict[str, TensorSpec]) -> float | None:
    """Return about how long a sum of several takes; of two, it is as fast as a compiled formula."""
    plain = all(isinstance(spec.layout, Strided) for spec in specs.values())
    return passes_ns(SUM_PASSES, *specs.values()) if plain and len(op.definition.input) != 2 else None


@onednn(SUM, empty="zero", accepts=accepts_narrow, batch_invariant=True, estimate_ns=sum_ns)
def sum_(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y = X0 + X1 + ..."""
    Y, names = specs["Y"], list(op.definition.input)
    if Y.dtype not in FLOATS:
        return Unsupported(f"Y is {Y.dtype.label}: oneDNN sums floats of 4 and 2 bytes")
    # What Y lies over is read first: oneDNN may overwrite its first source only.
    order = sorted(range(len(names)), key=lambda i: names[i] != op.definition.output[0])
    in_place = op.definition.output[0] in names
    layout = Y.layout if in_place else shared_layout([specs[f"X{i}"] for i in range(len(names))])
    one = Descriptor.of(Y.shape, Y.dtype, layout)
    if len(names) == 2:
        found = describe("binary", "binary_add", one, one, one)
        arguments: dict[str | int, Operand] = {"src_0": ("X", order[0]), "src_1": ("X", order[1]), "dst": "Y"}
    else:
        found = describe("sum", one, len(names), (1.0,) * len(names), (one,) * len(names))
        first = constant("DNNL_ARG_MULTIPLE_SRC")
        arguments = {"dst": "Y"}
        for place, i in enumerate(order):
            arguments[first + place] = ("X", i)
    return LaidOut(PrimitiveLaunch(found, arguments), {"X": layout, "Y": layout})


def shared_layout(specs: list[TensorSpec]) -> Layout:
    """Return the layout that most of some blobs of one shape have, of several such the first; narrow if all are."""
    return Counter(unless_mixed(specs)).most_common(1)[0][0]
