"""VideoInput: clips of videos become batches.

`tests/data/video/ramp.avi` has 9 frames of 12 x 16 without loss: red is 20 times the number of the frame, green 10
times the row, blue 10 times the column, so that what stands in a batch says where it is from.
"""

from __future__ import annotations

from collections.abc import Generator
from collections.abc import Sequence as Row
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.db import Mode, open_db
from tazza.errors import ArgumentError, FileError, FormatError, ShapeError, TazzaError, UnavailableError
from tazza.operator import operator_def
from tazza.proto import DeviceOption, NetDef, OperatorDef, TensorProto, TensorProtos
from tazza.workspace import Workspace
from tests.check import check_op
from tests.sequences import Sequence, Step, on_sequences

FILE = Path(__file__).parents[2] / "data" / "video" / "ramp.avi"
RAMP = FILE.read_bytes()
FRAMES, H, W = 9, 12, 16
MEAN, STD = np.array([110.201, 100.64, 95.9966]), np.array([58.1489, 56.4701, 55.3324])
has_av = pytest.mark.skipif(find_spec("av") is None, reason="PyAV is not installed")


def text(value: bytes) -> TensorProto:
    """Return a video as its bytes, or its path."""
    return TensorProto(data_type=TensorProto.STRING, string_data=[value])


def ints(*values: int) -> TensorProto:
    """Return integers without extents."""
    return TensorProto(data_type=TensorProto.INT32, int32_data=values)


def number(value: int) -> TensorProto:
    """Return the number of a video."""
    return TensorProto(data_type=TensorProto.INT64, int64_data=[value])


def record(*protos: TensorProto) -> bytes:
    """Return a record of these tensors."""
    return TensorProtos(protos=protos).SerializeToString()


def write(folder: Path, records: Row[bytes]) -> Path:
    """Write a database and return its path."""
    path = folder / "videos.minidb"
    with open_db("minidb", str(path), Mode.NEW) as db, db.transaction() as transaction:
        for position, value in enumerate(records):
            transaction.put(f"key{position}", value)
    return path


def op(*further: str, seed: int = 1, **arguments: Any) -> OperatorDef:
    """Return the operator on `reader`; by default nothing is drawn, and frames stay as they are."""
    given: dict[str, Any] = {"batch_size": 1, "crop_size": 12, "length_rgb": 3, "video_res_type": 2, "decode_type": 1}
    given |= {"random_crop": 0, "random_mirror": 0, **arguments}
    return operator_def(
        "VideoInput", ["reader"], ["data", "label", *further], device=DeviceOption(random_seed=seed), **given
    )


@contextmanager
def run(folder: Path, records: Row[bytes], definition: OperatorDef) -> Generator[Workspace]:
    """Run the operator over a database of records, and close what it holds behind the block."""
    ws = Workspace(root=folder)
    ws.run_operator(operator_def("CreateDB", [], ["reader"], db=write(folder, records).name, db_type="minidb"))
    net = ws.create_net(NetDef(name="read", op=[definition], external_input=["reader"]))
    try:
        net.run()
        yield ws
    finally:
        ws.reset()


def pixels(data: NDArray[Any]) -> NDArray[np.int64]:
    """Return clips (N, 3, L, S, S) as (N, L, S, S, 3) of bytes again."""
    return np.rint(data.transpose(0, 2, 3, 4, 1) * STD + MEAN).astype(np.int64)


def of(frames: Row[int], top: int = 0, left: int = 2, size: int = 12) -> NDArray[np.int64]:
    """Return what stands in these frames of the video, in a window."""
    t, y, x = np.meshgrid(frames, np.arange(top, top + size), np.arange(left, left + size), indexing="ij")
    return np.stack([20 * t, 10 * y, 10 * x], -1)


RECORD = record(text(RAMP), ints(4))


def stored(records: Row[bytes]) -> bytes:
    """Return the bytes of a database."""
    with TemporaryDirectory() as folder:
        return write(Path(folder), records).read_bytes()


