"""ImageInput: pictures of a database become batches, by plain formulas on arrays."""

from __future__ import annotations

import gc
import io
import time
import weakref
from collections.abc import Generator
from collections.abc import Sequence as Row
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from tazza.db import DBReader, Mode, open_db
from tazza.errors import ArgumentError, FormatError, ShapeError, TazzaError
from tazza.operator import operator_def
from tazza.proto import CaffeDatum, DeviceOption, NetDef, OperatorDef, TensorProto, TensorProtos
from tazza.workspace import Workspace
from tests.check import check_op
from tests.patience import wait_until
from tests.sequences import Sequence, Step, on_sequences

Picture = NDArray[np.uint8]
RANDOM = np.random.default_rng(3)


def picture(height: int, width: int) -> Picture:
    """Return a picture (H, W, 3), red, green, blue, of noise."""
    return RANDOM.integers(0, 256, (height, width, 3)).astype(np.uint8)


def png(pixels: Picture) -> TensorProto:
    """Return a picture as a file."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return TensorProto(data_type=TensorProto.STRING, string_data=[file.getvalue()])


def ints(*values: int) -> TensorProto:
    """Return integers without extents, as people write them."""
    return TensorProto(data_type=TensorProto.INT32, int32_data=values)


def reals(*values: float) -> TensorProto:
    """Return real numbers without extents."""
    return TensorProto(data_type=TensorProto.FLOAT, float_data=values)


def record(*protos: TensorProto) -> bytes:
    """Return a record of these tensors."""
    return TensorProtos(protos=protos).SerializeToString()


def write(folder: Path, records: Row[bytes], db_type: str = "minidb") -> Path:
    """Write a database and return its path."""
    path = folder / f"pictures.{db_type}"
    with open_db(db_type, str(path), Mode.NEW) as db, db.transaction() as transaction:
        for position, value in enumerate(records):
            transaction.put(f"key{position}", value)
    return path


def op(*outputs: str, seed: int = 1, **arguments: Any) -> OperatorDef:
    """Return the operator, on `reader`."""
    names = outputs if outputs else ("data", "label")
    given: dict[str, Any] = {"is_test": 1, **arguments}
    return operator_def("ImageInput", ["reader"], names, device=DeviceOption(random_seed=seed), **given)


@contextmanager
def run(
    folder: Path, records: Row[bytes], definition: OperatorDef, *, db_type: str = "minidb", runs: int = 1
) -> Generator[Workspace]:
    """Run the operator over a database of records, and close what it holds behind the block."""
    path = write(folder, records, db_type)
    ws = Workspace()
    ws.run_operator(operator_def("CreateDB", [], ["reader"], db=str(path), db_type=db_type))
    net = ws.create_net(NetDef(name="read", op=[definition], external_input=["reader"]))
    try:
        for _ in range(runs):
            net.run()
        yield ws
    finally:
        ws.reset()


def data(folder: Path, records: Row[bytes], **arguments: Any) -> NDArray[Any]:
    """Return the pictures of one batch of all records."""
    with run(folder, records, op(batch_size=len(records), **arguments)) as ws:
        return ws.fetch("data")


def middle(pixels: Picture, size: int) -> Picture:
    """Return the middle of a picture, blue, green, red."""
    top, left = (pixels.shape[0] - size) // 2, (pixels.shape[1] - size) // 2
    return pixels[top : top + size, left : left + size, ::-1]


def bilinear(pixels: NDArray[Any], size: int, axis: int) -> NDArray[Any]:
    """Scale one axis: each result is a mean of what lies within a triangle around it, as wide as its step."""
    x = np.moveaxis(np.asarray(pixels, np.float64), axis, 0)
    step = len(x) / size
    width = max(step, 1.0)
    centres = (np.arange(size) + 0.5) * step
    weights = np.maximum(0, 1 - abs(np.arange(len(x)) + 0.5 - centres[:, np.newaxis]) / width)
    weights /= weights.sum(axis=1, keepdims=True)
    return np.moveaxis(np.rint(np.tensordot(weights, x, axes=1)), 0, axis)


A, B = picture(7, 9), picture(8, 6)
RECORDS = [record(png(A), ints(3)), record(png(B), ints(5))]


def stored(records: Row[bytes]) -> bytes:
    """Return the bytes of a database."""
    with TemporaryDirectory() as folder:
        return write(Path(folder), records).read_bytes()


CREATE = Step(operator_def("CreateDB", [], ["reader"], db="pictures.minidb", db_type="minidb"))
MIDDLES = np.stack([middle(A, 5), middle(B, 5)]).astype(np.float32)
READ = Step(op(batch_size=2, crop=5), {"data": MIDDLES, "label": np.array([3, 5], np.int32)})
ALONE = operator_def(
    "ImageInput", [], ["data", "label"], batch_size=1, crop=5, is_test=1, db="pictures.minidb", db_type="minidb"
)
FILES = {"pictures.minidb": stored(RECORDS)}
DRAWN = op(batch_size=2, crop=5, is_test=0, mirror=1, color_jitter=1, color_lighting=1)
BROKEN = Step(op(batch_size=1, crop=5), fails=FormatError, text="record 'key0'")
CASES = [
    Sequence("begins anew", (CREATE, READ, CREATE, READ), stored=True, files=FILES),
    Sequence("by itself", (Step(ALONE, {"data": MIDDLES[:1]}),), stored=True, files=FILES),
    Sequence("draws by its seed", (CREATE, Step(DRAWN)), stored=True, files=FILES),
    Sequence("no record", (CREATE, BROKEN), stored=True, files={"pictures.minidb": stored([b"\xff\xff"])}),
]


@on_sequences(CASES)
def test_cases(case: Sequence) -> None:
    check_op(case)


@pytest.mark.parametrize("db_type", ["minidb", "lmdb"])
def test_batches_wrap_around(tmp_path: Path, db_type: str) -> None:
    records = [record(png(picture(4, 4)), ints(n)) for n in range(3)]
    with run(tmp_path, records, op(batch_size=2, crop=3), db_type=db_type, runs=2) as ws:
        assert ws.fetch("label").tolist() == [2, 0]


def test_one_batch_is_read_ahead_and_no_more(tmp_path: Path) -> None:
    records = [record(png(picture(4, 4)), ints(n)) for n in range(9)]
    with run(tmp_path, records, op(batch_size=2, crop=3), db_type="lmdb") as ws:
        reader = ws.blob("reader").get(DBReader)
        wait_until(lambda: reader.position == b"key4")
        time.sleep(0.2)
        assert reader.position == b"key4"


# -- geometry ----------------------------------------------------------------------------------------------------------


def test_mean_and_deviation_of_each_colour(tmp_path: Path) -> None:
    found = data(tmp_path, RECORDS[:1], crop=4, mean_per_channel=[1.0, 2.0, 3.0], std_per_channel=[2.0, 4.0, 8.0])
    wanted = (middle(A, 4).astype(np.float64) - [1, 2, 3]) / [2, 4, 8]
    np.testing.assert_allclose(found[0], wanted, rtol=1e-6)


def test_one_mean_for_all(tmp_path: Path) -> None:
    found = data(tmp_path, RECORDS[:1], crop=4, mean=128.0, std=64.0)
    np.testing.assert_allclose(found[0], (middle(A, 4) - 128.0) / 64, rtol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "height", "width"),
    [
        ({"scale": 12}, 12, 16),  # 7 x 9: the longer side is 15.43, rounded up
        ({"scale": 5}, 5, 7),
        ({"minsize": 12}, 12, 16),
        ({"minsize": 6}, 7, 9),
        ({"scale": 6, "warp": 1}, 6, 6),
        ({"random_scale": [6, 9]}, 6, 8),
    ],
)
def test_the_shorter_side(tmp_path: Path, arguments: dict[str, Any], height: int, width: int) -> None:
    found = data(tmp_path, RECORDS[:1], crop=5, **arguments)
    wanted = A if (height, width) == A.shape[:2] else bilinear(bilinear(A, width, 1), height, 0)
    np.testing.assert_allclose(found[0], middle(np.asarray(wanted, np.uint8), 5), atol=1.01)


def test_boxes(tmp_path: Path) -> None:
    """That of a record counts before that of the arguments; one that does not lie in the picture is none."""
    own = [
        record(png(A), ints(0), ints(1, 2, 5, 6)),
        record(png(A), ints(0)),
        record(png(A), ints(0), ints(4, 4, 9, 9)),
    ]
    box = {"bounding_ymin": 2, "bounding_xmin": 3, "bounding_height": 4, "bounding_width": 5}
    found = data(tmp_path, own, crop=3, **box)
    for pixels, wanted in zip(found, (A[1:6, 2:8], A[2:6, 3:8], A), strict=True):
        np.testing.assert_array_equal(pixels, middle(wanted, 3))


def test_one_colour(tmp_path: Path) -> None:
    found = data(tmp_path, RECORDS[:1], crop=5, color=0)
    assert found.shape == (1, 5, 5, 1)
    np.testing.assert_allclose(found[0, ..., 0], middle(A, 5) @ [0.114, 0.587, 0.299], atol=1.0)


def test_colours_first(tmp_path: Path) -> None:
    found = data(tmp_path, RECORDS[:1], crop=5, use_gpu_transform=1, output_type="float16")
    assert found.dtype == np.float16
    np.testing.assert_array_equal(found[0], middle(A, 5).transpose(2, 0, 1))


# -- what is drawn -----------------------------------------------------------------------------------------------------


def windows(pixels: Picture, size: int) -> dict[bytes, tuple[int, int, bool]]:
    """Return every crop of a picture, mirrored or not, by its bytes."""
    found: dict[bytes, tuple[int, int, bool]] = {}
    for top in range(pixels.shape[0] - size + 1):
        for left in range(pixels.shape[1] - size + 1):
            part = pixels[top : top + size, left : left + size, ::-1]
            found[part.astype(np.float32).tobytes()] = top, left, False
            found[part[:, ::-1].astype(np.float32).tobytes()] = top, left, True
    return found


@pytest.mark.slow
def test_crops_and_mirrors_are_drawn(tmp_path: Path) -> None:
    """Each picture is one of all windows, any of them comes, and half are mirrored."""
    with run(tmp_path, RECORDS[:1], op(batch_size=400, crop=5, is_test=0, mirror=1)) as ws:
        found = [windows(A, 5)[pixels.tobytes()] for pixels in ws.fetch("data")]
    assert {(top, left) for top, left, _ in found} == {(top, left) for top in range(3) for left in range(5)}
    assert 150 < sum(mirrored for _, _, mirrored in found) < 250


def test_the_seed_decides_and_threads_do_not(tmp_path: Path) -> None:
    drawn: dict[tuple[int, int], NDArray[Any]] = {}
    for seed, threads in ((1, 1), (1, 4), (2, 4)):
        arguments = {"batch_size": 16, "crop": 5, "is_test": 0, "scale_jitter_type": 1, "color_jitter": 1}
        folder = tmp_path / f"{seed}-{threads}"
        folder.mkdir()
        with run(folder, RECORDS, op(seed=seed, decode_threads=threads, color_lighting=1, **arguments), runs=2) as ws:
            drawn[seed, threads] = ws.fetch("data")
    np.testing.assert_array_equal(drawn[1, 1], drawn[1, 4])
    assert not np.array_equal(drawn[1, 1], drawn[2, 4])


def test_parts_by_area_and_aspect(tmp_path: Path) -> None:
    """A picture whose colours tell where they lie: parts have 8 % to 100 % of the area, 3/4 to 4/3 in aspect."""
    size = 64
    rows, columns = np.meshgrid(np.arange(size) * 3, np.arange(size) * 3, indexing="ij")
    slope = np.stack([rows, columns, 0 * rows], -1).astype(np.uint8)
    with run(tmp_path, [record(png(slope), ints(0))], op(batch_size=60, crop=32, is_test=0, scale_jitter_type=1)) as ws:
        found = ws.fetch("data")
    height = (found[:, -1, 16, 2] - found[:, 0, 16, 2]) / 3 * 32 / 31
    width = (found[:, 16, -1, 1] - found[:, 16, 0, 1]) / 3 * 32 / 31
    area = height * width / size**2
    assert area.min() > 0.06
    assert area.max() < 1.06
    assert np.ptp(area) > 0.3
    assert abs(np.log(width / height)).max() < np.log(4 / 3) + 0.12


def test_colours_change_within_their_shares(tmp_path: Path) -> None:
    """Of a grey picture brightness alone is left: saturation and contrast find nothing to change."""
    grey = np.full((5, 5, 3), 100, np.uint8)
    arguments: dict[str, Any] = {"batch_size": 50, "crop": 5, "is_test": 0, "color_jitter": 1, "img_brightness": 0.25}
    with run(tmp_path, [record(png(grey), ints(0))], op(**arguments)) as ws:
        found = ws.fetch("data")
    assert np.ptp(found.reshape(50, -1), axis=1).max() < 1e-3
    assert 75 - 1e-3 < found.min() < 80
    assert 120 < found.max() < 125 + 1e-3


@pytest.mark.slow
def test_light_changes_along_the_main_colours(tmp_path: Path) -> None:
    """All pixels of a picture change alike; over many, by the deviations of ImageNet's colours times 0.1."""
    grey = np.full((2, 2, 3), 100, np.uint8)
    with run(tmp_path, [record(png(grey), ints(0))], op(batch_size=4000, crop=2, is_test=0, color_lighting=1)) as ws:
        shift = ws.fetch("data") - 100
    assert np.ptp(shift, axis=(1, 2)).max() < 1e-4
    spread = np.sqrt(np.linalg.eigvalsh(np.cov(shift[:, 0, 0].astype(np.float64).T)))
    np.testing.assert_allclose(spread, 255 * 0.1 * np.array([0.0045, 0.0188, 0.2175]), rtol=0.05)


