"""`tazza predict`, `show` and `doctor`, errors as messages, and what the command imports."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tazza
from tazza.errors import FileError, TazzaError
from tazza.models import Model
from tazza.models.zoo import lenet
from tazza.operator import ENGINES
from tazza.runtime.native_code import unavailable
from tazza.runtime.object_code import unavailable as no_loader
from tests.cli.conftest import Run
from tests.db.test_idx import idx_bytes

ROOT = Path(__file__).parent.parent.parent
INTEROP = ROOT / "tests" / "data" / "interop"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of a small net: the brightest of four columns wins."""
    folder = tmp_path_factory.mktemp("model")
    built = Model("columns")
    built.conv("data", "conv", 1, 1, [3, 1], use_bias=False)
    built.net.add_external_output(built.softmax(built.fc("conv", "scores", 4, 4), "softmax"))
    workspace = tazza.Workspace()
    workspace.feed("conv_w", np.ones((1, 1, 3, 1), np.float32))
    workspace.feed("scores_w", 5 * np.eye(4, dtype=np.float32))
    workspace.feed("scores_b", np.zeros(4, np.float32))
    tazza.save_nets(folder / "init_net.pb", folder / "predict_net.pb", built, workspace)
    tazza.save_predictor(folder / "columns.minidb", built, workspace, shapes={"data": (1, 1, 3, 4)})
    return folder


def columns(*bright: int) -> np.ndarray[tuple[int, int, int], np.dtype[np.uint8]]:
    """Return images (N, 3, 4), each with one bright column."""
    images = np.full((len(bright), 3, 4), 10, np.uint8)
    for image, column in zip(images, bright, strict=True):
        image[:, column] = 250
    return images


@pytest.mark.slow
@pytest.mark.parametrize("name", ["", "predict_net.pb", "columns.minidb"])
def test_predict_takes_nets_and_predictor_files(run: Run, model: Path, tmp_path: Path, name: str) -> None:
    np.save(tmp_path / "images.npy", columns(2, 0))
    result = run("predict", model / name, tmp_path / "images.npy", "--top", 2)
    assert result.exit_code == 0, result.stderr
    lines = result.output.splitlines()
    assert [re.findall(r"(\d) \(", line) for line in lines] == [["2", "0"], ["0", "1"]]
    assert lines[0].startswith(f"{tmp_path / 'images.npy'}[0]: 2 (100.0%)")


@pytest.mark.slow
def test_predict_reads_arrays_pictures_and_idx(run: Run, model: Path, tmp_path: Path) -> None:
    from PIL import Image

    Image.fromarray(columns(3)[0]).save(tmp_path / "a.png")
    Image.fromarray(np.repeat(255 - columns(1)[0], 2, axis=0).repeat(2, axis=1)).resize((40, 40)).save(
        tmp_path / "b.png"
    )
    np.save(tmp_path / "c.npy", columns(2).astype(np.float32)[:, np.newaxis] / 256)
    (tmp_path / "d-images-idx3-ubyte").write_bytes(idx_bytes(columns(0)))
    files = [tmp_path / name for name in ("a.png", "c.npy", "d-images-idx3-ubyte")]
    result = run("predict", model, *files, "--top", 1)
    assert [line.split(": ")[1][0] for line in result.output.splitlines()] == ["3", "2", "0"]
    wrong = run("predict", model, tmp_path / "b.png")
    assert wrong.exit_code == 1
    assert "FC" in wrong.stderr


@pytest.mark.slow
def test_predict_scales_and_inverts(run: Run, tmp_path: Path) -> None:
    from PIL import Image

    built = Model("sum")
    built.net.add_external_output(built.fc("data", "scores", 6 * 6, 2))
    workspace = tazza.Workspace()
    workspace.feed("scores_w", np.stack([np.ones(36), np.zeros(36)]).astype(np.float32))
    workspace.feed("scores_b", np.array([0, 18], np.float32))
    tazza.save_nets(tmp_path / "init_net.pb", tmp_path / "predict_net.pb", built, workspace)
    Image.fromarray(np.full((20, 30), 230, np.uint8)).save(tmp_path / "light.png")
    common = ("predict", tmp_path, tmp_path / "light.png", "--size", 6, "--top", 1, "--scale", 1 / 255)
    assert "light.png: 0 (" in run(*common).output
    assert "light.png: 1 (" in run(*common, "--invert").output


def not_a_picture(folder: Path) -> Path:
    """Write a text called .png."""
    (folder / "a.png").write_text("no picture")
    return folder / "a.png"


def pickled(folder: Path) -> Path:
    """Write an array that would have to be unpickled."""
    np.save(folder / "a.npy", np.array([{}], object), allow_pickle=True)
    return folder / "a.npy"


