"""CreateAtomicBool and its like, AtomicFetchAdd, AtomicFetchAdd64: recorded, by threads, and what is refused."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from tazza.errors import DTypeError, SchemaError, ShapeError
from tazza.operator import find_schema, operator_def, run_op
from tazza.workspace import Workspace
from tests.check import check_op
from tests.sequences import Sequence, on_sequences, recorded

CASES = [recorded("truth_values"), recorded("fetched_32", stored=True), recorded("fetched_64", stored=True)]
ADDS = {"AtomicFetchAdd": np.int32, "AtomicFetchAdd64": np.int64}


@on_sequences(CASES)
def test_recorded(case: Sequence) -> None:
    check_op(case)


@pytest.mark.parametrize("type", sorted(ADDS))
def test_threads_lose_nothing(type: str) -> None:
    home = Workspace()
    home.run_operator(operator_def("CreateMutex", [], ["m"]))
    home.feed("a", np.array([0], ADDS[type]))
    home.feed("i", np.array([2], ADDS[type]))
    seen: list[int] = []

    def count(name: str) -> None:
        for _ in range(100):
            home.run_operator(operator_def(type, ["m", "a", "i"], ["a", name]))
            seen.append(int(home.fetch(name)))

    threads = [threading.Thread(target=count, args=(f"before{n}",)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == list(range(0, 600, 2))
    assert int(home.fetch("a")) == 600


REFUSED: list[tuple[str, list[Any], type[Exception], str]] = [
    ("ConditionalSetAtomicBool", [np.zeros(0, bool)], ShapeError, "the condition 'in1' has 0 elements"),
    ("ConditionalSetAtomicBool", [np.zeros(1)], DTypeError, "condition is float64"),
    ("AtomicFetchAdd", [np.zeros(0, "i"), np.zeros(1, "i")], ShapeError, "the X 'in1' has 0 elements"),
    ("AtomicFetchAdd64", [np.zeros(1, "q"), np.zeros(0, "q")], ShapeError, "the increment 'in2' has 0 elements"),
    ("AtomicFetchAdd", [np.zeros(1, "q"), np.zeros(1, "q")], DTypeError, "X is int64, it must be int32"),
]


@pytest.mark.parametrize(("type", "inputs", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], error: type[Exception], text: str) -> None:
    first = run_op("CreateMutex" if type in ADDS else "CreateAtomicBool")
    with pytest.raises(error, match=text):
        run_op(type, first, *inputs, outputs=2 if type in ADDS else 0)


@pytest.mark.parametrize("names", [(["m", "a", "i"], ["b", "a"]), (["m", "a", "i"], ["i", "b"])])
def test_what_may_overwrite_what(names: tuple[list[str], list[str]]) -> None:
    with pytest.raises(SchemaError, match="in place"):
        find_schema("AtomicFetchAdd").view(operator_def("AtomicFetchAdd", *names))


def test_only_truth_values_are_asked() -> None:
    with pytest.raises(DTypeError, match="is a Tensor, not a"):
        run_op("CheckAtomicBool", np.array(True))
