"""Hazards: the last writer and the readers since, and nothing kept longer than it matters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from tazza.device.hazards import SWEEP_MIN, Hazards, variables_of
from tazza.errors import ArgumentError
from tazza.tensor import Tensor


@dataclass
class Job:
    """A piece of work."""

    serial: int
    forgotten: bool = False
    broken: bool = False


def noted(*accesses: tuple[str, str]) -> tuple[Hazards[Job], list[Job]]:
    """Return hazards of jobs given as (reads, writes)."""
    hazards: Hazards[Job] = Hazards()
    jobs = [Job(serial) for serial in range(len(accesses))]
    for job, (reads, writes) in zip(jobs, accesses, strict=True):
        hazards.note(job, reads, writes)
    return hazards, jobs


@pytest.mark.parametrize(
    ("accesses", "reads", "writes", "expected"),
    [
        ([("", "x")], "x", "", [0]),
        ([("", "x")], "", "x", [0]),
        ([("x", "")], "", "x", [0]),
        ([("x", "")], "x", "", []),
        ([("", "x"), ("x", ""), ("x", "")], "", "x", [2, 1, 0]),
        ([("", "x"), ("x", ""), ("", "x")], "x", "", [2]),
        ([("", "x"), ("x", "x")], "x", "x", [1]),
        ([("", "xy"), ("x", "")], "y", "x", [1, 0]),
        ([("", "x")], "y", "z", []),
        ([("x", ""), ("", "x")], "", "x", [1]),
    ],
)
def test_who_comes_before(accesses: list[tuple[str, str]], reads: str, writes: str, expected: list[int]) -> None:
    hazards, _ = noted(*accesses)
    assert [job.serial for job in hazards.before(reads, writes)] == expected


def test_what_ended_well_goes_and_what_failed_stays_until_asked() -> None:
    hazards, jobs = noted(("", "x"), ("x", ""), ("", "y"))
    jobs[0].forgotten = jobs[2].forgotten = True
    jobs[1].broken = True
    assert hazards.before("", "xy") == [jobs[1]]
    hazards.sweep()
    assert (len(hazards), hazards.before("", "x"), hazards.writers("x")) == (1, [jobs[1]], [])
    hazards.forget_broken()
    assert len(hazards) == 0


def test_readers_and_variables_do_not_pile_up() -> None:
    hazards: Hazards[Job] = Hazards()
    for serial in range(20 * SWEEP_MIN):
        hazards.note(Job(serial, forgotten=serial % 2 == 0, broken=serial % 2 == 1), ["weights"], [])
        hazards.note(Job(serial, forgotten=True), [], [serial])
    assert len(hazards) <= 2 * SWEEP_MIN
    assert len(hazards.before([], ["weights"])) <= 2 * SWEEP_MIN


def test_tensors_stand_for_their_storage() -> None:
    x = Tensor.from_numpy(np.zeros((2, 3)))
    assert variables_of([x, x[0], x.storage, "x", 3]) == (x.storage, x.storage, x.storage, "x", 3)
    with pytest.raises(ArgumentError, match="dict is not hashable"):
        variables_of([{}])  # pyright: ignore[reportArgumentType] -- that is the mistake
