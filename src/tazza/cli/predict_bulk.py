"""`tazza predict ... --out RESULTS`: images of folders and records of databases, on several processes, into a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from tazza.bulk.crew import Crew
from tazza.bulk.dask_crew import DaskCrew, load_dask
from tazza.bulk.job import Job
from tazza.bulk.results import result_form
from tazza.bulk.run import Found, Order, predict_all
from tazza.bulk.source import Part, file_parts, record_parts
from tazza.cli.console import make_console, print_text
from tazza.cli.image_options import choose_preprocessing
from tazza.cli.model_files import ModelFiles
from tazza.cli.predict import Wish, files_of, labels_of, save_settings
from tazza.cli.progress import Counted
from tazza.data_class import dataclass
from tazza.db.image_source import database_type
from tazza.errors import ArgumentError
from tazza.images.files import SUFFIXES, is_idx
from tazza.interop.image_needs import image_needs
from tazza.runtime.files import kind_of


@dataclass(frozen=True, slots=True)
class BulkWish:
    """Where results go, how many processes there are, and whether results of before are replaced."""

    out: Path
    workers: int = 1
    overwrite: bool = False
    dask: str | None = None
    """The scheduler whose workers predict."""

    @property
    def crew(self) -> Callable[[Job, Path, int, Callable[[int], None]], Crew | DaskCrew]:
        """Return what makes the workers.

        Raises:
            UnavailableError: Dask is wanted, and not installed.
        """
        if self.dask is None:
            return Crew
        load_dask()
        return partial(DaskCrew, self.dask)


def predict_bulk(model: ModelFiles, inputs: Sequence[Path], wish: Wish, bulk: BulkWish) -> int:
    """Write what a net says of images; return the exit status, 1 where one of them failed.

    Raises:
        TazzaError: the model, a folder, a database or an option is wrong; workers die again and again.
    """
    if wish.pictures is not None or wish.format is not None:
        raise ArgumentError(
            "--out goes with neither --pictures nor --format", hint="the ending of its name says the form"
        )
    result_form(bulk.out)
    crew = bulk.crew
    if bulk.dask is not None:  # its workers stand in other folders
        model = replace(model, main=model.main.absolute(), init=None if model.init is None else model.init.absolute())
        inputs = [path.absolute() for path in inputs]
        bulk = replace(bulk, out=bulk.out.absolute())
    job = _job(model, wish)
    told_on = make_console(stderr=True)
    job, parts = _parts(job, inputs)
    with Counted(told_on, "items", parts[-1].stop if parts else 0) as told:
        found = predict_all(job, parts, bulk.out, Order(bulk.workers, bulk.overwrite, told, crew))
    return _tell(found, bulk.out)


def is_database(path: Path) -> bool:
    """Whether a path leads to a database, and not to a file or a folder of images."""
    if kind_of(path) == "folder":
        return database_type(path) is not None
    return kind_of(path) is not None and not (path.suffix.lower() in SUFFIXES or is_idx(path))


def _job(model: ModelFiles, wish: Wish) -> Job:
    """Return what is done with every image; the model is loaded once, to see that it can be and what it takes."""
    with model.load(outputs=None if wish.output is None else [wish.output]) as predictor:
        prepare = choose_preprocessing(wish.images, model, image_needs(predictor)).prepare
    labels = labels_of(wish, model)
    if wish.save:
        save_settings(model, prepare, wish.labels)
    files = (model.main,) if model.init is None else (model.init, model.main)
    return Job(
        model=tuple(map(str, files)),
        prepare=prepare,
        inputs=tuple(model.loading.inputs),
        output=wish.output,
        device=model.loading.device,
        trust=model.loading.trust,
        labels=labels,
        top=wish.top,
        batch_size=wish.batch_size,
    )


def _parts(job: Job, inputs: Sequence[Path]) -> tuple[Job, list[Part]]:
    """Return the parts of files, or of one database, with a job that knows it.

    Raises:
        ArgumentError: a database beside something else.
    """
    if not any(map(is_database, inputs)):
        return job, file_parts(list(files_of(inputs)), job.batch_size)
    if len(inputs) > 1:
        raise ArgumentError("a database goes alone", hint="predict its records by themselves, into other results")
    db_type, path = str(database_type(inputs[0])), inputs[0]
    return replace(job, db_type=db_type, db=str(path)), record_parts(db_type, path, job.batch_size)


def _tell(found: Found, out: Path) -> int:
    console, errors = make_console(), make_console(stderr=True)
    if found.kept:
        print_text(console, f"{found.kept} were there from a run before")
    if found.replaced:
        print_text(errors, f"warning: {found.replaced} workers died and were replaced")
    for name, reason in found.failures:
        print_text(errors, f"{name}: {reason}" if name not in reason else reason)
    if found.failed:
        print_text(errors, f"{found.failed} of {found.images} images failed")
    print_text(console, f"{found.images} images: {out}")
    return 1 if found.failed else 0
