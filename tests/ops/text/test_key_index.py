"""IntIndexCreate, LongIndexCreate, StringIndexCreate, IndexGet, IndexLoad, IndexStore, IndexSize, IndexFreeze.

Recorded sequences, threads that share an index, what is stored of one, and what is refused.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from tazza.errors import BoundsError, DTypeError, DuplicateError, FormatError, ShapeError
from tazza.operator import run_op
from tazza.ops.text.key_index import KeyIndex
from tazza.proto import BlobProto
from tazza.tensor.serialization import deserialize, serialize
from tests.check import check_op
from tests.sequences import Sequence, names, on_sequences, recorded

CASES = [recorded(name, stored=True) for name in names() if name.startswith("index_")]


@on_sequences(CASES)
def test_indices(case: Sequence) -> None:
    check_op(case)


def keys(*values: Any) -> Any:
    """Return whole numbers of 64 bits."""
    return np.array(values, np.int64)


def test_threads_number_together() -> None:
    index = run_op("LongIndexCreate")
    seen: list[list[int]] = []

    def ask(first: int) -> None:
        seen.append(run_op("IndexGet", index, np.roll(np.arange(300), first)).tolist())

    threads = [threading.Thread(target=ask, args=(n * 70,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    every = [set(numbers) for numbers in seen]
    assert every == [set(range(1, 301))] * 3
    assert run_op("IndexSize", index) == 301


def test_a_frozen_index_learns_nothing() -> None:
    index = run_op("IntIndexCreate")
    assert run_op("IndexGet", index, np.array([7], np.int32)) == 1
    run_op("IndexFreeze", index)
    assert run_op("IndexGet", index, np.array([8, 7], np.int32)).tolist() == [0, 1]


STORED = (
    b'\n\x01h\x12"std::unique_ptr<caffe2::IndexBase>'
    b'\x1a\x12\x08\x02\x10\nB\x02\x08\x00R\x02\x05\x06Z\x04\x08\x00\x10\x02"\x037 1'
)
"""What Caffe2 stores of an index of 5 and 6, frozen, with room for 7 numbers."""


def test_what_is_stored() -> None:
    index = deserialize(STORED).get(KeyIndex)
    assert run_op("IndexGet", index, keys(9, 5, 6)).tolist() == [0, 1, 2]
    ours, theirs = BlobProto.FromString(serialize(index, "h")), BlobProto.FromString(STORED)
    assert (ours.content, ours.type, ours.tensor.int64_data) == (theirs.content, theirs.type, theirs.tensor.int64_data)


@pytest.mark.parametrize("content", [b"7", b"7 x", b"a 0", b""])
def test_what_is_stored_otherwise(content: bytes) -> None:
    record = BlobProto.FromString(STORED)
    record.content = content
    with pytest.raises(FormatError, match="index 'h' is stored as int64 keys and"):
        deserialize(record.SerializeToString())


def test_other_keys_are_refused() -> None:
    index = run_op("StringIndexCreate")
    with pytest.raises(DTypeError, match="keys are int64, the index 'in0' is of string"):
        run_op("IndexGet", index, keys(1))
    with pytest.raises(DTypeError, match="keys are int64, the index 'in0' is of string"):
        run_op("IndexLoad", index, keys(1))
    with pytest.raises(DTypeError, match="float"):
        run_op("IndexGet", index, np.zeros(3))


def test_a_full_index_keeps_what_it_has() -> None:
    index = run_op("LongIndexCreate", max_elements=3)
    with pytest.raises(BoundsError, match="key 30 would be number 3, max_elements is 3"):
        run_op("IndexGet", index, keys(10, 20, 10, 30))
    assert run_op("IndexStore", index).tolist() == [10, 20]
    with pytest.raises(DuplicateError, match="key 5 is there twice"):
        run_op("IndexLoad", index, keys(7, 5, 5))
    assert run_op("IndexStore", index).tolist() == [10, 20]
    with pytest.raises(ShapeError, match="there is no item"):
        run_op("IndexLoad", index, keys(), skip_first_entry=1)