def flat(folder: Path) -> Path:
    """Write an array of rank 1."""
    np.save(folder / "b.npy", np.zeros(3))
    return folder / "b.npy"


def missing(folder: Path) -> Path:
    """Name what is not there."""
    return folder / "missing.png"


BAD_INPUTS = [
    (missing, "No such file"),
    (not_a_picture, "is no image that can be read"),
    (pickled, "holds object, not numbers"),
    (flat, "has the shape (3,), not (H, W)"),
]


@pytest.mark.parametrize(("make", "reason"), BAD_INPUTS)
def test_bad_images(run: Run, model: Path, tmp_path: Path, make: Callable[[Path], Path], reason: str) -> None:
    result = run("predict", model, make(tmp_path))
    assert result.exit_code == 1
    assert reason in result.stderr


@pytest.mark.slow
def test_models_that_are_not_there(run: Run, model: Path, tmp_path: Path) -> None:
    image = tmp_path / "a.npy"
    np.save(image, columns(1))
    (tmp_path / "predict_net.pb").write_bytes((model / "predict_net.pb").read_bytes())
    for words, reason in (
        ([tmp_path / "nowhere"], "does not exist"),
        ([tmp_path / "predict_net.pb"], "there is no"),
        ([tmp_path.parent], "has no predict_net.pb and init_net.pb"),
    ):
        result = run("predict", *words, image)
        assert (result.exit_code, reason in result.stderr) == (1, True), result.stderr
    named = run("predict", tmp_path / "predict_net.pb", image, "--init-net", model / "init_net.pb", "--top", 1)
    assert "a.npy: 1 (" in named.output


@pytest.mark.parametrize("command", ["predict", "show", "profile"])
@pytest.mark.parametrize("name", ["nets", "predictor"])
def test_an_input_that_the_net_has_not_is_told_by_name(
    run: Run, model: Path, tmp_path: Path, command: str, name: str
) -> None:
    image = tmp_path / "a.npy"
    np.save(image, columns(1))
    place = model if name == "nets" else model / "columns.minidb"
    result = run(command, place, *([image] if command == "predict" else []), "--input", "nope")
    assert result.exit_code == 1
    assert "has no input 'nope'" in result.stderr


# -- show --------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_show_counts_parameters_and_operations(run: Run, tmp_path: Path) -> None:
    built = Model("lenet")
    lenet(built, "data")
    tazza.write_message(tmp_path / "net.pbtxt", built.net.export())
    tazza.write_message(tmp_path / "init.pbtxt", built.init_net.export())
    common = ("show", tmp_path / "net.pbtxt", "--init-net", tmp_path / "init.pbtxt")
    result = run(*common, "--shape", "data=3,1,28,28")
    assert result.exit_code == 0, result.stderr
    assert re.search(r"2\s+Conv\s+pool1\s+conv2\s+float32\[3, 50, 8, 8\]\s+25,050\s", result.output)
    assert "431,080" in result.output
    unknown = run(*common)
    assert "not known without the shapes of data" in unknown.output
    for shape, reason in (
        ("data=3,2,28,28", "in operator 0 (Conv) of net"),
        ("dta=1", "has no input 'dta'\n  hint: inputs: data"),
        ("data=a", "is not NAME=EXTENT"),
        ("data:flt=1", "is not NAME=EXTENT"),
    ):
        bad = run(*common, "--shape", shape)
        assert (bad.exit_code, reason in bad.stderr) == (1, True), bad.stderr


