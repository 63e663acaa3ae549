"""What the registry of the process counts of a queue of blobs, as Caffe2 did, under the name of its first blob.

`queue_balance` is the records that were put in less those taken out, from the moment on when somebody began to: it is
below 0 while threads wait for records, and above the capacity while they wait for room. `queue_dequeued_records` and
`queue_dequeued_bytes` are of what was taken out, the latter of each named column too; `read_time_ns` and
`write_time_ns` have the `sum` of the waits and their `count`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tazza.ops.control import statistic
from tazza.tensor import DataType, Tensor

TEXT_BYTES = 8
"""What an element of text counts for beside its own bytes."""


class QueueStatistics:
    """Counts for one queue."""

    def __init__(self, name: str, fields: Sequence[str]) -> None:
        """Let the statistics of a queue be there."""
        self._balance = f"{name}/queue_balance"
        self._records, self._bytes = f"{name}/queue_dequeued_records", f"{name}/queue_dequeued_bytes"
        self._fields = [f"{self._bytes}/{field}" for field in fields]
        self._reads = [f"{name}/read_time_ns/{part}" for part in ("sum", "count")]
        self._writes = [f"{name}/write_time_ns/{part}" for part in ("sum", "count")]
        every = [self._balance, self._records, self._bytes, *self._fields, *self._reads, *self._writes]
        statistic.OF_PROCESS.add(dict.fromkeys(every, 0))

    def begin(self, change: int) -> None:
        """Count that somebody begins to put a record in (1), or to take one out (-1)."""
        statistic.OF_PROCESS.add({self._balance: change})

    def written(self, wait_ns: int) -> None:
        """Count a record that was put in."""
        statistic.OF_PROCESS.add(dict(zip(self._writes, (wait_ns, 1), strict=True)))

    def taken(self, values: Sequence[object], wait_ns: int) -> None:
        """Count a record that was taken out."""
        sizes = [size_bytes(value) for value in values]
        found = dict(zip(self._reads, (wait_ns, 1), strict=True))
        found.update({self._records: 1, self._bytes: sum(sizes)})
        for field, size in zip(self._fields, sizes, strict=False):
            found[field] = found.get(field, 0) + size
        statistic.OF_PROCESS.add(found)


def size_bytes(value: object) -> int:
    """Return how many bytes a value counts for: those of the elements of a tensor, none of anything else.

    >>> import numpy as np
    >>> size_bytes(Tensor.from_numpy(np.zeros((2, 3), np.float32))), size_bytes(b"text")
    (24, 0)
    """
    if not isinstance(value, Tensor):
        return 0
    if value.dtype is not DataType.STRING:
        return value.size * value.dtype.itemsize
    texts: list[bytes] = value.plain().reshape(-1).tolist()
    return sum(map(len, texts)) + TEXT_BYTES * len(texts)
