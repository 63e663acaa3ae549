"""Records of pictures: a `TensorProtos` of the picture, its label and whatever else, or a Datum of Caffe.

A picture is a whole file as text (STRING), or its pixels as bytes (BYTE, dims (H, W) or (H, W, C)). Behind picture and
label, and behind the weights of the labels where there are some, come the tensors of further outputs, and last, where a
record has one, a box of four integers. Pixels lie blue, green, red, as OpenCV has them, in a Datum as (C, H, W).
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tazza.data_class import dataclass
from tazza.db.picture import decode_picture
from tazza.errors import FormatError, ShapeError
from tazza.proto import CaffeDatum, TensorProto, TensorProtos
from tazza.proto.message import parse
from tazza.runtime.files import one_line

if TYPE_CHECKING:
    from PIL.Image import Image

BOX_SIZE = 4


class LabelType(IntEnum):
    """What the label of a record is, and what becomes of it."""

    SINGLE = 0
    """One class: (N)."""
    SPARSE = 1
    """The classes that it is of: (N, L), 1 at each of them."""
    DENSE = 2
    """L integers, or L real numbers: (N, L)."""
    WEIGHTED = 3
    """Classes with a weight each: (N, L), the weight at each of them."""
    EMBEDDING = 5
    """L real numbers: (N, L)."""


@dataclass(frozen=True, slots=True)
class RecordForm:
    """What records of a database hold: labels of which type, out of how many, and how long further tensors are."""

    label_type: LabelType
    labels: int
    further: tuple[int, ...]
    datum: bool


@dataclass(frozen=True, slots=True)
class PictureRecord:
    """One record: what messages call it, the picture as it was stored, label, further tensors, and a box if it has one.

    The box is top, left, height, width.
    """

    what: str
    picture: TensorProto | CaffeDatum
    label: NDArray[Any]
    further: tuple[NDArray[Any], ...] = ()
    box: tuple[int, int, int, int] | None = None


def read_picture_record(key: bytes, value: bytes, form: RecordForm) -> PictureRecord:
    """Take a record apart; the picture is not decoded.

    Raises:
        FormatError: it is no such message, or holds other types.
        ShapeError: it holds another number of tensors, or of elements, than the form says.
    """
    what = f"record {one_line(key.decode(errors='backslashreplace'))!r}"
    if form.datum:
        datum = parse(CaffeDatum, value, what)
        return PictureRecord(what, datum, np.array(datum.label, np.int32))
    protos = parse(TensorProtos, value, what).protos
    before = 3 if form.label_type is LabelType.WEIGHTED else 2
    least = before + len(form.further)
    if not least <= len(protos) <= least + 1:
        raise ShapeError(f"{what} holds {len(protos)} tensors, it needs {least}, and a box if it has one")
    label = _label(what, protos[1], protos[2] if before == 3 else None, form)
    further = [_of_size(what, proto, size) for proto, size in zip(protos[before:], form.further, strict=False)]
    box = _box(what, protos[least]) if len(protos) > least else None
    return PictureRecord(what, protos[0], label, tuple(further), box)


def stacked(records: Sequence[PictureRecord], values: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return one array of a value of each record.

    Raises:
        FormatError: their types differ.
    """
    for record, value in zip(records, values, strict=True):
        if value.dtype != values[0].dtype:
            raise FormatError(f"{record.what} holds {value.dtype} where {records[0].what} holds {values[0].dtype}")
    return np.stack(values)


def picture_of(record: PictureRecord, colors: int) -> Image:
    """Return the picture of a record: grey for one colour, RGB for three.

    Raises:
        FormatError: it cannot be decoded, or is none.
        ShapeError: its pixels are not as many as its extents say.
    """
    if isinstance(record.picture, CaffeDatum):
        return _of_datum(record.what, record.picture, colors)
    return _of_tensor(record.what, record.picture, colors)


def _of_tensor(what: str, proto: TensorProto, colors: int) -> Image:
    if proto.data_type == TensorProto.STRING:
        if len(proto.string_data) != 1:
            raise FormatError(f"{what} has {len(proto.string_data)} texts for a picture, it needs 1")
        return _decoded(what, proto.string_data[0], colors)
    if proto.data_type != TensorProto.BYTE:
        name = TensorProto.DataType.Name(proto.data_type)
        raise FormatError(
            f"the picture of {what} is {name}, it must be STRING or BYTE",
            hint="TensorProtosDBInput reads tensors of numbers",
        )
    dims = (*proto.dims, 1) if len(proto.dims) == 2 else tuple(proto.dims)
    return _of_pixels(what, proto.byte_data, dims, colors)


