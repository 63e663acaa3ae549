"""Batches of pictures from databases: ImageInput.

N is the batch size, H = W = crop, C the colours: three, blue, green, red, or one. L is num_labels.

Source: the description of the operator in the last public Caffe2 and programs that use it; no wheel of Caffe2 has it.
"""

from __future__ import annotations

import numpy as np

from tazza.db import DBReader
from tazza.device import Generator
from tazza.errors import ArgumentError
from tazza.operator import (
    Array,
    BlobOwner,
    Effects,
    Operator,
    OpView,
    Role,
    arg,
    blob,
    ends,
    host_kernel,
    schema,
)
from tazza.ops.data.db import READER
from tazza.ops.data.decoding import Decoding
from tazza.ops.data.picture_change import Change, ColorJitter, changed
from tazza.ops.data.picture_record import LabelType, PictureRecord, RecordForm, picture_of, read_picture_record, stacked
from tazza.ops.data.read_ahead import ReadAhead
from tazza.runtime.patience import Patience
from tazza.tensor import Blob, DataType, TensorSpec

SIDE_MAX = 2**14
THREADS_MAX = 256
BATCH_MAX = 2**20
FLOAT16 = "float16"
FLOATS = frozenset({DataType.FLOAT, DataType.FLOAT16})
Batch = list[Array]

BOX_ARGS = ("bounding_ymin", "bounding_xmin", "bounding_height", "bounding_width")

IMAGE_INPUT = schema(
    "ImageInput",
    """data = the next N pictures of a reader, (N, crop, crop, C), label = what they show.

    Each picture is cut to its box, where it has one; scaled so that its shorter side is `scale`, or at least `minsize`;
    cropped, anywhere, and mirrored, or not; then its colours change, `mean` is subtracted, and `std` divides. With
    is_test the crop is the middle, and nothing is drawn. What is drawn for a picture hangs on random_seed of the device
    option and on its place in the stream. The next batch is decoded while the net runs; no more than one is.

    A record is a TensorProtos: the picture, as the bytes of its file (STRING) or of its pixels (BYTE), the label, the
    weights of label_type 3, the tensors of the further outputs, and a box (top, left, height, width) if it has one.
    With use_caffe_datum it is a Datum of Caffe, and a record of a database that cannot be read is named by its key.""",
    inputs=[blob("reader", type_name=READER, optional=True, role=Role.STATE, doc="or else db and db_type say it")],
    outputs=[
        blob(
            "data",
            FLOATS,
            doc="(N, crop, crop, C); with use_gpu_transform (N, C, crop, crop)",
        ),
        blob("label", dynamic=True, doc="(N) INT32; label_type 1, 2: (N, L) INT32; 3, 5: (N, L) FLOAT"),
        blob("further", dynamic=True, variadic=True, optional=True, doc="(N), or (N, size): see output_sizes"),
    ],
    args=[
        arg("batch_size", int, minimum=1, maximum=BATCH_MAX, doc="N"),
        arg("crop", int, minimum=1, maximum=SIDE_MAX, doc="height and width of the pictures"),
        arg("color", int, 1, minimum=0, doc="0: one colour; else three"),
        arg("scale", int, 0, minimum=-1, maximum=SIDE_MAX, doc="what the shorter side becomes; crop at least"),
        arg("minsize", int, 0, minimum=-1, maximum=SIDE_MAX, doc="what it becomes where it is less; without scale"),
        arg("random_scale", list[int], [-1, -1], maximum=SIDE_MAX, doc="what it becomes is drawn between these"),
        arg("warp", bool, False, doc="both sides become that, whatever the aspect"),
        arg("mirror", bool, False, doc="half of the pictures are mirrored, left to right, while it trains"),
        arg("scale_jitter_type", int, 0, choices=(0, 1), doc="1: a part of 8 % to 100 % of the area fills the crop"),
        arg("color_jitter", bool, False, doc="saturation, brightness and contrast change, in random order"),
        arg("img_saturation", float, 0.4, minimum=0.0, doc="by up to this share"),
        arg("img_brightness", float, 0.4, minimum=0.0, doc="by up to this share"),
        arg("img_contrast", float, 0.4, minimum=0.0, doc="by up to this share"),
        arg("color_lighting", bool, False, doc="the light changes along the main colours of ImageNet"),
        arg("color_lighting_std", float, 0.1, minimum=0.0, doc="deviation of that change"),
        arg("mean", float, 0.0, doc="what is subtracted from every colour, of bytes"),
        arg("std", float, 1.0, doc="what the rest is divided by"),
        arg("mean_per_channel", list[float], [], doc="instead of mean: one, or one for each of blue, green, red"),
        arg("std_per_channel", list[float], [], doc="instead of std"),
        arg("bounding_ymin", int, -1, doc="top of the box of records that have none"),
        arg("bounding_xmin", int, -1, doc="its left edge"),
        arg("bounding_height", int, -1, doc="its height"),
        arg("bounding_width", int, -1, doc="its width"),
        arg(
            "label_type",
            int,
            0,
            choices=tuple(map(int, LabelType)),
            doc="0 class, 1 classes, 2 numbers, 3 weights, 5 reals",
        ),
        arg("num_labels", int, 0, minimum=0, maximum=BATCH_MAX, doc="L, for all but label_type 0"),
        arg("output_sizes", list[int], [], minimum=1, doc="elements of each further output; 1 each by default"),
        arg("use_caffe_datum", bool, False, doc="records are Datums of Caffe"),
        arg("use_gpu_transform", bool, False, doc="colours stand first, and output_type counts; computed on the host"),
        arg("output_type", str, "float", choices=("float", FLOAT16), doc="with use_gpu_transform"),
        arg("decode_threads", int, 4, minimum=1, maximum=THREADS_MAX, doc="pictures at a time"),
        arg("is_test", bool, False, doc="nothing is drawn"),
        arg("db", str, "", doc="path of the database, without a reader"),
        arg("db_type", str, "leveldb", doc="minidb, protodb, lmdb, leveldb"),
    ],
    effects=Effects.IO,
    no_gradient=ends("data has no gradient"),
    source="Caffe2: the description of its operator",
)


