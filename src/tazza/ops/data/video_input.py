"""Batches of clips of videos from databases: VideoInput.

B videos of K clips each are N = B * K clips of L frames; S is crop_size. Colours are red, green, blue.

Source: the shapes that the last public Caffe2 declares, its test, and programs that use the operator; no wheel has it.
"""

from __future__ import annotations

import io
from collections.abc import Generator as Yields
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from tazza.data_class import dataclass
from tazza.db import DBReader
from tazza.device import Generator
from tazza.errors import ArgumentError, FormatError, ShapeError
from tazza.operator import Array, BlobOwner, Effects, Operator, OpView, Role, arg, blob, ends, host_kernel, schema
from tazza.ops.data.db import READER
from tazza.ops.data.decoding import Decoding
from tazza.ops.data.read_ahead import ReadAhead
from tazza.ops.data.video_clip import Span, count_frames, read_clips
from tazza.proto import TensorProto, TensorProtos
from tazza.proto.message import parse
from tazza.runtime.files import one_line, open_regular
from tazza.runtime.patience import Patience
from tazza.tensor import Blob, DataType, TensorSpec

SIDE_MAX = 2**14
FRAMES_MAX = 2**16
BATCH_MAX = 2**20
THREADS_MAX = 256
MEAN = np.array([110.201, 100.64, 95.9966], np.float32).reshape(3, 1, 1, 1)
STD = np.array([58.1489, 56.4701, 55.3324], np.float32).reshape(3, 1, 1, 1)
"""Of red, green and blue, over the videos that Caffe2's nets for them were trained on."""
JITTER, UNIFORM, START = 0, 1, 2
BY_SIZE, BY_EDGE, AS_IS = 0, 1, 2
OF_FLOW = {"length_of": 0, "sampling_rate_of": 1, "frame_gap_of": 1, "flow_data_type": 0, "flow_alg_type": 0} | {
    "do_flow_aggregation": 1, "channels_of": 2, "channels_rgb": 3, "input_type": 0,
}  # fmt: skip
"""Arguments of optical flow that programs give where they ask for none, and their defaults."""
Batch = list[Array]

