"""Pooling that rounds sizes up, as Caffe 1 did, written as pooling with explicit padding.

With `legacy_pad = 3` an image gets one more window where the last one would not fit; the same windows follow from more
padding behind. How much that is depends on the size of the image, which therefore has to be known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tazza.errors import UnsupportedError
from tazza.graph.inference import infer_operator
from tazza.interop.caffe.messages import shapes_of
from tazza.operator import find_argument
from tazza.operator.definition import make_argument
from tazza.proto import NetDef, OperatorDef, TensorProtos
from tazza.tensor import TensorSpec

SIDES = (("h", "pad_t", "pad_b"), ("w", "pad_l", "pad_r"))
"""Of both axes the suffix, the padding before and that behind."""


def without_legacy_pad(net: NetDef, parameters: TensorProtos, input_shape: Sequence[int]) -> NetDef:
    """Return a net of the same blobs, of the same shapes, where no pooling has `legacy_pad`.

    Args:
        net: see above; only what this module changes is looked at.
        parameters: of the net.
        input_shape: of its first input.

    Raises:
        UnsupportedError: the size of an image that is pooled does not follow from the input.
    """
    specs = shapes_of(net, parameters, input_shape)
    changed = NetDef()
    changed.CopyFrom(net)
    for op in changed.op:
        if find_argument(op, "legacy_pad") is not None:
            _change(op, specs)
    return changed


def _change(op: OperatorDef, specs: Mapping[str, TensorSpec]) -> None:
    image, wanted = specs.get(op.input[0]), specs.get(op.output[0])
    if image is None or wanted is None or not (image.shape_known and wanted.shape_known):
        raise UnsupportedError(
            f"{op.type} '{op.output[0]}' pools an image of unknown size", hint="say the shape of the net's input"
        )
    _drop(op, "legacy_pad")
    if find_argument(op, "global_pooling") is not None or infer_operator(op, specs).outputs[0] == wanted:
        return
    pads: dict[str, int] = {}
    for axis, (suffix, before, behind) in enumerate(SIDES, 2):
        head, tail = (_value(op, name, "pad", 0) for name in (before, behind))
        stride, kernel = _value(op, f"stride_{suffix}", "stride", 1), _value(op, f"kernel_{suffix}", "kernel", 0)
        needed = (int(wanted.shape[axis]) - 1) * stride + kernel - int(image.shape[axis]) - head
        pads |= {before: head, behind: max(tail, needed)}
    _drop(op, "pad")
    for name in ("pad_l", "pad_t", "pad_r", "pad_b"):
        found = find_argument(op, name)
        if found is None:
            op.arg.append(make_argument(name, pads[name]))
        else:
            found.i = pads[name]


def _value(op: OperatorDef, name: str, both: str, default: int) -> int:
    """Return an argument for one axis, or the one for both."""
    for one in (name, both):
        found = find_argument(op, one)
        if found is not None:
            return int(found.i)
    return default


def _drop(op: OperatorDef, name: str) -> None:
    kept = [argument for argument in op.arg if argument.name != name]
    del op.arg[:]
    op.arg.extend(kept)