def _of_datum(what: str, datum: CaffeDatum, colors: int) -> Image:
    if datum.encoded:
        return _decoded(what, datum.data, colors)
    if datum.float_data:
        raise FormatError(
            f"the picture of {what} is of real numbers, not of bytes", hint="TensorProtosDBInput reads such tensors"
        )
    C, H, W = datum.channels, datum.height, datum.width
    if min(C, H, W) < 1 or len(datum.data) != C * H * W:
        raise ShapeError(f"{what} has {len(datum.data)} bytes for {C} channels of {H} x {W}")
    pixels = np.frombuffer(datum.data, np.uint8).reshape(C, H, W)
    return _of_pixels(what, np.moveaxis(pixels, 0, -1).tobytes(), (H, W, C), colors)


def _decoded(what: str, content: bytes, colors: int) -> Image:
    return decode_picture(io.BytesIO(content), len(content), f"the picture of {what}", colors=colors)


def _of_pixels(what: str, content: bytes, dims: Sequence[int], colors: int) -> Image:
    """Return pixels (H, W, C) as a picture."""
    from PIL import Image

    if len(dims) != 3 or dims[2] not in (1, 3) or min(dims) < 1 or len(content) != np.prod(dims, dtype=object):
        raise ShapeError(f"{what} has {len(content)} bytes for a picture of shape {tuple(dims)}, (H, W, 1 or 3)")
    H, W, C = dims
    pixels = np.frombuffer(content, np.uint8).reshape(H, W, C)
    made = Image.fromarray(np.ascontiguousarray(pixels[..., ::-1]) if C == 3 else pixels[..., 0])
    return made.convert("RGB" if colors == 3 else "L")


def _numbers(what: str, proto: TensorProto) -> NDArray[Any]:
    """Return the numbers of a tensor, flat, whatever its extents say: people leave them out."""
    if proto.data_type == TensorProto.FLOAT:
        return np.array(proto.float_data, np.float32)
    if proto.data_type == TensorProto.INT32:
        return np.array(proto.int32_data, np.int32)
    if proto.data_type == TensorProto.INT64:
        return np.array(proto.int64_data, np.int64)
    name = TensorProto.DataType.Name(proto.data_type)
    raise FormatError(f"{what} holds {name} behind its picture, it must be INT32, INT64 or FLOAT")


def _of_size(what: str, proto: TensorProto, size: int) -> NDArray[Any]:
    found = _numbers(what, proto)
    if found.size != size:
        raise ShapeError(f"a further tensor of {what} has {found.size} elements, output_sizes says {size}")
    return found if size > 1 else found.reshape(())


def _label(what: str, proto: TensorProto, weights: TensorProto | None, form: RecordForm) -> NDArray[Any]:
    found, L = _numbers(what, proto), form.labels
    if form.label_type is LabelType.SINGLE:
        if found.size != 1:
            raise ShapeError(f"{what} has {found.size} labels, label_type 0 is one")
        return _classes(what, found).reshape(()).astype(np.int32)
    if form.label_type in (LabelType.DENSE, LabelType.EMBEDDING):
        if found.size != L:
            raise ShapeError(f"{what} has {found.size} numbers for a label, num_labels = {L}")
        return found.astype(np.float32) if form.label_type is LabelType.EMBEDDING else found
    classes = _classes(what, found)
    strange = classes[(classes < 0) | (classes >= L)]
    if strange.size:
        raise ShapeError(f"{what} is of class {strange[0]}, classes are in [0, {L}): num_labels = {L}")
    if weights is None:
        label = np.zeros(L, np.int32)
        label[classes] = 1
        return label
    values = _numbers(what, weights)
    if values.size != classes.size:
        raise ShapeError(f"{what} has {values.size} weights for {classes.size} classes")
    weighted = np.zeros(L, np.float32)
    weighted[classes] = values
    return weighted


def _classes(what: str, found: NDArray[Any]) -> NDArray[Any]:
    if found.size and found.dtype == np.float32:
        raise FormatError(f"{what} has FLOAT for a class, it must be INT32 or INT64", hint="label_type 5 takes numbers")
    return found


def _box(what: str, proto: TensorProto) -> tuple[int, int, int, int]:
    found = _numbers(what, proto)
    if found.size != BOX_SIZE:
        raise ShapeError(f"{what} ends in a tensor of {found.size} elements, a box has {BOX_SIZE}")
    top, left, height, width = map(int, found.tolist())
    return top, left, height, width
