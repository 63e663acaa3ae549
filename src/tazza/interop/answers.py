"""What a net makes of images, in batches of one shape; what is wrong with one harms no other.

    for answered in answers(predictor, images, batch_size=16):
        for image, row in answered: ...

Each image comes with a name of the caller's, as numbers without the batch, or as the error that kept it from being
read; it leaves, in its turn, with its row of the output or with an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tazza.errors import FileError, FormatError, ShapeError, TazzaError
from tazza.images.batch import prepared, read_stored
from tazza.images.classes import Image
from tazza.images.preprocessing import Preprocessing
from tazza.interop.image_needs import image_input
from tazza.interop.predictor import Predictor

Array = NDArray[Any]
Name = TypeVar("Name")
Explain = Callable[[Name, Array, TazzaError], TazzaError]

BATCH_BYTES = 64 << 20
"""A batch is run when it has so many bytes, whatever its size."""
PER_IMAGE = (FileError, FormatError, ShapeError)
"""What may be wrong with one image and with no other."""
NO_CLASSES = "predict is for nets that classify, or make pictures; --output NAME takes another output"


def answers(
    predictor: Predictor,
    images: Iterable[tuple[Name, Array | TazzaError]],
    *,
    batch_size: int,
    explain: Explain[Name] | None = None,
) -> Iterator[list[tuple[Name, Array | TazzaError]]]:
    """Give what the net makes of images, a batch at a time, in their order; its first output is taken.

    Args:
        predictor: with one input.
        images: numbers without the batch, or why there are none.
        batch_size: most images of a run.
        explain: makes a better error of one that a single image met.

    Raises:
        ArgumentError: the net has not one input.
        TazzaError: what is wrong with the net, and not with one image.
    """
    name = image_input(predictor)
    for _, alike in groupby(images, key=_likeness):
        batch: list[tuple[Name, Array]] = []
        for image, found in alike:
            if isinstance(found, TazzaError):
                yield [(image, found)]
                continue
            batch.append((image, found))
            if len(batch) == batch_size or len(batch) * found.nbytes > BATCH_BYTES:
                yield _of_batch(predictor, name, batch, explain)
                batch = []
        if batch:
            yield _of_batch(predictor, name, batch, explain)


def file_images(path: Path, prepare: Preprocessing, batch_size: int) -> Iterator[tuple[Image, Array | TazzaError]]:
    """Give the images of a file as the net takes them, without the batch; or why it cannot be read.

    A picture is one; arrays and IDX files hold any number, of which `batch_size` are prepared at a time.
    """
    try:
        stored = read_stored(path)
        if stored is None:
            yield Image(path), prepare(path)[0]
            return
        for start in range(0, len(stored), batch_size):
            part = prepared(stored[start : start + batch_size], prepare)
            for row, image in enumerate(part, start):
                yield Image(path, None if len(stored) == 1 else row), image
    except PER_IMAGE as error:
        yield Image(path), error


def _likeness(pair: tuple[object, Array | TazzaError]) -> object:
    """Return what images of one batch have in common; None: they failed."""
    found = pair[1]
    return None if isinstance(found, TazzaError) else (found.shape, found.dtype)


def _of_batch(
    predictor: Predictor, name: str, batch: Sequence[tuple[Name, Array]], explain: Explain[Name] | None
) -> list[tuple[Name, Array | TazzaError]]:
    """Run some images; where that fails, each by itself, so that it is known which one does not fit."""
    try:
        made = _outputs(predictor, name, [numbers for _, numbers in batch])
    except TazzaError:
        return [(image, _alone(predictor, name, (image, numbers), explain)) for image, numbers in batch]
    return [(image, row) for (image, _), row in zip(batch, made, strict=True)]


def _alone(
    predictor: Predictor, name: str, one: tuple[Name, Array], explain: Explain[Name] | None
) -> Array | TazzaError:
    image, numbers = one
    try:
        made: Array = _outputs(predictor, name, [numbers])[0]
    except PER_IMAGE as error:
        return error if explain is None else explain(image, numbers, error)
    return made


def _outputs(predictor: Predictor, name: str, images: Sequence[Array]) -> Array:
    """Return what the net makes of images, one row each."""
    output, made = next(iter(predictor.run({name: np.stack(images)}).items()))
    if np.ndim(made) < 2 or len(made) != len(images):
        raise ShapeError(
            f"output {output!r} of shape {np.shape(made)} has no row for each of {len(images)} images", hint=NO_CLASSES
        )
    return made
