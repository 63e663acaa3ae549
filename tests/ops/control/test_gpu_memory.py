"""GetGPUMemoryUsage: two figures of each GPU, and an error that says so where there is none."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from tazza.errors import UnavailableError
from tazza.operator import operator_def, run_op
from tazza.ops.control import gpu_memory
from tazza.tensor import CPUPlace, CUDAPlace, Place
from tests.check import check_op
from tests.sequences import Sequence, Step, on_sequences

CASES = [
    Sequence(
        "without a GPU",
        (Step(operator_def("GetGPUMemoryUsage", [], ["y"]), fails=UnavailableError, text="there is no GPU here"),),
    )
]


def _devices(*places: object) -> SimpleNamespace:
    return SimpleNamespace(present=dict.fromkeys(places))


@on_sequences(CASES)
def test_without_one(case: Sequence, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_memory, "initialize_devices", lambda: _devices(CPUPlace()))
    check_op(case)


def test_figures_by_device(monkeypatch: pytest.MonkeyPatch) -> None:
    figures = {0: (3, 9), 1: (5, 5), 2: (0, 7)}
    monkeypatch.setattr(gpu_memory, "initialize_devices", lambda: _devices(CPUPlace(), *map(CUDAPlace, figures)))

    def allocator(place: Place) -> SimpleNamespace:
        now, most = figures[place.index]
        return SimpleNamespace(statistics=SimpleNamespace(in_use_bytes=now, peak_bytes=most))

    monkeypatch.setattr(gpu_memory, "allocator_of", allocator)
    np.testing.assert_array_equal(run_op("GetGPUMemoryUsage"), [[3, 5, 0], [9, 5, 7]])
