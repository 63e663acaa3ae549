"""A whole run: parts that are there already are kept, the others predicted, and all joined.

    found = predict_all(job, parts, Path("classes.csv"), workers=2)
    found.images, found.failed

Parts lie in a folder beside the results, `classes.csv.parts`, with a file that says what they are parts of. Another
job, or images that have changed since, do not go on there. One process at a time works there: it holds a lock on
`.classes.csv.lock`, from before it looks at anything until all is joined. Results of before stay until the new ones
take their name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from tazza.bulk.crew import Crew
from tazza.bulk.dask_crew import DaskCrew
from tazza.bulk.job import Job
from tazza.bulk.part import NAMES, PartFiles
from tazza.bulk.results import check_replaceable, result_form
from tazza.bulk.source import Part
from tazza.data_class import dataclass
from tazza.db.place import LMDB_DATA
from tazza.errors import ArgumentError, FileError
from tazza.interop.model_folder import INIT, PREDICT
from tazza.runtime.alone import alone
from tazza.runtime.files import (
    kind_of,
    make_folder,
    names_in,
    read_text,
    shown,
    status_of,
    write_bytes_atomically,
)

MANIFEST = "parts_of.json"
OURS = re.compile(rf"(?P<name>{re.escape(MANIFEST)}|{NAMES.pattern})|\.(?P<made>.+)\.[0-9a-f]{{8}}\.tmp")
"""What files in the folder of parts are called, and those that are not finished."""
RUN_DIGITS = 16
FAILED_SHOWN = 20
"""Failures that are remembered with their reasons; all are in the results."""


@dataclass(frozen=True, slots=True)
class Found:
    """What came of a run: images, how many of them failed, the first of these with reasons, and what was kept.

    `kept` counts items of parts that were there before, `replaced` the workers that died.
    """

    images: int
    failed: int
    failures: tuple[tuple[str, str], ...]
    kept: int
    replaced: int


@dataclass(frozen=True, slots=True)
class Order:
    """How a run is to be done: workers, whether it replaces what is there, and who is told of items that are done."""

    workers: int = 1
    overwrite: bool = False
    told: Callable[[int], None] = lambda items: None
    crew: Callable[[Job, Path, int, Callable[[int], None]], Crew | DaskCrew] = Crew


def parts_folder(out: Path) -> Path:
    """Return where the parts of a file of results lie."""
    return out.with_name(f"{out.name}.parts")


def lock_file(out: Path) -> Path:
    """Return what is locked while a run makes a file of results: beside them, and beside the folder of parts."""
    return out.with_name(f".{out.name}.lock")


def predict_all(job: Job, parts: Sequence[Part], out: Path, order: Order) -> Found:
    """Predict all parts, and write the results in their order.

    Raises:
        ArgumentError: there is nothing to predict, or the ending of `out` is none of a kind of results.
        FileError: results, or parts of another run, are there already; or nothing can be written.
        UnavailableError: a library is missing; workers die again and again.
        TazzaError: what is wrong with the model, or with all images.
    """
    if not parts:
        raise ArgumentError("there is nothing to predict", hint="name images, folders of them, or a database")
    form = result_form(out)
    job = replace(job, form=form.form)
    folder = parts_folder(out)
    make_folder(out.parent)
    with alone(lock_file(out), f"predicts into {shown(out)}", "wait for it, or name other results with --out"):
        job = _begin(job, parts, out, order)
        files = [PartFiles(folder, part, job.run, job.form) for part in parts]
        left = [each.part for each in files if not each.done]
        kept = sum(each.part.count for each in files) - sum(part.count for part in left)
        with order.crew(job, folder, order.workers, order.told) as crew:
            crew.run(left, done=kept)
        form.join(files, out)
        found = _told(files, kept, crew.replaced)
        _remove(folder)
    return found


def _told(files: Sequence[PartFiles], kept: int, replaced: int) -> Found:
    """Count images, and those that failed."""
    images = failed = 0
    failures: list[tuple[str, str]] = []
    for line in (line for each in files for line in each.read()):
        images += 1
        if "error" in line:
            failed += 1
            if failed <= FAILED_SHOWN:
                name = line["image"] if "row" not in line else f"{line['image']}[{line['row']}]"
                failures.append((name, line["error"]))
    return Found(images, failed, tuple(failures), kept, replaced)


def _begin(job: Job, parts: Sequence[Part], out: Path, order: Order) -> Job:
    """Make the folder of the parts, or see that those in it are of this run; return the job that knows its run.

    Raises:
        FileError: they are not, there are results already, or something that no run has made.
    """
    folder = parts_folder(out)
    text = json.dumps(_parts_of(job, parts), indent=1, sort_keys=True) + "\n"
    job = replace(job, run=sha256(text.encode()).hexdigest()[:RUN_DIGITS])
    check_replaceable(out, job.form)
    there = _parts_in(folder)
    same = is_manifest(folder / MANIFEST, text)
    if same:
        return job
    if MANIFEST in there and not order.overwrite:
        raise FileError(
            f"{shown(folder)} holds parts of another run", hint="--overwrite removes them, --out names other results"
        )
    if kind_of(out) is not None and not order.overwrite:
        raise FileError(f"{shown(out)} is there already", hint="--overwrite replaces it, --out names other results")
    if there:
        _remove(folder)
    make_folder(folder)
    write_bytes_atomically(folder / MANIFEST, text.encode())
    return job


def _parts_in(folder: Path) -> list[str]:
    """Return the names of what lies in a folder of parts, what tells of them last; of none where there is no folder.

    Raises:
        FileError: something lies there that no run has made, or parts of which nothing tells.
    """
    if kind_of(folder) is None:
        return []
    names = sorted(names_in(folder), key=lambda name: (name == MANIFEST, name))
    foreign = [name for name in names if not _is_ours(name)]
    if MANIFEST not in names:
        foreign += [name for name in names if NAMES.fullmatch(name)]
    if foreign:
        raise FileError(
            f"{shown(folder)} is no folder of parts: it holds {shown(foreign[0])}",
            hint="move it, or name other results with --out",
        )
    return names


def _is_ours(name: str) -> bool:
    """Whether a run calls its files so.

    >>> [_is_ours(name) for name in ("000012.jsonl", ".parts_of.json.0a1b2c3d.tmp", "thesis.txt")]
    [True, True, False]
    """
    found = OURS.fullmatch(name)
    return found is not None and (found["made"] is None or _is_ours(found["made"]))


def is_manifest(manifest: Path, text: str) -> bool:
    """Whether a file is there and says exactly this.

    Raises:
        FileError, FormatError: something else is there.
    """
    return kind_of(manifest) is not None and read_text(manifest, "manifest") == text


def _parts_of(job: Job, parts: Sequence[Part]) -> dict[str, Any]:
    """Return what a run is known by: the job, what its files are like, and the parts, by a digest."""
    digest = sha256()
    for part in parts:
        digest.update(json.dumps(asdict(part)).encode())
        for file in part.files:
            digest.update(str(_stamp(Path(file))).encode())
    stamped = [*job.model, *([] if job.db is None else [job.db])]
    return {
        "job": json.loads(json.dumps(job.to_dict())),
        "files": {name: _stamp(Path(name)) for name in stamped},
        "items": parts[-1].stop,
        "parts": digest.hexdigest(),
    }


def _stamp(path: Path) -> Mapping[str, Any] | list[int] | None:
    """Return sizes and times of a file, or of those files of a folder that only writers touch."""
    kind = kind_of(path)
    if kind is None:
        return None
    if kind == "folder":
        return {name: _stamp(path / name) for name in (LMDB_DATA, INIT, PREDICT)}
    status = status_of(path)
    return [status.st_size, status.st_mtime_ns]


def _remove(folder: Path) -> None:
    """Remove a folder of parts, what tells of them last: whoever is killed meanwhile leaves parts that are known.

    Raises:
        FileError: something else lies there, or it cannot be removed.
    """
    try:
        for name in _parts_in(folder):
            (folder / name).unlink(missing_ok=True)
        folder.rmdir()
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"cannot remove {shown(folder)}: {error.strerror}", hint="remove it yourself") from error
