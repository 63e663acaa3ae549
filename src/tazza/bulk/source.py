"""What there is to predict, cut into parts: files of images, or records of a database, in their order.

An item is a file, or a record; its position counts from 0. A file may hold several images, a record holds one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tazza.data_class import dataclass
from tazza.db.base import DB, Cursor, open_db
from tazza.errors import DBError, FormatError, ShapeError, TazzaError
from tazza.images.batch import prepared
from tazza.images.preprocessing import Preprocessing
from tazza.interop.answers import PER_IMAGE, file_images
from tazza.proto import TensorProtos
from tazza.proto.message import parse
from tazza.runtime.closing import Closing
from tazza.runtime.files import one_line, shown
from tazza.tensor.tensor_proto import tensor_proto_to_array

Array = NDArray[Any]
PARTS = 64
"""As many parts as there are at least, where items suffice: several for each worker, so that all end together."""
PART_MAX = 4096
"""Most items of a part: what is done anew when a worker dies."""


@dataclass(frozen=True, slots=True)
class Part:
    """Items from position `start` to before `stop`: these files, or the records from a key on (in hexadecimal)."""

    number: int
    start: int
    stop: int
    files: tuple[str, ...] = ()
    key: str | None = None

    @property
    def count(self) -> int:
        """How many items it has."""
        return self.stop - self.start

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Return the part of these fields, after JSON."""
        return cls(fields["number"], fields["start"], fields["stop"], tuple(fields["files"]), fields["key"])


@dataclass(frozen=True, slots=True)
class Item:
    """An image of an item: the item's position, its file or key, and which image of a file that holds several."""

    position: int
    name: str
    row: int | None = None

    @property
    def key(self) -> str:
        """What its result is called in a database: so that the order stays."""
        return f"{self.position:08}" if self.row is None else f"{self.position:08}-{self.row:08}"

    def fields(self) -> dict[str, Any]:
        """Return what tells it, for programs."""
        found: dict[str, Any] = {"image": self.name}
        return found if self.row is None else found | {"row": self.row}


def part_size(count: int, batch_size: int) -> int:
    """Return how many items a part has: whole batches, and the same for any number of workers.

    >>> part_size(1_000_000, 16), part_size(5_000, 16), part_size(3, 16)
    (4096, 80, 16)
    """
    batches = -(-min(PART_MAX, -(-count // PARTS)) // batch_size)
    return max(1, batches) * batch_size


def file_parts(files: Sequence[Path], batch_size: int) -> list[Part]:
    """Return the parts of a list of files."""
    size = part_size(len(files), batch_size)
    starts = range(0, len(files), size)
    return [
        Part(number, start, start + len(files[start : start + size]), tuple(map(str, files[start : start + size])))
        for number, start in enumerate(starts)
    ]


def record_parts(db_type: str, path: Path, batch_size: int) -> list[Part]:
    """Return the parts of a database, by one walk along its keys.

    Raises:
        DBError: it cannot be read.
    """
    keys: list[str] = []  # where batches begin: parts are made of whole ones
    count = 0
    with open_db(db_type, path) as db, db.cursor() as cursor:
        while cursor.valid:
            if count % batch_size == 0:
                keys.append(cursor.key.hex())
            count += 1
            cursor.next()
    size = part_size(count, batch_size)
    starts = range(0, count, size)
    return [Part(number, at, min(at + size, count), key=keys[at // batch_size]) for number, at in enumerate(starts)]


class Reader(Closing):
    """Reads the images of parts, as a net takes them; parts in ascending order are read without going back."""

    def __init__(self, db_type: str | None, db: str | None, prepare: Preprocessing, batch_size: int) -> None:
        """Open the database, where items are its records.

        Raises:
            DBError: it cannot be opened.
        """
        self._prepare = prepare
        self._batch_size = batch_size
        self._db: DB | None = None
        self._cursor: Cursor | None = None
        self._position = 0
        if db_type is not None and db is not None:
            self._db = open_db(db_type, db)
            self._cursor = self._db.cursor()

    def close(self) -> None:
        """Close the database."""
        if self._db is not None:
            self._db.close()

    def images(self, part: Part) -> Iterator[tuple[Item, Array | TazzaError]]:
        """Give the images of a part, without the batch, or why one cannot be read.

        Raises:
            DBError: the database changed or broke.
        """
        if self._cursor is not None:
            yield from self._records(self._cursor, part)
            return
        for position, name in enumerate(part.files, part.start):
            for image, found in file_images(Path(name), self._prepare, self._batch_size):
                yield Item(position, name, image.row), found

    def _records(self, cursor: Cursor, part: Part) -> Iterator[tuple[Item, Array | TazzaError]]:
        self._go_to(cursor, part)
        for position in range(part.start, part.stop):
            key, value = cursor.key, cursor.value
            name = key.decode("utf-8", "backslashreplace")
            try:
                found: Array | TazzaError = record_image(value, f"record {one_line(name)}", self._prepare)
            except PER_IMAGE as error:
                found = error
            self._position = position + 1
            cursor.next()
            yield Item(position, name), found

    def _go_to(self, cursor: Cursor, part: Part) -> None:
        key = bytes.fromhex(str(part.key))
        if self._position != part.start:
            if cursor.supports_seek:
                cursor.seek(key)
            else:
                if self._position > part.start:
                    cursor.seek_to_first()
                    self._position = 0
                for _ in range(part.start - self._position):
                    cursor.next()
            self._position = part.start
        if not cursor.valid or cursor.key != key:
            raise DBError(
                f"record {part.start} of {cursor.db} was {shown(key.decode(errors='replace'))}, and is another now",
                hint="let nobody write to it meanwhile; --overwrite begins anew",
            )


def record_image(value: bytes, what: str, prepare: Preprocessing) -> Array:
    """Return the image in a record, its first tensor, as a net takes it: (C, H, W), or numbers of any other shape.

    Raises:
        FormatError: the record holds no tensors.
        ShapeError: bytes of a shape that images do not have.
    """
    protos = parse(TensorProtos, value, what).protos
    if not protos:
        raise FormatError(f"{what} holds no tensor", hint="records begin with an image")
    image = tensor_proto_to_array(protos[0])
    if image.ndim in (2, 3):
        return prepared(image[np.newaxis], prepare)[0]
    if image.dtype == np.uint8:
        raise ShapeError(f"{what} holds bytes of shape {image.shape}, no image", hint="(H, W) and (C, H, W) are images")
    return image.astype(np.float32)