CREATE = Step(operator_def("CreateDB", [], ["reader"], db="videos.minidb", db_type="minidb"))
READ = (
    Step(op(), {"label": np.array([4], np.int32)})
    if find_spec("av") is not None
    else Step(op(), fails=UnavailableError, text="PyAV")
)
CASES = [Sequence("begins anew", (CREATE, READ, CREATE, READ), stored=True, files={"videos.minidb": stored([RECORD])})]


@on_sequences(CASES)
def test_cases(case: Sequence) -> None:
    check_op(case)


def test_without_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "av", None)
    with pytest.raises(UnavailableError, match=r"tazza\[video\]"), run(tmp_path, [RECORD], op()):
        pass


@has_av
@pytest.mark.parametrize(
    ("arguments", "clips"),
    [
        ({}, [[3, 4, 5]]),
        ({"clip_per_video": 3}, [[0, 1, 2], [3, 4, 5], [6, 7, 8]]),
        ({"sampling_rate_rgb": 3}, [[1, 4, 7]]),
        ({"clip_start_positions": [1, 5]}, [[1, 2, 3], [5, 6, 7]]),
        ({"length_rgb": 11}, [[*range(9), 8, 8]]),
        ({"clip_start_positions": [7]}, [[7, 8, 8]]),
    ],
)
def test_which_frames_clips_have(tmp_path: Path, arguments: dict[str, Any], clips: list[list[int]]) -> None:
    with run(tmp_path, [RECORD], op(**arguments)) as ws:
        found = pixels(ws.fetch("data"))
        assert ws.fetch("label").tolist() == [4] * len(clips)
    np.testing.assert_array_equal(found, [of(frames) for frames in clips])


@has_av
def test_where_a_record_says(tmp_path: Path) -> None:
    value = record(text(RAMP), ints(4), ints(2), number(2**40))
    with run(tmp_path, [value], op("id", "start", decode_type=2, get_video_id=1, get_start_frame=1)) as ws:
        np.testing.assert_array_equal(pixels(ws.fetch("data"))[0], of([2, 3, 4]))
        assert (ws.fetch("id").tolist(), ws.fetch("start").tolist()) == ([2**40], [2])
        assert (ws.fetch("id").dtype, ws.fetch("start").dtype) == (np.int64, np.int32)


@has_av
def test_what_is_drawn(tmp_path: Path) -> None:
    """Each clip begins anywhere, lies in any window, and is mirrored or not, all of its frames alike."""
    definition = op(batch_size=60, crop_size=10, decode_type=0, random_crop=1, random_mirror=1)
    with run(tmp_path, [RECORD], definition) as ws:
        data = ws.fetch("data")
    seen: set[tuple[int, int, int, bool]] = set()
    for clip in pixels(data):
        first, mirrored = clip[0, 0, 0], bool(clip[0, 0, 0, 2] > clip[0, 0, -1, 2])
        left = int(clip[0, 0, -1 if mirrored else 0, 2]) // 10
        start, top = int(first[0]) // 20, int(first[1]) // 10
        wanted = of([start, start + 1, start + 2], top, left, 10)
        np.testing.assert_array_equal(clip, wanted[:, :, ::-1] if mirrored else wanted)
        seen.add((start, top, left, mirrored))
    for place, most in enumerate((6, 2, 6, 1)):
        assert {one[place] for one in seen} == set(range(most + 1))


@pytest.mark.slow
@has_av
def test_the_seed_decides(tmp_path: Path) -> None:
    found: list[NDArray[Any]] = []
    for place, (seed, threads) in enumerate([(1, 1), (1, 4), (2, 4)]):
        folder = tmp_path / str(place)
        folder.mkdir()
        definition = op(seed=seed, num_decode_threads=threads, batch_size=20, crop_size=6, decode_type=0, random_crop=1)
        with run(folder, [RECORD], definition) as ws:
            found.append(ws.fetch("data"))
    np.testing.assert_array_equal(found[0], found[1])
    assert not np.array_equal(found[1], found[2])


