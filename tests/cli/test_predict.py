"""`tazza predict` on photographs: settings, labels, forms of output, folders, pictures that a net makes, and errors."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import tazza
from tazza.images import CAFFE, Preprocessing
from tazza.models import Model
from tests.cli.conftest import Run

COLORS = ("red", "green", "blue")
RGB = {"red": (220, 30, 10), "green": (20, 200, 40), "blue": (5, 25, 240)}


def photograph(color: str, width: int = 40, height: int = 30) -> NDArray[np.uint8]:
    """Return a picture (H, W, 3) of one colour, darker to its right."""
    ramp = np.linspace(1.0, 0.6, width)[np.newaxis, :, np.newaxis]
    return np.broadcast_to(np.array(RGB[color]) * ramp, (height, width, 3)).astype(np.uint8)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a net of photographs of 12 x 12: three classes, the mean of each colour; red first."""
    folder = tmp_path_factory.mktemp("colors")
    built = Model("colors")
    built.conv("data", "pooled", 3, 3, [12, 12], use_bias=False)
    built.net.add_external_output(built.softmax(built.fc("pooled", "scores", 3, 3), "softmax"))
    workspace = tazza.Workspace()
    workspace.feed("pooled_w", np.repeat(np.eye(3, dtype=np.float32) / 144, 144).reshape(3, 3, 12, 12))
    workspace.feed("scores_w", 8 * np.eye(3, dtype=np.float32))
    workspace.feed("scores_b", np.zeros(3, np.float32))
    tazza.save_nets(folder / "init_net.pb", folder / "predict_net.pb", built, workspace)
    (folder / "names.txt").write_text("\n".join(COLORS))
    return folder


@pytest.fixture
def photographs(tmp_path: Path) -> Path:
    """A folder of photographs of unlike sizes, one of them in a folder within."""
    folder = tmp_path / "photographs"
    (folder / "more").mkdir(parents=True)
    Image.fromarray(photograph("blue")).save(folder / "b.jpg")
    Image.fromarray(photograph("green", 25, 50)).save(folder / "g.png")
    Image.fromarray(photograph("red", 12, 12)).save(folder / "more" / "r.jpg")
    return folder


def test_a_folder_with_labels(run: Run, model: Path, photographs: Path) -> None:
    result = run("predict", model, photographs, "--size", 12, "--labels", model / "names.txt", "--top", 1)
    assert result.exit_code == 0, result.stderr
    lines = result.output.splitlines()
    assert [line.partition(": ")[2].split()[0] for line in lines] == ["blue", "green", "red"]
    assert lines[0].startswith(f"{photographs / 'b.jpg'}: blue (")


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [1, 2])
def test_forms_for_programs_say_the_same(run: Run, model: Path, photographs: Path, batch_size: int) -> None:
    np.save(photographs / "z.npy", np.moveaxis(np.stack([photograph(color, 12, 12) for color in COLORS]), -1, 1))
    common = ("predict", model, photographs, "--size", 12, "--labels", model / "names.txt", "--top", 2)
    common = (*common, "--batch-size", batch_size)
    rows = [json.loads(line) for line in run(*common, "--format", "json").output.splitlines()]
    assert [row["classes"][0]["label"] for row in rows] == ["blue", "green", "red", *COLORS]
    assert [row.get("row") for row in rows] == [None, None, None, 0, 1, 2]
    table = list(csv.DictReader(io.StringIO(run(*common, "--format", "csv").output)))
    told = [(row["image"], row.get("row", ""), one["class"], one["score"]) for row in rows for one in row["classes"]]
    assert [(line["image"], int(line["class"])) for line in table] == [(each[0], each[2]) for each in told]
    np.testing.assert_allclose([float(line["score"]) for line in table], [each[3] for each in told], rtol=1e-6)
    assert [line["rank"] for line in table] == ["1", "2"] * 6
    shown = run(*common, "--format", "table").output
    assert shown.split()[:3] == ["image", "class", "score"]
    assert shown.count("2 blue") >= 2


