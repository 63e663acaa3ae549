"""Failures of each stage of the pipeline: how soon it ends, and what it says.

`python -m tests.records.failing KIND FOLDER` lets all stages fail one after the other, and prints a line of JSON for
each: what was raised, what it says, and how many seconds behind the failure the pipeline had ended.
"""

from __future__ import annotations

import faulthandler
import json
import resource
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.records.pipeline import STAGES, Act, Sizes, Tally, run

SIZES = Sizes(40_000)
ROUND = 3
"""The batch of a stage in which it fails, the first being 1."""
FILE_BYTES_MAX = 4096
HANG_S = 60
"""A process whose pipeline takes longer to fail tells where its threads are, and ends."""


@dataclass(frozen=True)
class Ended:
    """How a pipeline ended: the stage that failed, the error's type, all that it says, and when it had."""

    stage: str
    error: str
    says: str
    late_s: float


class Watch:
    """Notes when a stage had its last batch; a Python operator."""

    def __init__(self, act: Callable[[int], None] = lambda number: None) -> None:
        """Call `act` with the number of each batch, the first being 1."""
        self.act = act
        self.number = 0
        self.at_s = 0.0

    def __call__(self, inputs: Any, outputs: Any) -> None:
        """Note a batch."""
        del inputs, outputs
        self.number += 1
        self.at_s = time.monotonic()
        self.act(self.number)


def ended(folder: Path, stage: str, watch: Watch, act: Act | None = None) -> Ended:
    """Run the pipeline, whose stage is watched and does something before it, until it fails."""

    def before(net: Any, record: Any) -> None:
        net.Python(watch)([record.id()], [])
        if act is not None:
            act(net, record)

    try:
        run(folder, SIZES, Tally(SIZES.records), {stage: before})
    except (Exception, KeyboardInterrupt) as error:
        said = "".join(traceback.format_exception_only(error))
        return Ended(stage, type(error).__name__, said, time.monotonic() - watch.at_s)
    raise AssertionError(f"{stage} did not fail")


def raising(folder: Path, stage: str) -> Ended:
    """A function of the user raises."""

    def fail(number: int) -> None:
        if number == ROUND:
            raise LookupError("nobody is there")

    return ended(folder, stage, Watch(fail))


def damaged(folder: Path, stage: str) -> Ended:
    """A record is damaged: a reader cannot read it, or a stage finds no number in it."""
    if stage.startswith("read"):
        return ended(folder, stage, Watch())
    return ended(folder, stage, Watch(), lambda net, record: net.EnforceFinite([record.value()], []))


def full_disk(folder: Path, stage: str) -> Ended:
    """A stage writes a file, for which there is no room."""
    target = str(folder / f"{stage}.minidb")
    return ended(
        folder, stage, Watch(), lambda net, record: net.Save(record.field_blobs(), [], db=target, db_type="minidb")
    )


def interrupted(folder: Path, stage: str) -> Ended:
    """Ctrl-C comes while a stage is slow, so that all others wait for it; who reads the line sends it."""

    def slow(number: int) -> None:
        if number == ROUND:
            print("now", flush=True)
        time.sleep(0.1)

    return ended(folder, stage, Watch(slow))


KINDS = {"full_disk": full_disk, "interrupted": interrupted}


def main() -> None:
    """Let all stages fail."""
    kind, folder = sys.argv[1], Path(sys.argv[2])
    if kind == "full_disk":
        resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES_MAX, FILE_BYTES_MAX))
    for stage in STAGES:
        faulthandler.dump_traceback_later(HANG_S, exit=True)
        print(json.dumps(asdict(KINDS[kind](folder, stage))), flush=True)


if __name__ == "__main__":
    main()