IMAGE_INPUT.trains_unless("is_test")


@IMAGE_INPUT.validate
def image_input_validate(op: OpView) -> None:
    sizes = _output_sizes(op)
    further = op.output_letters.count("further")
    problems = {
        f"scale = {op.scale} and minsize = {op.minsize} exclude each other": op.scale > 0 and op.minsize > 0,
        f"num_labels = {op.num_labels}, label_type {op.label_type} needs 1 or more": op.label_type != 0
        and not op.num_labels,
        f"output_sizes has {len(sizes)} elements for {further} further outputs": len(sizes) != further,
        f"random_scale = {op.random_scale} is no pair in rising order": not _rising(op.random_scale),
        "use_caffe_datum has one label and nothing else": op.use_caffe_datum and (op.label_type != 0 or further > 0),
        "color_jitter and color_lighting need three colours": op.color == 0 and (op.color_jitter or op.color_lighting),
        f"mean_per_channel = {op.mean_per_channel} are not 1 or {_colors(op)}": not _fits(op, op.mean_per_channel),
        f"std_per_channel = {op.std_per_channel} are not 1 or {_colors(op)}": not _fits(op, op.std_per_channel),
        "a std of 0": 0 in (op.std, *op.std_per_channel),
        "it has neither a reader nor the argument db": not op.has_input("reader") and not op.db,
    }
    for relation, wrong in problems.items():
        if wrong:
            raise op.error(ArgumentError, relation)
    side = _side(op)
    if side is not None and side[0] < op.crop:
        raise op.error(ArgumentError, f"the shorter side becomes {side[0]}, less than crop = {op.crop}")


def _rising(pair: list[int]) -> bool:
    return len(pair) == 2 and pair[0] <= pair[1]


def _fits(op: OpView, values: list[float]) -> bool:
    return len(values) in (0, 1, _colors(op))


def _colors(op: OpView) -> int:
    return 3 if op.color else 1


def _output_sizes(op: OpView) -> tuple[int, ...]:
    return tuple(op.output_sizes) if op.output_sizes else (1,) * op.output_letters.count("further")


def _side(op: OpView) -> tuple[int, int] | None:
    """Return what the shorter side becomes: between these."""
    low, high = op.random_scale
    if low > 0 and not op.is_test:
        return low, high
    fixed = next((side for side in (op.scale, op.minsize, low) if side > 0), None)
    return None if fixed is None else (fixed, fixed)


