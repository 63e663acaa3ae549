"""`convnet_benchmarks`: a model is run as the options say; `test_module_nets.py` compares the nets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from caffe2.python import brew, model_helper, workspace
from caffe2.python.convnet_benchmarks import MLP, Benchmark, GetArgumentParser

QUICK = ["--cpu", "--batch_size", "2", "--iterations", "1", "--warmup_iterations", "1"]


@pytest.fixture(autouse=True)
def _own_workspace() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction] -- pytest finds it
    workspace.ResetWorkspace()
    yield
    workspace.ResetWorkspace()


def small(order: str, cudnn_ws: int | None) -> tuple[Any, int]:
    """Return a net of one convolution, on images of ten rows."""
    del cudnn_ws
    model = model_helper.ModelHelper("small", arg_scope={"order": order})
    brew.conv(model, "data", "conv", 3, 4, 3)
    brew.average_pool(model, "conv", "pool", kernel=8)
    brew.fc(model, "pool", "fc", 4, 1000)
    brew.softmax(model, "fc", "pred")
    each = model.net.LabelCrossEntropy(["pred", "label"], "xent")
    model.net.AveragedLoss(each, "loss")
    return model, 10


def run(model: Any, *options: str) -> None:
    Benchmark(model, GetArgumentParser().parse_args([*QUICK, *options]))


@pytest.mark.slow
@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
@pytest.mark.parametrize("options", [(), ("--forward_only",)])
def test_a_model_is_run(order: str, options: tuple[str, ...], capfd: pytest.CaptureFixture[str]) -> None:
    run(small, "--model", "Small", "--order", order, *options)
    assert f"Small: running forward{' only' if options else '-backward'}." in capfd.readouterr().out
    assert workspace.FetchBlob("data").shape == {"NCHW": (2, 3, 10, 10), "NHWC": (2, 10, 10, 3)}[order]
    assert workspace.FetchBlob("label").max() < 1000
    assert np.isfinite(workspace.FetchBlob("loss"))
    assert workspace.HasBlob("conv_w_grad") == (not options)


@pytest.mark.slow
def test_the_nets_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run(small, "--model", "Small", "--dump_model", "--engine", "A,B", "--forward_only", "--net_type", "simple")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["Small.pbtxt", "Small_init_batch_2.pbtxt"]
    text = Path("Small.pbtxt").read_text()
    assert text.count('engine: "A,B"') == text.count("op {") == 6
    assert 'type: "simple"' in text


@pytest.mark.slow
def test_rows_are_made_for_the_model_of_rows() -> None:
    run(MLP, "--model", "MLP", "--forward_only")
    assert workspace.FetchBlob("data").shape == (2, 256)