VIDEO_INPUT = schema(
    "VideoInput",
    """data = clips of the next B videos of a reader, (N, 3, L, S, S), label = what they show.

    A clip begins anywhere in its video (decode_type 0); or the K of a video are spread over it (1); or it begins where
    the record says (2), or all at clip_start_positions. Frames are sampling_rate_rgb apart; behind the end of a video
    its last frame is repeated. Frames are scaled, cropped and mirrored, all of a clip alike, less the mean of a colour
    and over its deviation: those that Caffe2 has. What is drawn hangs on random_seed of the device option and on the
    place in the stream. The next batch is decoded while the net runs; no more than one is.

    A record is a TensorProtos: the video, as the bytes of its file, or the path of it with use_local_file; the label;
    the frame to begin at, for decode_type 2; and the number of the video, for get_video_id. Decoding needs the extra
    `video`; optical flow is not computed.""",
    inputs=[blob("reader", type_name=READER, role=Role.STATE)],
    outputs=[
        blob("data", DataType.FLOAT, doc="(N, 3, L, S, S)"),
        blob("label", DataType.INT32, doc="(N); with do_multi_label (N, num_of_class)"),
        blob(
            "further",
            dynamic=True,
            variadic=True,
            optional=True,
            doc="get_video_id (N) INT64, get_start_frame (N) INT32",
        ),
    ],
    args=[
        arg("batch_size", int, minimum=1, maximum=BATCH_MAX, doc="B"),
        arg("crop_size", int, minimum=1, maximum=SIDE_MAX, doc="S"),
        arg("length_rgb", int, minimum=1, maximum=FRAMES_MAX, doc="L"),
        arg("clip_per_video", int, 1, minimum=1, maximum=BATCH_MAX, doc="K; above 1 with decode_type 1 alone"),
        arg("clip_start_positions", list[int], [], minimum=0, doc="frames at which clips begin, K of them"),
        arg("sampling_rate_rgb", int, 1, minimum=1, maximum=FRAMES_MAX, doc="step between the frames of a clip"),
        arg(
            "random_sampling_rate",
            int,
            0,
            minimum=0,
            maximum=FRAMES_MAX,
            doc="where not 0: the step is drawn from 1 to this",
        ),
        arg(
            "decode_type",
            int,
            JITTER,
            choices=(JITTER, UNIFORM, START),
            doc="0 anywhere, 1 spread evenly, 2 where the record says",
        ),
        arg(
            "video_res_type",
            int,
            BY_SIZE,
            choices=(BY_SIZE, BY_EDGE, AS_IS),
            doc="0: scale_h, scale_w; 1: short_edge; 2: as it is",
        ),
        arg("scale_h", int, 0, minimum=0, maximum=SIDE_MAX, doc="height of a frame before the crop, 0: its own"),
        arg("scale_w", int, 0, minimum=0, maximum=SIDE_MAX, doc="its width, 0: its own"),
        arg("short_edge", int, 0, minimum=0, maximum=SIDE_MAX, doc="its shorter side"),
        arg("jitter_scales", list[int], [], minimum=1, maximum=SIDE_MAX, doc="of which short_edge is drawn"),
        arg("random_crop", bool, True, doc="the crop is anywhere; else the middle"),
        arg("random_mirror", bool, True, doc="half of the clips are mirrored, left to right"),
        arg("crop_per_clip", int, 1, choices=(1,), doc="one"),
        arg("do_multi_label", bool, False, doc="a video may show several"),
        arg("num_of_class", int, 0, minimum=0, maximum=BATCH_MAX, doc="of how many, with do_multi_label"),
        arg("get_video_id", bool, False, doc="the number of the video is put out"),
        arg("get_start_frame", bool, False, doc="where the record says to begin is put out; with decode_type 2"),
        arg(
            "use_local_file", bool, False, doc="records have paths; relative ones count from the root of the workspace"
        ),
        arg("num_decode_threads", int, 4, minimum=1, maximum=THREADS_MAX, doc="videos at a time"),
        arg("get_rgb", bool, True, doc="has to be"),
        arg("get_optical_flow", bool, False, doc="is refused"),
        arg("image_as_input", bool, False, doc="is refused: ImageInput reads pictures"),
        *(arg(name, int, default, doc="of optical flow: no effect") for name, default in OF_FLOW.items()),
    ],
    effects=Effects.IO,
    no_gradient=ends("data has no gradient"),
    source="Caffe2: the shapes that it declares, and programs that use it",
)


@VIDEO_INPUT.validate
def video_input_validate(op: OpView) -> None:
    further = int(op.get_video_id) + int(op.get_start_frame)
    given, starts, S = op.output_letters.count("further"), len(op.clip_start_positions), op.crop_size
    edges = op.jitter_scales if op.jitter_scales else [op.short_edge]
    problems = {
        "optical flow is not computed": op.get_optical_flow or not op.get_rgb,
        "image_as_input asks for pictures, which ImageInput reads": op.image_as_input,
        f"{given} further outputs, get_video_id and get_start_frame ask for {further}": given != further,
        f"clip_per_video = {op.clip_per_video} needs decode_type 1": _clips(op) > 1
        and not starts
        and op.decode_type != UNIFORM,
        f"{starts} clip_start_positions for clip_per_video = {op.clip_per_video}": starts > 0
        and op.clip_per_video not in (1, starts),
        "get_start_frame needs decode_type 2": op.get_start_frame and op.decode_type != START,
        "do_multi_label needs num_of_class": op.do_multi_label and op.num_of_class < 1,
        f"scale_h = {op.scale_h} and scale_w = {op.scale_w}, crop_size = {S}": (
            op.video_res_type == BY_SIZE and (0 < op.scale_h < S or 0 < op.scale_w < S)
        ),
        f"the shorter side becomes {min(edges)}, crop_size = {S}": op.video_res_type == BY_EDGE and min(edges) < S,
    }
    for relation, wrong in problems.items():
        if wrong:
            raise op.error(ArgumentError, relation)


