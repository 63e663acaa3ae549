"""Storages: generation, version, capacity, escape."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.errors import UnsupportedError
from tazza.tensor.allocation import default_allocator
from tazza.tensor.dtype import DataType
from tazza.tensor.storage import Storage, StringStorage
from tazza.tensor.tensor import Tensor


def test_reserve_keeps_what_is_large_enough() -> None:
    storage = Storage(holder="x")
    assert (storage.allocated, storage.generation, storage.capacity_bytes) == (False, 0, 0)
    storage.reserve(100)
    generation, address = storage.generation, storage.address
    storage.reserve(30)
    storage.reserve(100)
    assert (storage.generation, storage.address, storage.capacity_bytes) == (generation, address, 100)
    storage.reserve(101)
    assert storage.generation not in (0, generation)
    assert storage.capacity_bytes == 101


def test_generations_are_unique_in_the_process() -> None:
    storages = [Storage(), Storage(), StringStorage()]
    for storage in storages:
        storage.reserve(8)
    assert len({storage.generation for storage in storages}) == 3


def test_holder_names_the_memory() -> None:
    storage = Storage(holder="a very large blob")
    storage.reserve(50_000_001)
    assert ("a very large blob", 50_000_001) in default_allocator().largest_holders(9)  # beside chunks of pools


def test_writes_are_counted() -> None:
    storage = Storage()
    before = storage.version
    storage.mark_written()
    assert storage.version == before + 1


def test_release() -> None:
    storage = Storage()
    storage.reserve(8)
    storage.escaped = True
    version = storage.version
    storage.release()
    assert (storage.allocated, storage.escaped, storage.capacity_bytes) == (False, False, 0)
    assert storage.version > version
    with pytest.raises(UnsupportedError, match="has no address"):
        _ = storage.address


def test_sharers_are_counted_while_they_live() -> None:
    """Tensors compare elementwise, so that they are told apart by identity."""
    storage, tensors = Storage(), [Tensor((2, 3)) for _ in range(20)]
    assert storage.share_count == 1
    storage.add_sharers(*tensors)
    storage.add_sharers(tensors[4], tensors[0])
    assert storage.share_count == 20
    storage.remove_sharer(tensors[3])
    storage.remove_sharer(tensors[3])
    del tensors[5:]
    assert storage.share_count == 4
    for _ in range(100):
        storage.add_sharers(Tensor((2, 3)))
    assert storage.share_count == 4


def test_window() -> None:
    storage = Storage()
    storage.reserve(4 * 7)
    storage.window(DataType.INT32, (7,), 0, None)[:] = np.arange(7)
    assert storage.window(DataType.INT32, (2, 3), 4, None).tolist() == [[1, 2, 3], [4, 5, 6]]
    assert storage.window(DataType.INT32, (3, 2), 0, (1, 3)).tolist() == [[0, 3], [1, 4], [2, 5]]


def test_strings_are_empty_at_first() -> None:
    storage = StringStorage()
    storage.reserve(8 * 6)
    words = storage.window(DataType.STRING, (2, 3), 0, None)
    assert words.tolist() == [[b""] * 3] * 2
    words[1, 0] = b"cup"
    assert storage.window(DataType.STRING, (3,), 8 * 2, (1,)).tolist() == [b"", b"cup", b""]
    assert storage.window(DataType.STRING, (3, 2), 0, (1, 3)).tolist() == [[b"", b"cup"], [b"", b""], [b"", b""]]
    assert storage.capacity_bytes == 48
    generation = storage.generation
    storage.reserve(16)
    assert storage.generation == generation
    storage.release()
    assert storage.capacity_bytes == 0
