"""Numbers of keys, in the order in which they were first seen.

IntIndexCreate, LongIndexCreate, StringIndexCreate, IndexGet, IndexLoad, IndexStore, IndexSize, IndexFreeze.

Numbers begin with 1; 0 stands for a key that an index does not know. All nets that see its blob share an index, on
whatever threads they run.
"""

from __future__ import annotations

import re

import numpy as np

from tazza.data_class import dataclass
from tazza.errors import BoundsError, DTypeError, DuplicateError, FormatError
from tazza.operator import (
    INDEX,
    Array,
    Effects,
    OpSchema,
    OpView,
    Role,
    arg,
    blob,
    ends,
    family,
    forbidden,
    host_kernel,
    not_written,
    schema,
)
from tazza.runtime.holding import Held
from tazza.tensor import Blob, DataType
from tazza.tensor.blob import blob_type
from tazza.tensor.serializer import SERIALIZERS, ArraySerializer

KEY_INDEX = "std::unique_ptr<caffe2::IndexBase>"
MOST = 2**31 - 1
KEYS = INDEX | {DataType.STRING}
WHOLE = re.compile(rb"-?\d{1,19}")
NO_GRADIENT = forbidden("an index is no tensor")


@blob_type(KEY_INDEX)
class KeyIndex(Held):
    """The numbers of keys of one element type; less than `max_elements` numbers, 0 among them.

    >>> index = KeyIndex(DataType.INT64)
    >>> [index.number(key) for key in (50, 70, 50)]
    [1, 2, 1]
    """

    __slots__ = ("dtype", "frozen", "max_elements", "numbers")

    def __init__(self, dtype: DataType, max_elements: int = MOST, *, frozen: bool = False) -> None:
        """Know no key."""
        super().__init__()
        self.dtype = dtype
        self.max_elements = max_elements
        self.frozen = frozen
        self.numbers: dict[int | bytes, int] = {}

    def __len__(self) -> int:
        """Return how many numbers there are, 0 among them."""
        return len(self.numbers) + 1

    def number(self, key: int | bytes) -> int:
        """Return the number of a key: a new one if it has none, or 0 where the index is frozen.

        Raises:
            BoundsError: there is no number left.
        """
        found = self.numbers.get(key)
        if found is not None:
            return found
        if self.frozen:
            return 0
        if len(self) >= self.max_elements:
            raise BoundsError(
                f"key {key!r} would be number {len(self)}, max_elements is {self.max_elements}, 0 counts too",
                hint="create it with more, or freeze it",
            )
        self.numbers[key] = len(self)
        return self.numbers[key]

    def load(self, keys: Array) -> None:
        """Know these keys and no others, with numbers from 1 in this order.

        Raises:
            BoundsError, DuplicateError: there are more than `max_elements`, two are equal; nothing was changed then.
        """
        if keys.size > self.max_elements:
            raise BoundsError(f"{keys.size} keys, max_elements is {self.max_elements}", hint="create it with more")
        numbers: dict[int | bytes, int] = {}
        for key in keys.tolist():
            if key in numbers:
                raise DuplicateError(f"key {key!r} is there twice", hint="load each key once")
            numbers[key] = len(numbers) + 1
        self.numbers = numbers

    def keys(self) -> Array:
        """Return the keys in the order of their numbers."""
        found = np.empty(len(self.numbers), self.dtype.numpy)
        found[:] = list(self.numbers)
        return found


class KeyIndexSerializer(ArraySerializer[KeyIndex]):
    """Stores the keys, `max_elements` and whether it is frozen as text."""

    type_name = KEY_INDEX

    def encode(self, value: KeyIndex) -> tuple[Array, bytes]:
        return value.keys(), b"%d %d" % (value.max_elements, value.frozen)

    def decode(self, array: Array, content: bytes, name: str) -> KeyIndex:
        words, dtype = content.split(), DataType.of(array)
        legible = dtype in KEYS and array.ndim == 1 and len(words) == 2 and all(map(WHOLE.fullmatch, words))
        if not legible:
            raise FormatError(f"index {name!r} is stored as {dtype.label} keys and {content[:80]!r}")
        index = KeyIndex(dtype, max(int(words[0]), array.size), frozen=words[1] != b"0")
        try:
            index.load(array)
        except DuplicateError as error:
            raise FormatError(f"index {name!r}: {error.message}") from error
        return index


SERIALIZERS.register(KEY_INDEX, KeyIndexSerializer(), help="an index of keys: all that it knows")
ON_INDEX = blob("handle", type_name=KEY_INDEX, role=Role.STATE)
SAME_INDEX = blob("index", type_name=KEY_INDEX)


@dataclass(frozen=True, slots=True)
class Kind:
    """The element type of the keys."""

    dtype: DataType
    noun: str


