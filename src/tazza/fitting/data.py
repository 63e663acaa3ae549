"""Pictures made ready for training: decoded once, in one size, into a database to learn from and one to be tested on.

    data = prepare_pictures(find_source("photos"), Path("out/data"), Shape(channels=3, size=(224, 224)), seed=1)

Letters: N pictures, C colours, H and W height and width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza.data_class import dataclass
from tazza.db.image_source import TEST_SHARE, WRITTEN_TYPE, ImageDB, TrainAndTest, databases_once
from tazza.db.images import Progress, both_parts, no_progress, write_records
from tazza.errors import ArgumentError, FileError, FormatError, ShapeError, TazzaError
from tazza.fitting.records import PictureRecords, picture_record
from tazza.fitting.source import Half, Places, Source
from tazza.images.preprocessing import BYTE_MAX, Bytes, Preprocessing
from tazza.ops.data.decoding import Decoding
from tazza.runtime.threads import thread_count

LOOKED_AT = 32
"""Pictures that tell whether there are colours, and one size."""
MEASURED = 1000
"""Pictures that tell mean and deviation."""
AT_ONCE = 64
"""Pictures that are decoded before they are written."""
DIGITS_KEPT = 4
BROKEN = (FileError, FormatError, ShapeError)
"""What may be wrong with one picture and with no other."""


@dataclass(frozen=True, slots=True)
class Look:
    """What some of the pictures show: whether there are colours, and the size that all of them have, if they do."""

    channels: int
    size: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class PictureData:
    """Pictures to learn from and to be tested on, what their classes are called, and how a net takes them."""

    origin: str
    databases: TrainAndTest
    names: tuple[str, ...]
    prepare: Preprocessing
    skipped: tuple[str, ...] = ()
    """What is wrong with the pictures that were left out, where they were decoded now."""

    @property
    def nbytes(self) -> int:
        """Bytes of all pixels."""
        assert self.prepare.size is not None, "pictures have one size"
        H, W = self.prepare.size
        return H * W * self.prepare.channels * (self.databases.train.count + self.databases.test.count)


def look(source: Source) -> Look:
    """Look at some of the pictures.

    Raises:
        FormatError: none of them can be read.
    """
    half, plain = source.train, Preprocessing()
    places = np.unique(np.linspace(0, len(half.labels) - 1, LOOKED_AT).astype(np.intp))
    seen: list[Bytes] = []
    wrong: TazzaError | None = None
    for _, picture in half.pictures(places):
        try:
            seen.append(plain.placed(picture))
        except BROKEN as error:
            wrong = error
    if not seen:
        raise FormatError(f"none of {len(places)} pictures of {source.origin} can be read") from wrong
    grey = all(bool((pixels == pixels[..., :1]).all()) for pixels in seen)
    sizes = {pixels.shape[:2] for pixels in seen}
    return Look(1 if grey else 3, (seen[0].shape[0], seen[0].shape[1]) if len(sizes) == 1 else None)


def prepare_pictures(
    source: Source,
    folder: Path,
    prepare: Preprocessing,
    *,
    seed: int,
    test_share: float = TEST_SHARE,
    measured: bool = True,
    going_on: bool = False,
    progress: Progress = no_progress,
) -> PictureData:
    """Decode pictures into the databases of a folder, unless they lie there from before.

    A picture that cannot be read is left out.

    Args:
        source: where they come from.
        folder: for the databases; made when missing.
        prepare: size and colours that they get, and how numbers are made of bytes.
        seed: of what is held back for tests, where the source has none.
        test_share: how much is, of every class.
        measured: mean and deviation become those of the pictures to learn from.
        going_on: a training goes on, see `databases_once`.
        progress: is told of the pictures that are decoded.

    Raises:
        ArgumentError: `prepare` has no size, or makes something else than planes of bytes or numbers of one size; there
            are so few pictures that none is held back; `going_on` with other pictures than before.
        FileError, DBError: the folder cannot be written.
        FormatError: no picture is left to learn from, or to be tested on.
    """
    _check(prepare, test_share)
    train, test = source.train, source.test
    parts = (np.arange(len(train.labels)), np.arange(0 if test is None else len(test.labels)))
    if test is None:
        learned, tested = both_parts(train.labels, test_share, seed)
        parts, test = (np.sort(learned), np.sort(tested)), train
    placing = replace(prepare, mean=(0.0,), std=(1.0,), scale=1.0)
    made_from = {"data": source.stamp, "seed": seed, "share": test_share, "pictures": asdict(placing)}
    skipped: list[str] = []

    def write(train_path: Path, test_path: Path) -> None:
        total, done = sum(map(len, parts)), 0
        for half, places, path in ((train, parts[0], train_path), (test, parts[1], test_path)):
            before = done
            records = _records(half, places, placing, skipped, lambda n, b=before: progress(b + n, total))
            write_records(WRITTEN_TYPE, path, records, len(places))
            done += len(places)

    try:
        found = databases_once(folder, made_from, write, source.origin, going_on=going_on)
    except TazzaError as error:
        if skipped:
            raise FormatError(
                f"{len(skipped)} of {sum(map(len, parts))} pictures cannot be read, and none is left: {skipped[0]}"
            ) from error
        raise
    how = _with_statistics(prepare, found.train) if measured else prepare
    return PictureData(source.origin, found, source.names, how, tuple(skipped))


def _check(prepare: Preprocessing, test_share: float) -> None:
    if prepare.size is None or prepare.fit == "pad" or prepare.order != "NCHW" or prepare.dtype != "float32":
        raise ArgumentError(
            f"pictures for training have one size, and become planes of numbers; asked for are size = {prepare.size},"
            f" fit = {prepare.fit!r}, order = {prepare.order!r}, dtype = {prepare.dtype!r}",
            hint="fit 'crop' or 'stretch', order 'NCHW', dtype 'float32'",
        )
    if not 0 < test_share < 1:
        raise ArgumentError(f"a share of {test_share} to be tested on", hint="between 0 and 1")


def _records(
    half: Half, places: Places, prepare: Preprocessing, skipped: list[str], told: Callable[[int], object]
) -> Iterator[bytes]:
    """Give the records of the pictures at some places; those that cannot be read are named instead."""
    pictures = half.pictures(places)
    with Decoding[tuple[str, Any]]("tazza-pictures", thread_count()) as threads:
        for start in range(0, len(places), AT_ONCE):
            some = [next(pictures) for _ in places[start : start + AT_ONCE]]
            decoded: dict[int, Bytes | TazzaError] = {}

            def decode(
                position: int, picture: tuple[str, Any], _: int | None, made: dict[int, Bytes | TazzaError] = decoded
            ) -> None:
                try:
                    made[position] = prepare.placed(picture[1])
                except BROKEN as error:
                    made[position] = error

            threads.batch(some, decode, None)
            for position, (name, _) in enumerate(some):
                found = decoded[position]
                if isinstance(found, TazzaError):
                    skipped.append(found.message if name in found.message else f"{name}: {found.message}")
                else:
                    yield picture_record(found, int(half.labels[places[start + position]]))
            told(start + len(some))


def _with_statistics(prepare: Preprocessing, train: ImageDB) -> Preprocessing:
    """Return a preprocessing whose numbers have mean 0 and deviation 1, colour by colour, over the pictures."""
    places = np.unique(np.linspace(0, train.count - 1, MEASURED).astype(np.intp))
    sums, count = np.zeros((2, prepare.channels)), 0
    with PictureRecords(train) as records:
        for start in range(0, len(places), AT_ONCE):
            pixels = records.batch(places[start : start + AT_ONCE])[0].reshape(-1, prepare.channels) / BYTE_MAX
            sums += len(pixels) * np.array([pixels.mean(0), (pixels**2).mean(0)])
            count += len(pixels)
    mean, square = sums / count
    deviation: NDArray[np.float64] = np.sqrt(np.maximum(square - mean**2, 0))
    rounded = [tuple(round(float(each), DIGITS_KEPT) for each in values) for values in (mean, deviation)]
    return replace(
        prepare, scale=1 / BYTE_MAX, mean=rounded[0], std=tuple(each if each else 1.0 for each in rounded[1])
    )
