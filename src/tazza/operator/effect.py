"""What an operator does beside making its outputs from its inputs: each schema declares it."""

from __future__ import annotations

import enum


class Effects(enum.IntEnum):
    """What a run of an operator reads and leaves; each kind includes those before it.

    Removing, merging, moving and computing once ask for PURE. A net of a stranger may be RANDOM while it is loaded and
    WORKSPACE when it runs (`operator.trust`). An operator that declares nothing counts as IO.

    >>> Effects.PURE < Effects.RANDOM < Effects.STATE < Effects.WORKSPACE < Effects.IO
    True
    """

    PURE = 0
    """Outputs are tensors that follow from inputs and arguments; one that overwrites an input does so in the open."""
    RANDOM = 1
    """Draws from the operator's own generator as well."""
    STATE = 2
    """Looks at what an output or the operator itself holds from before, makes what is no tensor, or shows something.

    Statistics of the process, which workspaces share, count as this: nets that only measure are no more than that.
    """
    WORKSPACE = 3
    """Reads or writes blobs of its workspace that its definition need not name."""
    IO = 4
    """Files, databases, other machines, code that somebody else wrote: whatever is outside of the workspace."""
