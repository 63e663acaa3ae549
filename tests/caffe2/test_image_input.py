"""What trainers of ImageNet and of videos begin with: `brew.image_input`, `brew.video_input` on a database."""

from __future__ import annotations

import io
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from caffe2.proto import caffe2_pb2
from caffe2.python import brew, cnn, core, model_helper, workspace
from tazza.db import Mode, open_db
from tazza.proto import CaffeDatum

PIXELS = np.random.default_rng(1).integers(0, 256, (6, 8, 3)).astype(np.uint8)
VIDEO = Path(__file__).parents[1] / "data" / "video" / "ramp.avi"


@pytest.fixture(autouse=True)
def empty_workspace() -> None:
    workspace.ResetWorkspace()


def encoded() -> bytes:
    """Return the picture as a file."""
    file = io.BytesIO()
    Image.fromarray(PIXELS).save(file, "PNG")
    return file.getvalue()


def record(content: bytes, label: int) -> bytes:
    """Return a record as programs write it."""
    protos = caffe2_pb2.TensorProtos()
    first = protos.protos.add()
    first.data_type = caffe2_pb2.TensorProto.STRING
    first.string_data.append(content)
    second = protos.protos.add()
    second.data_type = caffe2_pb2.TensorProto.INT32
    second.int32_data.append(label)
    return protos.SerializeToString()


def lmdb(folder: Path, value: Callable[[int], bytes]) -> str:
    """Write two records into an LMDB."""
    path = str(folder / "records")
    with open_db("lmdb", path, Mode.NEW) as db, db.transaction() as transaction:
        for number in range(2):
            transaction.put(f"{number:08}", value(number))
    return path


def run(model: Any) -> None:
    """Run both nets of a model, as a trainer does."""
    workspace.RunNetOnce(model.param_init_net)
    workspace.CreateNet(model.net)
    workspace.RunNet(model.net)


MIDDLE = PIXELS[1:5, 2:6, ::-1].astype(np.float32)


@pytest.mark.parametrize("datum", [False, True])
def test_a_trainer_of_pictures(tmp_path: Path, datum: bool) -> None:
    """The call of the trainer of ResNet-50: what is None is left out, and the order is NCHW."""

    def value(number: int) -> bytes:
        if datum:
            return CaffeDatum(data=encoded(), encoded=True, label=number).SerializeToString()
        return record(encoded(), number)

    model = model_helper.ModelHelper(name="train", arg_scope={"order": "NCHW", "use_cudnn": True})
    reader = model.CreateDB("reader", db=lmdb(tmp_path, value), db_type="lmdb", num_shards=1, shard_id=0)
    data, label = brew.image_input(
        model,
        reader,
        ["data", "label"],
        batch_size=2,
        output_type="float",
        use_gpu_transform=False,
        use_caffe_datum=datum,
        mean_per_channel=None,
        std_per_channel=None,
        mean=128.0,
        std=64.0,
        scale=6,
        crop=4,
        mirror=1,
        is_test=True,
    )
    model.StopGradient(data, data)
    run(model)
    found = workspace.FetchBlob(data)
    np.testing.assert_allclose(found, np.stack([(MIDDLE - 128) / 64] * 2).transpose(0, 3, 1, 2), rtol=1e-6)
    assert workspace.FetchBlob(label).tolist() == [0, 1]


def test_an_older_helper(tmp_path: Path) -> None:
    model = cnn.CNNModelHelper(order="NHWC", name="test")
    reader = model.CreateDB("reader", db=lmdb(tmp_path, lambda number: record(encoded(), number)), db_type="lmdb")
    data, label = model.ImageInput([reader], ["data", "label"], batch_size=1, crop=4, is_test=1)
    run(model)
    np.testing.assert_array_equal(workspace.FetchBlob(data)[0], MIDDLE)
    assert workspace.FetchBlob(label).tolist() == [0]


@pytest.mark.skipif(find_spec("av") is None, reason="PyAV is not installed")
def test_a_trainer_of_videos(tmp_path: Path) -> None:
    """The call of a trainer of R(2+1)D, with all that it says of optical flow and does not ask for."""
    model = cnn.CNNModelHelper(order="NCHW", name="train")
    reader = model.CreateDB("r", db=lmdb(tmp_path, lambda number: record(VIDEO.read_bytes(), number)), db_type="lmdb")
    data, label = brew.video_input(
        model,
        reader,
        ["data", "label"],
        name="data",
        batch_size=2,
        clip_per_video=1,
        crop_size=8,
        scale_w=16,
        scale_h=12,
        length_rgb=4,
        sampling_rate_rgb=2,
        decode_type=0,
        video_res_type=0,
        short_edge=12,
        num_decode_threads=2,
        do_multi_label=0,
        num_of_class=5,
        random_crop=True,
        random_mirror=True,
        input_type=0,
        length_of=8,
        sampling_rate_of=2,
        frame_gap_of=2,
        do_flow_aggregation=0,
        flow_data_type=0,
        get_rgb=True,
        get_optical_flow=False,
        get_video_id=0,
        use_local_file=0,
    )
    model.StopGradient(data, data)
    run(model)
    assert workspace.FetchBlob(data).shape == (2, 3, 4, 8, 8)
    assert workspace.FetchBlob(label).tolist() == [0, 1]


def test_shapes_are_known_before_a_run() -> None:
    net = core.Net("shapes")
    data, label = net.ImageInput([], ["data", "label"], batch_size=3, crop=5, db="nowhere", is_test=1)
    shapes, types = workspace.InferShapesAndTypes([net])
    assert (shapes[str(data)], shapes[str(label)]) == ([3, 5, 5, 3], [3])
    assert types[str(data)] == core.DataType.FLOAT
