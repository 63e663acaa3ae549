"""A part that was predicted, as files that appear whole: lines of JSON, and the outputs where these are kept.

`000012.jsonl` has a line for each image and a last one that tells how many there are; it is written last, and where it
is, the part is done. `000012.minidb` has the outputs. A worker whose run was killed may still write one part, when
another run has begun in its place: the last line names the run that the part is of, and so does the name of outputs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

from numpy.typing import NDArray

from tazza.bulk.job import Form, Job
from tazza.bulk.source import Item, Part, Reader
from tazza.data_class import dataclass
from tazza.db.base import Mode, Transaction, open_db
from tazza.errors import FormatError, ShapeError, TazzaError
from tazza.images.classes import best_guesses
from tazza.interop.answers import NO_CLASSES, PER_IMAGE, answers
from tazza.interop.predictor import Predictor
from tazza.proto import TensorProto, TensorProtos
from tazza.runtime.files import atomic_write, encodable, kind_of, one_line, open_regular, reading, shown
from tazza.tensor.tensor_proto import array_to_tensor_proto

Array = NDArray[Any]
OUTPUTS = "minidb"
AGAIN = "remove it, and predict again"
NAMES = re.compile(r"\d{6,}(\.[0-9a-f]+)?\.(jsonl|minidb)")
"""What files of parts are called."""
COUNT_MAX = 2**63


@dataclass(frozen=True, slots=True)
class PartFiles:
    """Where a part lies in the folder of all parts, of which run it is, and what it keeps."""

    folder: Path
    part: Part
    run: str = ""
    form: Form = "classes"

    @property
    def lines(self) -> Path:
        """What was found, image by image."""
        return self.folder / f"{self.part.number:06}.jsonl"

    @property
    def outputs(self) -> Path:
        """The outputs of the net."""
        run = f".{self.run}" if self.run else ""
        return self.folder / f"{self.part.number:06}{run}.{OUTPUTS}"

    @property
    def done(self) -> bool:
        """Whether the part is there."""
        return kind_of(self.lines) == "file"

    def read(self) -> Iterator[dict[str, Any]]:
        """Give the line of each image.

        Raises:
            FileError, FormatError: as `read_lines`.
        """
        yield from read_lines(self.lines, self.part.count, self.run, self.form)


LINE_BYTES_MAX = 1 << 26
"""A line of a part is shorter: half a million classes of an image. A file may be one line with a hole."""


def read_lines(path: Path, items: int, run: str = "", form: Form = "classes") -> Iterator[dict[str, Any]]:
    """Give the line of each image of a part with so many items; the last line tells how many there are.

    Raises:
        FileError: the file is missing or cannot be read.
        FormatError: a line is none, lines are missing, there are too many, or the part is of another run.
    """
    end: object = None
    count = 0
    with open_regular(path, "part") as file, reading(path):
        while text := file.readline(LINE_BYTES_MAX):
            line = _parsed(path, text)
            end = line.get("end")
            if end is None:
                count += 1
                if not _is_of_image(line, form):
                    raise FormatError(f"{shown(path)} is no part: line {count} is of no image", hint=AGAIN)
                yield line
    told = cast("dict[str, Any]", end) if isinstance(end, dict) else {}
    if told and told.get("run", "") != run:
        raise FormatError(f"{shown(path)} is a part of another run", hint=AGAIN)
    if not told or (told.get("images"), told.get("items")) != (count, items):
        raise FormatError(
            f"{shown(path)} has {count} lines for {items} items, and ends with {one_line(told)}", hint=AGAIN
        )


def _parsed(path: Path, text: bytes) -> dict[str, Any]:
    try:
        line: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{shown(path)} is no part: {one_line(error)}", hint=AGAIN) from error
    if not isinstance(line, dict):
        raise FormatError(f"{shown(path)} is no part: a line holds {type(line).__name__}", hint=AGAIN)
    return cast("dict[str, Any]", line)


def _is_of_image(line: dict[str, Any], form: Form) -> bool:
    """Whether a line names an image, and says why nothing came of it or, where they are kept, its classes."""
    if not isinstance(line.get("image"), str) or not ("row" not in line or _is_count(line["row"])):
        return False
    if "error" in line:
        return isinstance(line["error"], str) and "classes" not in line
    guesses: object = line.get("classes")
    if form == "tensors":
        return guesses is None
    return isinstance(guesses, list) and all(map(_is_guess, cast("list[object]", guesses)))


def _is_guess(guess: object) -> bool:
    if not isinstance(guess, dict):
        return False
    said = cast("dict[str, object]", guess)
    score = said.get("score", "")
    return _is_count(said.get("class")) and isinstance(said.get("label", ""), str) and isinstance(score, float | None)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < COUNT_MAX


def predict_part(
    predictor: Predictor, job: Job, part: Part, reader: Reader, folder: Path, told: Callable[[int], None]
) -> int:
    """Predict the images of a part, write its files, and return how many images failed.

    `told` hears of how many items are done.

    Raises:
        TazzaError: what is wrong with all, and not with one image.
    """
    files = PartFiles(folder, part, job.run, job.form)
    images = failed = 0
    db = open_db(OUTPUTS, files.outputs, Mode.NEW) if job.form == "tensors" else None
    with atomic_write(files.lines) as file:
        with nullcontext() if db is None else db, nullcontext() if db is None else db.transaction() as transaction:
            for answered in answers(predictor, reader.images(part), batch_size=job.batch_size):
                for item, found in answered:
                    line = _line(job, item, found, transaction)
                    images += 1
                    failed += "error" in line
                    file.write(json.dumps(line).encode() + b"\n")
                told(answered[-1][0].position + 1 - part.start)
        end = {"items": part.count, "images": images, "failed": failed, "run": job.run}
        file.write(json.dumps({"end": end}).encode() + b"\n")
    return failed


def _line(job: Job, item: Item, found: Array | TazzaError, outputs: Transaction | None) -> dict[str, Any]:
    """Return what is said of an image; its output goes into a database where there is one."""
    if isinstance(found, TazzaError):
        return item.fields() | {"error": found.message}
    if outputs is not None:
        name = TensorProto(data_type=TensorProto.STRING, string_data=[encodable(item.name).encode()])
        outputs.put(item.key, TensorProtos(protos=[array_to_tensor_proto(found), name]).SerializeToString())
        return item.fields()
    try:
        if sum(extent > 1 for extent in found.shape) > 1:
            raise ShapeError(
                f"the net makes numbers of shape {found.shape} of an image, not one for each class", hint=NO_CLASSES
            )
        guesses = best_guesses(found, job.top, job.labels)
    except PER_IMAGE as error:
        return item.fields() | {"error": error.message}
    return item.fields() | {"classes": [guess.fields() for guess in guesses]}
