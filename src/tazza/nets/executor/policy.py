"""What tells the parallel net types apart; everything else they share."""

from __future__ import annotations

from typing import Literal

from tazza.data_class import dataclass


@dataclass(frozen=True, slots=True)
class Policy:
    """How one net type runs its tasks.

    Args:
        waits: how a task whose device works on after the last call is found to have ended. `chain`: the worker waits
            for it; `event`: its event calls back, and streams of the same kind of device wait for each other; `poll`:
            free workers ask its event again and again.
        own_pool: its threads serve this net alone and end with it; else all nets with as many workers share theirs.
        blocks: `run_async` returns when the run has ended.
        needs_workers: `num_workers` has to be given.
    """

    waits: Literal["chain", "event", "poll"]
    own_pool: bool = False
    blocks: bool = False
    needs_workers: bool = False
