"""Nets of the zoo, tiny, give the same numbers in torch and ONNX Runtime as in tazza; so do losses and gradients."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.contenders import tazza_session
from benchmarks.job import Job, PlainNet, PlainOperator
from benchmarks.prepare import prepare
from tests.models.zoo.test_zoo_sizes import TINY

BATCH = 3
TIED = ("googlenet",)
"""Nets in which pooling meets equal values behind another pooling. Caffe2 gives the gradient to all of them, torch to
the first, so that they train differently."""
SIMPLE = {"net_type": "simple"}


def job(name: str, folder: Path, *, training: bool = False) -> Job:
    """Return a job with a tiny net of the zoo."""
    options = dict(TINY[name])
    if training and name not in ("lenet", "mlp", "resnet50"):
        options["dropout"] = 0.0
    prepared = prepare(name, folder / name, training=training, options=options)
    prepared.write_inputs(BATCH)
    return Job(str(prepared.folder), BATCH, training, settings=SIMPLE)


def results(session: Any, runs: int) -> list[NDArray[Any]]:
    """Return the results of some runs."""
    session.load()
    found: list[NDArray[Any]] = []
    for _ in range(runs):
        session.run()
        found.append(session.result())
    return found


@pytest.mark.slow
def test_plain_nets_survive_a_file(tmp_path: Path) -> None:
    net = job("googlenet", tmp_path).net
    net.write(tmp_path)
    assert PlainNet.read(tmp_path) == net


def test_a_net_is_prepared_once(tmp_path: Path) -> None:
    made = job("mlp", tmp_path)
    before = (made.path / "net.json").stat().st_mtime_ns
    assert job("mlp", tmp_path).path == made.path
    assert (made.path / "net.json").stat().st_mtime_ns == before


@pytest.mark.parametrize("name", TINY)
def test_torch_predicts_the_same(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    session: Any = import_module("benchmarks.contenders.torch_session")
    given = job(name, tmp_path)
    (wanted,) = results(tazza_session.start(given), 1)
    (found,) = results(session.start(Job(given.folder, BATCH)), 1)
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in TINY if name not in TIED])
def test_torch_trains_the_same(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    session: Any = import_module("benchmarks.contenders.torch_session")
    given = job(name, tmp_path, training=True)
    wanted = results(tazza_session.start(given), 3)
    found = results(session.start(Job(given.folder, BATCH, training=True)), 3)
    np.testing.assert_allclose(found, wanted, rtol=2e-3)


@pytest.mark.parametrize("name", TINY)
@pytest.mark.parametrize("runtime", ["onnxruntime", "openvino"])
def test_onnx_predicts_the_same(name: str, runtime: str, tmp_path: Path) -> None:
    onnx: Any = pytest.importorskip("onnx")
    pytest.importorskip(runtime)
    onnx_net: Any = import_module("benchmarks.onnx_net")
    session: Any = import_module(f"benchmarks.contenders.{runtime}_session")
    given = job(name, tmp_path)
    model = onnx_net.onnx_model(given.net, given.parameters())
    onnx.checker.check_model(model)
    onnx.save(model, str(given.path / "model.onnx"))
    (wanted,) = results(tazza_session.start(given), 1)
    (found,) = results(session.start(Job(given.folder, BATCH)), 1)
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (PlainOperator("Wngrad", ("x",), ("y",), {}), "Wngrad is not translated"),
        (PlainOperator("MaxPool", ("x",), ("y",), {"legacy_pad": 3}), "MaxPool: the argument 'legacy_pad'"),
    ],
)
def test_what_has_no_translation_is_told(op: PlainOperator, message: str) -> None:
    pytest.importorskip("torch")
    torch_net: Any = import_module("benchmarks.torch_net")
    with pytest.raises(ValueError, match=message):
        torch_net.torch_module(PlainNet("n", (op,), {"x": (2, 5, 7)}, "y", {}, ()), {})