def test_nothing_is_drawn_in_a_test(tmp_path: Path) -> None:
    arguments = {"mirror": 1, "scale_jitter_type": 1, "color_jitter": 1, "color_lighting": 1}
    np.testing.assert_array_equal(data(tmp_path, RECORDS, crop=5, **arguments), MIDDLES)


# -- labels and what comes with them -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("label_type", "protos", "wanted"),
    [
        (0, [ints(7)], np.array([7], np.int32)),
        (1, [ints(0, 3)], np.array([[1, 0, 0, 1]], np.int32)),
        (1, [ints()], np.array([[0, 0, 0, 0]], np.int32)),
        (2, [ints(9, 8, 7, 6)], np.array([[9, 8, 7, 6]], np.int32)),
        (2, [reals(0.5, 0, 1, 2)], np.array([[0.5, 0, 1, 2]], np.float32)),
        (3, [ints(1, 3), reals(0.5, 2)], np.array([[0, 0.5, 0, 2]], np.float32)),
        (5, [reals(1.5, 2, 3, 4)], np.array([[1.5, 2, 3, 4]], np.float32)),
    ],
)
def test_labels(tmp_path: Path, label_type: int, protos: list[TensorProto], wanted: NDArray[Any]) -> None:
    definition = op(batch_size=1, crop=5, label_type=label_type, num_labels=4)
    with run(tmp_path, [record(png(A), *protos)], definition) as ws:
        found = ws.fetch("label")
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


