"""Records to send through a pipeline: half of them rows of a text file, half of them in an LMDB.

Record n has the number n, n % 1000 / 2 as its value and one of `NAMES` as its name.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tazza.db import Mode, open_db
from tazza.proto import TensorProto, TensorProtos

TEXT, STORE = "rows.txt", "records.lmdb"
NAMES = [b"name-%d" % n for n in range(97)]
VALUES = 1000
AT_ONCE = 100_000
"""Records that are written together."""
MOST = 2**24
"""Numbers in a column of a text file are float32, which holds all up to here."""


def write_text(path: Path, first: int, end: int) -> None:
    """Write records `first` to `end` as rows."""
    with path.open("wb") as file:
        for begin in range(first, end, AT_ONCE):
            numbers = range(begin, min(begin + AT_ONCE, end))
            file.write(b"".join(b"%d\t%g\t%b\n" % (n, n % VALUES / 2, NAMES[n % len(NAMES)]) for n in numbers))


def stored_record(number: int, value: float | None = None) -> bytes:
    """Return a record as a database holds it, with another value where one is given."""
    own = number % VALUES / 2 if value is None else value
    message = TensorProtos(
        protos=[
            TensorProto(data_type="INT64", int64_data=[number]),
            TensorProto(data_type="FLOAT", float_data=[own]),
            TensorProto(data_type="STRING", string_data=[NAMES[number % len(NAMES)]]),
        ]
    )
    return message.SerializeToString()


def write_store(path: Path, first: int, end: int) -> None:
    """Write records `first` to `end` into an LMDB, under their numbers."""
    with open_db("lmdb", path, Mode.NEW) as store:
        for begin in range(first, end, AT_ONCE):
            with store.transaction() as transaction:
                for number in range(begin, min(begin + AT_ONCE, end)):
                    transaction.put(b"%09d" % number, stored_record(number))


def write_sources(folder: Path, records: int) -> None:
    """Write all records, the first half as text."""
    write_text(folder / TEXT, 0, records // 2)
    write_store(folder / STORE, records // 2, records)


def mixed(numbers: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> int:
    """Return a checksum of numbers that does not hang on their order: the sum of a hash of each, modulo 2**64.

    Source: Steele, Lea, Flood 2014, the mixing function of SplitMix64.

    >>> mixed(np.array([3, 5])) == mixed(np.array([5, 3])), mixed(np.array([3, 5])) == mixed(np.array([4, 4]))
    (True, False)
    """
    z = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return int((z ^ (z >> np.uint64(31))).sum(dtype=np.uint64))
