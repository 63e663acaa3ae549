"""A reader over a queue of blobs: CreateBlobsQueueDB.

A record of the queue is one of the reader: the text in one of its blobs is the value, that in another may be the key.
"""

from __future__ import annotations

from tazza.db import Cursor, DBReader
from tazza.errors import ClosedError, DBError, DTypeError, ShapeError
from tazza.operator import Effects, OpView, Role, arg, blob, forbidden, host_kernel, schema
from tazza.ops.control.blobs_queue import QUEUE, BlobsQueue
from tazza.ops.data.db import READER
from tazza.runtime.patience import Patience
from tazza.tensor import Blob, DataType, Tensor


class QueueReader(DBReader):
    """Takes each record out of a queue of blobs, once; whoever finds the queue empty waits.

    A stored one describes no queue, as Caffe2's, so that what was loaded cannot be read.
    """

    def __init__(self, queue: BlobsQueue, name: str, *, key: int | None, value: int, timeout_s: float) -> None:
        """Read `queue`, called `name` in messages; `key` and `value` are columns; 0 seconds are no limit."""
        super().__init__("", "", defer=True)
        self._queue, self._name, self._timeout_s = queue, name, timeout_s
        self._columns = key, value

    @property
    def position(self) -> None:
        """None: a queue has no index."""
        return

    def read(self, patience: Patience | None = None) -> tuple[bytes, bytes]:
        """Return key and value of the next record, and an empty key where none was asked for.

        Raises:
            ClosedError: the queue is closed, and empty.
            DeadlineError: there was no record in time.
            RunCancelledError: `patience` gave up.
            DTypeError: there is no text in a column.
            DBError: the reader is closed.
        """
        if self._closed:
            raise DBError(f"{self!r} is used after its close")
        waiting = Patience(f"for a record of the queue {self._name!r}") if patience is None else patience
        waiting.begin(self._timeout_s)
        record = [Blob(f"column {i} of {self._name}") for i in range(self._queue.width)]
        if not self._queue.read(record, waiting):
            raise ClosedError(f"the queue {self._name!r} is closed, and empty")
        key, value = self._columns
        return b"" if key is None else _text(record[key]), _text(record[value])

    def wake(self) -> None:
        """Let all who wait for a record look again."""
        self._queue.wake()

    def cursor(self) -> Cursor:
        """Raise an error.

        Raises:
            DBError: a queue has no place to go back to.
        """
        raise DBError(f"{self!r} has no cursors: what is read is gone")

    def __repr__(self) -> str:
        return f"QueueReader({self._name!r})"


def _text(blob: Blob) -> bytes:
    """Return the text in a blob, or the first one of a tensor of text."""
    value = blob.value
    if isinstance(value, bytes):
        return value
    if isinstance(value, Tensor) and value.spec.dtype is DataType.STRING and value.spec.size:
        return bytes(value.plain().reshape(-1)[0])
    raise DTypeError(f"{blob.name} holds {blob.describe()}, a record of a reader is text")


CREATE_BLOBS_QUEUE_DB = schema(
    "CreateBlobsQueueDB",
    """reader = a reader over the records of a queue, each of which it takes out.

    Text is a string, or the first one of a tensor. `TensorProtosDBInput` makes batches of such records.""",
    inputs=[blob("queue", type_name=QUEUE, role=Role.STATE)],
    outputs=[blob("reader", type_name=READER)],
    args=[
        arg("key_blob_index", int, -1, minimum=-1, doc="column of the keys; -1: keys are empty"),
        arg("value_blob_index", int, 0, minimum=0, doc="column of the values"),
        arg("timeout_secs", float, 0.0, doc="seconds after which it is an error that there is none; 0 is no limit"),
    ],
    effects=Effects.STATE,
    no_gradient=forbidden("a reader is no tensor"),
    source="Caffe2",
    example="""
    >>> queue = run("CreateBlobsQueue")
    >>> _ = run("EnqueueBlobs", queue, np.array([b"a record"], object))
    >>> run("CreateBlobsQueueDB", queue).read()
    (b'', b'a record')
    """,
)


@host_kernel(CREATE_BLOBS_QUEUE_DB)
def create_blobs_queue_db(op: OpView, queue: Blob, reader: Blob) -> None:
    source = queue.get(BlobsQueue)
    last = max(op.key_blob_index, op.value_blob_index)
    if last >= source.width:
        raise op.error(ShapeError, f"column {last} of the queue {queue.name!r}, which has {source.width}")
    key = None if op.key_blob_index < 0 else op.key_blob_index
    reader.set(QueueReader(source, queue.name, key=key, value=op.value_blob_index, timeout_s=op.timeout_secs))
