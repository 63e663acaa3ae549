"""Predictor files and pairs of nets by their old names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from caffe2.python import brew, model_helper, parallel_workers, workspace
from caffe2.python.predictor import mobile_exporter, predictor_exporter, predictor_py_utils
from caffe2.python.predictor_constants import predictor_constants


def model() -> model_helper.ModelHelper:
    made = model_helper.ModelHelper(name="predictor_modules")
    brew.fc(made, "data", "y", dim_in=3, dim_out=2)
    workspace.RunNetOnce(made.param_init_net)
    return made


def test_a_predictor_file_goes_there_and_back(tmp_path: Path) -> None:
    workspace.ResetWorkspace()
    net, path, X = model(), str(tmp_path / "model.minidb"), np.array([[1, 2, 3]], np.float32)
    meta = predictor_exporter.PredictorExportMeta(
        net.net, net.params, ["data"], ["y"], {"data": (1, 3), "y": (1, 2)}, net_type="dag"
    )
    wanted = X @ workspace.FetchBlob("y_w").T + workspace.FetchBlob("y_b")
    predictor_exporter.save_to_db("minidb", path, meta)
    workspace.ResetWorkspace()
    loaded = predictor_exporter.prepare_prediction_net(path, "minidb")
    assert loaded.Proto().type == "dag"
    workspace.FeedBlob("data", X)
    workspace.RunNet(loaded)
    np.testing.assert_allclose(workspace.FetchBlob("y"), wanted, rtol=1e-6)
    with pytest.raises(AssertionError, match="among the inputs"):
        predictor_exporter.PredictorExportMeta(net.net, net.params, net.params, ["y"])


def test_roles_of_blobs() -> None:
    helper = predictor_exporter.get_predictor_exporter_helper("sub")
    assert helper.inputs_name() == f"{predictor_constants.INPUTS_BLOB_TYPE}_sub"
    meta = predictor_exporter.metanet_pb2.MetaNetDef()
    predictor_py_utils.AddBlobs(meta, "A", ["x"])
    predictor_py_utils.AddBlobs(meta, "A", ["z", "x"])
    assert predictor_py_utils.GetBlobsByTypePrefix(meta, "A") == ["x", "z"]
    predictor_py_utils.ReplaceBlobs(meta, "A", ["q"])
    assert predictor_py_utils.GetBlobs(meta, "A") == ["q"]


def test_a_pair_of_nets_predicts() -> None:
    workspace.ResetWorkspace()
    net, X = model(), np.array([[1, 2, 3]], np.float32)
    wanted = X @ workspace.FetchBlob("y_w").T + workspace.FetchBlob("y_b")
    init, predict = mobile_exporter.Export(workspace, net.net, net.params)
    assert list(predict.external_output) == ["y"]
    (found,) = workspace.Predictor(init.SerializeToString(), predict.SerializeToString()).run([X])
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_a_worker_that_raises_stops_those_of_its_name() -> None:
    def fail(worker_id: int) -> None:
        raise ValueError(f"worker {worker_id} has no data")

    shut: list[bool] = []
    coordinator = parallel_workers.init_workers(fail, 1, "failing", shutdown_fun=lambda: shut.append(True))
    coordinator.start()
    assert coordinator.stop()
    assert shut == [True]
