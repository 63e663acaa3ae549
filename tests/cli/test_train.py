"""`tazza train lenet`, end to end."""

from __future__ import annotations

import csv
import itertools
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tazza
from tazza.cli import train as train_command
from tazza.cli.interruption import Interrupted, Interruption
from tazza.cli.progress import Display
from tazza.cli.train_nets import build
from tazza.cli.train_settings import TrainSettings
from tazza.db.image_source import prepare
from tazza.db.images import LabelledImages, write_image_records
from tazza.errors import ArgumentError, FormatError
from tazza.fitting import Solver
from tazza.models import BlobReference, Model, layers, name_scope, sgd
from tazza.models.training import Trainer, TrainingStep
from tazza.workspace import Workspace
from tests.cli.conftest import Run, strokes
from tests.net_types import one_of_each

ROOT = Path(__file__).parent.parent.parent
LENET = ROOT / "tests" / "data" / "interop" / "lenet_mnist"
SMALL = ("--batch-size", 20, "--seed", 3)


def losses(out: Path) -> list[str]:
    """Return the column of losses of a history, as text."""
    return [row["loss"] for row in csv.DictReader((out / "history.csv").read_text().splitlines())]


@pytest.mark.slow  # seconds for the pictures and for the last percent; parts of it are shown by the tests below
def test_a_training_writes_all_that_it_says(run: Run, bars: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = run("train", "lenet", "--data", bars, "--iterations", 12, "--out", out, *SMALL)
    assert result.exit_code == 0, result.output
    assert "data: 60 images to learn from in lmdb" in result.output
    assert re.search(
        r"test accuracy 100\.00% \(20 of 20\), \d+ images/s, 12 iterations, [\d.]+ s in all", result.output
    )
    written = {path.name for path in out.iterdir()}
    assert written == {
        "checkpoint.minidb",
        "confusion.png",
        "curves.png",
        "data",
        "digit.png",
        "history.csv",
        "init_net.pb",
        "least_sure.png",
        "lenet.minidb",
        "per_class.csv",
        "predict_net.pb",
        "settings.json",
        "times.json",
    }
    assert len(losses(out)) == 12
    labels = np.array([3, 8, 0], np.uint8)
    images = strokes(labels)[:, np.newaxis].astype(np.float32) / 256
    for arguments in ((out / "init_net.pb", out / "predict_net.pb"), (out / "lenet.minidb",)):
        with tazza.load(*arguments) as predictor:
            assert predictor.run(data=images)["softmax"].argmax(1).tolist() == labels.tolist()


@pytest.mark.slow
@pytest.mark.usefixtures("no_pictures")
def test_a_train_net_from_a_file(run: Run, bars: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    nets = ("--net", LENET / "train_net.pbtxt", "--init-net", LENET / "param_init_net.pbtxt")
    result = run("train", "lenet", "--data", bars, "--iterations", 2, "--out", out, "--batch-size", 5, *nets)
    assert result.exit_code == 0, result.output
    assert len(losses(out)) == 2
    with tazza.load(out / "lenet.minidb") as predictor:
        assert predictor.run(data=np.zeros((3, 1, 28, 28), np.float32))["softmax"].shape == (3, 10)
    refused = run("train", "lenet", "--data", bars, "--out", out, *nets, "--overwrite", "--momentum", 0.5)
    assert "--momentum has no effect on --net" in refused.stderr


def normalized(folder: Path) -> None:
    """Write a train net with all that behaves otherwise in a test, and the net that makes its parameters."""
    model = Model("normalized")
    with name_scope("body"):
        x = layers.conv(model, BlobReference("data"), "conv", 1, 3, 5, stride=5)
        x = layers.spatial_bn(model, x, "bn", 3, is_test=False)
        x = layers.dropout(model, layers.relu(model, x, x), "drop", ratio=0.5, is_test=False)
        scores = layers.fc(model, x, "scores", 3 * 5 * 5, 10)
    _, loss = layers.softmax_with_loss(model, scores, "label", ["softmax", "loss"])
    model.add_gradients([loss])
    sgd(model, 0.01, momentum=0.9)
    for suffix in (".pb", ".pbtxt"):
        tazza.write_message(folder / f"train{suffix}", model.net.export())
        tazza.write_message(folder / f"init{suffix}", model.init_net.export())


@pytest.mark.slow
@pytest.mark.usefixtures("no_pictures")
def test_what_is_tested_on_changes_nothing_of_what_is_learned(run: Run, tmp_path: Path) -> None:
    """Also whether the net comes as text or binary; and what is exported takes images alone."""
    labels = (np.arange(40) % 10).astype(np.int32)
    images = strokes(labels.astype(np.uint8))
    for name, part in (("train", images), ("dark", images[:10] // 8), ("bright", 255 - images[10:20] // 4)):
        write_image_records("minidb", tmp_path / name, LabelledImages(part, labels[: len(part)]))
    normalized(tmp_path)
    written: list[bytes] = []
    for tested, suffix in (("dark", ".pbtxt"), ("bright", ".pb")):
        out = tmp_path / f"on_{tested}"
        data = ("--data", tmp_path / "train", "--test-data", tmp_path / tested)
        nets = ("--net", tmp_path / f"train{suffix}", "--init-net", tmp_path / f"init{suffix}")
        result = run("train", "lenet", *data, *nets, "--out", out, "--iterations", 6, *SMALL)
        assert result.exit_code == 0, result.stderr
        written.append((out / "init_net.pb").read_bytes() + (out / "checkpoint.minidb").read_bytes())
        with tazza.load(out / "init_net.pb", out / "predict_net.pb") as one, tazza.load(out / "lenet.minidb") as other:
            assert one.inputs == other.inputs == ("data",)
            pixels = images[:, np.newaxis].astype(np.float32) / 256
            found = one.run(data=pixels)["softmax"]
            np.testing.assert_array_equal(found, other.run(data=pixels)["softmax"])
            np.testing.assert_allclose(found[7:8], one.run(data=pixels[7:8])["softmax"], rtol=1e-5)
    assert written[0] == written[1]


@pytest.mark.slow
def test_a_loss_that_is_no_number(run: Run, bars: Path, tmp_path: Path) -> None:
    result = run(
        "train", "lenet", "--data", bars, "--out", tmp_path, *SMALL, "--learning-rate", 1e20, "--iterations", 9
    )
    assert result.exit_code == 1
    assert re.search(r"error: net '.*': the loss is (nan|inf) in iteration \d, at a learning rate of", result.stderr)


@pytest.mark.slow
@pytest.mark.usefixtures("own_engines", "no_pictures")
def test_engines_are_asked_for_by_name(run: Run, bars: Path, tmp_path: Path) -> None:
    common = ("train", "lenet", "--data", bars, "--out", tmp_path, "--iterations", 1, *SMALL)
    assert run(*common, "--engine", "reference").exit_code == 0
    refused = run(*common, "--overwrite", "--engine", "refrence")
    assert "unknown engine 'refrence'\n  hint: did you mean reference?" in refused.stderr


BAD = {
    "no data": (["--data", "nowhere"], "error: 'nowhere' does not exist\n  hint: name a folder"),
    "two lengths": (["--iterations", "1", "--epochs", "1"], "--iterations 1 and --epochs 1 are both given"),
    "half a net": (["--net", "a.pbtxt"], "--net and --init-net go together"),
    "no checkpoint": (["--resume"], "has no checkpoint to go on from"),
    "negative rate": (["--learning-rate", "-1"], "a learning rate of -1.0 is not above 0"),
    "momentum": (["--momentum", "1"], "momentum 1.0 is not in 0 ... 1"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_options_end_with_a_message(run: Run, tmp_path: Path, case: str) -> None:
    options, reason = BAD[case]
    result = run("train", "lenet", "--out", tmp_path, *options)
    assert result.exit_code == 1
    assert reason in result.stderr
    assert "Traceback" not in result.stderr


BAD_WITH_DATA = {
    "policy": (["--policy", "stepp"], "stepp"),
    "net type": (["--net-type", "dagg"], "unknown net type 'dagg'\n  hint: did you mean dag?"),
    "solver": (["--solver", "sdg"], "unknown optimizer 'sdg'\n  hint: did you mean sgd?"),
    "missing net": (["--net", "a.pbtxt", "--init-net", "b.pbtxt"], "cannot read 'b.pbtxt'"),
}


@pytest.mark.parametrize("case", BAD_WITH_DATA)
def test_bad_names_end_with_a_message(run: Run, bars: Path, tmp_path: Path, case: str) -> None:
    options, reason = BAD_WITH_DATA[case]
    result = run("train", "lenet", "--data", bars, "--out", tmp_path, "--iterations", 1, *options)
    assert (result.exit_code, reason in result.stderr) == (1, True), result.stderr


def test_an_output_folder_that_cannot_be_made(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = run("train", "lenet", "--out", tmp_path / "file" / "out")
    assert result.exit_code == 1
    assert "error: cannot make the folder" in result.stderr


# -- folders that hold a training --------------------------------------------------------------------------------------


def contents(out: Path) -> dict[str, bytes]:
    """Return what the files of a training hold, but for its data."""
    return {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}


@pytest.mark.slow
@pytest.mark.usefixtures("no_pictures")
def test_a_folder_that_holds_a_training_is_left_alone(run: Run, bars: Path, tmp_path: Path) -> None:
    """Whatever is asked of it, until --resume or --overwrite is, and what these refuse leaves it as it was too."""
    out = tmp_path / "out"
    common = ("train", "lenet", "--data", bars, "--out", out, *SMALL)
    assert run(*common, "--iterations", 2).exit_code == 0
    before = contents(out)
    refused = run(*common, "--iterations", 1)
    assert refused.exit_code == 1
    assert f"'{out}' holds a training already: checkpoint.minidb, history.csv, init_net.pb" in refused.stderr
    assert "hint: --resume goes on with it, --overwrite replaces it, --out names another folder" in refused.stderr
    assert contents(out) == before
    assert "pass one" in run(*common, "--resume", "--overwrite").stderr
    for options, reason in (*BAD.values(), *BAD_WITH_DATA.values()):
        for way in ("--resume", "--overwrite"):
            if "--resume" not in options:
                bad = run("train", "lenet", "--out", out, "--data", bars, way, *options)
                assert (bad.exit_code, reason in bad.stderr) == (1, True), bad.stderr
                assert contents(out) == before, (options, way)
    for name in ("checkpoint.minidb", "predict_net.pb"):  # the one without the other is worth as much
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_bytes(b"of somebody")
        assert "holds a training already" in run(*common[:5], tmp_path / name, *SMALL).stderr
    assert run(*common, "--iterations", 1, "--overwrite").exit_code == 0
    assert len(losses(out)) == 1
    (out / "checkpoint.minidb").unlink()
    before = contents(out)
    assert "has no checkpoint to go on from" in run("train", "lenet", "--out", out, "--resume").stderr
    assert contents(out) == before


@pytest.mark.slow
@pytest.mark.usefixtures("no_pictures")
def test_nothing_of_the_training_before_is_taken_for_the_new_one(
    run: Run, bars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    common = ("train", "lenet", "--data", bars, "--out", tmp_path, *SMALL)
    assert run(*common, "--iterations", 3).exit_code == 0

    def broken(trainer: Trainer) -> TrainingStep:
        del trainer
        raise KeyboardInterrupt  # no signal, but somebody within the first step

    monkeypatch.setattr(Trainer, "step", broken)
    assert run(*common, "--iterations", 2, "--overwrite").exit_code == 130
    monkeypatch.undo()
    assert set(contents(tmp_path)) == {"settings.json"}
    assert run("train", "lenet", "--out", tmp_path, "--resume").exit_code == 0, "it starts from the beginning"
    assert len(losses(tmp_path)) == 2


# -- interrupts --------------------------------------------------------------------------------------------------------


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Let SIGINT interrupt: shells start what runs in the background without that, and Python keeps it so."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, former)


PLACES = {
    "in a step": (Trainer, "step"),
    "in a checkpoint": (Trainer, "save"),
    "in a test": (train_command, "evaluate"),
    "between steps": (Display, "show"),
}
"""Where a signal may come; it comes before and behind what the function does."""


def interrupting(monkeypatch: pytest.MonkeyPatch, place: str, number: int, *, behind: bool) -> None:
    """Let the first call of a function send a signal to this process."""
    owner, name = PLACES[place]
    plain, calls = getattr(owner, name), itertools.count()

    def signalled(*arguments: Any, **options: Any) -> Any:
        first = next(calls) == 0
        if first and not behind:
            signal.raise_signal(number)
        result = plain(*arguments, **options)
        if first and behind:
            signal.raise_signal(number)
        return result

    monkeypatch.setattr(owner, name, signalled)


WAYS = [
    ("in a step", signal.SIGINT, True),
    ("in a test", signal.SIGTERM, False),
    ("in a step", signal.SIGTERM, False),
    ("in a test", signal.SIGINT, True),
    ("in a checkpoint", signal.SIGINT, False),
    ("in a checkpoint", signal.SIGTERM, True),
    ("between steps", signal.SIGINT, False),
]
MOST = 5
"""How often one training is interrupted."""


@pytest.mark.usefixtures("no_pictures", "ctrl_c")
@pytest.mark.parametrize(
    ("place", "number", "behind"),
    [pytest.param(*way, marks=pytest.mark.slow) for way in WAYS],
)
def test_a_training_that_is_interrupted_again_and_again_gives_what_one_does_that_never_was(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, number: signal.Signals, *, behind: bool
) -> None:
    """At every iteration, within the first round through the data and behind it; with masks that are drawn."""
    labels = (np.arange(50) % 10).astype(np.int32)
    write_image_records("minidb", tmp_path / "data", LabelledImages(strokes(labels.astype(np.uint8)), labels))
    normalized(tmp_path)
    nets = ("--net", tmp_path / "train.pb", "--init-net", tmp_path / "init.pb")
    common = ("train", "lenet", "--data", tmp_path / "data", *nets, "--batch-size", 13, "--iterations", 5)
    assert run(*common, "--out", tmp_path / "whole").exit_code == 0
    parts = tmp_path / "parts"
    words: tuple[object, ...] = (*common, "--out", parts)
    interrupts = 0
    while True:
        if interrupts < MOST:
            interrupting(monkeypatch, place, number, behind=behind)
        ended = run(*words)
        monkeypatch.undo()
        if ended.exit_code == 0:
            break
        assert (ended.exit_code, ended.stderr) == (128 + number, "interrupted\n")
        assert f"interrupted; go on with: tazza train lenet --out '{parts}' --resume" in ended.output
        words = ("train", "lenet", "--out", parts, "--resume")
        interrupts += 1
        assert interrupts <= MOST
    assert interrupts > 1
    found, expected = contents(parts), contents(tmp_path / "whole")
    assert found["history.csv"] == expected["history.csv"]
    for name in ("checkpoint.minidb", "init_net.pb"):
        assert found[name] == expected[name], name


@pytest.mark.usefixtures("ctrl_c")
def test_a_second_signal_does_not_wait() -> None:
    done: list[str] = []

    def work(interruption: Interruption, *numbers: int) -> None:
        with interruption.held():
            for number in numbers:
                signal.raise_signal(number)
            done.append("whole")

    with Interruption() as interruption:
        with pytest.raises(Interrupted) as caught:
            work(interruption, signal.SIGINT)
        assert (caught.value.status, interruption.within) == (130, False)
        with pytest.raises(Interrupted) as caught:
            work(interruption, signal.SIGINT, signal.SIGTERM)
        assert (caught.value.status, interruption.within) == (143, True)
    assert done == ["whole"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_signals_that_somebody_ignores_stay_ignored() -> None:
    former = signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Interruption():
        signal.raise_signal(signal.SIGINT)
    assert signal.signal(signal.SIGINT, former) is signal.SIG_IGN


@pytest.mark.slow
@pytest.mark.usefixtures("no_pictures")
def test_an_interrupt_within_a_step_leaves_the_checkpoint_before(
    run: Run, bars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that cannot wait, as a second Ctrl-C: half a step is no state to go on from."""
    plain = Trainer.step

    def interrupted(trainer: Trainer) -> TrainingStep:
        step = plain(trainer)
        if trainer.iteration == 5:
            raise KeyboardInterrupt
        return step

    whole, parts = tmp_path / "whole", tmp_path / "parts"
    common = ("train", "lenet", "--data", bars, *SMALL, "--iterations", 5, "--policy", "step", "--learning-rate", 0.01)
    monkeypatch.setattr(Trainer, "step", interrupted)
    ended = run(*common, "--out", parts, "--checkpoint-every", 2)
    monkeypatch.undo()
    assert (ended.exit_code, ended.stderr) == (130, "interrupted\n")
    resumed = run("train", "lenet", "--out", parts, "--resume")
    assert resumed.exit_code == 0, resumed.stderr
    assert "going on after iteration 4 of 5" in resumed.output
    assert run(*common, "--out", whole).exit_code == 0
    assert losses(parts) == losses(whole)
    assert json.loads((parts / "settings.json").read_text())["batch_size"] == 20


def test_settings() -> None:
    settings = TrainSettings().updated({"epochs": 2.0, "batch_size": 32})
    assert settings.iterations_of(100) == 7  # 200 images in batches of 32
    assert settings.updated({"iterations": 4}).iterations_of(100) == 4
    assert settings.chosen_solver() == Solver(learning_rate=TrainSettings.LEARNING_RATE)
    chosen = settings.updated({"policy": "step", "gamma": 0.5, "solver": "adam", "learning_rate": 0.1}).chosen_solver()
    assert chosen == Solver("adam", 0.1, "step", {"gamma": 0.5})
    with pytest.raises(ArgumentError, match="both given"):
        settings.updated({"iterations": 4, "epochs": 1.0})


def test_settings_files(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    settings = TrainSettings(data="x", power=0.5)
    settings.write(path)
    assert TrainSettings.read(path) == settings
    path.write_text("[]")
    with pytest.raises(FormatError, match="does not hold the settings"):
        TrainSettings.read(path)


@pytest.mark.slow
@pytest.mark.delivery
def test_the_defaults_learn_the_digits(tmp_path: Path) -> None:
    program = "from tazza.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "train", "lenet", "--out", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        check=True,
    )
    found = re.search(r"test accuracy ([\d.]+)% \(\d+ of 359\)", done.stdout)
    assert found is not None, done.stdout
    assert float(found[1]) >= 97.0


def test_other_images_than_lenets_are_refused(run: Run, tmp_path: Path) -> None:
    images = LabelledImages(np.zeros((20, 5, 6), np.uint8), np.zeros(20, np.int32))
    write_image_records("minidb", tmp_path / "small.minidb", images)
    result = run("train", "lenet", "--data", tmp_path / "small.minidb", "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert "holds an image of dims (1, 5, 6), and LeNet takes (1, 28, 28)" in result.stderr


FAST_TYPE = "async_scheduling"
"""The net type that the fast tests train with."""


@pytest.fixture(scope="module")
def losses_of_simple(bars: Path, tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """Return the losses of three steps of the net type `simple`."""
    out = tmp_path_factory.mktemp("simple")
    settings = TrainSettings().updated({"data": str(bars), "batch_size": 20, "seed": 3, "policy": "fixed"})
    nets = build(settings, prepare(settings.data, None, out / "data", seed=settings.seed), 3)
    with Trainer(nets.init, nets.train, Workspace()) as trainer:
        return [step.loss for step in trainer.run(3)]


@pytest.mark.slow
@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind == FAST_TYPE else pytest.mark.slow) for kind in one_of_each()]
)
def test_every_net_type_trains(run: Run, bars: Path, tmp_path: Path, losses_of_simple: list[float], kind: str) -> None:
    """The losses of `simple`, also after going on from a checkpoint; `plan` rounds otherwise."""
    common = ("train", "lenet", "--data", bars, *SMALL, "--policy", "fixed", "--out", tmp_path)
    first = run(*common, "--iterations", 2, "--net-type", kind, "--workers", 2)
    assert first.exit_code == 0, first.stderr
    then = run("train", "lenet", "--out", tmp_path, "--resume", "--iterations", 3)
    assert then.exit_code == 0, then.stderr
    found = [float(loss) for loss in losses(tmp_path)]
    stored = json.loads((tmp_path / "settings.json").read_text())
    assert (stored["net_type"], stored["workers"]) == (kind, 2)
    if kind == "plan":
        np.testing.assert_allclose(found, losses_of_simple, rtol=1e-4)
    else:
        assert found == losses_of_simple


def test_settings_of_before_net_types(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text('{"data": "x", "seed": 5}')
    assert TrainSettings.read(path) == TrainSettings(data="x", seed=5)
