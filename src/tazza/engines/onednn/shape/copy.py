"""Copy: the reorder of oneDNN, between any two layouts that it knows.

Extents of an opaque layout need not be those of the blob (see `descriptor`), so one of the two sides is reshaped.
"""

from __future__ import annotations

from typing import Any, cast

from numpy.typing import NDArray

from tazza.device import Generator, current_context
from tazza.engines.onednn.descriptor import Descriptor, accepts_strided, seen_as_it_lies
from tazza.engines.onednn.launch import PrimitiveLaunch
from tazza.engines.onednn.library import Unimplemented
from tazza.engines.onednn.prepare import Answer, onednn
from tazza.engines.onednn.primitive import Attributes, PrimitiveDescriptor, describe
from tazza.errors import UnsupportedError
from tazza.operator import LaidOut, Launch, Operands, OpView
from tazza.ops.shape.copy import COPY
from tazza.runtime.fork import threads_lost
from tazza.tensor import Opaque, Tensor, TensorSpec


def reorder(source: Descriptor, target: Descriptor) -> PrimitiveDescriptor:
    """Return the primitive descriptor that copies from one layout, and element type, to another.

    Raises:
        Unimplemented: oneDNN has no such reorder, or the extents cannot be brought together.
    """
    if source.dims != target.dims:
        try:
            source = source.reshape(target.dims)
        except Unimplemented:
            target = target.reshape(source.dims)
    return describe("reorder", source, target, attributes=Attributes())


@onednn(COPY, empty="zero", accepts=accepts_strided)
def copy(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y = X in the layout that is wished for."""
    del op
    X, Y = specs["X"], specs["Y"]
    computed = _computed(X, Y)
    if computed is not None:
        return LaidOut(computed, {"Y": Y.layout})
    found = reorder(seen_as_it_lies(X), seen_as_it_lies(Y))
    return LaidOut(PrimitiveLaunch(found, {"src": "X", "dst": "Y"}), {"Y": Y.layout})


def _computed(X: TensorSpec, Y: TensorSpec) -> Launch | None:
    """Return the launch that computes elements which lie as no other reorder knows; see `quantized.scaled`."""
    launch = getattr(Y.layout.descriptor, "launch", None) if isinstance(Y.layout, Opaque) else None
    return None if launch is None else launch(X)


def plain_copy(tensor: Tensor) -> NDArray[Any]:
    """Return the elements of a tensor in a layout of this engine as a row-major array."""
    plain = Tensor(tensor.shape, tensor.dtype)
    layout = cast("Opaque", tensor.layout)
    if layout.nearest is not None and threads_lost() is not None:  # a forked child: NumPy can look at it as well
        lies = cast("Descriptor", layout.descriptor).dtype
        window = tensor.storage.window(lies, tensor.shape, tensor.offset_bytes, layout.nearest.strides)
        return window.astype(tensor.dtype.numpy, order="C")
    if tensor.size:
        found = reorder(seen_as_it_lies(tensor.spec), Descriptor.of(plain.spec))
        launch = PrimitiveLaunch(found, {"src": "X", "dst": "Y"})
        context = current_context(tensor.place)
        scratch = context.scratch(launch.scratch_bytes) if launch.scratch_bytes else None
        launch.bind(Operands({"X": tensor, "Y": plain}, scratch, _no_generator, context))()
    return plain.array


def _no_generator() -> Generator:
    raise UnsupportedError("a reorder draws no random numbers")
