"""What somebody does who has installed tazza and has nothing else of it: stages, in the order of a day.

    python newcomer.py FOLDER

It runs in the environment of an installed wheel, in a folder of its own, and imports nothing of the project but the
package. A stage that fails ends it, with what the command said. `service.py` of the examples lies beside it.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import tazza

LIMIT_S = 300
SIZE = 28
COLORS = ("blue", "green", "red")
"""Classes of the photographs, in the order of the bytes that nets of Caffe take."""

DEPLOY = """
name: "colors"
input: "data" input_dim: 1 input_dim: 3 input_dim: 32 input_dim: 32
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" convolution_param { num_output: 3 kernel_size: 1 } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "pool" type: "Pooling" bottom: "conv" top: "pool" pooling_param { pool: AVE global_pooling: true } }
layer { name: "fc" type: "InnerProduct" bottom: "pool" top: "fc" inner_product_param { num_output: 3 } }
layer { name: "prob" type: "Softmax" bottom: "fc" top: "prob" }
"""

PACKAGE = {
    "pyproject.toml": """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "cups"
version = "1.0"
dependencies = ["tazza"]

[project.entry-points."tazza.modules"]
cups = "cups"
""",
    "cups.py": '''
"""An operator of one's own."""

import numpy as np

from tazza.operator import FLOAT, Array, blob, ends, kernel, schema

SIP = schema(
    "Sip",
    "Y = X / 2.",
    inputs=[blob("X", FLOAT, "*S")],
    outputs=[blob("Y", like="X")],
    no_gradient=ends("nobody learns from it"),
    source="tazza: an example",
)


@kernel(SIP)
def sip(X: Array, Y: Array) -> None:
    np.divide(X, 2, out=Y)
