"""Training: going on from a checkpoint gives the same losses, to the last bit; and what ends a training."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tazza.db import DBReader
from tazza.db.images import LabelledImages, write_image_records
from tazza.errors import ArgumentError, BoundsError, DBError, FileError, FormatError, NetError, NumericError, ShapeError
from tazza.models import Model, sgd
from tazza.models.evaluation import Outputs, evaluate
from tazza.models.training import Trainer, TrainingStep, carried_blobs, seed_operators, skip_records
from tazza.models.zoo import pixels
from tazza.operator import operator_def
from tazza.proto import NetDef
from tazza.workspace import Workspace

RECORDS, BATCH = 23, 7  # the end of the data falls into a batch
CLASSES, PIXELS_OF_IMAGE = 3, 4 * 5


def write_db(db_type: str, path: Path) -> Path:
    """Write images of noise, brighter for higher labels."""
    random = np.random.default_rng(1)
    labels = random.integers(0, CLASSES, RECORDS).astype(np.int32)
    images = random.integers(0, 80, (RECORDS, 4, 5)) + 80 * labels[:, np.newaxis, np.newaxis]
    write_image_records(db_type, path, LabelledImages(images.astype(np.uint8), labels))
    return path


@pytest.fixture(params=["lmdb", "minidb"])
def data(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    """A database of each type that is trained from."""
    return request.param, write_db(request.param, tmp_path / "data")


def build(data: tuple[str, Path], *, rate: float = 0.05, momentum: float = 0.9, hidden: int = 6) -> Model:
    """Return a small model that reads a database; with gradients and updates."""
    model = Model("small")
    add_layers(model, data, hidden)
    loss = model.averaged_loss(model.label_cross_entropy("softmax", "label", "xent"), "loss")
    model.accuracy("softmax", "label", "accuracy")
    model.add_gradients([loss])
    sgd(model, rate, momentum=momentum, policy="step", stepsize=3, gamma=0.9)
    seed_operators(model.init_net.proto, 5)
    return model


def add_layers(model: Model, data: tuple[str, Path], hidden: int = 6) -> None:
    """Add a reader and two layers."""
    reader = model.init_net.add("CreateDB", (), "reader", db_type=data[0], db=str(data[1]))
    model.net.add("TensorProtosDBInput", reader, ["image", "label"], batch_size=BATCH)
    pixels(model, "image")
    model.relu(model.fc("data", "hidden", PIXELS_OF_IMAGE, hidden), "hidden")
    model.softmax(model.fc("hidden", "scores", hidden, CLASSES), "softmax")


def trainer(model: Model) -> Trainer:
    """Return what trains a model, in a workspace of its own."""
    return Trainer(model.init_net.proto, model.net.proto, Workspace())


@pytest.mark.slow
def test_resumed_training_has_the_losses_of_one_that_never_ended(data: tuple[str, Path], tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    with trainer(build(data)) as whole:
        expected = list(whole.run(20))
        parameters = whole.workspace.fetch("hidden_w")
    with trainer(build(data)) as first:
        steps = list(first.run(10, checkpoint=checkpoint))
    with trainer(build(data)) as second:
        second.load(checkpoint)
        steps += list(second.run(20))
        np.testing.assert_array_equal(second.workspace.fetch("hidden_w"), parameters)
    assert steps == expected
    assert [step.iteration for step in steps] == list(range(1, 21))
    assert expected[-1].loss < expected[0].loss


@pytest.mark.slow
@pytest.mark.parametrize("type", ["simple", "dag", "plan"])
def test_what_is_drawn_goes_on_where_it_stopped(type: str, tmp_path: Path) -> None:
    """Each step in a training of its own, with masks and noise that operators draw."""
    data = ("minidb", write_db("minidb", tmp_path / "data"))
    model = Model("drawing")
    reader = model.init_net.add("CreateDB", (), "reader", db_type=data[0], db=str(data[1]))
    model.net.add("TensorProtosDBInput", reader, ["image", "label"], batch_size=BATCH)
    dropped = model.dropout(pixels(model, "image"), "dropped", ratio=0.4, is_test=False)
    noise = model.net.add("GaussianFill", (), "noise", shape=[CLASSES])  # an odd number: half a pair is kept
    scores = model.fc(dropped, "scores", PIXELS_OF_IMAGE, CLASSES)
    counted = model.net.add("Cast", model.net.add("Iter", (), "count"), "counted", to=1)
    noise = model.net.add("Mul", [noise, counted], "scaled", broadcast=1)
    noisy = model.net.add("Add", [scores, model.net.add("StopGradient", noise)], "noisy", broadcast=1)
    _, loss = model.softmax_with_loss(noisy, "label", ["softmax", "loss"])
    model.add_gradients([loss])
    rate = sgd(model, 0.01)
    model.net.proto.type, model.net.proto.num_workers = type, 2
    model.net.add_external_output("loss", rate)
    seed_operators(model.init_net.proto, 5)
    seed_operators(model.net.proto, 6)
    init, net = model.init_net.proto, model.net.proto
    with Trainer(init, net, Workspace(), accuracy=None) as whole:
        expected = list(whole.run(4))
    steps: list[TrainingStep] = []
    for count in range(1, 5):
        with Trainer(init, net, Workspace(), accuracy=None) as part:
            if steps:
                part.load(tmp_path / "checkpoint")
            steps += part.run(count, checkpoint=tmp_path / "checkpoint")
    assert steps == expected
    assert len({step.loss for step in steps}) == 4


def test_a_checkpoint_in_the_middle_is_one_to_go_on_from(data: tuple[str, Path], tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    with trainer(build(data)) as whole:
        expected = list(itertools.islice(whole.run(9, checkpoint=checkpoint, every=4), 7))
    with trainer(build(data)) as second:
        second.load(checkpoint)
        assert second.iteration == 4
        assert list(second.run(7)) == expected[4:]


def test_a_save_that_fails_leaves_the_checkpoint_before(
    data: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    checkpoint = folder / "checkpoint"
    with trainer(build(data)) as first:
        list(first.run(2, checkpoint=checkpoint))
        before = checkpoint.read_bytes()

        def interrupted(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(Path, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            first.save(checkpoint)
        monkeypatch.undo()
        assert checkpoint.read_bytes() == before
        assert [path.name for path in folder.iterdir()] == ["checkpoint"]
        with pytest.raises((FileError, DBError), match="nowhere"):
            first.save(tmp_path / "nowhere" / "checkpoint")


def other_file(path: Path) -> None:
    """Write something else."""
    path.write_bytes(b"no checkpoint, but long enough")


def truncated(path: Path) -> None:
    """Cut the file."""
    path.write_bytes(path.read_bytes()[:-5])


@pytest.mark.parametrize("spoil", [other_file, truncated])
def test_a_broken_checkpoint_is_refused(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    data = ("minidb", write_db("minidb", tmp_path / "data"))
    with trainer(build(data)) as first:
        list(first.run(1, checkpoint=tmp_path / "checkpoint"))
    spoil(tmp_path / "checkpoint")
    with trainer(build(data)) as second, pytest.raises((DBError, FormatError), match="checkpoint"):
        second.load(tmp_path / "checkpoint")


def test_checkpoints_of_other_nets_are_refused(tmp_path: Path) -> None:
    data = ("minidb", write_db("minidb", tmp_path / "data"))
    with trainer(build(data, momentum=0.0)) as first:
        list(first.run(1, checkpoint=tmp_path / "checkpoint"))
        with pytest.raises(ArgumentError, match="before the first step, and 1 were run"):
            first.load(tmp_path / "checkpoint")
    with trainer(build(data)) as second:
        with pytest.raises(FormatError, match=r"has no blob 'hidden_w_momentum'[^\n]*\n  hint: .*solver"):
            second.load(tmp_path / "checkpoint")
        with pytest.raises(FileError, match="there is no checkpoint"):
            second.load(tmp_path / "missing")
    with (
        trainer(build(data, momentum=0.0, hidden=8)) as third,
        pytest.raises(ShapeError, match=r"\(6, 20\).*\(8, 20\)"),
    ):
        third.load(tmp_path / "checkpoint")


def test_a_loss_that_is_no_number_ends_the_training(tmp_path: Path) -> None:
    data = ("minidb", write_db("minidb", tmp_path / "data"))
    with trainer(build(data, rate=1e30)) as spoiled, pytest.raises(NumericError) as caught:
        list(spoiled.run(50, checkpoint=tmp_path / "checkpoint"))
    assert "the loss is nan in iteration" in str(caught.value)
    assert "at a learning rate of " in str(caught.value)
    assert not (tmp_path / "checkpoint").exists()


def test_nets_without_loss(tmp_path: Path) -> None:
    net = NetDef(name="n", op=[operator_def("ConstantFill", [], ["loss"], shape=[2])])
    with pytest.raises(ArgumentError, match="net 'n' makes no blob 'accuracy'"):
        Trainer(NetDef(name="i"), net, Workspace())
    with Trainer(NetDef(name="i"), net, Workspace(), accuracy=None) as made, pytest.raises(ShapeError, match="'loss'"):
        made.step()


def test_state_is_what_a_run_takes_from_the_run_before() -> None:
    ops = [
        operator_def("Iter", [], ["count"]),
        operator_def("FC", ["x", "w", "b"], ["y"]),
        operator_def("Relu", ["y"], ["y"]),
        operator_def("WeightedSum", ["w", "one", "y", "rate"], ["w"]),
    ]
    assert sorted(carried_blobs(NetDef(op=ops))) == ["b", "count", "one", "rate", "w", "x"]


@pytest.mark.parametrize("endless", [False, True])
@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 23])
def test_skipping_records_equals_reading_them(tmp_path: Path, count: int, endless: bool) -> None:
    path = write_db("minidb", tmp_path / "data")

    read, skipped = made = readers(path, endless)
    for _ in range(count):
        read.read()
    skip_records(skipped, count)
    assert read.read() == skipped.read()
    for reader in made:
        reader.close()


def readers(path: Path, endless: bool) -> list[DBReader]:
    """Return two readers of the same shard: records 1, 4 ... of 23, 8 in all, or each of the 23 in three rounds."""
    return [DBReader("minidb", path, num_shards=3, shard_id=1, endless=endless) for _ in range(2)]


def test_evaluation_counts_every_record_once_and_leaves_the_training_alone(data: tuple[str, Path]) -> None:
    model = build(data)
    test = Model("small_test", parameters_of=model)
    add_layers(test, data)
    parameters = [str(name) for name in test.parameter_blobs()]
    with trainer(model) as trained:
        list(trained.run(15))
        before = trained.workspace.fetch("softmax")
        found = evaluate(
            trained.workspace,
            test.init_net.proto,
            test.net.proto,
            parameters=parameters,
            count=RECORDS,
            keep=4,
            outputs=Outputs(image="image"),
            names=("dark", "grey", "bright"),
        )
        np.testing.assert_array_equal(trained.workspace.fetch("softmax"), before)
        w = {name: trained.workspace.fetch(name) for name in parameters}
    random = np.random.default_rng(1)
    labels = random.integers(0, CLASSES, RECORDS)
    images = (random.integers(0, 80, (RECORDS, 4, 5)) + 80 * labels[:, np.newaxis, np.newaxis]).reshape(
        RECORDS, -1
    ) / 256
    scores = np.maximum(images @ w["hidden_w"].T + w["hidden_b"], 0) @ w["scores_w"].T + w["scores_b"]
    correct = int((scores.argmax(1) == labels).sum())
    predicted = scores.argmax(1)
    probabilities = (np.exp(scores) / np.exp(scores).sum(1, keepdims=True)).max(1)
    assert (found.count, found.correct, found.accuracy) == (RECORDS, correct, correct / RECORDS)
    np.testing.assert_allclose([guess.probability for guess in found.least_sure], np.sort(probabilities)[:4], rtol=1e-5)
    assert found.least_sure[0].image.shape == (4, 5)
    surely_wrong = np.sort(probabilities[predicted != labels])[::-1][:4]
    assert len(surely_wrong) > 1
    np.testing.assert_allclose([guess.probability for guess in found.confidently_wrong], surely_wrong, rtol=1e-5)
    assert all(guess.predicted != guess.label for guess in found.confidently_wrong)
    assert found.confusion.matrix().sum(1).tolist() == np.bincount(labels, minlength=CLASSES).tolist()
    assert [one.name for one in found.confusion.per_class()] == ["dark", "grey", "bright"]


def test_labels_that_the_net_does_not_know_are_refused(tmp_path: Path) -> None:
    images = LabelledImages(np.zeros((9, 4, 5), np.uint8), np.array([0, 1, 2, 3, 0, 1, 2, 0, 1], np.int32))
    write_image_records("minidb", tmp_path / "data", images)
    test = Model("small_test")
    add_layers(test, ("minidb", tmp_path / "data"))
    workspace = Workspace()
    fill = NetDef(op=[op for op in test.init_net.proto.op if op.type != "CreateDB"])
    workspace.run_net_once(fill)
    parameters = [str(name) for name in test.parameter_blobs()]
    with pytest.raises(BoundsError, match="label 3 of blob 'label' is none of the 3 classes of 'softmax'"):
        evaluate(workspace, test.init_net.proto, test.net.proto, parameters=parameters, count=9)


def test_a_net_that_would_change_what_it_tests_is_refused(tmp_path: Path) -> None:
    model = build(("minidb", write_db("minidb", tmp_path / "data")))
    parameters = [str(name) for name in model.parameter_blobs()]
    with trainer(model) as trained, pytest.raises(NetError, match=r"net '.*': \w+ writes the parameter 'hidden_w'"):
        evaluate(trained.workspace, model.init_net.proto, model.net.proto, parameters=parameters, count=RECORDS)


def test_seeds_follow_from_one_seed_and_the_position() -> None:
    nets = [NetDef(op=[operator_def("XavierFill", [], ["a"]), operator_def("XavierFill", [], ["b"])]) for _ in range(3)]
    nets[0].op[1].device_option.random_seed = 4
    for net, seed in zip(nets, (1, 1, 2), strict=True):
        seed_operators(net, seed)
    seeds = [[op.device_option.random_seed for op in net.op] for net in nets]
    assert seeds[0][1] == 4
    assert seeds[0][0] == seeds[1][0]
    assert len({*seeds[1], *seeds[2]}) == 4