@IMAGE_INPUT.infer
def image_input_infer(op: OpView, reader: object) -> tuple[TensorSpec, ...]:
    del reader
    N, S, C = op.batch_size, op.crop, _colors(op)
    halves = op.use_gpu_transform and op.output_type == FLOAT16
    data = TensorSpec(
        (N, C, S, S) if op.use_gpu_transform else (N, S, S, C), DataType.FLOAT16 if halves else DataType.FLOAT
    )
    real = op.label_type in (LabelType.WEIGHTED, LabelType.EMBEDDING)
    label = TensorSpec((N,) if op.label_type == 0 else (N, op.num_labels), DataType.FLOAT if real else DataType.INT32)
    further = [TensorSpec((N,) if size == 1 else (N, size), DataType.FLOAT) for size in _output_sizes(op)]
    return (data, label, *further)


def _change(op: OpView) -> Change:
    C = _colors(op)
    box = tuple(getattr(op, name) for name in BOX_ARGS)
    return Change(
        crop=(op.crop, op.crop),
        side=_side(op),
        only_up=op.minsize > 0,
        warp=op.warp,
        parts=op.scale_jitter_type == 1,
        mirror=op.mirror,
        jitter=ColorJitter(op.img_saturation, op.img_brightness, op.img_contrast) if op.color_jitter else None,
        lighting=op.color_lighting_std if op.color_lighting else 0.0,
        mean=_by_color(op.mean_per_channel, op.mean, C),
        std=_by_color(op.std_per_channel, op.std, C),
        box=None if min(box) < 0 else (box[0], box[1], box[2], box[3]),
    )


def _by_color(values: list[float], one: float, colors: int) -> list[float]:
    given = values if values else [one]
    return given * colors if len(given) == 1 else given


@host_kernel(IMAGE_INPUT)
class ImageInput:
    """Reads and decodes a batch ahead of its net."""

    def __init__(self, operator: Operator) -> None:
        op = operator.op
        self._change = _change(op)
        self._form = RecordForm(LabelType(op.label_type), op.num_labels, _output_sizes(op), op.use_caffe_datum)
        self._random = None if op.is_test else operator.generator()
        self._own: DBReader | None = None
        self._decoding: Decoding[PictureRecord] = Decoding("tazza-image-input", op.decode_threads)
        self._ahead: ReadAhead[Batch] = ReadAhead("tazza-image-reader", "for a record")

    def run(
        self, op: OpView, workspace: BlobOwner, reader: Blob | None, data: Blob, label: Blob, further: tuple[Blob, ...]
    ) -> None:
        def read(source: DBReader, patience: Patience) -> Batch:
            return self._batch(op, [self._record(source, patience) for _ in range(op.batch_size)])

        source = self._opened(op, workspace) if reader is None else reader.get(DBReader)
        for output, array in zip((data, label, *further), self._ahead.batch(source, read), strict=True):
            output.put(array)
        self._ahead.was_taken(read)

    def _opened(self, op: OpView, workspace: BlobOwner) -> DBReader:
        if self._own is None:
            self._own = DBReader(op.db_type, str(workspace.root / op.db))
        return self._own

    def _record(self, source: DBReader, patience: Patience) -> PictureRecord:
        return read_picture_record(*source.read(patience), self._form)

    def _batch(self, op: OpView, records: list[PictureRecord]) -> Batch:
        C, crop = self._change.colors, self._change.crop
        pixels = np.empty((len(records), *crop, C), np.float32)

        def decode(position: int, record: PictureRecord, seed: int | None) -> None:
            random = None if seed is None else Generator(seed)
            picture = picture_of(record, C)
            pixels[position] = changed(picture, self._change, record.box, random, record.what)

        self._decoding.batch(records, decode, self._random)
        if op.use_gpu_transform:
            pixels = np.ascontiguousarray(np.moveaxis(pixels, -1, 1))
            pixels = pixels.astype(np.float16) if op.output_type == FLOAT16 else pixels
        further = zip(*(record.further for record in records), strict=True)
        return [pixels, *(stacked(records, one) for one in ([record.label for record in records], *further))]

    def cancel(self) -> None:
        self._ahead.cancel()

    def close(self) -> None:
        self._ahead.close()
        self._decoding.close()
        if self._own is not None:
            self._own.close()
