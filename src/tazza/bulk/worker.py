"""The program of a worker: it gets a job and parts as lines of JSON, and answers in lines of JSON.

    python -m tazza.bulk.worker --num_threads=1

It ends when nobody asks any more. What it prints beside its answers, or a library does, goes where errors go.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tazza.bulk.job import Job
from tazza.bulk.part import predict_part
from tazza.bulk.source import Part, Reader
from tazza.errors import TazzaError
from tazza.runtime.init import global_init
from tazza.runtime.modules import load_module

TOLD_EVERY_S = 0.1


def main() -> int:
    """Predict parts until there are no more; return the exit status."""
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C goes to all processes of a terminal; who hands out parts ends us
    answers = os.dup(1)
    os.dup2(2, 1)

    def answer(**told: Any) -> None:
        try:
            os.write(answers, json.dumps(told).encode() + b"\n")
        except BrokenPipeError as error:  # whoever handed out parts has gone
            raise SystemExit(1) from error

    try:
        global_init(["tazza", *sys.argv[1:]])
        _work(answer)
    except TazzaError as error:
        answer(error=type(error).__name__, message=error.message, hint=error.hint)
        return 1
    return 0


def _work(answer: Callable[..., None]) -> None:
    asked = json.loads(sys.stdin.readline())
    for module in asked["modules"]:
        load_module(module)
    job, folder = Job.from_dict(asked["job"]), Path(asked["folder"])
    with job.load() as predictor, Reader(job.db_type, job.db, job.prepare, job.batch_size) as reader:
        answer(ready=True)
        for line in sys.stdin:
            part = Part.from_dict(json.loads(line))
            failed = predict_part(predictor, job, part, reader, folder, _now_and_then(answer))
            answer(done=part.number, failed=failed)


def _now_and_then(answer: Callable[..., None]) -> Callable[[int], None]:
    last_s = time.monotonic()

    def told(items: int) -> None:
        nonlocal last_s
        if time.monotonic() - last_s > TOLD_EVERY_S:
            last_s = time.monotonic()
            answer(items=items)

    return told


if __name__ == "__main__":
    sys.exit(main())