def _clips(op: OpView) -> int:
    return len(op.clip_start_positions) if op.clip_start_positions else op.clip_per_video


@VIDEO_INPUT.infer
def video_input_infer(op: OpView, reader: object) -> tuple[TensorSpec, ...]:
    del reader
    N, S = op.batch_size * _clips(op), op.crop_size
    label = (N, op.num_of_class) if op.do_multi_label else (N,)
    further = [DataType.INT64] * op.get_video_id + [DataType.INT32] * op.get_start_frame
    return (
        TensorSpec((N, 3, op.length_rgb, S, S), DataType.FLOAT),
        TensorSpec(label, DataType.INT32),
        *(TensorSpec((N,), dtype) for dtype in further),
    )


@dataclass(frozen=True, slots=True)
class VideoRecord:
    """One record: what messages call it, the bytes or the path of a video, its label, where to begin, its number."""

    what: str
    video: bytes
    label: NDArray[np.int32]
    start: int
    number: int


def read_video_record(key: bytes, value: bytes, op: OpView) -> VideoRecord:
    """Take a record apart; the video is not opened.

    Raises:
        FormatError: it is no TensorProtos, or holds other types.
        ShapeError: it holds fewer tensors than arguments ask for, or a class that is none.
    """
    what = f"record {one_line(key.decode(errors='backslashreplace'))!r}"
    protos = parse(TensorProtos, value, what).protos
    least = 2 + int(op.decode_type == START) + int(op.get_video_id)
    if len(protos) < least:
        raise ShapeError(f"{what} holds {len(protos)} tensors, it needs {least}")
    texts = protos[0].string_data if protos[0].data_type == TensorProto.STRING else [protos[0].byte_data]
    if len(texts) != 1 or not texts[0]:
        raise FormatError(f"{what} holds no video, which must be STRING or BYTE")
    start = _integer(what, protos[2]) if op.decode_type == START else 0
    number = _integer(what, protos[least - 1]) if op.get_video_id else 0
    return VideoRecord(what, texts[0], _label(what, protos[1], op), start, number)


def _integer(what: str, proto: TensorProto) -> int:
    values = [*proto.int32_data, *proto.int64_data]
    if len(values) != 1:
        raise ShapeError(f"{what} has {len(values)} integers where one must be")
    return values[0]


def _label(what: str, proto: TensorProto, op: OpView) -> NDArray[np.int32]:
    if not op.do_multi_label:
        return np.array(_integer(what, proto), np.int32)
    classes = [*proto.int32_data, *proto.int64_data]
    strange = [one for one in classes if not 0 <= one < op.num_of_class]
    if strange:
        raise ShapeError(f"{what} is of class {strange[0]}, classes are in [0, {op.num_of_class})")
    label = np.zeros(op.num_of_class, np.int32)
    label[classes] = 1
    return label


@host_kernel(VIDEO_INPUT)
class VideoInput:
    """Reads and decodes a batch ahead of its net."""

    def __init__(self, operator: Operator) -> None:
        self._random = operator.generator()
        self._decoding: Decoding[VideoRecord] = Decoding("tazza-video-input", operator.op.num_decode_threads)
        self._ahead: ReadAhead[Batch] = ReadAhead("tazza-video-reader", "for a record")

    def run(
        self, op: OpView, workspace: BlobOwner, reader: Blob, data: Blob, label: Blob, further: tuple[Blob, ...]
    ) -> None:
        def read(source: DBReader, patience: Patience) -> Batch:
            records = [read_video_record(*source.read(patience), op) for _ in range(op.batch_size)]
            return self._batch(op, workspace.root, records)

        for output, array in zip((data, label, *further), self._ahead.batch(reader.get(DBReader), read), strict=True):
            output.put(array)
        self._ahead.was_taken(read)

    def _batch(self, op: OpView, root: Path, records: list[VideoRecord]) -> Batch:
        K, S = _clips(op), op.crop_size
        clips = np.empty((len(records), K, 3, op.length_rgb, S, S), np.float32)

        def decode(position: int, record: VideoRecord, seed: int | None) -> None:
            clips[position] = clips_of(op, record, root, Generator(seed))

        self._decoding.batch(records, decode, self._random)
        label = np.repeat(np.stack([record.label for record in records]), K, axis=0)
        further: Batch = []
        if op.get_video_id:
            further.append(np.repeat(np.array([record.number for record in records], np.int64), K))
        if op.get_start_frame:
            further.append(np.repeat(np.array([record.start for record in records], np.int32), K))
        return [clips.reshape(-1, *clips.shape[2:]), label, *further]

    def cancel(self) -> None:
        self._ahead.cancel()

    def close(self) -> None:
        self._ahead.close()
        self._decoding.close()