def test_broken_images_are_named_and_the_rest_goes_on(run: Run, model: Path, photographs: Path) -> None:
    (photographs / "c.jpg").write_bytes((photographs / "b.jpg").read_bytes()[:200])
    (photographs / "d.npy").write_bytes(b"no array")
    result = run("predict", model, photographs, photographs / "none.png", "--size", 12, "--format", "json")
    assert result.exit_code == 1
    rows = [json.loads(line) for line in result.output.splitlines()]
    told = [(Path(row["image"]).name, "error" in row) for row in rows]  # in turn, whatever goes together
    fine, broken = {"b.jpg", "g.png", "r.jpg"}, {"c.jpg", "d.npy", "none.png"}
    assert told == [(name, name in broken) for name in ("b.jpg", "c.jpg", "d.npy", "g.png", "r.jpg", "none.png")]
    assert {name for name, failed in told if not failed} == fine
    assert result.stderr.count("error: ") == 3
    assert "3 of 6 images failed" in result.stderr


@pytest.mark.slow
def test_a_wrong_size_says_which_one_fits(run: Run, model: Path, photographs: Path, tmp_path: Path) -> None:
    """A net of 32 x 32 is found by the shape rules; what fits no size that is tried is told by the operator."""
    built = Model("fixed")
    built.net.add_external_output(built.fc(built.conv("data", "c", 3, 2, 5), "scores", 2 * 28 * 28, 3))
    workspace = tazza.Workspace()
    workspace.run_net_once(built.init_net.proto)
    tazza.save_nets(tmp_path / "init_net.pb", tmp_path / "predict_net.pb", built, workspace)
    result = run("predict", tmp_path, photographs / "b.jpg", photographs / "g.png")
    assert result.exit_code == 1
    assert "b.jpg is 40x30, this net takes 32x32\n  hint: --size 32 scales" in result.stderr
    assert "g.png is 25x50, this net takes 32x32" in result.stderr
    assert result.stderr.count("hint:") == 1
    assert run("predict", tmp_path, photographs, "--size", 32).exit_code == 0
    (tmp_path / "value_info.json").write_text(json.dumps({"data": [1, [1, 3, 32, 32]]}))
    assert "takes 32x32" in run("predict", tmp_path, photographs / "b.jpg").stderr


@pytest.mark.slow
def test_settings_are_kept_where_that_is_asked_for(run: Run, model: Path, photographs: Path, tmp_path: Path) -> None:
    for name in ("init_net.pb", "predict_net.pb"):
        (tmp_path / name).write_bytes((model / name).read_bytes())
    given = ("--size", "12", "--fit", "crop", "--scale", "1/255", "--mean", "0.1,0.2,0.3", "--std", "2", "--invert")
    wanted = run("predict", tmp_path, photographs, *given).output
    assert not (tmp_path / "preprocessing.json").exists()
    assert run("predict", tmp_path, photographs, *given, "--save", "--labels", model / "names.txt").exit_code == 0
    kept = Preprocessing.read(tmp_path / "preprocessing.json")
    assert kept == Preprocessing((12, 12), "crop", None, 1 / 255, (0.1, 0.2, 0.3), (2.0,), invert=True)
    again = run("predict", tmp_path, photographs)
    assert [line.rpartition("(")[2] for line in again.output.splitlines()] == [
        line.rpartition("(")[2] for line in wanted.splitlines()
    ]
    assert again.output.count("blue") == 3  # names.txt was kept as labels.txt
    (tmp_path / "labels.txt").unlink()
    assert run("predict", tmp_path, photographs, "--preset", "none", *given).output == wanted


def test_presets(run: Run, model: Path, photographs: Path) -> None:
    with tazza.load(model) as predictor:
        prepare = Preprocessing((12, 12), "crop", 16, CAFFE.scale, CAFFE.mean, CAFFE.std, CAFFE.colors)
        scores = predictor.run(data=prepare(photographs / "g.png"))["softmax"][0]
    shown = run("predict", model, photographs / "g.png", "--preset", "caffe", "--size", 12, "--shorter", 16)
    assert shown.output.split(": ")[1].startswith(f"{scores.argmax()} ({scores.max():.1%})"), shown.stderr


