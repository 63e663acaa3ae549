"""Int8Softmax: numbers of bytes in scratch memory, their softmax, and bytes of that, three primitives of oneDNN.

Its softmax takes bytes too, but multiplies shares by the scale of X, and not X by it (seen with oneDNN 3.2).
"""

from __future__ import annotations

import math

from tazza.engines.onednn.descriptor import Descriptor
from tazza.engines.onednn.launch import Part, PrimitiveLaunch, SequenceLaunch
from tazza.engines.onednn.library import Unimplemented
from tazza.engines.onednn.prepare import Answer, onednn
from tazza.engines.onednn.primitive import Attributes, describe
from tazza.engines.onednn.quantized.scaled import Scaling, meaning_of
from tazza.operator import LaidOut, OpView
from tazza.ops.quantized.int8_softmax import INT8_SOFTMAX
from tazza.ops.shape.axis import axes_from
from tazza.tensor import ROW_MAJOR, DataType, TensorSpec

COLUMNS = 1
NUMBERS = Part("numbers")


@onednn(INT8_SOFTMAX)
def int8_softmax(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y = exp(X) / sum of exp(X), as rows of all that is behind the axis."""
    shape = specs["X"].shape
    width = math.prod(shape[axis] for axis in axes_from(op.axis, len(shape)))
    dims = specs["X"].size // width, width
    rows, numbers = Descriptor.of(dims, DataType.UINT8), Descriptor.of(dims)
    # A zero point of X is no matter: shares stay when all of a row grow by the same.
    before, after, meaning = Scaling(), Scaling(), meaning_of(specs["Y"])
    before.scale("src", meaning_of(specs["X"]).scale)
    after.scale("dst", meaning.scale)
    after.zero_point("dst", meaning.zero_point)
    kinds = "forward_inference", "softmax_accurate"
    read = describe("reorder", rows, numbers, attributes=before.attributes)
    found = describe("softmax_forward", *kinds, numbers, numbers, COLUMNS, attributes=Attributes())
    written = describe("reorder", numbers, rows, attributes=after.attributes)
    for one in (read, found, written):
        if one.is_slow:
            raise Unimplemented(f"oneDNN has only its reference code ({one.implementation})")
    steps = (
        PrimitiveLaunch(read, {"src": "X", "dst": NUMBERS, **before.arguments}),
        PrimitiveLaunch(found, {"src": NUMBERS, "dst": NUMBERS}),
        PrimitiveLaunch(written, {"src": NUMBERS, "dst": "Y", **after.arguments}),
    )
    return LaidOut(SequenceLaunch(steps), {"X": ROW_MAJOR, "Y": ROW_MAJOR})
