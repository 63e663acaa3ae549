"""What the tests of all commands share: running one in this process, and a small MNIST to train on."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from typer.main import get_command

from tazza.cli.app import app
from tazza.operator import prefer_engines
from tests.db.test_idx import idx_bytes


@dataclass(frozen=True)
class Outcome:
    """What a command printed, and its exit status."""

    exit_code: int
    output: str
    stderr: str


Run = Callable[..., Outcome]
COMMAND = get_command(app)
"""All commands, made once: `app` makes them anew for each call."""
SIZE = 28


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command with these words, in this process."""

    def invoke(*words: object) -> Outcome:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            COMMAND([str(word) for word in words], prog_name="tazza")
        printed = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Outcome(ended.value.code, printed.out, printed.err)

    return invoke


@pytest.fixture
def own_engines() -> Generator[None]:
    """Take back what the command prefers for the process."""
    yield
    prefer_engines([])


@pytest.fixture
def no_pictures() -> Generator[None]:
    """Leave out the pictures of a training, which take longer than the rest of a short one.

    Also where the test takes back what it changed itself.
    """
    from tazza.models import evaluation_files
    from tazza.observers import drawing

    def draw_nothing(*_: object, **__: object) -> None:
        pass

    with pytest.MonkeyPatch.context() as patch:
        for name in ("draw_curves", "draw_least_sure"):
            patch.setattr(drawing, name, draw_nothing)
        patch.setattr(evaluation_files, "draw_evaluation", draw_nothing)
        yield


def strokes(labels: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> np.ndarray[tuple[int, int, int], np.dtype[np.uint8]]:
    """Return an easy image (28, 28) for each label: a bright bar whose place tells the label, in noise."""
    images = np.random.default_rng(2).integers(0, 40, (len(labels), SIZE, SIZE)).astype(np.uint8)
    for image, label in zip(images, labels, strict=True):
        image[2 + 2 * label : 5 + 2 * label, 4:24] = 230
    return images


@pytest.fixture(scope="session")
def bars(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the four files of MNIST: 60 images to learn from, 20 to test on."""
    folder = tmp_path_factory.mktemp("bars")
    for name, count in (("train", 60), ("t10k", 20)):
        labels = (np.arange(count) * 7 % 10).astype(np.uint8)
        (folder / f"{name}-images-idx3-ubyte").write_bytes(idx_bytes(strokes(labels)))
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(idx_bytes(labels))
    return folder
