"""The folder of a training: whether it can take one, and what a former one left."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryFile

from tazza.errors import ArgumentError, FileError
from tazza.interop.model_folder import INIT, PREDICT
from tazza.models.evaluation_files import FILES
from tazza.models.step_times import TIMES
from tazza.runtime.alone import LOCK, alone
from tazza.runtime.files import kind_of, make_folder, shown

CHECKPOINT, SETTINGS, HISTORY, CURVES = "checkpoint.minidb", "settings.json", "history.csv", "curves.png"
OF_EVERY = (CHECKPOINT, HISTORY, INIT, PREDICT, CURVES, *FILES, TIMES)
"""What every training leaves beside its settings, as far as it has it; the last ones are of its listeners."""


@contextmanager
def training_folder(out: Path, results: Sequence[str], *, resume: bool, overwrite: bool) -> Generator[None]:
    """Let no other process train into a folder while the block runs.

    Arguments are those of `check_folder`.

    Raises:
        ArgumentError: both are asked for.
        FileError: it cannot be written, holds a training, or none, or another process trains there.
    """
    if resume and overwrite:
        raise ArgumentError("--resume goes on with a training and --overwrite replaces it", hint="pass one")
    make_writable(out)
    with alone_in(out):
        check_folder(out, results, resume=resume, overwrite=overwrite)
        yield


def alone_in(out: Path) -> AbstractContextManager[None]:
    """Return a block in which no other process trains into a folder.

    Raises:
        FileError: when it is entered, and one does.
    """
    return alone(out / LOCK, f"trains into {shown(out)}", "wait for it, or name another folder with --out")


def check_folder(out: Path, results: Sequence[str], *, resume: bool, overwrite: bool) -> None:
    """Look whether a folder can take what is asked for; nothing in it is changed.

    Args:
        out: the folder.
        results: names of what a training leaves there.
        resume: go on with a training.
        overwrite: replace one.

    Raises:
        FileError: it holds a training, or none.
    """
    there = [name for name in results if kind_of(out / name) is not None]
    if resume and CHECKPOINT not in there and (there or kind_of(out / SETTINGS) is None):
        raise FileError(f"'{out}' has no checkpoint to go on from", hint="leave --resume out, or name another --out")
    if there and not (resume or overwrite):
        raise FileError(
            f"'{out}' holds a training already: {', '.join(there)}",
            hint="--resume goes on with it, --overwrite replaces it, --out names another folder",
        )


def make_writable(out: Path) -> None:
    """Make the folder; one that cannot be written is found before anything else is done.

    Raises:
        FileError: it cannot be made, or not be written.
    """
    make_folder(out)
    try:
        with TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise FileError(
            f"cannot write into the folder {shown(out)}: {error.strerror}", hint="name another folder with --out"
        ) from error


def remove_results(out: Path, results: Sequence[str]) -> None:
    """Remove what a former command left, so that nothing of it is taken for this one's.

    Raises:
        FileError: it cannot be removed.
    """
    try:
        for name in results:
            (out / name).unlink(missing_ok=True)
    except OSError as error:
        raise FileError(f"cannot replace what is in '{out}': {error}", hint="name another folder with --out") from error


def check_end(done: int, wanted: int, out: Path) -> None:
    """Refuse to go on to an end that was passed: the training of then cannot be had back.

    Raises:
        ArgumentError: it was.
    """
    if done > wanted:
        raise ArgumentError(
            f"the training in '{out}' has done {done} iterations, and {wanted} are wanted",
            hint="pass --epochs or --iterations beyond that, leave both out, or name another folder with --out",
        )
