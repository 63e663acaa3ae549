"""`examples.imagenet_trainer`: the nets of the genuine one, and a training that ends, saves and goes on."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from caffe2.proto import caffe2_pb2
from caffe2.python import brew, data_parallel_model, model_helper, workspace
from caffe2.python.examples import imagenet_trainer, resnet50_trainer
from caffe2.python.examples._imagenet_arguments import arguments
from caffe2.python.predictor import predictor_exporter
from tazza.db import Mode, open_db
from tazza.errors import ArgumentError
from tazza.proto import CaffeDatum
from tools import record_trainer_losses
from tools.record_trainer import LINES, nets

RECORDED: dict[str, dict[str, str]] = json.loads(
    (Path(__file__).parents[1] / "data" / "trainer_nets.json").read_text(encoding="utf-8")
)
LOSSES: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "data" / "trainer_losses.json").read_text(encoding="utf-8")
)
SIZE, BATCH = 32, 2


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Logs go to a folder of the test's own."""
    monkeypatch.chdir(tmp_path)
    workspace.ResetWorkspace()
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("line", LINES)
def test_nets_are_those_of_caffe2(line: str) -> None:
    made = nets(LINES[line])
    assert {name: " ".join(sums) for name, sums in made.items()} == RECORDED[line]


def test_images_are_read_with_what_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    def read(model: Any, blob_in: Any, blob_out: Any, **arguments: Any) -> tuple[Any, Any]:
        given.update(arguments, reader=blob_in, outputs=blob_out)
        return model.net.Copy("data", "data"), "label"

    monkeypatch.setattr(brew, "image_input", read)
    model: Any = model_helper.ModelHelper("model")
    model._device_type = caffe2_pb2.CPU
    imagenet_trainer.AddImageInput(model, "reader", 8, 64, "float16", True, [1.0, 2.0, 3.0], [4.0, 5.0, 6.0])
    assert given == {
        "reader": "reader",
        "outputs": ["data", "label"],
        "batch_size": 8,
        "output_type": "float16",
        "use_gpu_transform": False,
        "use_caffe_datum": True,
        "mean_per_channel": [1.0, 2.0, 3.0],
        "std_per_channel": [4.0, 5.0, 6.0],
        "mean": 128.0,
        "std": 128.0,
        "scale": 256,
        "crop": 64,
        "mirror": 1,
        "is_test": True,
    }
    assert model.net.Proto().op[-1].type == "StopGradient"


def pictures(path: Path, count: int) -> str:
    """Write images in one color each, as Caffe did, whose labels say which; returns where."""
    with open_db("lmdb", str(path), Mode.NEW) as db, db.transaction() as transaction:
        for number in range(count):
            file = io.BytesIO()
            Image.new("RGB", (300, 280), (255 * (number % 2),) * 3).save(file, "PNG")
            datum = CaffeDatum(data=file.getvalue(), encoded=True, label=number % 2)
            transaction.put(f"{number:04d}", datum.SerializeToString())
    return str(path)


@pytest.mark.slow
def test_losses_are_those_of_caffe2(folder: Path) -> None:
    """The first is the same; then both go apart, but no further than Caffe2 when weights change by a millionth."""
    with open_db("lmdb", str(folder / "train"), Mode.NEW) as db, db.transaction() as transaction:
        for number, picture in enumerate(record_trainer_losses.pictures()):
            file = io.BytesIO()
            Image.fromarray(picture).save(file, "PNG")
            datum = CaffeDatum(data=file.getvalue(), encoded=True, label=record_trainer_losses.label(number))
            transaction.put(f"{number:04d}", datum.SerializeToString())
    files = ["--train_data", str(folder / "train"), "--file_store_path", str(folder)]
    given = record_trainer_losses.trained(files, feed=False)
    ours, theirs, shaken = (np.array(one["steps"])[:, 0] for one in (given, LOSSES, LOSSES["shaken"]))
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-6)
    assert np.abs(ours - theirs).max() <= 2 * np.abs(shaken - theirs).max() < 0.1
    for name, sum_of_squares in LOSSES["squares"].items():
        np.testing.assert_allclose(given["squares"][name], sum_of_squares, rtol=2e-3)


def line(folder: Path, *more: str) -> Any:
    """Return the arguments of a small training."""
    given = [
        "--use_cpu",
        "--num_layers",
        "18",
        "--image_size",
        f"{SIZE}",
        "--num_labels",
        "2",
        "--batch_size",
        f"{BATCH}",
    ]
    given += ["--epoch_size", "4", "--num_epochs", "2", "--file_store_path", str(folder), "--save_model_name", "model"]
    return arguments([*given, "--base_learning_rate", "0.001", *more])


