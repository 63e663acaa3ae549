"""A training of pictures: it goes on as if it had never ended, keeps what is frozen, and its files predict."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tazza
from tazza.errors import ArgumentError, ShapeError
from tazza.fitting import Augmentation, FitOptions, PictureTraining, Solver, find_rate, find_source
from tazza.fitting.training import LABELS, best_test, waited_since_best, write_labels
from tazza.images import Preprocessing, read_labels
from tazza.interop import save_nets
from tazza.models import Model, layers
from tazza.models.zoo import CLASSIFIERS
from tests.fitting.conftest import CLASSES, SIDE, pictures

SMALL = FitOptions(batch_size=6, iterations=8, solver=Solver("adam"), augmentation=Augmentation(flip=True, shift=1))


def losses(training: PictureTraining, count: int) -> list[float]:
    """Return the losses of the next steps."""
    steps = training.steps()
    return [next(steps).loss for _ in range(count)]


def values(training: PictureTraining) -> dict[str, bytes]:
    """Return the bits of all parameters."""
    return {str(name): training.workspace.fetch(name).tobytes() for name in training.model.parameters}


@pytest.mark.slow
def test_a_training_that_goes_on_has_the_losses_of_one_that_never_ended(photos: Path, tmp_path: Path) -> None:
    source = find_source(photos)
    options = replace(SMALL, augmentation=Augmentation(flip=True, shift=2, zoom=0.1, rotate=9, light=0.2))
    with PictureTraining("mlp", source, tmp_path, options) as training:
        wanted = losses(training, 8)
    with PictureTraining("mlp", source, tmp_path, options) as training:
        found = losses(training, 3)
        training.trainer.save(tmp_path / "checkpoint")
    with PictureTraining("mlp", source, tmp_path, options) as training:
        training.trainer.load(tmp_path / "checkpoint")
        assert found + losses(training, 5) == wanted


@pytest.mark.slow
def test_what_is_exported_predicts_what_was_tested(photos: Path, tmp_path: Path) -> None:
    with PictureTraining("mlp", find_source(photos), tmp_path, SMALL) as training:
        list(training.steps())
        tested = training.evaluate()
        training.export(tmp_path)
    assert read_labels(tmp_path / LABELS) == CLASSES
    prepare = Preprocessing.read(tmp_path / "preprocessing.json")
    images, labels = pictures(6, 2)
    with tazza.load(tmp_path) as predictor:
        found = predictor.run(data=prepare(*images))["softmax"]
    assert int((found.argmax(1) == labels).sum()) == tested.correct


def convolutional(folder: Path, *, classes: int = 3) -> Path:
    """Write a net that predicts: convolution, normalization, dropout; its blobs have names of their own."""
    model = Model("own")
    model.net.add_external_input("picture")
    x = layers.conv(model, "picture", "conv", 3, 4, 3, pad=1)
    x = layers.relu(model, layers.spatial_bn(model, x, "bn", 4, is_test=True), "kept")
    x = layers.dropout(model, x, "drop", ratio=0.3, is_test=True)
    x = layers.fc(model, x, "scores", 4 * SIDE * SIDE, classes)
    layers.softmax(model, x, "probability")
    workspace = tazza.Workspace()
    workspace.run_net_once(model.init_net.proto)
    folder.mkdir(exist_ok=True)
    nets = (folder / "init_net.pb", folder / "predict_net.pb")
    save_nets(*nets, model, workspace, outputs=["probability"], parameters=list(map(str, model.parameters)))
    return folder


@pytest.mark.slow
def test_a_net_that_predicts_is_trained_on(photos: Path, tmp_path: Path) -> None:
    """Its operators are in training mode; its last layer is new, its other parameters begin where they were."""
    own = convolutional(tmp_path / "own")
    with tazza.load(own) as predictor:
        before = {name: predictor.workspace.fetch(name) for name in ("conv_w", "scores_w")}
    with PictureTraining(own, find_source(photos), tmp_path, SMALL) as training:
        made = {op.type: op for op in training.nets.train.op}
        assert [len(made[name].output) for name in ("SpatialBN", "Dropout")] == [5, 2]
        assert np.array_equal(training.workspace.fetch("conv_w"), before["conv_w"])
        assert training.workspace.fetch("scores_w").shape == (2, before["scores_w"].shape[1])
        started = values(training)
        losses(training, 8)
        ended = values(training)
        assert {name for name in ended if ended[name] != started[name]} == set(ended)
        training.export(tmp_path)
    with tazza.load(tmp_path) as predictor:
        assert [op.type for op in predictor.definition.op if len(op.output) > 1] == []


@pytest.mark.slow
def test_a_last_layer_stays_where_classes_are_the_same(photos: Path, tmp_path: Path) -> None:
    own = convolutional(tmp_path / "own", classes=2)
    with tazza.load(own) as predictor:
        before = predictor.workspace.fetch("scores_w")
    with PictureTraining(own, find_source(photos), tmp_path, SMALL) as training:
        assert np.array_equal(training.workspace.fetch("scores_w"), before)
    write_labels(own / LABELS, ("cat", "dog"))
    with PictureTraining(own, find_source(photos), tmp_path, SMALL) as training:
        assert not np.array_equal(training.workspace.fetch("scores_w"), before)


@pytest.mark.slow
@pytest.mark.parametrize("patterns", [("conv*",), ("bn*", "conv_b"), ("*_w",)])
def test_what_is_frozen_keeps_its_bits(photos: Path, tmp_path: Path, patterns: Sequence[str]) -> None:
    own = convolutional(tmp_path / "own")
    with PictureTraining(own, find_source(photos), tmp_path, replace(SMALL, freeze=patterns)) as training:
        started = values(training)
        losses(training, 4)
        ended = values(training)
    changed = {name for name in ended if ended[name] != started[name]}
    assert set(training.frozen).isdisjoint(changed)
    assert changed == set(ended) - set(training.frozen)


@pytest.mark.slow
def test_gradients_of_what_is_frozen_are_not_computed(photos: Path, tmp_path: Path) -> None:
    own, source = convolutional(tmp_path / "own"), find_source(photos)
    with PictureTraining(own, source, tmp_path, SMALL) as training:
        whole = [op.type for op in training.nets.train.op]
    with PictureTraining(own, source, tmp_path, replace(SMALL, freeze=("conv*", "bn*"))) as training:
        rest = [op.type for op in training.nets.train.op]
    assert {"ConvGradient", "SpatialBNGradient"} <= set(whole)
    assert {"ConvGradient", "SpatialBNGradient"}.isdisjoint(rest)


@pytest.mark.parametrize(("patterns", "told"), [(("nothing*",), "no parameter is called"), (("*",), "every parameter")])
def test_patterns_that_cannot_be(photos: Path, tmp_path: Path, patterns: Sequence[str], told: str) -> None:
    with pytest.raises(ArgumentError, match=told):
        PictureTraining("mlp", find_source(photos), tmp_path, replace(SMALL, freeze=patterns))


@pytest.mark.slow
def test_parameters_come_from_another_model(photos: Path, tmp_path: Path) -> None:
    source = find_source(photos)
    with PictureTraining("mlp", source, tmp_path, SMALL) as training:
        losses(training, 2)
        wanted = values(training)
        (tmp_path / "first").mkdir()
        training.export(tmp_path / "first")
    images, labels = pictures(9)
    three = find_source((images, labels + np.arange(9) // 6))
    with PictureTraining("mlp", three, tmp_path, replace(SMALL, start=tmp_path / "first")) as training:
        found = values(training)
        assert training.taken is not None
        assert training.taken.taken == ("fc1_w", "fc1_b", "fc2_w", "fc2_b")
        assert "pred_w" in training.taken.left
        assert training.data.prepare == Preprocessing.read(tmp_path / "first" / "preprocessing.json")
    assert {name for name in found if found[name] == wanted[name]} == set(training.taken.taken)
    with pytest.raises(ArgumentError, match="no parameter of this net's names"):
        PictureTraining("mlp", three, tmp_path, replace(SMALL, start=convolutional(tmp_path / "own")))


@pytest.mark.slow  # nets with a hundred layers are compiled
@pytest.mark.parametrize("name", CLASSIFIERS.keys())
def test_every_classifier_of_the_zoo_learns(photos: Path, tmp_path: Path, name: str) -> None:
    """Sizes are the least that each is built for; its last layer has an output for each class."""
    size = 0
    for size in (SIDE, 28, 32):
        try:
            CLASSIFIERS[name].inference(size=size)
        except ShapeError:
            continue
        break
    short = {"width": 1 / 16, "blocks": (1, 1, 1, 1), "stages": ((1, 16, 1, 1), (6, 24, 2, 2))}
    known = inspect.signature(CLASSIFIERS[name].scores).parameters
    narrow = {option: value for option, value in short.items() if option in known}
    options = replace(SMALL, size=size, batch_size=2, iterations=1, net_options=narrow)
    with PictureTraining(name, find_source(photos), tmp_path, options) as training:
        (step,) = training.steps()
        assert np.isfinite(step.loss)
        assert training.evaluate().count == 6
        training.export(tmp_path)
    with tazza.load(tmp_path) as predictor:
        made = predictor.run([Preprocessing.read(tmp_path / "preprocessing.json")(pictures(1)[0][0])])
        assert made["softmax"].shape == (1, 2)


@pytest.mark.slow  # six trainings
def test_sizes_and_colours_follow_the_pictures(tmp_path: Path) -> None:
    images, labels = pictures(10, side=12)
    cases: list[tuple[str, Any, int | None, tuple[int, int], str]] = [
        ("mlp", images, None, (12, 12), "rgb"),
        ("mlp", images[..., 0], None, (12, 12), "grey"),
        ("mlp", images, 6, (6, 6), "rgb"),
        ("lenet", images[..., 0], None, (28, 28), "grey"),  # it is built for nothing else
        ("mlp", np.repeat(np.repeat(images, 3, 1), 3, 2), None, (28, 28), "rgb"),  # larger than it was published for
        ("mlp", images[:, :6], None, (28, 28), "rgb"),
    ]
    for net, given, size, wanted, colors in cases:
        with PictureTraining(net, find_source((given, labels)), tmp_path, replace(SMALL, size=size)) as training:
            assert (training.data.prepare.size, training.data.prepare.colors) == (wanted, colors)


def test_presets_and_unknown_names(photos: Path, tmp_path: Path) -> None:
    with PictureTraining("mlp", find_source(photos), tmp_path, replace(SMALL, preset="caffe")) as training:
        made = training.data.prepare
        assert (made.colors, made.mean, made.scale) == ("bgr", (104.0, 117.0, 123.0), 1.0)
        assert np.isfinite(losses(training, 1)[0])
    with pytest.raises(ArgumentError, match="no preset 'oxford'"):
        PictureTraining("mlp", find_source(photos), tmp_path, replace(SMALL, preset="oxford"))
    with pytest.raises(ArgumentError, match="no net of the zoo"):
        PictureTraining("resnet51", find_source(photos), tmp_path, SMALL)


@pytest.mark.slow  # compiles plans
@pytest.mark.parametrize("name", ["plan", "async_scheduling"])
def test_other_types_of_nets_learn_too(photos: Path, tmp_path: Path, name: str) -> None:
    found: list[list[float]] = []
    for net_type in (None, name):
        with PictureTraining("mlp", find_source(photos), tmp_path, replace(SMALL, net_type=net_type)) as training:
            found.append([*losses(training, 3), training.evaluate(keep=2).accuracy])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4)


@pytest.mark.slow
def test_rates_grow_until_the_loss_explodes(photos: Path, tmp_path: Path) -> None:
    found = find_rate("mlp", find_source(photos), tmp_path, SMALL)
    ratios = np.diff(np.log(found.rates))
    np.testing.assert_allclose(ratios, ratios[0], rtol=1e-3)
    assert min(found.rates) < found.suggested < max(found.rates)
    found.write(tmp_path / "rates.csv")
    lines = (tmp_path / "rates.csv").read_text().splitlines()
    assert (lines[0], len(lines)) == ("learning_rate,loss,mean_loss", 1 + len(found.rates))


def test_names_come_back_whatever_they_are(tmp_path: Path) -> None:
    for names in (("a b", "c"), ("1 dog", "0 cat"), ("n01440764 tench", "x"), ("0", "1")):
        write_labels(tmp_path / LABELS, names)
        assert read_labels(tmp_path / LABELS) == names


def test_the_best_test_is_the_first_of_the_highest() -> None:
    assert (best_test({}), waited_since_best({})) == (None, 0)
    assert (best_test({5: 0.1, 10: 0.3, 15: 0.3, 20: 0.2}), waited_since_best({5: 0.1, 10: 0.3, 15: 0.3})) == (10, 1)


@pytest.mark.slow  # four trainings
def test_what_somebody_says_comes_before_what_is_stored(photos: Path, tmp_path: Path) -> None:
    source, own = find_source(photos), convolutional(tmp_path / "own")
    stored = Preprocessing((SIDE, SIDE), "crop", scale=1.0, mean=(1.0, 2.0, 3.0), colors="bgr")
    stored.write(own / "preprocessing.json")
    with PictureTraining(own, source, tmp_path, SMALL) as training:
        assert training.data.prepare == stored
    with PictureTraining(own, source, tmp_path, replace(SMALL, colors="rgb", preset="imagenet")) as training:
        assert training.data.prepare.colors == "rgb"
        assert training.data.prepare.mean == (0.485, 0.456, 0.406)
    with PictureTraining("mlp", source, tmp_path, SMALL) as training:
        (tmp_path / "mlp").mkdir()
        training.export(tmp_path / "mlp")
    smaller = replace(SMALL, start=tmp_path / "mlp", size=4, colors="grey")
    with PictureTraining("mlp", source, tmp_path, smaller) as training:
        assert (training.data.prepare.size, training.data.prepare.colors) == ((4, 4), "grey")
        assert len(training.data.prepare.mean) == 1
