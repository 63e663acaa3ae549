"""Ctrl-C in any line of an allocator: a block may be lost, but none is handed out twice, and the allocator works on."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tazza.tensor import allocation, pool
from tazza.tensor.allocation import AlignedAllocator, Allocation, Allocator
from tests.tensor.allocators.model import MAKERS

FOLDER = Path(allocation.__file__).parent
STEP = 3
"""Every third line: all lines run several times, so each is hit."""

FILES = {allocation.__file__, pool.__file__, *map(str, (FOLDER / "allocators").glob("*.py"))}


def work(allocator: Allocator, held: list[Allocation]) -> None:
    """Fill, make holes, fill them again, with blocks that split and merge and chunks that are got."""
    for nbytes in (100, 700, 60, 300, 1500, 60):
        held.append(allocator.allocate(nbytes))
    del held[1::2]
    for nbytes in (300, 700, 5000):
        held.append(allocator.allocate(nbytes))
    del held[:]
    for nbytes in (64, 2000):
        held.append(allocator.allocate(nbytes))


def interrupted(allocator: Allocator, held: list[Allocation], line: int) -> bool:
    """Do the work until that many lines of the allocator have run; False when it ends before."""
    left = line

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        # Signals are seen after calls and at loops, so not between the lines that enter and leave the lock.
        if frame.f_code.co_filename not in FILES or frame.f_code.co_name == "locked":
            return trace if event == "call" else None
        left -= event == "line"
        if left == 0:
            left = -1
            raise KeyboardInterrupt
        return trace

    former = sys.gettrace()
    sys.settrace(trace)
    try:
        work(allocator, held)
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(former)
    return False


@pytest.mark.slow
@pytest.mark.parametrize("name", MAKERS)
def test_nothing_is_handed_out_twice(name: str) -> None:
    line = 1
    while True:
        allocator, held = MAKERS[name](AlignedAllocator()), list[Allocation]()
        if not interrupted(allocator, held, line):
            break
        held += [allocator.allocate(nbytes) for nbytes in (60, 100, 300, 700, 1500, 60, 60, 300, 2048)]
        ranges = sorted((span.address, span.address + span.nbytes) for span in held)
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(ranges)), line
        line += STEP
    assert line > 50
