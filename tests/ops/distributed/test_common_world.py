"""CreateCommonWorld, CloneCommonWorld, DestroyCommonWorld, FileStoreHandlerCreate: who is in which world."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import pytest

from tazza.errors import ArgumentError, TazzaError
from tazza.operator import operator_def, run_op
from tazza.ops.distributed.store import StoreHandler
from tazza.ops.distributed.thread_world import Notes, ThreadRank, find_world
from tazza.workspace import Workspace
from tests.check import check_op
from tests.sequences import Sequence, Step, on_sequences

WORLD = b"w, a C++ native class of type std::shared_ptr<gloo::Context>."
CASES = [
    Sequence(
        "alone",
        (
            Step(operator_def("FileStoreHandlerCreate", [], ["s"], path="/a", prefix="b")),
            Step(operator_def("CreateCommonWorld", ["s"], ["w"], size=1, name="w"), {"w": WORLD}),
            Step(operator_def("CloneCommonWorld", ["w"], ["v"])),
            Step(operator_def("DestroyCommonWorld", ["v"], ["v"]), {"w": WORLD}),
        ),
    )
]


@on_sequences(CASES)
def test_cases(case: Sequence) -> None:
    check_op(case)


@pytest.mark.parametrize("type", ["CreateCommonWorld", "CloneCommonWorld"])
def test_a_world_of_one_rank_is_complete_at_once(type: str) -> None:
    world = run_op("CreateCommonWorld", size=1)
    made = world if type == "CreateCommonWorld" else run_op(type, world)
    assert isinstance(made, ThreadRank)
    assert (made.rank, made.world.size, made.world.ranks) == (0, 1, {0})


def test_a_world_that_is_complete_or_left_makes_room_for_the_next() -> None:
    store = run_op("FileStoreHandlerCreate", path="/a", prefix="b")
    first = run_op("CreateCommonWorld", store, size=1, name="w")
    second = run_op("CreateCommonWorld", store, size=1, name="w")
    assert first.world is not second.world
    assert run_op("DestroyCommonWorld", first) is first
    assert "rank 0 has left" in first.world.broken


def test_sizes_have_to_agree() -> None:
    world = find_world("a store", "w", 2)
    assert find_world("a store", "w", 2) is world
    with pytest.raises(ArgumentError, match="size = 3 for the common world 'w', another rank has said 2"):
        find_world("a store", "w", 3)


def rank_with_note(folder: Path, note: str | None) -> str:
    """Return what a rank says that waits a moment for another one, which has left a note in the folder of the store."""
    workspace = Workspace()
    workspace.run_operator(operator_def("FileStoreHandlerCreate", [], ["s"], path=str(folder)))
    store = workspace.blob("s").value
    assert isinstance(store, StoreHandler)
    if note is not None:
        store.set(Notes(store, "w").key(1), note.encode())
    with pytest.raises(TazzaError) as error:
        workspace.run_operator(operator_def("CreateCommonWorld", ["s"], ["w"], size=2, rank=0, name="w", timeout_ms=50))
    return str(error.value)


def test_a_rank_in_another_process_is_named_at_once(tmp_path: Path) -> None:
    other = f"{platform.node()} {os.getppid()}"
    assert f"rank 1 of the common world 'w' is in another process, {other}" in rank_with_note(tmp_path, other)


@pytest.mark.parametrize(
    "note",
    [
        None,
        "",
        "x",
        pytest.param(f"another machine {os.getppid()}", id="another machine"),
        pytest.param(f"{platform.node()} {2**40}", id="a process that is not there"),
    ],
)
def test_others_have_left_their_notes_long_ago(note: str | None, tmp_path: Path) -> None:
    assert "waited 0.05 seconds for the other ranks" in rank_with_note(tmp_path, note)
    assert "waited 0.05 seconds" in rank_with_note(tmp_path, None)  # and so has this one


def test_a_folder_that_is_not_there_has_no_notes(tmp_path: Path) -> None:
    assert "waited 0.05 seconds" in rank_with_note(tmp_path / "nowhere", None)
    assert list(tmp_path.iterdir()) == []