''',
}


def program(*words: object, status: int = 0) -> str:
    """Run a program of this environment, and return what it printed.

    Raises:
        AssertionError: it ended with another status.
    """
    first, *rest = map(str, words)
    name = first if first == sys.executable else str(Path(sys.executable).with_name(first))
    ended = subprocess.run([name, *rest], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    told = f"{' '.join([first, *rest])}: status {ended.returncode}\n{ended.stdout}{ended.stderr}"
    assert ended.returncode == status, told
    return ended.stdout + ended.stderr


def python(text: str) -> str:
    """Run a program of a few lines, and return what it printed."""
    return program(sys.executable, "-c", text)


def idx(array: NDArray[Any]) -> bytes:
    """Return bytes in the form of MNIST's files."""
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def photograph(color: str, random: np.random.Generator) -> Image.Image:
    """Return a picture in which a colour prevails."""
    pixels = random.integers(0, 120, (48, 40, 3), np.uint8)
    pixels[..., ("red", "green", "blue").index(color)] += 100
    return Image.fromarray(pixels)


# -- stages ------------------------------------------------------------------------------------------------------------


def look_around() -> None:
    """What is installed is the wheel's, and says what it has."""
    assert Path(tazza.__file__).is_relative_to(sys.prefix), tazza.__file__
    assert program("tazza", "--version").strip() == tazza.__version__
    told = program("tazza", "doctor")
    assert "reference" in told, told
    assert "Conv" in program("tazza", "ops", "--family", "nn.conv")


def run_an_old_program() -> None:
    """The old names are there."""
    text = """
import numpy as np
from caffe2.python import core, workspace
import caffe2.python.workspace
net = core.Net("toy")
net.Relu("x", "y")
workspace.FeedBlob("x", np.float32([-1, 2]))
workspace.RunNetOnce(net)
print(workspace.FetchBlob("y").tolist())
"""
    assert python(text).split("\n")[0] == "[0.0, 2.0]"


def run_a_net_of_caffe() -> None:
    """A photograph goes through a net that was trained in Caffe."""
    from tazza.interop.caffe.caffe_pb2 import NetParameter

    trained = NetParameter(name="colors")
    for name, weights in (("conv", np.eye(3).reshape(3, 3, 1, 1)), ("fc", np.eye(3))):
        layer = trained.layer.add(name=name)
        for values in (weights, np.zeros(3)):
            made = layer.blobs.add(data=values.ravel().tolist())
            made.shape.dim.extend(values.shape)
    Path("deploy.prototxt").write_text(DEPLOY)
    Path("trained.caffemodel").write_bytes(trained.SerializeToString())
    model = Path("colors")
    model.mkdir()
    nets = ("--init_net", model / "init_net.pb", "--predict_net", model / "predict_net.pb")
    program(sys.executable, "-m", "caffe2.python.caffe_translator", "deploy.prototxt", "trained.caffemodel", *nets)
    photograph("red", np.random.default_rng(1)).save("photograph.jpg")
    Path("colors.txt").write_text("\n".join(COLORS) + "\n")
    options = ("--preset", "caffe", "--shorter", 36, "--size", 32, "--labels", "colors.txt", "--format", "json")
    found = json.loads(program("tazza", "predict", model, "photograph.jpg", *options))
    assert found["classes"][0]["label"] == "red", found


def train_on_digits() -> None:
    """LeNet learns from MNIST's files; without matplotlib it draws nothing, and says so."""
    Path("mnist").mkdir()
    random = np.random.default_rng(2)
    for part, count in (("train", 640), ("t10k", 100)):
        labels = np.arange(count, dtype=np.uint8) % 10
        images = random.integers(0, 40, (count, SIZE, SIZE), np.uint8)
        for image, label in zip(images, labels, strict=True):
            image[2 + 2 * label : 5 + 2 * label, 4:24] = 230
        Path("mnist", f"{part}-images-idx3-ubyte").write_bytes(idx(images))
        Path("mnist", f"{part}-labels-idx1-ubyte").write_bytes(idx(labels))
    told = program("tazza", "train", "lenet", "--data", "mnist", "--epochs", 4, "--batch-size", 32, "--out", "lenet")
    accuracy = float(told.rsplit("test accuracy ", 1)[1].split("%")[0])
    assert accuracy > 90, told
    drawn = find_spec("matplotlib") is not None
    assert Path("lenet", "curves.png").exists() == drawn
    assert drawn or ("no pictures: " in told and "pip install 'tazza[pictures]'" in told), told


def ask_it() -> None:
    """It says what a digit is."""
    found = json.loads(program("tazza", "predict", "lenet", "lenet/digit.png", "--format", "json"))
    assert len(found["classes"]) == 3, found


def ask_for_all() -> None:
    """Processes of their own say what all digits are, into one file."""
    program("tazza", "predict", "lenet", "lenet/data/test.lmdb", "--top", 1, "--out", "digits.jsonl", "--workers", 2)
    names = [json.loads(line)["image"] for line in Path("digits.jsonl").read_text().splitlines()]
    assert names == [f"{number:08}" for number in range(100)]


def view_it() -> None:
    """A page shows the net."""
    program("tazza", "view", "lenet", "--shape", "data=1,1,28,28", "--runs", 1, "--out", "view.html")
    page = Path("view.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>"), page[:200]
    assert "<script" in page
    assert "conv1" in page


def quantize_it() -> None:
    """It becomes a net of bytes, which says nearly the same."""
    images = "mnist/t10k-images-idx3-ubyte"
    told = program("tazza", "quantize", "lenet", "--data", images, "--compare", "--images", 64, "--out", "int8")
    assert "compute in bytes" in told, told
    found = program("tazza", "predict", "int8", images, "--top", 1, "--format", "json").splitlines()
    classes = [json.loads(line)["classes"][0]["class"] for line in found]
    wrong = sum(one != position % 10 for position, one in enumerate(classes))
    assert wrong < 10, wrong


def serve_it() -> None:
    """A small service answers with it, and ends when it is told to."""
    words = [sys.executable, str(Path(__file__).with_name("service.py")), "int8", "--port", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as service:
        try:
            assert service.stdout is not None
            address = service.stdout.readline().split()[0]
            with urllib.request.urlopen(address, Path("lenet/digit.png").read_bytes(), timeout=LIMIT_S) as answer:
                assert len(json.load(answer)["classes"]) == 3
        finally:
            service.send_signal(signal.SIGTERM)
        assert service.wait(LIMIT_S) == 0


def train_on_photographs() -> None:
    """A net learns a folder with a sub-folder for each class, for TensorBoard too; it is viewed, made bytes, asked."""
    random = np.random.default_rng(4)
    for color in COLORS:
        Path("photographs", color).mkdir(parents=True)
        for number in range(40):
            photograph(color, random).save(Path("photographs", color, f"{number}.png"))
    words = ("--size", 28, "--epochs", 6, "--batch-size", 16, "--tensorboard", "--out", "mine")
    told = program("tazza", "train", "lenet", "--data", "photographs", *words)
    assert float(told.rsplit("test accuracy ", 1)[1].split("%")[0]) > 90, told
    assert list(Path("mine").rglob("events.out.tfevents*"))
    program("tazza", "view", "mine", "--shape", "data=1,3,28,28", "--runs", 1, "--out", "mine.html")
    program("tazza", "quantize", "mine", "--data", "photographs/red", "--images", 32, "--out", "mine8")
    for model, beside in (
        ("mine", ()),
        ("mine8", ("--preset", "mine/preprocessing.json", "--labels", "mine/labels.txt")),
    ):
        found = json.loads(program("tazza", "predict", model, "photograph.jpg", *beside, "--format", "json"))
        assert found["classes"][0]["label"] == "red", found


def bring_one_without_a_package() -> None:
    """A file of one's own brings an operator to a command."""
    assert "Sip" in program("tazza", "--module", "cups/cups.py", "ops", "Sip")


def bring_an_operator() -> None:
    """A package of one's own brings an operator."""
    Path("cups").mkdir()
    for name, text in PACKAGE.items():
        Path("cups", name).write_text(text.lstrip())
    program(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "./cups")
    told = python(
        "import numpy as np, tazza\n"
        "from tazza.runtime.modules import load_module\n"
        "print(load_module('cups').registered)\n"
        "print(tazza.run_op('Sip', np.float32([3, 4])).tolist())\n"
    )
    assert "[1.5, 2.0]" in told, told
    assert "Sip" in told.splitlines()[0], told


STAGES: tuple[Callable[[], None], ...] = (
    look_around,
    run_an_old_program,
    run_a_net_of_caffe,
    train_on_digits,
    ask_it,
    ask_for_all,
    view_it,
    quantize_it,
    serve_it,
    train_on_photographs,
    bring_an_operator,
    bring_one_without_a_package,
)


def main() -> None:
    """Do all of it in a folder, and tell how long each stage took."""
    os.chdir(sys.argv[1])
    for stage in STAGES:
        began_s = time.monotonic()
        stage()
        print(f"{stage.__name__}: {time.monotonic() - began_s:.1f} s", flush=True)


if __name__ == "__main__":
    main()
