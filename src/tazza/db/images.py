"""Images with labels: in memory, from IDX folders and scikit-learn, and as records of a database.

A record is a `TensorProtos` of two tensors: the image, BYTE of dims (1, H, W), and its label, an INT32 scalar. Keys are
the position in eight digits, so that every format keeps the order.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tazza.data_class import dataclass
from tazza.db.base import Mode, open_db
from tazza.db.idx import read_idx_images, read_idx_labels
from tazza.errors import ArgumentError, FileError, FormatError, ShapeError, UnavailableError
from tazza.proto import TensorProto, TensorProtos
from tazza.runtime.files import kind_of

Progress = Callable[[int, int], None]
"""Is told how many records are done, and of how many."""

COMMIT_EVERY = 10_000
"""Records of one transaction."""

DIGIT_SIZE = 28
"""Height and width of an image of a digit, in pixels: what MNIST has."""

DIGIT_FRAME = 4
"""Pixels around the digit that stay black, as in MNIST: a convolution without padding sees borders less."""

DIGIT_LEVEL_MAX = 16
"""Highest grey level of scikit-learn's digits."""


def no_progress(done: int, total: int) -> None:
    """Tell nobody."""


@dataclass(frozen=True, eq=False)
class LabelledImages:
    """Images (N, H, W) as bytes, 0 black to 255 white, and a label (N) for each."""

    images: NDArray[np.uint8]
    labels: NDArray[np.int32]

    def __post_init__(self) -> None:
        """Check that there is one label for each image."""
        if self.images.ndim != 3 or self.labels.shape != self.images.shape[:1]:
            raise ShapeError(
                f"images of shape {self.images.shape} and labels of shape {self.labels.shape} are not (N, H, W) and (N)"
            )

    def __len__(self) -> int:
        return len(self.images)

    def take(self, positions: NDArray[np.intp]) -> LabelledImages:
        """Return the images at these positions, in this order."""
        return LabelledImages(self.images[positions], self.labels[positions])


