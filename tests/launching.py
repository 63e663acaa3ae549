"""Running a launch by itself, in exactly the scratch memory that it asks for."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tazza.codegen.block import BlockLaunch
from tazza.device import Generator, current_context
from tazza.operator import Operands
from tazza.tensor import Allocation, CPUPlace, Tensor

FLOATS_BEHIND = 1 << 14
"""What is watched behind the scratch memory, and before it."""
MARK = np.float32(-7.25)


def call_alone(launch: BlockLaunch, tensors: Mapping[str, Tensor]) -> None:
    """Run a launch in scratch memory full of NaN; assert that it wrote neither before it nor behind it."""
    floats = -(-launch.scratch_bytes // 4)
    memory = np.full(2 * FLOATS_BEHIND + floats + 16, MARK, np.float32)
    start = FLOATS_BEHIND + (-memory[FLOATS_BEHIND:].ctypes.data % 64) // 4
    own = memory[start : start + floats]
    own[:] = np.nan
    launch.bind(Operands(tensors, Allocation.adopt(own), Generator, current_context(CPUPlace())))()
    assert (memory[:start] == MARK).all(), "it wrote before its scratch memory"
    assert (memory[start + floats :] == MARK).all(), f"it wrote behind {launch.scratch_bytes} bytes of scratch memory"