@pytest.mark.slow
def test_a_training_on_pictures_is_tested_and_saved(folder: Path) -> None:
    """Each epoch has a line in the log, and a file, which replaces that of the epoch before."""
    train, test = pictures(folder / "train", 8), pictures(folder / "test", 4)
    imagenet_trainer.Train(line(folder, "--train_data", train, "--test_data", test, "--test_epoch_size", "4"))
    (log,) = folder.glob("resnext18_gpu1_b2_L2_lr0.00_v2_*.log")
    header, *rows = log.read_text().splitlines()[1:]
    values = [dict(zip(header.split(","), row.split(","), strict=True)) for row in rows]
    assert [(v["epoch"], v["cumulative_input_count"], v["cumulative_batch_count"]) for v in values] == [
        ("0", "0", "1"),
        ("1", "4", "3"),
    ]
    assert all(0 <= float(v["top1_test_accuracy"]) <= 1 for v in values)
    assert [file.name for file in folder.glob("*.mdl")] == ["model_2.mdl"]


@pytest.mark.slow
def test_a_training_goes_on_from_what_was_saved(folder: Path) -> None:
    """With the parameters, the momenta and the count of iterations; the net in the file predicts."""
    given = line(folder, "--train_data", "null")
    imagenet_trainer.Train(given)
    saved = folder / "model_2.mdl"
    weight, momentum = (workspace.FetchBlob(f"cpu_0/{name}") for name in ("conv1_w", "conv1_w_momentum"))
    workspace.ResetWorkspace()
    model: Any = model_helper.ModelHelper("again", arg_scope={"order": "NCHW"})
    model._device_type = caffe2_pb2.CPU
    resnet50_trainer.LoadModel(str(saved), model, False)
    np.testing.assert_array_equal(workspace.FetchBlob("cpu_0/conv1_w"), weight)
    np.testing.assert_array_equal(workspace.FetchBlob("cpu_0/conv1_w_momentum"), momentum)
    np.testing.assert_array_equal(workspace.FetchBlob("optimizer_iteration"), [4])

    workspace.ResetWorkspace()
    given = line(folder, "--train_data", "null", "--load_model_path", str(saved))
    given.num_epochs = 3
    imagenet_trainer.Train(given)
    np.testing.assert_array_equal(workspace.FetchBlob("optimizer_iteration"), [6])
    assert [file.name for file in folder.glob("*.mdl")] == ["model_3.mdl"]
    meta = predictor_exporter.load_from_db(str(folder / "model_3.mdl"), "minidb")
    named = {pair.key: list(pair.value) for pair in meta.blobs}
    assert named["INPUTS_BLOB_TYPE"] == ["cpu_0/data"]
    assert named["OUTPUTS_BLOB_TYPE"] == ["cpu_0/softmax"]
    assert {"cpu_0/conv1_w", "cpu_0/conv1_w_momentum"} < {*named["PARAMETERS_BLOB_TYPE"]}


def test_what_does_not_fit_is_refused(folder: Path) -> None:
    with pytest.raises(AssertionError, match="must divide"):
        imagenet_trainer.Train(line(folder, "--train_data", "null", "--gpus", "0,1,2"))
    short = line(folder, "--train_data", "null", "--test_epoch_size", "1")
    with pytest.raises(ArgumentError, match="test_epoch_size is 1, less than a batch of 2"):
        imagenet_trainer._test(short, model_helper.ModelHelper("test"), BATCH)  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(SystemExit):
        arguments(["--use_cpu"])


def test_a_model_without_updates_has_nothing_to_sync() -> None:
    """`Parallelize` asks what comes behind the updates of models that have some alone."""

    def layer(model: Any, loss_scale: float) -> list[Any]:
        del loss_scale
        brew.fc(model, "data", "y", dim_in=3, dim_out=2)
        return []

    called: list[Any] = []
    data_parallel_model.Parallelize(
        model_helper.ModelHelper("test", init_params=False),
        input_builder_fun=lambda model: model.net.GaussianFill([], "data", shape=[2, 3]),
        forward_pass_builder_fun=layer,
        post_sync_builder_fun=called.append,
        devices=[0, 1],
        cpu_device=True,
    )
    assert called == []
