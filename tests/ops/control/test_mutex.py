"""CreateMutex, and the mutex that blobs hold."""

from __future__ import annotations

from threading import Event, Thread

import pytest

from tazza import Workspace
from tazza.errors import GradientError
from tazza.operator import find_schema, gradient_for_op, operator_def
from tazza.ops.control.mutex import Mutex
from tests.check import check_op
from tests.sequences import Sequence, Step, on_sequences

TEXT = b"m, a C++ native class of type std::unique_ptr<std::mutex>."
CREATE = operator_def("CreateMutex", [], ["m"])
CASES = [Sequence("made", (Step(CREATE, {"m": TEXT}, {"m": "text"}), Step(CREATE, {"m": TEXT})), stored=True)]


@on_sequences(CASES)
def test_cases(case: Sequence) -> None:
    check_op(case)


def test_create_mutex() -> None:
    workspace = Workspace()
    workspace.run_operator(operator_def("CreateMutex", [], ["m"]))
    assert workspace.fetch("m") == b"m, a C++ native class of type std::unique_ptr<std::mutex>."
    first = workspace.blob("m").get(Mutex)
    workspace.run_operator(operator_def("CreateMutex", [], ["m"]))
    assert workspace.blob("m").get(Mutex) is not first


def test_it_replaces_what_the_blob_held() -> None:
    workspace = Workspace()
    workspace.feed("m", "text")
    workspace.run_operator(operator_def("CreateMutex", [], ["m"]))
    assert not workspace.blob("m").get(Mutex).held


def test_its_gradient_is_forbidden() -> None:
    op = find_schema("CreateMutex").view(operator_def("CreateMutex", [], ["m"]))
    with pytest.raises(GradientError, match="must not be asked for its gradient"):
        gradient_for_op(op, [None])


def test_only_one_is_inside() -> None:
    mutex, inside = Mutex(), Event()

    def enter() -> None:
        with mutex:
            inside.set()

    other = Thread(target=enter)
    with mutex:
        other.start()
        assert not inside.wait(0.02)
    other.join()
    assert inside.is_set()
    assert not mutex.held
