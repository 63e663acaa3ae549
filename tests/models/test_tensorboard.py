"""What a training writes for TensorBoard, read back by TensorBoard's own reader."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from importlib import import_module, util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tazza.errors import ArgumentError, FileError, UnavailableError
from tazza.models import Model, sgd
from tazza.models.confusion import Confusion
from tazza.models.evaluation import Evaluation
from tazza.models.tensorboard import TensorBoard
from tazza.models.training import Trainer, seed_operators
from tazza.observers.drawing import Guess
from tazza.observers.event_file import EventFile
from tazza.observers.graph_def import graph_def
from tazza.operator import Spec
from tazza.tensor import Tensor
from tazza.workspace import Workspace

needs_package = pytest.mark.skipif(
    util.find_spec("tensorboard") is None, reason="the package tensorboard is missing: pip install '.[tensorboard]'"
)


def read(folder: Path) -> Any:
    """Return what TensorBoard reads in a folder."""
    accumulators = import_module("tensorboard.backend.event_processing.event_accumulator")
    everything = dict.fromkeys(("scalars", "images", "histograms"), 0)
    accumulator = accumulators.EventAccumulator(str(folder), size_guidance=everything)
    accumulator.Reload()
    return accumulator


def build() -> Model:
    """Return a net of two layers, one of them with something in place, that learns from what is fed."""
    model = Model("two")
    hidden = model.relu(model.fc("data", "body/hidden", 3, 5), "body/hidden")
    scores = model.fc(hidden, "scores", 5, 2)
    softmax, loss = model.softmax_with_loss(scores, "label", ["softmax", "loss"])
    model.accuracy(softmax, "label", "accuracy")
    model.add_gradients([loss])
    sgd(model, 0.1, momentum=0.9)
    seed_operators(model.init_net.proto, 4)
    return model


@pytest.fixture
def trainer() -> Iterator[Trainer]:
    """A training under way, on seven records."""
    model, workspace = build(), Workspace()
    random = np.random.default_rng(3)
    workspace.feed("data", random.normal(size=(7, 3)).astype(np.float32))
    workspace.feed("label", random.integers(0, 2, 7).astype(np.int32))
    with Trainer(model.init_net.proto, model.net.proto, workspace, fed=("data", "label")) as made:
        yield made


def train(trainer: Trainer, board: TensorBoard, until: int) -> dict[int, float]:
    """Train with a listener that is told of all; return the losses."""
    board.began(trainer)
    losses: dict[int, float] = {}
    for step in trainer.run(until):
        losses[step.iteration] = step.loss
        board.stepped(trainer, step)
        if step.iteration % 4 == 0:
            board.tested(trainer, {"test_accuracy": step.iteration / 100, "words": 3.0})
    return losses


@pytest.mark.slow
@needs_package
def test_scalars_histograms_and_the_graph(trainer: Trainer, tmp_path: Path) -> None:
    with TensorBoard(tmp_path / "board") as board:
        losses = train(trainer, board, 8)
    found = read(tmp_path / "board")
    read_losses = {event.step: event.value for event in found.Scalars("train/loss")}
    assert read_losses == {step: np.float32(loss) for step, loss in losses.items()}
    assert [event.step for event in found.Scalars("test/words")] == [4, 8]
    assert {event.value for event in found.Scalars("train/learning_rate")} == {np.float32(0.1)}
    assert [event.step for event in found.Scalars("train/seconds_per_step")] == [2, 3, 4, 6, 7, 8], "no test between"
    names = ("body/hidden_w", "body/hidden_b", "scores_w", "scores_b")
    assert sorted(found.Tags()["histograms"]) == sorted(f"parameters/{name}" for name in names)
    weights = trainer.workspace.fetch("scores_w")
    last = found.Histograms("parameters/scores_w")[-1]
    assert (last.step, last.histogram_value.num, sum(last.histogram_value.bucket)) == (8, 10, 10)
    assert last.histogram_value.sum == pytest.approx(float(weights.sum()), rel=1e-5)
    nodes = {node.name: node for node in found.Graph().node}
    assert nodes["body/hidden/FC"].op == "FC"


@needs_package
def test_the_graph_of_a_net(trainer: Trainer) -> None:
    """Every input is a node; each operator is one; what is in place lies in the box of the layer."""
    net = trainer.net.definition
    made = graph_def(net)
    nodes = {node.name: node for node in made.node}
    assert len(nodes) == len(made.node)
    assert {name.partition(":")[0] for node in made.node for name in node.input} <= set(nodes)
    kinds = Counter(node.op for node in made.node)
    outside = {"Parameter": 4, "State": 6, "Input": 2}
    assert kinds == Counter(op.type for op in net.op) + Counter(outside)
    assert list(nodes["body/hidden/Relu"].input) == ["body/hidden/FC"]
    assert list(nodes["body/hidden/FC"].input) == ["data", "body/hidden/hidden_w", "body/hidden/hidden_b"]
    assert nodes["body/hidden/hidden_w"].op == "Parameter"
    assert nodes["data"].op == "Input"
    assert [name for name in nodes if name.endswith("/FCGradient") and not name.startswith("gradients/")] == []
    update = nodes["updates/scores_w/MomentumSGDUpdate"]
    assert "updates/scores_w/scores_w_momentum" in update.input
    assert "gradients/scores_w_grad/FCGradient" in update.input


@needs_package
def test_shapes_in_the_graph_are_those_of_the_run(trainer: Trainer) -> None:
    trainer.step()

    def spec_of(name: str) -> Spec | None:
        value = trainer.workspace.blob(name).value
        return value.spec if isinstance(value, Tensor) else None

    nodes = {node.name: node for node in graph_def(trainer.net.definition, spec_of).node}
    shapes = {
        name: [[each.size for each in shape.dim] for shape in nodes[name].attr["_output_shapes"].list.shape]
        for name in ("body/hidden/FC", "body/hidden/Relu", "softmax/SoftmaxWithLoss", "scores/scores_w")
    }
    assert list(shapes.values()) == [[[7, 5]], [[7, 5]], [[7, 2], []], [[2, 5]]]


@needs_package
def test_a_training_that_goes_on_doubles_no_step(trainer: Trainer, tmp_path: Path) -> None:
    """Interrupted behind step 6, it goes on from a checkpoint of step 4, in the same folder."""
    board = TensorBoard(tmp_path / "board")
    train(trainer, board, 4)
    trainer.save(tmp_path / "checkpoint")
    for step in trainer.run(6):
        board.stepped(trainer, step)
    board.close()
    workspace = Workspace()
    for name in ("data", "label"):
        workspace.feed(name, trainer.workspace.fetch(name))
    model = build()
    with (
        Trainer(model.init_net.proto, model.net.proto, workspace, fed=("data", "label")) as again,
        TensorBoard(tmp_path / "board") as going_on,
    ):
        again.load(tmp_path / "checkpoint")
        train(again, going_on, 8)
    found = read(tmp_path / "board")
    assert [event.step for event in found.Scalars("train/loss")] == list(range(1, 9))
    assert [event.step for event in found.Histograms("parameters/scores_w")] == [4, 8]
    assert len(list((tmp_path / "board").iterdir())) == 2


@needs_package
@pytest.mark.slow  # pictures need matplotlib, whose import takes a second
def test_pictures_of_the_last_test(trainer: Trainer, tmp_path: Path) -> None:
    guess = Guess(np.zeros((4, 5)), 0, 1, 0.9)
    evaluation = Evaluation(Confusion(2, {(0, 1): 1, (1, 1): 3}, ("cat", "dog")), [guess], [guess])
    with TensorBoard(tmp_path) as board:
        board.began(trainer)
        board.finished(trainer, evaluation)
        board.finished(trainer, None)
    found = read(tmp_path)
    assert sorted(found.Tags()["images"]) == ["test/confusion", "test/images"]
    (image,) = found.Images("test/images")
    assert image.encoded_image_string.startswith(b"\x89PNG")
    assert image.width > image.height > 100


@needs_package
def test_what_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileError):
        EventFile(tmp_path / "file")
    with EventFile(tmp_path / "board") as file:
        with pytest.raises(ArgumentError, match="picture 'a' of 2 bytes is no PNG file"):
            file.image(1, "a", b"no")
        file.histograms(1, {"nothing": np.empty(0), "nan": np.full(2, np.nan), "one": np.array([1.0, np.inf])})
    with pytest.raises(FileError, match="cannot write the event file"):
        file.scalars(1, {"a": 1.0})
    assert read(tmp_path / "board").Tags()["histograms"] == ["one"]


@needs_package
@pytest.mark.parametrize(
    "numbers",
    [
        np.array([1, 1 + 2**-52]),
        np.array([0, 5e-324]),
        np.array([-1.7e308, 1.7e308]),
        np.array([2**62, 2**62 + 1]),
        np.array([1e300, 1e300]),
    ],
    ids=["close to 1", "close to 0", "far apart", "large integers", "alike"],
)
def test_every_tensor_has_a_histogram(tmp_path: Path, numbers: np.ndarray[Any, Any]) -> None:
    with EventFile(tmp_path) as file:
        file.histograms(1, {"any": numbers, "half \ud800": numbers})
    found = read(tmp_path)
    assert sorted(found.Tags()["histograms"]) == ["any", "half ?"]
    told = found.Histograms("any")[0].histogram_value
    assert (told.num, sum(told.bucket), told.min, told.max) == (2, 2, float(numbers[0]), float(numbers[1]))


@needs_package
def test_steps_have_64_bits(tmp_path: Path) -> None:
    with EventFile(tmp_path) as file:
        file.scalars(2**63 - 1, {"a": 1.0})
        with pytest.raises(ArgumentError, match="step = 9223372036854775808"):
            file.scalars(2**63, {"a": 1.0})


def test_without_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard.compat.proto.event_pb2", None)
    with pytest.raises(UnavailableError, match=r"pip install 'tazza\[tensorboard\]'"):
        TensorBoard(tmp_path)
