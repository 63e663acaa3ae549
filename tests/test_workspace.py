"""Workspaces: blobs, parents, forwarded names, named workspaces."""

from __future__ import annotations

import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from tazza.errors import ArgumentError, DTypeError, DuplicateError, NotFoundError
from tazza.operator import operator_def
from tazza.proto import NetDef, TensorProto
from tazza.workspace import Workspace, current_workspace, current_workspace_name, living_workspaces, switch_workspace


@pytest.mark.parametrize(
    ("value", "dtype", "shape"),
    [
        (np.zeros(2), np.float64, (2,)),
        (np.arange(2), np.int64, (2,)),
        (np.zeros(2, np.float16), np.float16, (2,)),
        (np.array(["a", "b"]), np.object_, (2,)),
        (np.zeros((0, 3), np.float32), np.float32, (0, 3)),
        (np.array(2.5), np.float64, ()),
        (TensorProto(dims=[2], data_type=TensorProto.FLOAT, float_data=[1, 2]), np.float32, (2,)),
    ],
)
def test_feed_keeps_dtype_and_shape(value: Any, dtype: Any, shape: tuple[int, ...]) -> None:
    """behaviours.md row 8."""
    ws = Workspace()
    ws.feed("v", value)
    fetched = ws.fetch("v")
    assert (fetched.dtype, fetched.shape) == (np.dtype(dtype), shape)


@pytest.mark.parametrize("value", [3, [1.0], np.float32(1), None])
def test_feed_refuses_numbers_and_lists(value: Any) -> None:
    """behaviours.md row 8."""
    with pytest.raises(ArgumentError, match="cannot feed a"):
        Workspace().feed("v", value)


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64, np.complex64])
def test_feed_refuses_other_dtypes(dtype: Any) -> None:
    """behaviours.md row 8."""
    with pytest.raises(DTypeError):
        Workspace().feed("v", np.zeros(1, dtype))


def test_feed_copies_also_what_is_not_contiguous() -> None:
    """behaviours.md row 8."""
    ws, base = Workspace(), np.arange(6, dtype=np.float32).reshape(2, 3)
    ws.feed("v", base.T)
    base[:] = 0
    np.testing.assert_array_equal(ws.fetch("v"), [[0, 3], [1, 4], [2, 5]])


def test_fetch_gives_a_fresh_copy() -> None:
    """behaviours.md row 9."""
    ws = Workspace()
    ws.feed("x", np.array([0, 1], np.float32))
    ws.fetch("x").fill(9)
    np.testing.assert_array_equal(ws.fetch("x"), [0, 1])


def test_fetch_of_what_is_no_number() -> None:
    """behaviours.md row 9."""
    ws = Workspace()
    ws.feed("s", "txt")
    ws.feed("t", np.array(["a"]))
    ws.create_blob("e")
    assert ws.fetch("s") == b"txt"
    assert ws.fetch("t").tolist() == [b"a"]
    assert isinstance(ws.fetch("e"), bytes)
    with pytest.raises(NotFoundError, match="blob 'none' does not exist"):
        ws.fetch("none")
    with pytest.raises(RuntimeError):
        ws.fetch("none")


def test_a_child_sees_and_writes_the_blobs_of_its_parent() -> None:
    """behaviours.md row 31."""
    parent = Workspace()
    parent.feed("p", np.zeros(2, np.float32))
    child = Workspace(parent=parent)
    child.feed("p", np.zeros(3, np.float32))
    assert child.local_blobs() == []
    assert parent.fetch("p").shape == (3,)
    child.feed("own", np.zeros(1, np.float32))
    assert child.blob_names() == ["own", "p"]
    assert not parent.has_blob("own")


def test_forwarded_names() -> None:
    """Facts table: resolved at each use; nothing else of the parent is seen."""
    parent = Workspace()
    parent.feed("a", np.zeros(2, np.float32))
    parent.feed("hidden", np.zeros(1, np.float32))
    child = Workspace(parent=parent, forwarded={"inner": "a"})
    assert child.blob_names() == ["inner"]
    assert not child.has_blob("hidden")
    parent.remove_blob("a")
    assert not child.has_blob("inner")
    parent.feed("a", np.zeros(5, np.float32))
    assert child.fetch("inner").shape == (5,)
    with pytest.raises(ArgumentError, match="no blob 'x' to forward"):
        Workspace(parent=parent, forwarded={"y": "x"})
    with pytest.raises(ArgumentError, match="need a parent"):
        Workspace(forwarded={"y": "x"})


def test_removal_and_renaming_are_local() -> None:
    """Facts table: workspace look-up."""
    parent = Workspace()
    parent.feed("p", np.zeros(2, np.float32))
    child = Workspace(parent=parent)
    assert not child.remove_blob("p")
    with pytest.raises(NotFoundError, match="not in this workspace itself"):
        child.rename_blob("p", "q")
    parent.feed("r", np.zeros(1, np.float32))
    with pytest.raises(DuplicateError, match="blob 'p' exists already"):
        parent.rename_blob("r", "p")
    assert parent.rename_blob("p", "q").name == "q"
    assert parent.local_blobs() == ["q", "r"]


def test_bytes_per_blob() -> None:
    ws = Workspace()
    ws.feed("x", np.zeros((3, 5), np.float32))
    ws.feed("s", "text")
    assert ws.blob_bytes() == {"x": 60}


def test_the_pool_is_made_on_first_use() -> None:
    ws = Workspace()
    pool = ws.thread_pool()
    assert ws.thread_pool() is pool
    assert pool.submit(lambda: 5).result() == 5
    ws.reset()


def test_every_living_workspace_is_visited() -> None:
    ws = Workspace()
    assert ws in set(living_workspaces())
    address = id(ws)
    del ws
    gc.collect()
    assert address not in {id(other) for other in living_workspaces()}


def test_named_workspaces() -> None:
    """behaviours.md row 31."""
    assert current_workspace_name() == "default"
    current_workspace().feed("d", np.zeros(1, np.float32))
    with pytest.raises(NotFoundError, match="workspace 'zzz' does not exist"):
        switch_workspace("zzz")
    try:
        switch_workspace("kid", create=True)
        assert not current_workspace().has_blob("d")
    finally:
        switch_workspace("default").reset()
    assert not current_workspace().has_blob("d")


def test_reset_empties_but_keeps() -> None:
    """behaviours.md row 31."""
    ws = Workspace()
    ws.feed("p", np.zeros(2, np.float32))
    ws.reset_blob("p")
    assert ws.has_blob("p")
    assert isinstance(ws.fetch("p"), bytes)
    ws.create_net(NetDef(name="n"))
    ws.reset()
    assert (ws.local_blobs(), ws.nets()) == ([], [])


def test_one_of_many_threads_creates_a_net() -> None:
    ws, start = Workspace(), threading.Barrier(4)

    def create() -> bool:
        start.wait()
        try:
            ws.create_net(NetDef(name="n", op=[operator_def("ConstantFill", [], ["x"])] * 50))
        except DuplicateError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        created = [future.result() for future in [pool.submit(create) for _ in range(4)]]
    assert sum(created) == 1


def test_what_has_no_meaning_is_refused() -> None:
    ws = Workspace()
    ws.create_net(NetDef(name="n"))
    with pytest.raises(ArgumentError, match="cannot run -1 times"):
        ws.run_net("n", -1)
    with pytest.raises(ArgumentError, match="cannot feed a MaskedArray"):
        ws.feed("x", np.ma.masked_array([1.0], [True]))
    with pytest.raises(DuplicateError, match="it cannot get a parent"):
        switch_workspace("default", parent=ws)