def test_further_outputs(tmp_path: Path) -> None:
    records = [record(png(A), ints(1), reals(0.5), ints(n, 2, 3), ints(0, 0, 7, 9)) for n in range(2)]
    with run(tmp_path, records, op("data", "label", "a", "b", batch_size=2, crop=5, output_sizes=[1, 3])) as ws:
        np.testing.assert_array_equal(ws.fetch("a"), np.array([0.5, 0.5], np.float32))
        np.testing.assert_array_equal(ws.fetch("b"), [[0, 2, 3], [1, 2, 3]])


def test_datums(tmp_path: Path) -> None:
    """A Datum has its pixels as (C, H, W), blue, green, red, or is a file."""
    planes = np.ascontiguousarray(A[..., ::-1].transpose(2, 0, 1))
    plain = CaffeDatum(channels=3, height=7, width=9, data=planes.tobytes(), label=4)
    encoded = CaffeDatum(data=png(A).string_data[0], encoded=True, label=6)
    records = [one.SerializeToString() for one in (plain, encoded)]
    with run(tmp_path, records, op(batch_size=2, crop=5, use_caffe_datum=1)) as ws:
        np.testing.assert_array_equal(ws.fetch("data"), [middle(A, 5)] * 2)
        assert ws.fetch("label").tolist() == [4, 6]