def held_back(labels: NDArray[Any], share: float, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the positions to train on and those to test on, each shuffled; every label gives `share` of its images.

    >>> train, test = held_back(np.array([7, 7, 7, 7, 4, 4]), share=0.5, seed=1)
    >>> len(train), len(test), sorted(np.array([7, 7, 7, 7, 4, 4])[test].tolist())
    (3, 3, [4, 7, 7])
    """
    random = np.random.default_rng(seed)
    test: list[NDArray[np.intp]] = []
    train: list[NDArray[np.intp]] = []
    for label in np.unique(labels):
        of_label = random.permutation(np.flatnonzero(labels == label))
        count = round(share * len(of_label))
        test.append(of_label[:count])
        train.append(of_label[count:])
    return random.permutation(np.concatenate(train)), random.permutation(np.concatenate(test))


def both_parts(labels: NDArray[Any], share: float, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return what `held_back` does, where there is something to train on and something to test on.

    Raises:
        ArgumentError: every label has so few images that all of them go to one of the two.
    """
    parts = held_back(labels, share, seed)
    for part, wanted in zip(parts, ("is left to learn from", "is held back to test on"), strict=True):
        if not len(part):
            raise ArgumentError(
                f"none of {len(labels)} pictures {wanted}: a share of {share:g} is held back of each class, and the"
                f" largest has {np.unique_counts(labels).counts.max()}",
                hint="have more pictures of each class, hold back another share, or name pictures to test on",
            )
    return parts


# -- where they come from ----------------------------------------------------------------------------------------------


def load_digits() -> LabelledImages:
    """Return the 1797 handwritten digits of scikit-learn, 8x8, scaled to 20x20 in a black frame: 28x28, as in MNIST.

    Raises:
        UnavailableError: scikit-learn is not installed.
    """
    try:
        datasets: Any = importlib.import_module("sklearn.datasets")
    except ImportError as error:
        raise UnavailableError(
            f"the digits come with scikit-learn, which cannot be imported: {error}",
            hint="pip install 'tazza[digits]', or name a folder or database with --data",
        ) from error
    bunch: Any = datasets.load_digits()
    levels = cast("NDArray[np.float64]", bunch.images)
    scaled = scale_bilinear(levels * (255 / DIGIT_LEVEL_MAX), DIGIT_SIZE - 2 * DIGIT_FRAME)
    framed = np.pad(scaled, ((0, 0), (DIGIT_FRAME, DIGIT_FRAME), (DIGIT_FRAME, DIGIT_FRAME)))
    return LabelledImages(framed, cast("NDArray[Any]", bunch.target).astype(np.int32))


def scale_bilinear(images: NDArray[np.floating[Any]], size: int) -> NDArray[np.uint8]:
    """Return images (N, H, W) of values 0 to 255, interpolated to (N, size, size) bytes; edges repeat.

    >>> scale_bilinear(np.array([[[0., 100.]]]), 4)[0, 0].tolist()
    [0, 25, 75, 100]
    """
    rows, columns = (_interpolation(extent, size) for extent in images.shape[1:])
    return np.rint(rows @ images @ columns.T).astype(np.uint8)  # (size, H) @ (N, H, W) @ (W, size)


def _interpolation(extent: int, size: int) -> NDArray[np.float64]:
    """Weights (size, extent) that each new pixel takes of the old ones."""
    centre = np.clip((np.arange(size) + 0.5) * (extent / size) - 0.5, 0, extent - 1)
    return np.maximum(0, 1 - np.abs(centre[:, np.newaxis] - np.arange(extent)))


IDX_KINDS = {"images": "idx3", "labels": "idx1"}
IDX_SPLITS = {"train": "train", "test": "t10k"}


def find_idx(folder: Path, split: str, kind: str) -> Path | None:
    """Return the file of a split (`train`, `test`) and kind (`images`, `labels`) under MNIST's names, or None."""
    for separator in "-.":
        for suffix in ("", ".gz"):
            path = folder / f"{IDX_SPLITS[split]}-{kind}{separator}{IDX_KINDS[kind]}-ubyte{suffix}"
            if kind_of(path) not in (None, "folder"):
                return path  # whoever reads it says what is wrong with a pipe
    return None


def load_idx(folder: str | os.PathLike[str], split: str) -> LabelledImages:
    """Return the images of a folder with MNIST's four files; `split` is `train` or `test`.

    Raises:
        FileError: a file is missing or cannot be read.
        FormatError: a file is broken, or there are not as many labels as images.
    """
    found: dict[str, Path] = {}
    for kind in IDX_KINDS:
        path = find_idx(Path(folder), split, kind)
        if path is None:
            name = f"{IDX_SPLITS[split]}-{kind}-{IDX_KINDS[kind]}-ubyte"
            raise FileError(f"'{folder}' has no file '{name}' or '{name}.gz'", hint="MNIST is four files in one folder")
        found[kind] = path
    images, labels = read_idx_images(found["images"]), read_idx_labels(found["labels"])
    if len(images) != len(labels):
        raise FormatError(
            f"'{found['images']}' has {len(images)} images and '{found['labels'].name}' has {len(labels)} labels",
            hint="take both files of one set",
        )
    return LabelledImages(images, labels.astype(np.int32))


# -- records -----------------------------------------------------------------------------------------------------------


def image_record(image: NDArray[np.uint8], label: int) -> bytes:
    """Return the record of one image (H, W) and its label."""
    protos = (
        TensorProto(dims=[1, *image.shape], data_type=TensorProto.BYTE, byte_data=image.tobytes()),
        TensorProto(data_type=TensorProto.INT32, int32_data=[label]),
    )
    return TensorProtos(protos=protos).SerializeToString()


def write_image_records(
    db_type: str, path: str | os.PathLike[str], images: LabelledImages, progress: Progress = no_progress
) -> None:
    """Write a record for each image into a new database, in order.

    Raises:
        DBError: the database exists already or cannot be written.
        UnavailableError: the library of this type is not installed.
    """
    records = (image_record(image, int(label)) for image, label in zip(images.images, images.labels, strict=True))
    write_records(db_type, path, records, len(images), progress)


def write_records(
    db_type: str, path: str | os.PathLike[str], records: Iterator[bytes], total: int, progress: Progress = no_progress
) -> None:
    """Write records into a new database under the keys 00000000, 00000001 ...; `total` is for `progress` only.

    Raises:
        DBError, UnavailableError: as `write_image_records`.
    """
    with open_db(db_type, path, Mode.NEW) as db, db.transaction() as transaction:
        for position, record in enumerate(records):
            transaction.put(f"{position:08}", record)
            if transaction.pending == COMMIT_EVERY:
                transaction.commit()
                progress(position + 1, total)
    progress(total, total)


def count_records(db_type: str, path: str | os.PathLike[str]) -> int:
    """Return how many records a database holds; their values are not read where the format allows that.

    Raises:
        DBError: it is missing or corrupt.
    """
    with open_db(db_type, path) as db, db.cursor() as cursor:
        count = 0
        while cursor.valid:
            count += 1
            cursor.next()
        return count