def clips_of(op: OpView, record: VideoRecord, root: Path, random: Generator) -> NDArray[np.float32]:
    """Return the clips of a video, (K, 3, L, S, S).

    Raises:
        FileError, FormatError, ShapeError, UnavailableError: it cannot be read, or is smaller than the crop.
    """
    edge = op.short_edge
    if op.jitter_scales:
        edge = op.jitter_scales[int(random.integers(1, 0, len(op.jitter_scales) - 1)[0])]

    def size_of(height: int, width: int) -> tuple[int, int]:
        if op.video_res_type == BY_SIZE:
            return op.scale_h if op.scale_h else height, op.scale_w if op.scale_w else width
        if op.video_res_type == BY_EDGE:
            shorter = min(height, width)
            return -(-height * edge // shorter), -(-width * edge // shorter)
        return height, width

    with _file(op, record, root) as file:
        spans = _spans(op, count_frames(file, f"the video of {record.what}"), record.start, random)
        found = read_clips(file, spans, size_of, f"the video of {record.what}")
    return np.stack([_cut(op, clip, random, record.what) for clip in found])


@contextmanager
def _file(op: OpView, record: VideoRecord, root: Path) -> Yields[BinaryIO]:
    if not op.use_local_file:
        yield io.BytesIO(record.video)
        return
    with open_regular(root / record.video.decode(errors="surrogateescape"), "video") as file:
        yield file


def _spans(op: OpView, count: int, start: int, random: Generator) -> list[Span]:
    """Return which frames the clips of a video of `count` frames have."""
    step = int(random.integers(1, 1, op.random_sampling_rate)[0]) if op.random_sampling_rate else op.sampling_rate_rgb
    room, K = max(count - Span.needed(op.length_rgb, step), 0), _clips(op)
    if op.clip_start_positions:
        starts = op.clip_start_positions
    elif op.decode_type == JITTER:
        starts = random.integers(1, 0, room).tolist()
    elif op.decode_type == UNIFORM:
        starts = [room // 2] if K == 1 else [room * k // (K - 1) for k in range(K)]
    else:
        starts = [max(start, 0)]
    return [Span(min(one, count - 1), op.length_rgb, step) for one in starts]


def _cut(op: OpView, clip: NDArray[np.uint8], random: Generator, what: str) -> NDArray[np.float32]:
    """Return a clip (L, H, W, 3), cropped, mirrored and normalized, as (3, L, S, S)."""
    _, H, W, _ = clip.shape
    S = op.crop_size
    if min(H, W) < S:
        raise ShapeError(f"the frames of {what} are {H} x {W}, crop_size = {S}", hint="scale them, by video_res_type")
    top, left = (H - S) // 2, (W - S) // 2
    if op.random_crop:
        top, left = int(random.integers(1, 0, H - S)[0]), int(random.integers(1, 0, W - S)[0])
    part = clip[:, top : top + S, left : left + S]
    if op.random_mirror and random.uniform(1)[0] < 0.5:
        part = part[:, :, ::-1]
    return (np.moveaxis(part, -1, 0).astype(np.float32) - MEAN) / STD