def test_pixels_as_bytes(tmp_path: Path) -> None:
    raw = TensorProto(dims=A.shape, data_type=TensorProto.BYTE, byte_data=A[..., ::-1].tobytes())
    np.testing.assert_array_equal(data(tmp_path, [record(raw, ints(0))], crop=5)[0], middle(A, 5))


# -- what is wrong -----------------------------------------------------------------------------------------------------


BAD = TensorProto(data_type=TensorProto.STRING, string_data=[b"no picture"])
SHORT = TensorProto(dims=[2, 2, 3], data_type=TensorProto.BYTE, byte_data=b"12")


@pytest.mark.parametrize(
    ("value", "arguments", "error", "text"),
    [
        (b"\xff", {}, FormatError, "record 'key0'"),
        (record(BAD, ints(0)), {}, FormatError, "picture of record 'key0' is no image"),
        (record(TensorProto(data_type=TensorProto.STRING), ints(0)), {}, FormatError, "record 'key0' has 0 texts"),
        (record(reals(1.0), ints(0)), {}, FormatError, "is FLOAT, it must be STRING or BYTE"),
        (record(SHORT, ints(0)), {}, ShapeError, "record 'key0' has 2 bytes"),
        (record(png(A)), {}, ShapeError, "record 'key0' holds 1 tensors"),
        (record(png(A), ints(0, 1)), {}, ShapeError, "record 'key0' has 2 labels"),
        (record(png(A), reals(0.5)), {}, FormatError, "record 'key0' has FLOAT for a class"),
        (record(png(A), ints(4)), {"label_type": 1, "num_labels": 4}, ShapeError, "is of class 4"),
        (record(png(A), ints(4)), {"label_type": 2, "num_labels": 4}, ShapeError, "has 1 numbers for a label"),
        (record(png(A), ints(1), reals()), {"label_type": 3, "num_labels": 4}, ShapeError, "0 weights for 1 classes"),
        (record(png(A), ints(1), ints(1, 2)), {}, ShapeError, "ends in a tensor of 2 elements, a box has 4"),
        (record(png(A), ints(1)), {"crop": 8}, ShapeError, "has 7 x 9 pixels, the crop 8 x 8"),
        (CaffeDatum(channels=3, height=2, width=2).SerializeToString(), {"use_caffe_datum": 1}, ShapeError, "'key0'"),
        (CaffeDatum(float_data=[1.0]).SerializeToString(), {"use_caffe_datum": 1}, FormatError, "real numbers"),
    ],
)
def test_a_damaged_record_is_named_by_its_key(
    tmp_path: Path, value: bytes, arguments: dict[str, Any], error: type[TazzaError], text: str
) -> None:
    definition = op(batch_size=1, **{"crop": 5, **arguments})
    with pytest.raises(error, match=text), run(tmp_path, [value], definition):
        pass


