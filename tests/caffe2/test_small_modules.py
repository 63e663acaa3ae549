"""Modules of a few lines: what was compared with an accelerator, nets for Intel's library."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from caffe2.python import brew, core, workspace
from caffe2.python.fakelowp import test_utils as ulp
from caffe2.python.mkl import rewrite_graph
from caffe2.python.model_helper import ModelHelper

X = np.array([-3, -1, -0.1, 0, 0.1, 0.5, 2, 10], np.float32)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("Sigmoid", [15.9489877, 11.4159381, 19.3147534, 10, 10.8426233, 13.2032897, 18.1275843, 20.0929748]),
        ("Tanh", [-20.1278645, -15.2551686, -16.0395517, 0, 16.0395517, 19.1681239, 19.671516, 20.0000084]),
        ("Swish", [-11.4617408, -11.4159381, -15.4517796, 0, 16.7481716, 13.2032897, 18.1275843, 13.0581093]),
        ("Relu", [-15, -10, -16.5999756, 0, 16.5999756, 10, 10, 13]),
    ],
)
def test_units_of_the_last_place_are_those_of_caffe2(name: str, wanted: list[float]) -> None:
    """One percent above, in float16; what is none of the operators is compared with the input itself."""
    exact = ulp.EXACT[name](X.astype(np.float64)) if name in ulp.EXACT else X
    found = ulp.compute_ulp_error(name, X, (exact * 1.01).astype(np.float16))
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_gelu_is_one() -> None:
    """That of Caffe2 had the sign of the sigmoid wrong."""
    np.testing.assert_allclose(ulp.EXACT["Gelu"](np.array([0.0, 1.5, -1.5])), [0, 1.3916622, -0.1083378], rtol=1e-6)


def test_nets_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    net = core.Net("told")
    net.Relu("x", "y")
    net.AddExternalOutput(core.BlobReference("y"))
    ulp.print_net(net.Proto())
    assert capsys.readouterr().out == "Input: x\nOutput: y\nOp Relu\n  input: x\n  output: y\n"
    monkeypatch.chdir(tmp_path)
    ulp.print_test_debug_info("mine", {"a": [1.5], "b": 3})
    assert capsys.readouterr().out == "a [1.5]\nb 3\n"
    assert Path("debug_operator_onnxifi_mine.txt").read_text() == "a\n[1.5]\nb\n3\n"


def model() -> Any:
    made = ModelHelper(name="rewritten", arg_scope={"order": "NCHW", "is_test": True})
    brew.conv(made, "data", "conv1", 3, 4, kernel=3)
    brew.spatial_bn(made, "conv1", "bn1", 4, epsilon=1e-3)
    brew.relu(made, "bn1", "relu1")
    made.Proto().external_output.append("relu1")
    for seed, op in enumerate(made.InitProto().op, 1):
        op.device_option.random_seed = seed
    return made


def test_a_rewritten_model_gives_the_same_numbers() -> None:
    """Nets for Intel's library stay as they are; their engines are chosen anew."""
    old = model()
    new = rewrite_graph.rewrite_model_helper_simple(old)
    assert new is not old
    assert {op.engine for op in new.Proto().op} == {""}
    given = np.random.default_rng(1).standard_normal((1, 3, 8, 8)).astype(np.float32)
    results: list[Any] = []
    for each in (old, new):
        workspace.ResetWorkspace()
        workspace.RunNetOnce(each.InitProto())
        workspace.FeedBlob("data", given)
        workspace.RunNetOnce(each.Proto())
        results.append(workspace.FetchBlob("relu1"))
    np.testing.assert_array_equal(results[0], results[1])
    workspace.ResetWorkspace()


def test_the_last_that_writes_is_found() -> None:
    ops = [core.CreateOperator("Relu", ["x"], ["y"]), core.CreateOperator("Tanh", ["y"], ["y"])]
    assert rewrite_graph.last_producer(ops, "y") == 1
    with pytest.raises(ValueError, match="no operator writes 'z'"):
        rewrite_graph.last_producer(ops, "z")
    bad = model()
    bad.Proto().external_output.append("nowhere")
    with pytest.raises(ValueError, match="no operator writes 'nowhere'"):
        rewrite_graph.rewrite_model_helper_simple(bad)


@pytest.mark.slow
def test_empty_modules_can_be_imported() -> None:
    program = "import caffe2.python.convert, caffe2.python.fakelowp.init_shared_libs"
    subprocess.run([sys.executable, "-c", program], check=True)
