"""Where ranks leave things for each other, by keys: FileStoreHandlerCreate, StoreSet, StoreGet, StoreAdd, StoreWait.

A store lies in a folder, which other processes may see too, or without a path in the memory of this process; those that
name the same one share it. An entry is the serialized blob, as files have it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path
from weakref import WeakValueDictionary

import numpy as np

from tazza.errors import FormatError, NumericError, UnavailableError
from tazza.operator import (
    Effects,
    Operator,
    OpView,
    Role,
    arg,
    blob,
    forbidden,
    host_kernel,
    not_written,
    schema,
)
from tazza.runtime.digest import digest_of
from tazza.runtime.files import kind_of, read_bytes, resolved, write_bytes_atomically
from tazza.runtime.fork import freed_in_child
from tazza.runtime.holding import Conditional
from tazza.runtime.patience import Patience
from tazza.tensor import Blob, DataType, Tensor
from tazza.tensor.blob import blob_type
from tazza.tensor.serialization import deserialize, serialize

STORE = "std::unique_ptr<caffe2::StoreHandler>"
NO_GRADIENT = not_written("Caffe2 has none either")
MOST_S = 30.0
"""How long somebody waits for an entry."""
LOOK_S = 0.01
"""How often a folder is looked at."""
ENTRY_BYTES_MAX = 2**31 - 1
"""Longest entry: protobuf has no longer message."""


class Entries:
    """The entries of a store in memory. `turn` guards them; whoever adds one notifies all who wait."""

    def __init__(self) -> None:
        """Have none."""
        self.turn = Conditional()
        self.by_key: dict[str, bytes] = {}


_entries: WeakValueDictionary[str, Entries] = WeakValueDictionary()  # as long as a handler holds them
_turn = freed_in_child(threading.Lock())


def find_entries(name: str) -> Entries:
    """Return the entries that whoever names the same store has, or new ones."""
    with _turn:  # a dictionary of weak references looks and puts in two steps
        found = _entries.get(name)
        if found is None:
            found = _entries[name] = Entries()
        return found


@blob_type(STORE)
class StoreHandler:
    """A store, as a blob has it. Its name is what tells it from others in this process.

    >>> store = StoreHandler("/kitchen")
    >>> store.set("cup", b"red"); store.has("cup"), store.get("cup")
    (True, b'red')
    """

    def __init__(self, name: str, folder: Path | None = None, prefix: str = "") -> None:
        """Be the store in a folder, whose files begin with no other prefix; without a folder one in memory."""
        self.name = name
        self.folder = folder
        self._prefix = prefix
        self._held = find_entries(name)

    @property
    def turn(self) -> Conditional:
        """What those who wait for an entry hold."""
        return self._held.turn

    def has(self, key: str) -> bool:
        """Whether there is an entry."""
        if self.folder is None:
            return key in self._held.by_key
        return kind_of(self.path_of(self.folder, key)) == "file"

    def set(self, key: str, content: bytes) -> None:
        """Make an entry, instead of one that is there.

        Raises:
            FileError: the file cannot be written.
        """
        if self.folder is not None:
            write_bytes_atomically(self.path_of(self.folder, key), content)
        with self.turn:
            if self.folder is None:
                self._held.by_key[key] = content
            self.turn.notify_all()

    def get(self, key: str) -> bytes:
        """Return an entry that is there.

        Raises:
            FileError, FormatError: the file cannot be read, or is too long.
        """
        if self.folder is None:
            return self._held.by_key[key]
        return read_bytes(self.path_of(self.folder, key), "entry of a store", ENTRY_BYTES_MAX)

    def add(self, key: str, amount: int) -> int:
        """Add to a whole number, which begins at 0, and return the sum.

        Raises:
            UnavailableError: the store is in a folder, where several processes could not take turns.
            FormatError, NumericError: the entry is no whole number, or would leave the 64 bits.
        """
        if self.folder is not None:
            hint = "a store without a path, in memory, can"
            raise UnavailableError(f"the store {self.name!r} lies in a folder, where nothing can be added", hint=hint)
        with self.turn:
            total = amount + (_number(key, self._held.by_key[key]) if key in self._held.by_key else 0)
            if not -(2**63) <= total < 2**63:
                raise NumericError(f"the entry {key!r} would be {total}, it must stay in 64 bits")
            self._held.by_key[key] = serialize(Tensor.from_numpy(np.array(total, np.int64)), key)
            self.turn.notify_all()
        return total

    def path_of(self, folder: Path, key: str) -> Path:
        """Return where the entry of a key lies; keys may be anything, so that files are named by digests of them."""
        return folder / digest_of(self._prefix.encode(), b"\0", key.encode(errors="surrogateescape")).hex()


def _number(key: str, content: bytes) -> int:
    value = deserialize(content).value
    if not isinstance(value, Tensor) or value.dtype is not DataType.INT64 or value.size != 1:
        raise FormatError(f"the entry {key!r} is not one whole number, nothing can be added to it")
    return int(value.plain().reshape(()))


class StoreKernel:
    """Base of kernels that wait for entries; another thread may ask them to give up."""

    def __init__(self, operator: Operator) -> None:
        """Wait for entries of the store that is the operator's first input."""
        self._blob: Blob = operator.inputs[0]
        self.patience = Patience("")

    def cancel(self) -> None:
        """Give up the wait of the present run, or of the one that is about to begin."""
        self.patience.give_up()
        store = self._blob.value
        if isinstance(store, StoreHandler):
            with store.turn:
                store.turn.notify_all()

    def wait(self, keys: Iterable[str]) -> StoreHandler:
        """Return the store once it has entries of all keys.

        Raises:
            RunCancelledError, DeadlineError: the wait ended.
        """
        with self.patience.span():
            store = self._blob.get(StoreHandler)
            for key in keys:
                self.patience.what = f"for the entry {key!r} of the store {store.name!r}"
                self.patience.begin(MOST_S)
                with store.turn:
                    while not store.has(key):
                        self.patience.wait(store.turn, most_s=None if store.folder is None else LOOK_S)
            return store