@family(
    {
        "IntIndexCreate": Kind(DataType.INT32, "whole numbers of 32 bits"),
        "LongIndexCreate": Kind(DataType.INT64, "whole numbers of 64 bits"),
        "StringIndexCreate": Kind(DataType.STRING, "texts"),
    }
)
def kinds(type: str, row: Kind) -> OpSchema:
    """An operator that makes an index."""
    made = schema(
        type,
        f"""handle = a new index of {row.noun}, which knows no key.

        A blob that has something in it already is given the new index instead.""",
        outputs=[blob("handle", type_name=KEY_INDEX)],
        args=[arg("max_elements", int, MOST, doc="most numbers, with the 0 of unknown keys")],
        effects=Effects.STATE,
        no_gradient=ends("an index is no tensor"),
        source="Caffe2",
        example=f"""
        >>> len(run("{type}"))
        1
        """,
    )

    @host_kernel(made)
    def create(op: OpView, handle: Blob) -> None:
        handle.set(KeyIndex(row.dtype, op.max_elements))

    return made


def check_keys(op: OpView, index: KeyIndex, dtype: DataType) -> None:
    """Check that keys are of the type that an index is of.

    Raises:
        DTypeError: they are not.
    """
    if dtype is not index.dtype:
        name = op.input_name("handle")
        raise op.error(DTypeError, f"keys are {dtype.label}, the index {name!r} is of {index.dtype.label}")


INDEX_GET = schema(
    "IndexGet",
    """indices = the number of each key.

    A key that the index does not know gets the next number, or 0 where the index is frozen. What comes before a key for
    which there is no number left has got one.""",
    inputs=[ON_INDEX, blob("keys", KEYS, "*S", role=Role.DATA)],
    outputs=[blob("indices", DataType.INT64, "*S", host=True)],
    effects=Effects.STATE,
    no_gradient=not_written("Caffe2 has none"),
    source="Caffe2",
    example="""
    >>> index = run("StringIndexCreate")
    >>> run("IndexGet", index, np.array(["b", "a", "b"], object))
    array([1, 2, 1])
    """,
)


@host_kernel(INDEX_GET)
def index_get(op: OpView, handle: Blob, keys: Blob, indices: Blob) -> None:
    index, wanted = handle.get(KeyIndex), keys.tensor()
    check_keys(op, index, wanted.dtype)
    array = wanted.plain()
    with index:
        numbers = [index.number(key) for key in array.ravel().tolist()]
    indices.tensor().assign(np.array(numbers, np.int64).reshape(array.shape))


INDEX_LOAD = schema(
    "IndexLoad",
    "index knows the items and no other keys, with numbers from 1 in this order: at most `max_elements`.",
    inputs=[ON_INDEX, blob("items", KEYS, role=Role.DATA, doc="each of them once")],
    outputs=[SAME_INDEX],
    must_in_place={"index": "handle"},
    args=[arg("skip_first_entry", bool, False, doc="the first item is left out: it stands for unknown keys")],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> index = run("LongIndexCreate")
    >>> _ = run("IndexLoad", index, np.array([70, 50]))
    >>> run("IndexGet", index, np.array([50, 60]))
    array([2, 3])
    """,
)


@host_kernel(INDEX_LOAD)
def index_load(op: OpView, index: Blob, items: Blob) -> None:
    known, array = index.get(KeyIndex), items.tensor().plain().ravel()
    check_keys(op, known, items.tensor().dtype)
    op.require(array.size > 0 or not op.skip_first_entry, "there is no item, the first one is to be skipped")
    with known:
        known.load(array[int(op.skip_first_entry) :])


INDEX_STORE = schema(
    "IndexStore",
    "items = the K keys that the index knows, in the order of their numbers.",
    inputs=[ON_INDEX],
    outputs=[blob("items", KEYS, "K", host=True)],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> index = run("IntIndexCreate")
    >>> _ = run("IndexGet", index, np.array([7, 5], np.int32))
    >>> run("IndexStore", index)
    array([7, 5], dtype=int32)
    """,
)


@INDEX_STORE.infer
def index_store_infer(op: OpView, handle: object) -> None:
    del op, handle  # an index knows the type of its keys


@host_kernel(INDEX_STORE)
def index_store(handle: Blob, items: Blob) -> None:
    index = handle.get(KeyIndex)
    with index:
        keys = index.keys()
    items.tensor().assign(keys)


INDEX_SIZE = schema(
    "IndexSize",
    "items = how many numbers there are: one more than keys, since 0 stands for unknown ones.",
    inputs=[ON_INDEX],
    outputs=[blob("items", DataType.INT64, "", host=True)],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> run("IndexSize", run("IntIndexCreate"))
    array(1)
    """,
)


@host_kernel(INDEX_SIZE)
def index_size(handle: Blob, items: Blob) -> None:
    items.tensor().assign(np.array(len(handle.get(KeyIndex)), np.int64))


INDEX_FREEZE = schema(
    "IndexFreeze",
    "index gives no new numbers from now on: a key that it does not know has number 0.",
    inputs=[ON_INDEX],
    outputs=[SAME_INDEX],
    must_in_place={"index": "handle"},
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> index = run("IntIndexCreate")
    >>> run("IndexFreeze", index).frozen
    True
    """,
)


@host_kernel(INDEX_FREEZE)
def index_freeze(index: Blob) -> None:
    index.get(KeyIndex).frozen = True
