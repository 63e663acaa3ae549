"""Fences: who writes beside what there is is found, who leaves the pages around it dies."""

from __future__ import annotations

import ctypes

import pytest

from tazza.device import current_context
from tazza.tensor import CPUPlace, DataType, Tensor
from tests.fence import fenced
from tests.judge.dying_word import survived

LEAVES = """
import ctypes
from tazza.device import current_context
from tazza.tensor import CPUPlace
from tests.fence import fenced
from tests.judge.dying_word import now
now("scratch memory")
with fenced(at_end={at_end}):
    span = current_context(CPUPlace()).scratch(4096)
    ctypes.string_at(span.address + {offset}, 1)
"""


def test_what_is_written_beside_a_tensor_is_found() -> None:
    with pytest.raises(AssertionError, match="wrote beside"), fenced(at_end=False):
        write_behind()


def write_behind() -> None:
    tensor = Tensor((3,), DataType.FLOAT)
    tensor.reserve()
    ctypes.memset(tensor.address + tensor.nbytes, 0, 1)


def test_what_stays_within_is_fine() -> None:
    with fenced(at_end=True):
        span = current_context(CPUPlace()).scratch(100)
        ctypes.memset(span.address, 0, 100)


@pytest.mark.slow
@pytest.mark.parametrize(("at_end", "offset"), [(True, 4096), (False, -1)])
def test_who_reads_outside_of_scratch_memory_dies(at_end: bool, offset: int, capfd: pytest.CaptureFixture[str]) -> None:
    assert survived(["-c", LEAVES.format(at_end=at_end, offset=offset)]) == 1
    assert "ended by SIGSEGV in scratch memory" in capfd.readouterr().err