HANDLER = blob("handler", type_name=STORE, role=Role.STATE)
KEY = arg("blob_name", str, "", doc="the key; empty for the name of the blob")

FILE_STORE_HANDLER_CREATE = schema(
    "FileStoreHandlerCreate",
    """handler = the store in the folder `path`, where ranks of a common world find each other and leave things.

    Without a path it is one in the memory of this process. `StoreSet` and `CreateCommonWorld` write files.""",
    outputs=[blob("handler", type_name=STORE)],
    args=[arg("path", str, "", doc="a folder"), arg("prefix", str, "", doc="tells stores of one folder apart")],
    effects=Effects.STATE,  # it names a folder; who sets and gets looks there
    no_gradient=forbidden("a store is no tensor"),
    source="Caffe2",
    example="""
    >>> run("FileStoreHandlerCreate", path="/tmp", prefix="a").name
    '/tmp/a'
    """,
)


@host_kernel(FILE_STORE_HANDLER_CREATE)
class FileStoreHandlerCreate:
    """Knows the folder."""

    def __init__(self, operator: Operator) -> None:
        self._root = operator.workspace.root

    def run(self, op: OpView, handler: Blob) -> None:
        folder = self._root / op.path if op.path else None
        name = "" if folder is None else str(resolved(folder))  # a relative path is another folder elsewhere
        handler.set(StoreHandler(f"{name}/{op.prefix}", folder, op.prefix))


STORE_SET = schema(
    "StoreSet",
    "The entry `blob_name` of the store = data, instead of one that is there.",
    inputs=[HANDLER, blob("data", type_name="*", role=Role.DATA)],
    args=[KEY],
    effects=Effects.IO,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> run("StoreSet", run("FileStoreHandlerCreate", prefix="example of StoreSet"), [1.0, 2.0])
    ()
    """,
)


@host_kernel(STORE_SET)
def store_set(op: OpView, handler: Blob, data: Blob) -> None:
    key = op.blob_name if op.blob_name else data.name
    handler.get(StoreHandler).set(key, serialize(data, key))


STORE_GET = schema(
    "StoreGet",
    "data = the entry `blob_name` of the store, as soon as it is there.",
    inputs=[HANDLER],
    outputs=[blob("data", type_name="*")],
    args=[KEY],
    effects=Effects.IO,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> store = run("FileStoreHandlerCreate", prefix="example of StoreGet")
    >>> _ = run("StoreSet", store, [1, 2], blob_name="cups")
    >>> run("StoreGet", store, blob_name="cups")
    array([1, 2], dtype=int32)
    """,
)


@host_kernel(STORE_GET)
class StoreGet(StoreKernel):
    """Waits for the entry."""

    def run(self, op: OpView, data: Blob) -> None:
        key = op.blob_name if op.blob_name else data.name
        data.set(deserialize(self.wait([key]).get(key), data.name).value)


STORE_ADD = schema(
    "StoreAdd",
    "The entry `blob_name` of the store, a whole number that begins at 0, grows by `add_value`; value = the sum.",
    inputs=[HANDLER],
    outputs=[blob("value", DataType.INT64, "", host=True)],
    args=[
        arg("blob_name", str, "", doc="the key; empty for the name of the output"),
        arg("add_value", int, 1, doc="what is added"),
    ],
    effects=Effects.IO,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> store = run("FileStoreHandlerCreate", prefix="example of StoreAdd")
    >>> run("StoreAdd", store, blob_name="cups"), run("StoreAdd", store, blob_name="cups", add_value=3)
    (array(1), array(4))
    """,
)


@host_kernel(STORE_ADD)
def store_add(op: OpView, handler: Blob, value: Blob) -> None:
    total = handler.get(StoreHandler).add(op.blob_name if op.blob_name else value.name, op.add_value)
    value.tensor().assign(np.array(total, np.int64))


STORE_WAIT = schema(
    "StoreWait",
    "Goes on when the store has entries of all keys: of `blob_names`, and of names.",
    inputs=[HANDLER, blob("names", DataType.STRING, optional=True, host=True, role=Role.DATA, doc="of any shape")],
    args=[arg("blob_names", list[str], [], doc="keys")],
    effects=Effects.IO,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> store = run("FileStoreHandlerCreate", prefix="example of StoreWait")
    >>> _ = run("StoreSet", store, [1, 2], blob_name="cups")
    >>> run("StoreWait", store, blob_names=["cups"])
    ()
    """,
)


@host_kernel(STORE_WAIT)
class StoreWait(StoreKernel):
    """Waits for all entries."""

    def run(self, op: OpView, names: Blob | None) -> None:
        given = [] if names is None else names.get(Tensor).plain().reshape(-1).tolist()
        self.wait([*op.blob_names, *(name.decode(errors="surrogateescape") for name in given)])
