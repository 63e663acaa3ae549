"""Pictures that lie decoded in a database: any of them, in any order.

A record is a `TensorProtos` of two tensors: the pixels, BYTE of dims (C, H, W), and the class, an INT32 scalar. That is
what the operator `TensorProtosDBInput` reads too. Keys are the position in eight digits.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from tazza.db.base import open_db
from tazza.db.image_source import ImageDB
from tazza.errors import FormatError
from tazza.images.preprocessing import Bytes
from tazza.proto import TensorProto, TensorProtos
from tazza.proto.message import parse
from tazza.runtime.closing import Closing

HELD_BYTES_MAX = 1 << 29
"""Pixels that were read stay in memory, up to so many bytes; beyond that they are read again."""


def picture_record(pixels: Bytes, label: int) -> bytes:
    """Return the record of one picture (H, W, C) and its class."""
    planes = np.ascontiguousarray(np.moveaxis(pixels, -1, 0))
    protos = (
        TensorProto(dims=planes.shape, data_type=TensorProto.BYTE, byte_data=planes.tobytes()),
        TensorProto(data_type=TensorProto.INT32, int32_data=[label]),
    )
    return TensorProtos(protos=protos).SerializeToString()


class PictureRecords(Closing):
    """The pictures of a database, by position; threads may share it.

    State: the cursor and what is held, under a lock; a picture that is held is not written to.
    """

    def __init__(self, source: ImageDB) -> None:
        """Open the database.

        Raises:
            DBError: it cannot be read.
        """
        self.count = source.count
        self._db = open_db(source.db_type, source.path)
        self._cursor = self._db.cursor()
        self._lock = threading.Lock()
        self._held: dict[int, tuple[Bytes, int]] = {}
        self._held_bytes = 0

    def batch(self, positions: Iterable[int]) -> tuple[Bytes, NDArray[np.int32]]:
        """Return pixels (N, H, W, C) and classes (N) at these positions.

        Raises:
            DBError, FormatError: a record is missing or broken.
        """
        with self._lock:
            found = [self._one(int(position)) for position in positions]
        return np.stack([pixels for pixels, _ in found]), np.array([label for _, label in found], np.int32)

    def _one(self, position: int) -> tuple[Bytes, int]:
        held = self._held.get(position)
        if held is not None:
            return held
        key = f"{position:08}"
        self._cursor.seek(key)
        if self._cursor.key != key.encode():
            raise FormatError(f"{self._db} has no record {key}", hint="remove the folder with the databases")
        image, label = parse(TensorProtos, self._cursor.value, f"record {key} of {self._db}").protos
        pixels = np.frombuffer(image.byte_data, np.uint8).reshape(tuple(image.dims))
        made = np.ascontiguousarray(np.moveaxis(pixels, 0, -1)), int(label.int32_data[0])
        if self._held_bytes + pixels.nbytes <= HELD_BYTES_MAX:
            self._held[position] = made
            self._held_bytes += pixels.nbytes
        return made

    def close(self) -> None:
        """Close the database; closing twice is allowed."""
        with self._lock:
            self._held.clear()
            self._cursor.close()
            self._db.close()
