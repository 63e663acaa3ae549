"""Inputs that predictors read where the caller has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.interop import predictor as predictors
from tazza.interop.predictor import Predictor
from tazza.models.zoo import CLASSIFIERS
from tazza.operator import Observer, operator_def
from tazza.operator.engine import why_unavailable
from tazza.proto import NetDef
from tazza.tensor import Tensor
from tazza.workspace import Workspace

RNG = np.random.default_rng(0)
Array = NDArray[Any]


def predictor_of(*operators: tuple[Any, ...], output: str = "Y", **made: Array) -> Predictor:
    workspace = Workspace()
    for name, value in made.items():
        workspace.feed(name, value)
    net = NetDef(name="lent", op=[operator_def(*operator) for operator in operators], external_output=[output])
    return Predictor(net, workspace, inputs=["X"], outputs=[output])


def perceptron() -> tuple[Predictor, Array, Array]:
    W, b = RNG.standard_normal((5, 1024)).astype(np.float32), RNG.standard_normal(5).astype(np.float32)
    return predictor_of(("FC", ["X", "W", "b"], ["H"]), ("Relu", ["H"], ["Y"]), W=W, b=b), W, b


def batch(rows: int = 64) -> Array:
    return RNG.standard_normal((rows, 1024)).astype(np.float32)


def blob(predictor: Predictor, name: str) -> Array:
    """Return what a blob of the first seat has, which nobody else can see."""
    held = predictor.net.workspace.get_blob(name)
    assert held is not None
    found = held.value
    assert isinstance(found, Tensor)
    return found.plain().copy()


@pytest.fixture
def native() -> None:
    reason = why_unavailable("FC", "cpu", "onednn")
    if reason is not None:
        pytest.skip(reason)


@pytest.mark.usefixtures("native")
def test_an_array_is_read_where_it_lies_and_the_blob_keeps_what_it_has() -> None:
    predictor, W, b = perceptron()
    first = batch()
    predictor.run(X=first)
    for _ in range(3):
        X = batch()
        kept = X.copy()
        found = predictor.run(X=X)["Y"]
        np.testing.assert_allclose(found, np.maximum(X @ W.T + b, 0), rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(X, kept)
        np.testing.assert_array_equal(blob(predictor, "X"), first)


@pytest.mark.usefixtures("native")
def test_runs_without_arrays_read_the_blob_again() -> None:
    predictor, W, b = perceptron()
    first = batch()
    predictor.run(X=first)
    predictor.run(X=batch())
    predictor.net.run()
    np.testing.assert_allclose(blob(predictor, "Y"), np.maximum(first @ W.T + b, 0), rtol=1e-4, atol=1e-4)


def variants() -> dict[str, Array]:
    """Arrays that cannot be read as they are, or have another form than the one before."""
    read_only = batch()
    read_only.flags.writeable = False
    odd = np.zeros(64 * 1024 * 4 + 1, np.uint8)[1:].view(np.float32).reshape(64, 1024)
    odd[...] = batch()
    return {
        "strided": batch(128)[::2],
        "columns": np.asfortranarray(batch()),
        "unaligned": odd,
        "read only": read_only,
        "other byte order": batch().astype(">f4"),
        "longer": batch(96),
        "small": batch(3),
        "usual": batch(),
    }


@pytest.mark.parametrize("name", list(variants()))
def test_all_arrays_are_taken(name: str) -> None:
    predictor, W, b = perceptron()
    X = variants()[name]
    for array in (batch(), X, batch(), X):
        expected = np.maximum(array.astype(np.float32) @ W.T + b, 0)
        np.testing.assert_allclose(predictor.run(X=array)["Y"], expected, rtol=1e-4, atol=1e-4)


def test_what_a_net_writes_over_its_input_is_not_written_to_the_array() -> None:
    predictor = predictor_of(("Relu", ["X"], ["X"]), ("Sigmoid", ["X"], ["Y"]))
    for _ in range(3):
        X = batch()
        kept = X.copy()
        found = predictor.run(X=X)["Y"]
        np.testing.assert_array_equal(X, kept)
        np.testing.assert_allclose(found, 1 / (1 + np.exp(-np.maximum(X, 0))), rtol=1e-5)


def test_outputs_that_are_the_input_in_another_shape_are_those_of_the_run() -> None:
    predictor = predictor_of(("Flatten", ["X"], ["Y"]))
    for _ in range(3):
        X = RNG.standard_normal((4, 16, 1024)).astype(np.float32)
        np.testing.assert_array_equal(predictor.run(X=X)["Y"], X.reshape(4, -1))


def test_observers_see_the_input() -> None:
    predictor, _, _ = perceptron()
    predictor.run(X=batch())
    seen: list[Array] = []

    class Looks(Observer[object]):
        def start(self) -> None:
            seen.append(blob(predictor, "X"))

    predictor.net.attach(Looks())
    X = batch()
    predictor.run(X=X)
    predictor.run(X=X)
    np.testing.assert_array_equal(seen[-1], X)


@pytest.mark.usefixtures("native")
def test_a_run_that_fails_gives_the_array_back(monkeypatch: pytest.MonkeyPatch) -> None:
    from tazza.nets.plan.instance import Instance

    predictor, W, b = perceptron()
    first = batch()
    predictor.run(X=first)
    run = Instance.run

    def fails(self: Instance) -> None:
        run(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(Instance, "run", fails)
    with pytest.raises(KeyboardInterrupt):
        predictor.run(X=batch())
    monkeypatch.undo()
    predictor.net.run()
    np.testing.assert_allclose(blob(predictor, "Y"), np.maximum(first @ W.T + b, 0), rtol=1e-4, atol=1e-4)
    X = batch()
    np.testing.assert_allclose(predictor.run(X=X)["Y"], np.maximum(X @ W.T + b, 0), rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["lenet", "squeezenet", "mobilenet_v2", pytest.param("resnet50", marks=pytest.mark.slow)]
)
def test_nets_give_the_same_bits_as_with_copies(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    small: dict[str, Any] = {} if name == "lenet" else {"size": 96, "classes": 7}
    model = CLASSIFIERS[name].inference(**small)
    workspace = Workspace()
    workspace.run_net_once(model.init_net.proto)
    shape = (17, 1, 28, 28) if name == "lenet" else (2, 3, 96, 96)
    inputs = [RNG.standard_normal(shape).astype(np.float32) for _ in range(3)]
    found: list[list[Array]] = []
    for least in (1, 1 << 60):
        monkeypatch.setattr(predictors, "LENT_BYTES", least)
        predictor = Predictor(model.net.proto, workspace, inputs=["data"])
        found.append([predictor.run(data=X)["softmax"] for X in inputs])
    for lent, copied in zip(*found, strict=True):
        np.testing.assert_array_equal(lent, copied)