def wrong(*words: Any, because: str) -> Any:
    return pytest.param(words, because, id=" ".join(map(str, words)))


@pytest.mark.parametrize(
    ("words", "because"),
    [
        wrong("--mean", "104,117,123", because="need --scale"),
        wrong("--mean", "1,2", "--scale", 1, because="for the 3 colours rgb"),
        wrong("--size", "12x12", because="is no size"),
        wrong("--size", "0", because="both are 1 or more"),
        wrong("--scale", "1/0", because="is no number"),
        wrong("--preset", "torch", because="no preset"),
        wrong("--fit", "squeeze", because="stretch, crop, pad"),
        wrong("--colors", "grey", "--preset", "caffe", because="colours grey"),
        wrong("--format", "xml", because="formats: table, lines, json, csv"),
        wrong("--range", "1", "--pictures", "out", because="is no pair"),
        wrong("--output", "nope", because="does not make the output 'nope'"),
        wrong("--size", "12", "--labels", "few.txt", because="2 labels for 3 classes"),
    ],
)
def test_wrong_options(
    run: Run, model: Path, photographs: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[Any, ...], because: str
) -> None:
    monkeypatch.chdir(photographs)
    Path("few.txt").write_text("one\ntwo\n")
    result = run("predict", model, "b.jpg", *words)
    assert result.exit_code == 1
    assert because in result.stderr


# -- pictures ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def blur(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a net that makes pictures: each pixel the mean of itself and its neighbours to both sides."""
    folder = tmp_path_factory.mktemp("blur")
    built = Model("blur")
    kernel = np.zeros((3, 3, 1, 3), np.float32)
    for color in range(3):
        kernel[color, color] = 1 / 3
    built.net.add_external_output(built.conv("data", "out", 3, 3, [1, 3], use_bias=False, pads=[0, 1, 0, 1]))
    workspace = tazza.Workspace()
    workspace.feed("out_w", kernel)
    tazza.save_nets(folder / "init_net.pb", folder / "predict_net.pb", built, workspace)
    return folder


def test_a_net_makes_pictures(run: Run, blur: Path, photographs: Path, tmp_path: Path) -> None:
    result = run("predict", blur, photographs, "--pictures", tmp_path / "out", "--format", "json")
    assert result.exit_code == 0, result.stderr
    written = [json.loads(line)["picture"] for line in result.output.splitlines()]
    assert [Path(one).relative_to(tmp_path / "out").as_posix() for one in written] == ["b.png", "g.png", "more/r.png"]
    with Image.open(tmp_path / "out" / "g.png") as image:
        made = np.asarray(image, np.float32)
    given = photograph("green", 25, 50).astype(np.float32)
    wanted = (given[:, :-2] + given[:, 1:-1] + given[:, 2:]) / 3
    np.testing.assert_allclose(made[:, 1:-1], wanted, atol=1)


@pytest.mark.slow
def test_pictures_are_no_classes_and_classes_no_pictures(
    run: Run, blur: Path, model: Path, photographs: Path, tmp_path: Path
) -> None:
    told = run("predict", blur, photographs / "b.jpg")
    assert (told.exit_code, "--pictures FOLDER writes them" in told.stderr) == (1, True)
    told = run("predict", model, photographs / "b.jpg", "--size", 12, "--pictures", tmp_path / "out")
    assert (told.exit_code, "is no picture" in told.stderr) == (1, True)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_pictures_never_replace_their_images(run: Run, blur: Path, photographs: Path, tmp_path: Path) -> None:
    before = (photographs / "g.png").read_bytes()
    told = run("predict", blur, photographs / "g.png", "--pictures", photographs)
    assert "is the image itself" in told.stderr
    assert (photographs / "g.png").read_bytes() == before
    twice = run("predict", blur, photographs / "b.jpg", photographs / "b.jpg", "--pictures", tmp_path)
    assert (twice.exit_code, "was written for another image" in twice.stderr) == (1, True)


