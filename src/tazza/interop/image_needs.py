"""What a net says of the images that it takes: channels, order of the axes, element type, and sizes that fit.

Nothing of that stands in a file. The first operator on the input tells how it reads it; which sizes fit is asked of the
shape rules of the whole net.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from tazza.data_class import dataclass
from tazza.errors import ArgumentError, TazzaError
from tazza.graph.inference import infer_net
from tazza.images.preprocessing import Colors, ElementType, Order
from tazza.interop.predictor import Predictor
from tazza.operator import OpView, Spec, find_schema, touches
from tazza.ops.nn.conv import CONVS
from tazza.ops.shape.transpose import NHWC2NCHW
from tazza.ops.vision.stylizer import STYLIZER_PREPROCESS
from tazza.tensor import DataType, Tensor, TensorSpec

SIZES = (
    *(28, 32, 48, 56, 64, 84, 96, 100, 112, 128, 144, 150, 160, 168, 192, 200, 220, 224, 227, 231, 240, 250, 256, 288),
    *(299, 300, 320, 321, 331, 336, 360, 384, 400, 416, 448, 480, 500, 512, 600, 608, 640, 768, 800, 1024),
)
"""Heights and widths that are tried: those that nets for images are usually made for."""
Size = tuple[int, int]


@dataclass(frozen=True, slots=True)
class ImageNeeds:
    """What the first operator on an input says; `channels` and `colors` are None where it says nothing."""

    channels: int | None = None
    order: Order = "NCHW"
    dtype: ElementType = "float32"
    colors: Colors | None = None


def image_input(predictor: Predictor) -> str:
    """Return the one input of a net.

    Raises:
        ArgumentError: it has several, or none.
    """
    if len(predictor.inputs) != 1:
        raise ArgumentError(
            f"net {predictor.name!r} has {len(predictor.inputs)} inputs: {', '.join(predictor.inputs)}",
            hint="name the one that takes images with --input; the others must have values, or use tazza.load",
        )
    return predictor.inputs[0]


def image_needs(predictor: Predictor) -> ImageNeeds:
    """Return what a net with one input says of it."""
    name = image_input(predictor)
    taken = predictor.dtypes[name]
    found = ImageNeeds(dtype="uint8" if taken == frozenset({DataType.UINT8}) else "float32")
    for op in predictor.definition.op:
        if name in touches(op).reads:
            return _said_by(find_schema(op.type).view(op), predictor, found)
    return found


def _said_by(op: OpView, predictor: Predictor, found: ImageNeeds) -> ImageNeeds:
    if op.schema is STYLIZER_PREPROCESS:
        return ImageNeeds(4, "NHWC", "uint8", "bgra")
    if op.schema is NHWC2NCHW:
        return replace(found, order="NHWC")
    if op.schema not in CONVS or op.definition.input[0] != predictor.inputs[0]:
        return found
    weight = predictor.workspace.blob(op.input_name("W")).value
    if not isinstance(weight, Tensor):
        return found
    channels = int(weight.shape[1 if op.order == "NCHW" else -1]) * int(op.group)
    return replace(found, channels=channels, order="NHWC" if op.order == "NHWC" else "NCHW")


@dataclass(frozen=True, slots=True)
class FittingSize:
    """Height and width that a net takes, or, with `or_more`, the least of several that were tried."""

    size: Size
    or_more: bool


def fitting_size(
    predictor: Predictor, image: NDArray[Any], order: Order, declared: Mapping[str, Spec] | None = None
) -> FittingSize | None:
    """Return height and width that a net takes where it does not take those of an image (C, H, W) or (H, W, C).

    None where the image has such a size, or no size that was tried fits.

    Args:
        predictor: a net with one input.
        image: what it was given, without the batch.
        order: of the axes.
        declared: specs of inputs that the files of the model tell; what they say comes first.
    """
    if image.ndim != 3:
        return None
    rows = 1 if order == "NCHW" else 0
    name = image_input(predictor)
    known = _parameters(predictor)

    def fits(size: Size) -> bool:
        shape = list(image.shape)
        shape[rows : rows + 2] = size
        try:
            infer_net(predictor.definition, {**known, name: TensorSpec((1, *shape), DataType.of(image))})
        except TazzaError:
            return False
        return True

    size = (image.shape[rows], image.shape[rows + 1])
    if fits(size):
        return None
    told = None if declared is None else declared.get(name)
    said = [] if not isinstance(told, TensorSpec) or told.dims is None or len(told.dims) != 4 else [told.shape]
    tried = [*((shape[rows + 1], shape[rows + 2]) for shape in said), *((side, side) for side in SIZES)]
    found = next((one for one in tried if one != size and fits(one)), None)
    return None if found is None else FittingSize(found, fits((2 * found[0] + 1, 2 * found[1] + 1)))


def _parameters(predictor: Predictor) -> dict[str, Spec]:
    found: dict[str, Spec] = {}
    for op in predictor.definition.op:
        for name in op.input:
            blob = predictor.workspace.get_blob(name)
            if blob is not None and isinstance(blob.value, Tensor) and blob.value.allocated:
                found[name] = blob.value.spec
    return found
