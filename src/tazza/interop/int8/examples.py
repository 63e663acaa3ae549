"""Batches to calibrate and to compare with: from arrays, pictures, folders and databases, one in memory at a time.

Letters: images (N, C, H, W) of float32. Bytes become numbers as a `Preprocessing` says; other
numbers are taken as they are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza.data_class import dataclass
from tazza.db.base import open_db
from tazza.db.image_source import database_type
from tazza.db.images import find_idx
from tazza.errors import ArgumentError, FileError, FormatError, ShapeError
from tazza.images.batch import prepared, read_images
from tazza.images.files import SUFFIXES, image_files, is_idx
from tazza.images.preprocessing import Preprocessing
from tazza.proto import TensorProtos
from tazza.proto.message import parse
from tazza.runtime.files import kind_of, one_line, shown
from tazza.runtime.log import logger
from tazza.tensor.tensor_proto import tensor_proto_to_array

Array = NDArray[Any]
BATCH = 32
MOST = 256
"""Examples that are taken where nobody says how many."""
PLAIN = Preprocessing(colors="grey")


@dataclass(frozen=True, slots=True)
class Examples:
    """Batches that can be gone through again and again: up to `batch_size` examples each, `most` in all."""

    parts: Callable[[], Iterator[Mapping[str, Array]]]
    """Begins anew and gives arrays of as many examples as it likes, all of one batch equally many."""
    batch_size: int = BATCH
    most: int | None = MOST

    @property
    def batches(self) -> int | None:
        """How many batches there are at most; None: nobody said how many examples are taken."""
        return None if self.most is None else -(-self.most // self.batch_size)

    def __iter__(self) -> Iterator[dict[str, Array]]:
        """Give the batches: all but the last have `batch_size` examples."""
        left = self.most
        held: list[dict[str, Array]] = []
        for part in self.parts():
            taken = {name: value if left is None else value[:left] for name, value in part.items()}
            for piece in _cut(taken, self.batch_size):
                held.append(piece)
                if sum(map(_count, held)) >= self.batch_size:
                    whole, *rest = _cut(_joined(held), self.batch_size)
                    yield whole
                    held = rest
            if left is not None:
                left -= _count(taken)
                if left == 0:
                    break
        if held:
            yield _joined(held)


def array_batches(arrays: Mapping[str, Array], *, batch_size: int = BATCH, most: int | None = None) -> Examples:
    """Return batches of arrays that have one first extent, by input.

    Raises:
        ArgumentError: a size below 1.
        ShapeError: no arrays, or some of unlike first extents.

    >>> [batch["x"].tolist() for batch in array_batches({"x": np.arange(5)}, batch_size=2)]
    [[0, 1], [2, 3], [4]]
    """
    _check(batch_size, most)
    extents = {name: np.shape(value)[:1] for name, value in arrays.items()}
    if len(set(extents.values())) != 1 or () in extents.values():
        raise ShapeError(f"first extents {extents} of arrays", hint="give each input as many examples")
    return Examples(lambda: iter([arrays]), batch_size, most)


def file_examples(
    path: str | os.PathLike[str],
    name: str,
    *,
    prepare: Preprocessing = PLAIN,
    batch_size: int = BATCH,
    most: int | None = MOST,
) -> Examples:
    """Return batches of the images that lie at a path, for the input `name`; files are read when they are come to.

    Args:
        path: a database (an LMDB or LevelDB folder, a minidb) whose records have an image as their first tensor; a
            folder with MNIST's IDX files; a folder of pictures and .npy files, and of folders with these, in the order
            of their names, where broken ones are told and left out; one such file.
        name: of the input.
        prepare: how bytes become numbers, and the colours and size that pictures get.
        batch_size: examples of a batch.
        most: examples in all; None: as many as there are.

    Raises:
        ArgumentError: a size below 1.
        FileError: nothing is there, or a folder without any of it.
        TazzaError: while batches are taken: a file or a record is broken, or images are of unlike shapes.
    """
    _check(batch_size, most)
    place = Path(path)
    kind = kind_of(place)
    if kind is None:
        raise FileError(f"{shown(path)} does not exist", hint="name a database, a folder or a file of images")
    if kind == "folder" and database_type(place) is None:
        files = _files_of(place)
    elif kind == "folder" or not (place.suffix.lower() in SUFFIXES or is_idx(place)):
        return Examples(lambda: ({name: image} for image in _records(place, prepare)), batch_size, most)
    else:
        files = [place]
    reader = _Pictures(files, prepare, alone=kind != "folder")
    return Examples(lambda: ({name: images} for images in reader), batch_size, most)


@dataclass(frozen=True, slots=True)
class _Pictures:
    """The images of files, a file at a time, as often as one likes. A broken one among others is told once."""

    files: list[Path]
    prepare: Preprocessing
    alone: bool
    told: set[Path] = field(default_factory=set[Path])

    def __iter__(self) -> Iterator[Array]:
        read = False
        for file in self.files:
            try:
                images = read_images(file, self.prepare)
            except (FileError, FormatError) as error:
                if self.alone or (not read and file is self.files[-1]):
                    raise
                if file not in self.told:
                    logger.warning("%s, and is left out", error.message)
                    self.told.add(file)
            else:
                read = True
                yield images


def _check(batch_size: int, most: int | None) -> None:
    if batch_size < 1 or (most is not None and most < 1):
        raise ArgumentError(f"batches of {batch_size} of {most} examples", hint="take at least 1 of each")


def _files_of(folder: Path) -> list[Path]:
    found = next((path for split in ("train", "test") if (path := find_idx(folder, split, "images"))), None)
    files = [file for file in image_files(folder) if file.suffix.lower() in SUFFIXES]
    if found is None and not files:
        raise FileError(
            f"{shown(folder)} has no images", hint=f"IDX files, or files that end in {', '.join(sorted(SUFFIXES))}"
        )
    return files if found is None else [found]


def _records(place: Path, prepare: Preprocessing) -> Iterator[Array]:
    """Read the first tensor of each record, (H, W), (C, H, W) or of any other shape, as one example."""
    with open_db(str(database_type(place)), place) as db, db.cursor() as cursor:
        for key, value in cursor:
            protos = parse(TensorProtos, value, f"record {one_line(key)} of {shown(place)}").protos
            if not protos:
                raise FormatError(
                    f"record {one_line(key)} of {shown(place)} holds no tensor", hint="records begin with an image"
                )
            image = tensor_proto_to_array(protos[0])
            if image.ndim in (2, 3):
                yield prepared(image[np.newaxis], prepare)
            elif image.dtype == np.uint8:
                raise ShapeError(
                    f"record {one_line(key)} of {shown(place)} holds bytes of shape {image.shape}, no image",
                    hint="(H, W) and (C, H, W) are images",
                )
            else:
                yield image[np.newaxis].astype(np.float32)


def _cut(part: Mapping[str, Array], size: int) -> Iterator[dict[str, Array]]:
    for start in range(0, _count(part), size):
        yield {name: value[start : start + size] for name, value in part.items()}


def _count(part: Mapping[str, Array]) -> int:
    return len(next(iter(part.values())))


def _joined(parts: list[dict[str, Array]]) -> dict[str, Array]:
    made: dict[str, Array] = {}
    for name in parts[0]:
        shapes = {part[name].shape[1:] for part in parts}
        if len(shapes) > 1:
            told = " and ".join(map(str, islice(sorted(shapes), 2)))
            raise ShapeError(f"{name!r} has examples of the shapes {told}", hint="give pictures one size")
        made[name] = np.concatenate([part[name] for part in parts])
    return made