def test_the_nets_of_phones_take_and_give_packed_pictures(run: Run, photographs: Path, tmp_path: Path) -> None:
    """Blue, green, red and alpha in bytes, with the noise of one of them switched off."""
    built = Model("stylizer")
    packed = built.net.add("PackedInt8BGRANHWCToNCHWCStylizerPreprocess", ["data", "mean"], "x", noise_std=0.0)
    shown = built.net.add("BRGNCHWCToPackedInt8BGRAStylizerDeprocess", [packed, "mean"], "y")
    built.net.add_external_output(shown)
    workspace = tazza.Workspace()
    workspace.feed("mean", np.array([1, 2, 3], np.float32))
    tazza.save_nets(tmp_path / "init_net.pb", tmp_path / "predict_net.pb", built, workspace, parameters=["mean"])
    result = run("predict", tmp_path, photographs / "g.png", "--pictures", tmp_path / "out", "--input", "data")
    assert result.exit_code == 0, result.stderr
    with Image.open(tmp_path / "out" / "g.png") as image:
        np.testing.assert_array_equal(np.asarray(image), photograph("green", 25, 50))


@pytest.mark.slow
def test_words_that_changed_places(run: Run, model: Path, photographs: Path) -> None:
    told = run("predict", photographs / "b.jpg", model)
    assert (told.exit_code, "is an image, and the model comes first" in told.stderr) == (1, True)
    told = run("predict", model / "init_net.pb", photographs / "b.jpg", "--init-net", model / "predict_net.pb")
    assert (told.exit_code, "stand in each other's place" in told.stderr) == (1, True)


def test_the_net_that_makes_the_parameters_is_not_the_model(run: Run, model: Path, photographs: Path) -> None:
    told = run("predict", model / "init_net.pb", photographs)
    assert told.exit_code == 1
    assert "predict_net.pb" in told.stderr


def test_a_net_of_any_size_says_the_least(run: Run, tmp_path: Path) -> None:
    built = Model("least")
    pooled = built.average_pool(built.conv("data", "c", 3, 2, 30), "p", global_pooling=1)
    built.net.add_external_output(built.fc(pooled, "scores", 2, 3))
    workspace = tazza.Workspace()
    workspace.run_net_once(built.init_net.proto)
    tazza.save_nets(tmp_path / "init_net.pb", tmp_path / "predict_net.pb", built, workspace)
    Image.fromarray(photograph("red", 9, 10)).save(tmp_path / "a.png")
    assert "a.png is 9x10, this net takes 32x32 or more" in run("predict", tmp_path, tmp_path / "a.png").stderr


@pytest.mark.slow
def test_results_of_two_workers_go_into_a_file(run: Run, model: Path, photographs: Path, tmp_path: Path) -> None:
    (photographs / "c.jpg").write_bytes(b"none")
    out = tmp_path / "found.jsonl"
    words = ("predict", model, photographs, "--size", 12, "--labels", model / "names.txt", "--top", 1)
    result = run(*words, "--out", out, "--workers", 2)
    assert (result.exit_code, result.output) == (1, f"4 images: {out}\n")
    assert "c.jpg" in result.stderr
    assert "1 of 4 images failed" in result.stderr
    wanted = [json.loads(line) for line in run(*words, "--format", "json").output.splitlines()]
    assert [json.loads(line) for line in out.read_text().splitlines()] == wanted
    assert "is there already" in run(*words, "--out", out).stderr


@pytest.mark.slow
def test_files_of_results_and_other_options(run: Run, model: Path, photographs: Path, tmp_path: Path) -> None:
    words = ("predict", model, photographs)
    assert "need --out" in run(*words, "--workers", 2).stderr
    assert "neither --pictures nor --format" in run(*words, "--out", tmp_path / "a.csv", "--format", "csv").stderr
    assert "kinds: .jsonl" in run(*words, "--out", tmp_path / "a.txt").stderr
    (tmp_path / "data.mdb").write_bytes(b"")
    assert "a database goes alone" in run("predict", model, tmp_path, photographs, "--out", tmp_path / "a.csv").stderr