@has_av
@pytest.mark.parametrize(
    ("arguments", "height", "width"),
    [
        ({"video_res_type": 0, "scale_h": 24, "scale_w": 24}, 24, 24),
        ({"video_res_type": 1, "short_edge": 24}, 24, 32),
        ({"video_res_type": 1, "jitter_scales": [24]}, 24, 32),
    ],
)
def test_frames_are_scaled(tmp_path: Path, arguments: dict[str, Any], height: int, width: int) -> None:
    """A slope stays a slope: row and column of the large frame times the step of the small one."""
    with run(tmp_path, [RECORD], op(**arguments)) as ws:
        found = pixels(ws.fetch("data"))[0, 0]
    rows = ((height - 12) // 2 + np.arange(12) + 0.5) * H / height - 0.5
    columns = ((width - 12) // 2 + np.arange(12) + 0.5) * W / width - 0.5
    np.testing.assert_allclose(found[:, 0, 1], 10 * rows, atol=2)
    np.testing.assert_allclose(found[0, :, 2], 10 * columns, atol=2)


@has_av
def test_a_video_of_several_classes(tmp_path: Path) -> None:
    definition = op(do_multi_label=1, num_of_class=4, clip_per_video=2)
    with run(tmp_path, [record(text(RAMP), ints(0, 3))], definition) as ws:
        np.testing.assert_array_equal(ws.fetch("label"), [[1, 0, 0, 1]] * 2)


@has_av
def test_videos_of_their_own_files(tmp_path: Path) -> None:
    (tmp_path / "ramp.avi").write_bytes(RAMP)
    with run(tmp_path, [record(text(b"ramp.avi"), ints(1))], op(use_local_file=1)) as ws:
        np.testing.assert_array_equal(pixels(ws.fetch("data"))[0], of([3, 4, 5]))
    (tmp_path / "ramp.avi").unlink()


PLAYLIST = b"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nramp.avi\n#EXT-X-ENDLIST\n"


@has_av
@pytest.mark.parametrize(
    ("value", "arguments", "error", "message"),
    [
        (b"\xff", {}, FormatError, "record 'key0'"),
        (record(text(b"no video"), ints(0)), {}, FormatError, "video of record 'key0' is no video"),
        (record(text(PLAYLIST), ints(0)), {}, FormatError, "video of record 'key0' is no video"),
        (record(text(RAMP[:3000]), ints(0)), {"length_rgb": 9}, FormatError, "record 'key0'"),
        (record(text(b"gone.avi"), ints(0)), {"use_local_file": 1}, FileError, "gone.avi"),
        (record(ints(1), ints(0)), {}, FormatError, "record 'key0' holds no video"),
        (record(text(RAMP)), {}, ShapeError, "record 'key0' holds 1 tensors, it needs 2"),
        (record(text(RAMP), ints(0)), {"decode_type": 2}, ShapeError, "it needs 3"),
        (record(text(RAMP), ints(0, 1)), {}, ShapeError, "record 'key0' has 2 integers"),
        (record(text(RAMP), ints(4)), {"do_multi_label": 1, "num_of_class": 4}, ShapeError, "is of class 4"),
        (RECORD, {"crop_size": 13}, ShapeError, "frames of record 'key0' are 12 x 16, crop_size = 13"),
    ],
)
def test_a_damaged_record_is_named_by_its_key(
    tmp_path: Path, value: bytes, arguments: dict[str, Any], error: type[TazzaError], message: str
) -> None:
    with pytest.raises(error, match=message), run(tmp_path, [value], op(**arguments)):
        pass


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"get_optical_flow": 1}, "optical flow is not computed"),
        ({"get_rgb": 0}, "optical flow is not computed"),
        ({"image_as_input": 1}, "ImageInput reads"),
        ({"get_video_id": 1}, "0 further outputs"),
        ({"clip_per_video": 2, "decode_type": 0}, "needs decode_type 1"),
        ({"clip_per_video": 2, "clip_start_positions": [1, 2, 3]}, "3 clip_start_positions"),
        ({"do_multi_label": 1}, "needs num_of_class"),
        ({"video_res_type": 0, "scale_h": 11, "scale_w": 20}, "scale_h = 11"),
        ({"video_res_type": 1, "short_edge": 11}, "the shorter side becomes 11"),
        ({"crop_per_clip": 3}, "is not one of 1"),
    ],
)
def test_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        Workspace().create_net(NetDef(op=[op(**arguments)], external_input=["reader"]))
