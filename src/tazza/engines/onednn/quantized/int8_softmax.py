"""Int8Softmax: numbers of bytes in scratch memory, their softmax, and bytes of that, three primitives of oneDNN.

Its softmax takes bytes too, but multiplies shares by the scale of X, and not X by it (seen with oneDNN 3.2).
"""

from __future__ import annotations

import math

from tazza.engines.onednn.descriptor import Descriptor
from tazza.engines.onednn.launch import Part, PrimitiveLaunch, SequenceLaunch
from tazza.engines.onednn.prepare import Answer, onednn
from tazza.engines.onednn.primitive import Attributes, describe
from tazza.engines.onednn.quantized.scaled import meaning_of, reordered
from tazza.operator import LaidOut, OpView
from tazza.ops.quantized.int8_softmax import INT8_SOFTMAX
from tazza.ops.shape.axis import axes_from
from tazza.tensor import ROW_MAJOR, DataType, PerTensor, TensorSpec

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
    scale = PerTensor(meaning_of(specs["X"]).scale, 0)
    kinds = "forward_inference", "softmax_accurate"
    found = describe("softmax_forward", *kinds, numbers, numbers, COLUMNS, attributes=Attributes()).unless_slow
    steps = (
        reordered(rows, numbers, src=scale, write=NUMBERS),
        PrimitiveLaunch(found, {"src": NUMBERS, "dst": NUMBERS}),
        reordered(numbers, rows, dst=meaning_of(specs["Y"]), read=NUMBERS),
    )
    return LaidOut(SequenceLaunch(steps), {"X": ROW_MAJOR, "Y": ROW_MAJOR})
