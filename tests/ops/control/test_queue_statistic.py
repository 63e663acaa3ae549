"""What the registry of the process counts of queues: as genuine Caffe2 did, step by step."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from tazza.errors import ClosedError, DeadlineError
from tazza.operator import operator_def
from tazza.ops.control import statistic
from tazza.ops.control.statistic import StatRegistry
from tazza.workspace import Workspace

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> StatRegistry:
    made = StatRegistry()
    monkeypatch.setattr(statistic, "OF_PROCESS", made)
    return made


def grown(registry: StatRegistry) -> dict[str, int]:
    """Return by how much each grew since it was asked last, without the times, which are checked to be some."""
    found = registry.export(reset=True)
    for kind in ("read", "write"):
        assert (found[f"q/{kind}_time_ns/sum"] > 0) == (found[f"q/{kind}_time_ns/count"] > 0)
    return {name.removeprefix("q/"): value for name, value in found.items() if value and "/sum" not in name}


WROTE = {"queue_balance": 1, "write_time_ns/count": 1}
READ = {"queue_balance": -1, "read_time_ns/count": 1, "queue_dequeued_records": 1}
FIELDS = {"queue_dequeued_bytes": 48, "queue_dequeued_bytes/a": 24, "queue_dequeued_bytes/b": 24}
STEPS: list[tuple[str, list[str], list[str], dict[str, Any], dict[str, int]]] = [
    ("EnqueueBlobs", ["q", "a", "b"], ["a", "b"], {}, WROTE),
    ("SafeEnqueueBlobs", ["q", "a", "b"], ["a", "b", "s"], {}, WROTE),
    ("DequeueBlobs", ["q"], ["c", "d"], {}, {**READ, **FIELDS}),
    ("SafeDequeueBlobs", ["q"], ["c", "d", "s"], {}, {**READ, **FIELDS}),
    ("DequeueBlobs", ["q"], ["c", "d"], {"timeout_secs": 0.01}, {"queue_balance": -1}),
    ("EnqueueBlobs", ["q", "a", "b"], ["a", "b"], {}, WROTE),
    ("CloseBlobsQueue", ["q"], [], {}, {}),
    ("SafeDequeueBlobs", ["q"], ["c", "d", "s"], {"num_records": 3}, {**READ, **FIELDS, "queue_balance": -2}),
    ("SafeDequeueBlobs", ["q"], ["c", "d", "s"], {}, {"queue_balance": -1}),
    ("DequeueBlobs", ["q"], ["c", "d"], {}, {"queue_balance": -1}),
    ("SafeEnqueueBlobs", ["q", "a", "b"], ["a", "b", "s"], {}, WROTE),
    ("SafeEnqueueBlobs", ["q", "a", "b"], ["a", "b", "s"], {}, WROTE),
    ("SafeEnqueueBlobs", ["q", "a", "b"], ["a", "b", "s"], {}, {"queue_balance": 1}),
    ("EnqueueBlobs", ["q", "a", "b"], ["a", "b"], {}, {"queue_balance": 1}),
]
"""An operator, and by how much each statistic of Caffe2 grows."""


def test_each_step_counts_as_in_caffe2(registry: StatRegistry) -> None:
    home = Workspace()
    home.run_operator(operator_def("CreateBlobsQueue", [], ["q"], capacity=2, num_blobs=2, field_names=["a", "b"]))
    assert set(registry.export(reset=False)) == {
        *(f"q/{kind}_time_ns/{part}" for kind in ("read", "write") for part in ("sum", "count")),
        *(f"q/queue_{name}" for name in ("balance", "dequeued_records")),
        *(f"q/{name}" for name in FIELDS),
    }
    for type, inputs, outputs, arguments, wanted in STEPS:
        if "a" in inputs:
            home.feed("a", X)
            home.feed("b", np.arange(3, dtype=np.int64))
        try:
            home.run_operator(operator_def(type, inputs, outputs, **arguments))
        except (ClosedError, DeadlineError):
            assert type.startswith(("Enqueue", "Dequeue"))
        assert grown(registry) == wanted, (type, inputs, arguments)


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (np.array([b"abc", b"defgh"], object), 24),
        (np.array([b""], object), 8),
        (np.array([], object), 0),
        (np.zeros((2, 3), np.float64), 48),
        (np.zeros((2, 3), np.bool_), 6),
        (np.zeros((2, 3), np.float16), 12),
        ("hello", 0),
    ],
)
def test_bytes_of_what_is_taken_out(registry: StatRegistry, value: Any, size: int) -> None:
    home = Workspace()
    home.feed("x", value)
    home.run_operator(operator_def("CreateBlobsQueue", [], ["q"]))
    home.run_operator(operator_def("EnqueueBlobs", ["q", "x"], ["x"]))
    home.run_operator(operator_def("DequeueBlobs", ["q"], ["y"]))
    assert registry.export(reset=False)["q/queue_dequeued_bytes"] == size


def test_who_waits_counts_meanwhile(registry: StatRegistry) -> None:
    """The balance is below 0 while a thread waits, whose wait counts as time of reading."""
    home = Workspace()
    home.run_operator(operator_def("CreateBlobsQueue", [], ["q"]))
    thread = threading.Thread(target=lambda: home.run_operator(operator_def("DequeueBlobs", ["q"], ["y"])))
    thread.start()
    while registry.export(reset=False)["q/queue_balance"] != -1:
        pass
    home.feed("x", X)
    home.run_operator(operator_def("EnqueueBlobs", ["q", "x"], ["x"]))
    thread.join()
    assert registry.export(reset=False)["q/queue_balance"] == 0


def test_queues_of_one_name_count_together(registry: StatRegistry) -> None:
    for _ in range(2):
        home = Workspace()
        home.run_operator(operator_def("CreateBlobsQueue", [], ["q"]))
        home.feed("x", X)
        home.run_operator(operator_def("EnqueueBlobs", ["q", "x"], ["x"]))
    assert registry.export(reset=False)["q/queue_balance"] == 2
