"""Stores in folders and in memory: recorded; between threads and processes; who waits, and for how long."""

from __future__ import annotations

import multiprocessing
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tazza.errors import DeadlineError, FileError, FormatError, RunCancelledError, UnavailableError
from tazza.nets import create_net
from tazza.operator import operator_def, run_op
from tazza.ops.distributed import store
from tazza.ops.distributed.store import StoreHandler
from tazza.proto import NetDef
from tazza.workspace import Workspace
from tests.check import check_op
from tests.sequences import Sequence, Step, on_sequences, recorded

X = np.arange(6, dtype=np.float32).reshape(2, 3)
ADD = operator_def("StoreAdd", ["h"], ["n"], blob_name="cups", add_value=3)
CASES = [
    recorded("stores"),
    Sequence(
        "in memory",
        (
            Step(operator_def("FileStoreHandlerCreate", [], ["h"], prefix="of a test")),
            Step(operator_def("StoreSet", ["h", "x"], [], blob_name="cups"), {}, {"x": np.array(0)}),
            Step(ADD, {"n": np.array(3)}),
            Step(ADD, {"n": np.array(6)}),
            Step(
                operator_def("StoreWait", ["h", "k"], [], blob_names=["cups"]), {}, {"k": np.array([b"cups"], object)}
            ),
            Step(operator_def("StoreGet", ["h"], ["y"], blob_name="cups"), {"y": np.array(6)}),
            Step(operator_def("StoreSet", ["h", "x"], []), {}, {"x": X}),
            Step(operator_def("StoreGet", ["h"], ["x"]), {"x": X}),
            Step(operator_def("StoreAdd", ["h"], ["x"]), fails=FormatError, text="'x' is not one whole number"),
        ),
    ),
]


@on_sequences(CASES)
def test_stores(case: Sequence) -> None:
    check_op(case)


def test_a_new_number_begins_at_0() -> None:
    handler = StoreHandler("a store that nobody else has")
    assert run_op("StoreAdd", handler, blob_name="n", add_value=-2) == -2
    assert run_op("StoreAdd", handler, blob_name="n") == -1


def test_those_of_one_name_share_it() -> None:
    first, second, other = (StoreHandler(name) for name in ("kitchen", "kitchen", "cellar"))
    first.set("cup", b"red")
    assert second.get("cup") == b"red"
    assert not other.has("cup")


def test_a_relative_path_is_another_store_under_another_root(tmp_path: Path) -> None:
    names: list[str] = []
    for root in ("a", "b", "a/../a"):
        home = Workspace(root=tmp_path / root)
        home.run_operator(operator_def("FileStoreHandlerCreate", [], ["h"], path="store", prefix="p"))
        names.append(home.blob("h").get(StoreHandler).name)
    assert names == [f"{tmp_path}/{root}/store/p" for root in ("a", "b", "a")]


def _reader(folder: Path, out: Any) -> None:
    home = Workspace(root=folder)
    home.run_operator(operator_def("FileStoreHandlerCreate", [], ["h"], path="store", prefix="p"))
    home.run_operator(operator_def("StoreGet", ["h"], ["y"], blob_name="x"))
    out.put(home.fetch("y").tolist())


@pytest.mark.slow
def test_processes_share_a_folder(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    context = multiprocessing.get_context("spawn")
    out = context.Queue()
    other = context.Process(target=_reader, args=(tmp_path, out))
    other.start()
    home = Workspace(root=tmp_path)
    home.feed("x", X)
    home.run_operator(operator_def("FileStoreHandlerCreate", [], ["h"], path="store", prefix="p"))
    home.run_operator(operator_def("StoreSet", ["h", "x"], []))
    assert out.get(timeout=30) == X.tolist()
    other.join(30)


@pytest.mark.parametrize("path", ["", "here"])
def test_who_waits_gets_what_comes(tmp_path: Path, path: str) -> None:
    (tmp_path / "here").mkdir()
    home = Workspace(root=tmp_path)
    home.feed("x", X)
    home.run_operator(operator_def("FileStoreHandlerCreate", [], ["h"], path=path, prefix="waited for"))
    ops = [
        operator_def("StoreWait", ["h"], [], blob_names=["x"]),
        operator_def("StoreGet", ["h"], ["y"], blob_name="x"),
    ]
    thread = threading.Thread(target=home.run_net_once, args=(NetDef(name="waits", type="simple", op=ops),))
    thread.start()
    home.run_operator(operator_def("StoreSet", ["h", "x"], []))
    thread.join(30)
    np.testing.assert_array_equal(home.fetch("y"), X)


@pytest.mark.parametrize("path", ["", "here"])
def test_a_wait_ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, path: str) -> None:
    (tmp_path / "here").mkdir()
    home = Workspace(root=tmp_path)
    home.run_operator(operator_def("FileStoreHandlerCreate", [], ["h"], path=path, prefix="in vain"))
    get = operator_def("StoreGet", ["h"], ["y"])
    net = create_net(NetDef(name="waits", type="async_scheduling", num_workers=1, op=[get]), home)
    run = net.run_async()
    assert not run.wait(0.05)
    run.cancel()
    with pytest.raises(RunCancelledError):
        run.wait(30)
    net.close()
    monkeypatch.setattr(store, "MOST_S", 0.05)
    with pytest.raises(DeadlineError, match=r"waited 0\.05 seconds for the entry 'y' of the store"):
        home.run_operator(get)


def test_what_a_folder_cannot(tmp_path: Path) -> None:
    home = Workspace(root=tmp_path)
    home.feed("x", X)
    home.run_operator(operator_def("FileStoreHandlerCreate", [], ["h"], path="nowhere"))
    with pytest.raises(FileError, match="there is no folder"):
        home.run_operator(operator_def("StoreSet", ["h", "x"], []))
    with pytest.raises(UnavailableError, match="lies in a folder, where nothing can be added"):
        home.run_operator(operator_def("StoreAdd", ["h"], ["n"]))


def test_an_entry_that_is_none(tmp_path: Path) -> None:
    home = Workspace(root=tmp_path)
    home.feed("x", X)
    home.run_operator(operator_def("FileStoreHandlerCreate", [], ["h"], path=".", prefix="p"))
    home.run_operator(operator_def("StoreSet", ["h", "x"], []))
    (file,) = tmp_path.iterdir()
    file.write_bytes(b"\xff" * 40)
    with pytest.raises(FormatError):
        home.run_operator(operator_def("StoreGet", ["h"], ["x"]))
