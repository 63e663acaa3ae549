"""Every command of every document runs: in a fresh copy of the project, at 80 columns, and into a reader that stops.

Nobody lists them: what a document says is found, and run in the order in which it stands, since later commands use what
earlier ones leave. Words in capitals stand for what the reader has. What is not run is named with its reason; what
takes longer than a minute is run by `make documents`, at a small size.
"""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import typer

from tazza.cli.app import app
from tazza.interop import save_nets, save_predictor
from tazza.models import Model
from tazza.workspace import Workspace
from tests.cli.test_help import leaves
from tests.db.test_idx import idx_bytes
from tests.docs.commands import COLUMNS, PAGES, ROOT, Copy, commands

NOT_RUN = {
    "make test": "runs for a quarter of an hour",
    "make delivery": "runs this",
    "make test-gpu": "runs a part of this",
    "make test-cuda-wheels": "needs libraries of NVIDIA of more than a gigabyte",
    "make ptxas": "needs the assembler of NVIDIA",
    "make check": "runs this, but for what is slow",
    "make types": "a part of `make check` looks at what changed",
    "make changed-types": "a part of `make check`",
    "make fast": "a part of `make check`",
    "make format": "a part of `make check` looks for what it would change",
    "make docs": "`tests/docs/test_site.py` builds the site",
    "python -m http.server --directory out/site/html": "serves until it is stopped",
    "make documents": "runs this",
    "make proto": "fetches a compiler of messages",
    "python -m tools.run_conformance": "needs the tests of Caffe2",
    "python -m tools.run_conformance --net-type TYPE WORD...": "needs the tests of Caffe2",
    "make test-oldest": "makes an environment of the oldest dependencies",
    "make array-api": "needs a checkout of the suite",
    "pip install '.[peers]'": "gigabytes",
    "pip install '.[browser]'": "for tests that are skipped without it",
    "pip install '.[tensorboard]'": "for tests that are skipped without it",
    "tazza train lenet --out out/seen --tensorboard": "needs the package tensorboard",
    "pip install '.[pictures]'": "what `make train` installs",
    "pip install '.[parquet]'": "for one kind of results",
    "pip install '.[dask]'": "for clusters",
    "python -m tools.draw_view FOLDER": "needs a browser",
    ".venv/bin/tazza launch --ranks 2 train lenet --out out/ranks": "needs MPI",
    "tazza launch --ranks 4 train lenet --batch-size 64": "needs MPI",
    "tazza launch --ranks 4 train lenet --batch-size 64 --resume": "needs MPI",
    "python -m tools.draw_scaling": "takes a minute of ResNet-50, and changes a page",
    "tazza launch --ranks 2 --trace steps.json train resnet50 --data photos": "needs MPI",
    "python -m tests.distributed.kills --kills 100": "needs MPI",
    "python -m tests.distributed.namespaces": "needs MPI and root",
    "python -m tools.draw_overlap": "needs MPI, and changes a picture",
}
LONG = {
    "make judge": "make judge LAYERS=40 CHAINS=10",
    "make fuzz": 'make fuzz ONLY="--nets 300 --files 100 --commands 10"',
    "make fuzz-gpu": 'make fuzz-gpu ONLY="--nets 40 --mutants 12"',
    "make soak": "make soak",
    "make records": 'make records ONLY="--records 40000"',
    "make engines": "make engines",
    "make index": "make index",
    ".venv/bin/tazza train char-lstm --data FILE": (
        ".venv/bin/tazza train char-lstm --data tests/data/text/cups.txt --out out/char-lstm --iterations 20"
    ),
    "make bench": "make bench QUICK=1 NETS=lenet-1 CONTENDERS=tazza",
    "make bench-tensor": "make bench-tensor QUICK=1 ONLY=lazy",
    "make bench-nets": "make bench-nets QUICK=1 ONLY=overhead",
    "make bench-ops": "make bench-ops QUICK=1 ONLY=pooling",
    "make profile": "make profile",
    "make walk": "make walk",
    "make tutorial": "make tutorial",
    "python -m tools.write_walk": "make walk",
    "python -m tools.draw_walk": "make walk",
    "python -m benchmarks.first_result": "python -m benchmarks.first_result --net mlp --contenders '' --rounds 1",
    "python -m benchmarks.nets regions": "python -m benchmarks.nets regions --quick",
    "python -m tests.bulk": "python -m tests.bulk --pictures 3000 --kills 3",
    "python -m tests.distributed.zoo": "python -m tests.distributed.zoo mlp",
    "python -m benchmarks.view": "python -m benchmarks.view --operators 200",
    "python -m tests.region_stress": "python -m tests.region_stress --regions 3000",
    "python tools/random_shapes.py": "python tools/random_shapes.py --count 40",
    "python -m benchmarks.nets.overlap": "python -m benchmarks.nets.overlap --quick",
    "python -m benchmarks.nets.profiling": "python -m benchmarks.nets.profiling --quick",
}
"""What takes longer than a minute, or compiles much, and how it is run at a small size."""