def test_the_run_behind_a_damaged_record_goes_on(tmp_path: Path) -> None:
    ws = Workspace()
    path = write(tmp_path, [record(BAD, ints(0)), RECORDS[1]])
    ws.run_operator(operator_def("CreateDB", [], ["reader"], db=str(path), db_type="minidb"))
    net = ws.create_net(NetDef(name="read", op=[op(batch_size=1, crop=5)], external_input=["reader"]))
    with pytest.raises(FormatError, match="key0"):
        net.run()
    net.run()
    assert ws.fetch("label").tolist() == [5]
    ws.reset()


def test_a_picture_that_asks_for_too_much(tmp_path: Path) -> None:
    long = record(png(picture(1, 6000)), ints(0))
    definition, text = op(batch_size=1, crop=5, scale=256), "record 'key0', 1 x 6000, would become 256 x 1536000"
    with pytest.raises(ShapeError, match=text), run(tmp_path, [long], definition):
        pass


def test_a_reader_whose_picture_was_refused_closes_with_its_workspace(tmp_path: Path) -> None:
    """Not when Python searches for garbage."""
    path = write(tmp_path, [record(png(picture(1, 6000)), ints(0))], "minidb")
    ws = Workspace()
    ws.run_operator(operator_def("CreateDB", [], ["reader"], db=str(path), db_type="minidb"))
    reader = weakref.ref(ws.blob("reader").get(DBReader))
    gc.disable()
    try:
        net = ws.create_net(NetDef(op=[op(batch_size=1, crop=5, scale=256)], external_input=["reader"]))
        with pytest.raises(ShapeError):
            net.run()
        del net
        ws.reset()
        assert reader() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"batch_size": 0}, "'batch_size' = 0 is below its minimum 1"),
        ({"crop": None}, "needs the argument 'crop'"),
        ({"scale": 5, "minsize": 5}, "exclude each other"),
        ({"scale": 3}, "becomes 3, less than crop = 4"),
        ({"label_type": 1}, "needs 1 or more"),
        ({"label_type": 4}, "is not one of"),
        ({"output_sizes": [1]}, "1 elements for 0 further outputs"),
        ({"random_scale": [9, 5]}, "no pair in rising order"),
        ({"mean_per_channel": [1.0, 2.0]}, "are not 1 or 3"),
        ({"std": 0.0}, "a std of 0"),
        ({"color": 0, "color_jitter": 1}, "three colours"),
        ({"use_caffe_datum": 1, "label_type": 1, "num_labels": 3}, "one label and nothing else"),
    ],
)
def test_arguments(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        Workspace().create_net(NetDef(op=[op(**{"batch_size": 2, "crop": 4, **arguments})], external_input=["reader"]))
