"""Models that genuine Caffe2 exported: nets, predictor file, checkpoint; and the nets of its model zoo as text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.interop import Predictor, PredictorFile, load
from tazza.operator import operator_def
from tazza.proto import MetaNetDef, NetDef
from tazza.proto.message import read_message, serialize
from tazza.workspace import Workspace
from tests.interop.conftest import SMALL

LENET, RESNET = "lenet_mnist", "resnet_32x32"


def expected(model: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return data as the net takes it, and the probabilities that genuine Caffe2 gave for it."""
    with np.load(SMALL / model / "expected.npz") as stored:
        data = stored["data"]
        return (data / np.float32(256) if data.dtype == np.uint8 else data), stored["softmax"]


def check(predictor: Predictor, model: str) -> None:
    """Assert that a predictor gives what genuine Caffe2 gave, for all of the data and again for some."""
    data, softmax = expected(model)
    assert (predictor.inputs, predictor.outputs) == (("data",), ("softmax",))
    for rows in (len(data), 3):
        assert np.abs(predictor.run(data=data[:rows])["softmax"] - softmax[:rows]).max() < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("model", [LENET, pytest.param(RESNET, marks=pytest.mark.slow)])
def test_nets(shared: Path, model: str) -> None:
    folder = shared / "interop" / model
    with load(folder / "init_net.pb", folder / "predict_net.pb") as predictor:
        check(predictor, model)


def test_predictor_file(shared: Path) -> None:
    path = shared / "interop" / LENET / "lenet.minidb"
    file = PredictorFile.read(path)
    assert MetaNetDef.FromString(serialize(file.meta)) == file.meta
    with load(path) as predictor:
        check(predictor, LENET)


def test_small_predictor_file() -> None:
    """Genuine Caffe2 wrote `predictor.minidb` with the nets and values of a model that tazza had exported."""
    with np.load(SMALL / "small" / "expected.npz") as stored, load(SMALL / "small" / "predictor.minidb") as predictor:
        assert (predictor.inputs, predictor.outputs) == (("x",), ("p",))
        assert np.abs(predictor.run(x=stored["x"])["p"] - stored["p"]).max() < 1e-5


def test_checkpoint(shared: Path) -> None:
    path = shared / "interop" / LENET / "checkpoint.minidb"
    workspace = Workspace()
    net = read_message(SMALL / LENET / "predict_net.pb", NetDef)
    load_op = operator_def("Load", [], [], db=str(path.absolute()), db_type="minidb", absolute_path=1, load_all=1)
    workspace.run_operator(load_op)
    with Predictor(net, workspace) as predictor:
        check(predictor, LENET)


@pytest.mark.parametrize("model", [LENET, RESNET])
def test_nets_are_written_as_they_were(model: str) -> None:
    path = SMALL / model / "predict_net.pb"
    assert serialize(read_message(path, NetDef)) == path.read_bytes()


def test_large_nets_are_written_as_they_were(shared: Path) -> None:
    for path in (shared / "interop").glob("*/init_net.pb"):
        assert serialize(read_message(path, NetDef)) == path.read_bytes()


@pytest.mark.slow
def test_nets_of_the_zoo_parse(shared: Path) -> None:
    found = {path.name: read_message(path, NetDef) for path in (shared / "zoo").glob("*.pbtxt")}
    assert len(found) == 6
    assert all(len(net.op) > 10 for net in found.values())