ALL = {page: commands(page) for page in PAGES}
ONCE = ("train", "quantize", "resnet50", "googlenet", "--workers")
"""Words of commands that are not run a second time, into a reader that stops."""
FIRST, LEFT = "make train", "out/lenet"
"""The README's first command, and what it leaves: other pages begin there."""
CUT: set[str] = set()
"""Commands that were: each is once in a process, whatever its options."""


def mention(command: str) -> bool:
    """Whether a text names a command and shows no use of it, as `tazza show` does."""
    words = command.split()
    return (
        len(words) == 2
        and words[0].endswith("tazza")
        and words[1] in ("show", "view", "predict", "profile", "train", "migrate", "quantize", "compare", "launch")
    )


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """A fresh copy, with what words in capitals stand for, and files of pages that do not say where theirs are from."""
    made = Copy.make(tmp_path_factory.mktemp("documents") / "tazza")
    _write_digits(made.folder / "FOLDER")
    _write_nets(made.folder)
    _write_photographs(made.folder)
    return made


def _write_digits(folder: Path) -> None:
    """Write MNIST's four files, with few images."""
    folder.mkdir()
    random = np.random.default_rng(1)
    for part, count in (("train", 320), ("t10k", 64)):
        (folder / f"{part}-images-idx3-ubyte").write_bytes(
            idx_bytes(random.integers(0, 256, (count, 28, 28), np.uint8))
        )
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(idx_bytes(random.integers(0, 10, count, np.uint8)))


def _write_nets(folder: Path) -> None:
    """Write a small net for large images: as two nets, and as a predictor file."""
    model, workspace = Model("small"), Workspace()
    scores = model.fc(model.average_pool("data", "pooled", global_pooling=1), "scores", 3, 10)
    softmax = model.softmax(scores, "softmax")
    workspace.run_net_once(model.init_net.proto)
    workspace.feed("data", np.zeros((1, 3, 224, 224), np.float32))
    save_nets(folder / "init_net.pb", folder / "predict_net.pb", model, workspace, outputs=[softmax])
    save_predictor(folder / "model.minidb", model, workspace, outputs=[softmax], shapes={"data": (1, 3, 224, 224)})


