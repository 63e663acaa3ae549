"""`tazza train NET`: pictures of one's own, from the folder to what `tazza predict` says of another one."""

from __future__ import annotations

import csv
import itertools
import shutil
from pathlib import Path

import numpy as np
import pytest

import tazza
from tazza.cli.train_folder import alone_in
from tazza.cli.train_pictures import PictureSettings, train_pictures
from tazza.errors import TazzaError
from tazza.fitting.transfer import parameters_in
from tazza.models import OPTIMIZERS
from tazza.models.zoo import CLASSIFIERS
from tazza.ops.optimizer.learning_rate import POLICIES
from tests.cli.conftest import Run
from tests.fitting.conftest import pictures, write_pictures

SMALL = ("--batch-size", 8, "--learning-rate", 0.01, "--seed", 3)
CHANCE = ("--flip", "--shift", 1, "--zoom", 0.1, "--rotate", 5, "--light", 0.1)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of two classes with `train` and `val`, and a picture that cannot be read."""
    folder = tmp_path_factory.mktemp("photos")
    write_pictures(folder / "train", 16)
    write_pictures(folder / "val", 6, seed=2)
    (folder / "train" / "dark" / "broken.jpg").write_bytes(b"no picture")
    return folder


def losses(out: Path) -> list[str]:
    """Return the column of losses of a history, as text."""
    return [row["loss"] for row in csv.DictReader((out / "history.csv").read_text().splitlines())]


@pytest.mark.slow
@pytest.mark.usefixtures("no_pictures")
def test_from_a_folder_to_a_prediction(run: Run, photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = run("train", "mlp", "--data", photos, "--epochs", 4, "--out", out, *SMALL)
    assert result.exit_code == 0, result.output + result.stderr
    assert "2 classes in" in result.output
    assert "16 pictures to learn from, 6 to test on, of 8x8 pixels, rgb" in result.output
    assert "left out: " in result.output
    assert "broken.jpg" in result.output
    assert "test accuracy 100.00% (6 of 6)" in result.output
    assert {"init_net.pb", "predict_net.pb", "labels.txt", "preprocessing.json", "best.minidb"} <= {
        path.name for path in out.iterdir()
    }
    told = run("predict", out, photos / "val" / "bright" / "00.png", photos / "val" / "dark" / "01.png")
    assert told.exit_code == 0, told.stderr
    first, second = told.output.splitlines()
    assert first.split(": ")[1].startswith("bright")
    assert second.split(": ")[1].startswith("dark")


@pytest.mark.slow  # trains; one training is fast enough
@pytest.mark.usefixtures("no_pictures")
def test_a_training_that_goes_on_has_the_losses_of_one_that_never_ended(run: Run, photos: Path, tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    words = ("train", "mlp", "--data", photos, "--policy", "fixed", *SMALL, *CHANCE)
    assert run(*words, "--iterations", 7, "--out", whole).exit_code == 0
    assert run(*words, "--iterations", 3, "--out", parts).exit_code == 0
    result = run("train", "net", "--iterations", 7, "--out", parts, "--resume")
    assert result.exit_code == 0, result.output + result.stderr
    assert "going on after iteration 3 of 7" in result.output
    assert losses(parts) == losses(whole)
    with tazza.load(parts) as found, tazza.load(whole) as wanted:
        one, other = parameters_in(found), parameters_in(wanted)
    assert {name: value.tobytes() for name, value in one.items()} == {n: value.tobytes() for n, value in other.items()}


@pytest.mark.slow  # trains; one training is fast enough
@pytest.mark.usefixtures("no_pictures")
def test_patience_ends_and_the_best_is_exported(run: Run, photos: Path, tmp_path: Path) -> None:
    words = ("train", "mlp", "--data", photos, "--epochs", 30, *SMALL, "--patience", 2, "--keep-best")
    result = run(*words, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output + result.stderr
    assert "ended early: 2 tests were no better than the best one" in result.output
    again = run("train", "mlp", "--out", tmp_path / "out", "--resume", "--patience", 3)
    assert again.exit_code == 0, again.output + again.stderr
    assert len(losses(tmp_path / "out")) in (8, 10, 12)


@pytest.mark.slow  # trains; one training is fast enough
@pytest.mark.usefixtures("no_pictures")
def test_from_another_model_with_some_of_it_frozen(run: Run, photos: Path, tmp_path: Path) -> None:
    words = ("--data", photos, "--epochs", 1, *SMALL)
    assert run("train", "mlp", *words, "--out", tmp_path / "first").exit_code == 0
    options = ("--from", tmp_path / "first", "--freeze", "fc1*", "--freeze", "fc2*")
    result = run("train", "mlp", *words, *options, "--out", tmp_path / "second")
    assert result.exit_code == 0, result.output + result.stderr
    assert "6 of 6 parameters were taken" in result.output
    assert "frozen: 4 parameters: fc1_w, fc1_b, fc2_w, fc2_b" in result.output
    result = run("train", tmp_path / "second", *words, "--out", tmp_path / "third")
    assert result.exit_code == 0, result.output + result.stderr


@pytest.mark.slow  # draws
def test_a_rate_is_found(run: Run, photos: Path, tmp_path: Path) -> None:
    result = run("train", "mlp", "--data", photos, "--find-rate", "--out", tmp_path)
    assert result.exit_code == 0, result.output + result.stderr
    assert "a tenth of that is a good beginning: --learning-rate" in result.output
    assert {path.name for path in tmp_path.iterdir()} == {"data", "rates.csv", "rates.png"}


@pytest.mark.slow  # trains; one training is fast enough
@pytest.mark.usefixtures("no_pictures")
def test_lenet_takes_pictures_too(run: Run, tmp_path: Path) -> None:
    images, labels = pictures(20, side=28)
    np.savez(tmp_path / "a.npz", images=images[..., 0], labels=labels)
    words = ("--iterations", 1, "--batch-size", 4, "--out", tmp_path / "out")
    result = run("train", "lenet", "--data", tmp_path / "a.npz", *words)
    assert result.exit_code == 0, result.output + result.stderr
    assert "16 pictures to learn from, 4 to test on, of 28x28 pixels, grey" in result.output


def test_every_optimizer_and_policy_is_taken() -> None:
    """What they do is shown in tests/fitting/test_solver.py."""
    for solver, policy in itertools.product(OPTIMIZERS.keys(), POLICIES.keys()):
        chosen = PictureSettings().updated({"solver": solver, "policy": policy, "gamma": 0.5}).options().solver
        assert (chosen.name, chosen.policy, chosen.options) == (solver, policy, {"gamma": 0.5})


@pytest.mark.slow  # compiles a convolution
@pytest.mark.usefixtures("no_pictures")
def test_a_program_may_declare_a_net(run: Run, photos: Path, tmp_path: Path) -> None:
    """It is the one that the page shows."""
    page = (Path(__file__).parents[2] / "docs" / "train.md").read_text()
    shown = next(block for block in page.split("```python\n") if "@classifier" in block).partition("```")[0]
    program = tmp_path / "mine.py"
    program.write_text(shown)
    words = ("--iterations", 1, "--net-option", "width=5", "--out", tmp_path / "out", *SMALL)
    result = run("train", program, "--data", photos, *words)
    CLASSIFIERS.unregister("mine")
    assert result.exit_code == 0, result.output + result.stderr
    with tazza.load(tmp_path / "out") as predictor:
        assert parameters_in(predictor)["conv_w"].shape == (5, 3, 3, 3)
    (tmp_path / "none.py").write_text("")
    result = run("train", tmp_path / "none.py", "--data", photos, "--overwrite", *words)
    assert result.exit_code == 1
    assert "declares none of the classifiers" in " ".join(result.stderr.split())


BAD = {
    "net": (("resnet51",), "is no net of the zoo"),
    "data": (("mlp", "--data", "nowhere"), "does not exist"),
    "both": (("mlp", "--epochs", 1, "--iterations", 1), "are both given"),
    "nothing": (("net",), "there is no net to train"),
    "option": (("mlp", "--set", "speed=3"), "nor a policy has 'speed'"),
    "builder": (("mlp", "--net-option", "width=3"), "mlp does not take width"),
    "solver": (("mlp", "--solver", "adamant"), "did you mean adam"),
    "size": (("lenet", "--size", 30), "lenet takes images of 28 x 28"),
    "from": (("mlp", "--from", "nowhere"), "does not exist"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_words_end_with_a_message(run: Run, photos: Path, tmp_path: Path, case: str) -> None:
    words, told = BAD[case]
    data = () if "--data" in words else ("--data", photos)
    result = run("train", *words, *data, "--out", tmp_path / "out")
    assert result.exit_code == 1, result.output
    assert told in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("no_pictures")
def test_a_folder_that_holds_a_training_is_left_alone(run: Run, photos: Path, tmp_path: Path) -> None:
    given = {"data": str(photos), "iterations": 1, "batch_size": 4}
    train_pictures("mlp", given, tmp_path, resume=False, overwrite=False)
    with pytest.raises(TazzaError, match="holds a training already"):
        train_pictures("mlp", given, tmp_path, resume=False, overwrite=False)
    with (
        alone_in(tmp_path),
        pytest.raises(TazzaError, match="another process trains into"),
    ):
        train_pictures("mlp", given, tmp_path, resume=False, overwrite=True)
    shutil.rmtree(tmp_path / "data")  # it is made again
    train_pictures(None, {"iterations": 2}, tmp_path, resume=True, overwrite=False)
    assert len(losses(tmp_path)) == 2