@pytest.mark.slow
def test_show_lists_operators_that_nobody_declares(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "net.pbtxt"
    lines = [
        'name: "strange" external_input: "x" external_input: "w"',
        'op { type: "Relu" input: "x" output: "y" }',
        'op { type: "NobodyKnows" input: "y" input: "w" output: "z" }',
        'op { type: "Sigmoid" input: "z" output: "p" }',
    ]
    path.write_text("\n".join(lines))
    (tmp_path / "init.pbtxt").write_text('op { type: "NobodyFills" output: "w" }')
    for words in ([], ["--shape", "x=2,3"], ["--init-net", tmp_path / "init.pbtxt"]):
        result = run("show", path, *words)
        assert result.exit_code == 0, result.stderr
        assert "NobodyKnows (unknown)" in result.output
        assert [word for word in ("Relu", "Sigmoid") if word not in result.output] == []
        assert "(unknown) : nobody declares NobodyKnows" in result.output
    result = run("predict", path, "--init-net", tmp_path / "init.pbtxt", tmp_path / "x.npy")
    assert result.exit_code == 1
    assert "NobodyKnows" in result.stderr or "NobodyFills" in result.stderr


def test_show_takes_what_a_predictor_file_says(run: Run, model: Path) -> None:
    result = run("show", model / "columns.minidb")
    assert re.search(r"FC\s+conv\s+scores\s+float32\[1, 4\]\s+20", result.output)
    assert run("show", model / "predict_net.pb").output.count("?") > 0


@pytest.mark.parametrize("command", ["show", "view", "profile"])
def test_what_shows_a_net_takes_one_of_the_zoo(run: Run, tmp_path: Path, command: str) -> None:
    words = {"show": [], "view": ["--runs", 0, "--out", tmp_path / "net.html"], "profile": ["--runs", 1]}[command]
    result = run(command, "mlp", *words)
    assert result.exit_code == 0, result.stderr


def test_show_reads_a_train_net_of_caffe2(run: Run) -> None:
    folder = INTEROP / "lenet_mnist"
    shapes = ("--shape", "data=64,1,28,28", "--shape", "label:int32=64")
    result = run("show", folder / "train_net.pbtxt", "--init-net", folder / "param_init_net.pbtxt", *shapes)
    assert result.exit_code == 0, result.stderr
    assert re.search(r"ConvGradient\s+pool1, conv2_grad\s+conv2_w_grad", result.output)
    assert "?" not in result.output


@pytest.mark.slow
def test_show_an_operator(run: Run) -> None:
    result = run("show", "--operator", "Conv")
    for part in (
        "Cross-correlation",
        "kernel_h",
        "  W  ",
        "gradient  yes",
        "engines",
        "reference",
        "tazza.ops.nn.conv",
    ):
        assert part in result.output
    assert "did you mean Conv" in run("show", "--operator", "Convv").stderr
    assert "show takes a net or --operator" in run("show").stderr


# -- the rest ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_doctor_lists_engines_and_versions(run: Run) -> None:
    result = run("doctor")
    assert result.exit_code == 0
    for name in ENGINES:
        assert re.search(rf"{name} \([\w, ]+\)\s+(available, \d+ operators|not available: \S)", result.output)
    for part in (
        f"{sys.version_info.major}.{sys.version_info.minor}.",
        "threads",
        "lmdb, LMDB",
        "CPU features",
        "devices",
        "allocators",
        "buddy",
    ):
        assert part in result.output


@pytest.mark.slow
def test_doctor_lists_caches(run: Run) -> None:
    from tazza.runtime.cache import statistics

    result = run("doctor", "--memory")
    assert result.exit_code == 0, result.stderr
    lines = result.output.splitlines()
    for one in statistics():
        assert any(line.strip().startswith(one.name) and f"{one.bound:,}" in line.split() for line in lines), one.name


@pytest.mark.slow
def test_flags_of_the_process(run: Run) -> None:
    from tazza.runtime.threads import NUM_THREADS

    with NUM_THREADS.override(NUM_THREADS.value):
        result = run("--flag", "num_threads=3", "doctor")
        assert re.search(r"threads\s+3 \(the flag num_threads", result.output)
        assert re.search(r"num_threads\s+3 \(command line\)", result.output)
    assert "unknown flag" in run("--flag", "nmu_threads=3", "doctor").stderr


@pytest.mark.slow
@pytest.mark.skipif(unavailable() is not None or no_loader() is not None, reason="nothing is compiled, or LLVM links")
def test_doctor_says_who_links(run: Run) -> None:
    from tazza.runtime.native_code import OWN_LINKER

    assert re.search(r"compiled kernels\s+linked by tazza", run("doctor").output)
    with OWN_LINKER.override(False):
        found = run("doctor").output
    assert re.search(r"compiled kernels\s+linked by LLVM, and not kept: the flag own_linker is off", found)


@pytest.mark.slow
def test_debug_shows_the_error_itself(run: Run) -> None:
    with pytest.raises(FileError):
        run("--debug", "show", "nowhere.pb")
    assert run("show", "nowhere.pb").exit_code == 1


@pytest.mark.slow
def test_errors_of_the_command_line_itself(run: Run) -> None:
    assert run("train", "lenet", "--iterations", "none").exit_code == 2
    assert run("shwo").exit_code == 2
    assert run("--version").output.strip() == tazza.__version__
    assert issubclass(FileError, TazzaError)


@pytest.mark.slow
def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys; sys.argv = ['tazza', '--help']\n"
        "from tazza.cli import main\n"
        "try: main()\n"
        "finally: print('|', *sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    help, _, modules = done.stdout.partition("|")
    assert "doctor" in help
    assert {"numpy", "matplotlib", "lmdb", "sklearn", "tazza.operator"}.isdisjoint(modules.split())