def _write_photographs(folder: Path) -> None:
    """Write photographs, one alone and some in a folder, nets that take them, and ten labels."""
    from PIL import Image

    (folder / "PHOTOS" / "more").mkdir(parents=True)
    random = np.random.default_rng(1)
    for name, height, width in (("PHOTO.jpg", 300, 400), ("PHOTOS/a.jpg", 300, 400), ("PHOTOS/more/b.png", 260, 230)):
        Image.fromarray(random.integers(0, 256, (height, width, 3), np.uint8)).save(folder / name)
    for name in ("PICTURES/cats", "PICTURES/dogs"):
        (folder / name).mkdir(parents=True)
        for number in range(5):
            picture = random.integers(0, 256, (32, 32, 3), np.uint8)
            Image.fromarray(picture).save(folder / name / f"{number}.png")
    (folder / "LABELS.txt").write_text("".join(f"label {number}\n" for number in range(10)))
    (folder / "MODEL").mkdir()
    for name in ("init_net.pb", "predict_net.pb"):
        (folder / "MODEL" / name).write_bytes((folder / name).read_bytes())
    model, workspace = Model("style"), Workspace()
    made = model.conv("data", "made", 3, 3, 3, pad=1)
    workspace.run_net_once(model.init_net.proto)
    (folder / "STYLE").mkdir()
    save_nets(folder / "STYLE" / "init_net.pb", folder / "STYLE" / "predict_net.pb", model, workspace, outputs=[made])


def test_every_page_is_read() -> None:
    assert sum(map(len, ALL.values())) > 40
    assert {"make train", "make test"} <= set(ALL[ROOT / "README.md"])


def test_what_is_named_here_stands_in_a_document() -> None:
    found = {command for listed in ALL.values() for command in listed}
    assert set(NOT_RUN) - found == set()
    assert set(LONG) - found == set()


def wrong_with(command: str, copy: Copy) -> Iterator[str]:
    """Run a command as a reader would, and say what does not look right."""
    run = f"{command} --help" if mention(command) else command
    shown = copy.show(run)
    if shown.status != 0 or "Traceback" in shown.text:
        yield f"{run}: status {shown.status}\n{shown.text}"
    if "tazza" not in command.split()[0]:
        return
    if len(shown.widest) > COLUMNS:
        yield f"{run}: a line of {len(shown.widest)} columns: {shown.widest!r}"
    if "…" in shown.text:
        yield f"{run}: a cell is cut\n{shown.text}"
    name = next((word for word in command.split()[1:] if not word.startswith("-")), "")
    if set(command.split()) & set(ONCE) or name in CUT:
        return
    CUT.add(name)
    told = copy.cut(run)
    if told:
        yield f"{run} | head: {told}"


def test_every_command_is_shown_somewhere() -> None:
    """So that all are run at the width of a terminal, with lines that fit and cells that are not cut."""
    shown = {command.partition("tazza ")[2] for listed in ALL.values() for command in listed if "tazza " in command}
    shown |= {f"train program {rest[6:]}" for rest in shown if rest.startswith("train ") and ".py" in rest}
    every = [" ".join(path) for path, _ in leaves(typer.main.get_command(app))]
    assert [name for name in every if not any(rest.startswith(name) for rest in shown)] == []


@pytest.mark.slow
@pytest.mark.delivery
@pytest.mark.parametrize("page", [page for page in PAGES if ALL[page]], ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_of_a_page(page: Path, copy: Copy) -> None:
    run = [each for each in dict.fromkeys(ALL[page]) if each not in NOT_RUN | LONG and not each.startswith("pip ")]
    if FIRST not in run and any(LEFT in each for each in run) and not (copy.folder / LEFT).exists():
        copy.show(FIRST)
    problems = [problem for command in run for problem in wrong_with(command, copy)]
    assert not problems, "\n".join(problems)


def test_installations() -> None:
    """Those that documents show name extras that there are; `tests/distribution` installs."""
    told = {command for listed in ALL.values() for command in listed if command.startswith("pip ")}
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert "pip install ." in told
    assert told <= {"pip install .", *(f"pip install '.[{extra}]'" for extra in extras)}


@pytest.mark.parametrize("command", dict.fromkeys(LONG.values()))
def test_what_takes_long(command: str, copy: Copy, request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--documents"):
        pytest.skip("`make documents` runs what takes long")
    shown = copy.show(command)
    assert shown.status == 0, f"{command}\n{shown.text}"


def test_a_copy_is_made_of_what_is_needed() -> None:
    assert shutil.which("bash")
    assert not any(mention(command) for command in ("tazza doctor", "make train", ".venv/bin/tazza show a.pb"))
