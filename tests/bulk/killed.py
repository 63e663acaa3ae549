"""Pictures in an LMDB through LeNet, with workers that are killed: what has to come of it, and who kills."""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import tazza
from tazza.bulk.crew import Crew
from tazza.bulk.job import Job
from tazza.db.images import image_record, write_records
from tazza.images import Preprocessing
from tazza.models import Model
from tazza.models.training import seed_operators
from tazza.models.zoo.lenet import lenet

SIZE = 28
KINDS = 251
"""Unlike pictures: a prime number, so that no part begins where another did."""
SCORE_NEAR = 1e-5


def write_lenet(folder: Path) -> tuple[str, str]:
    """Write a LeNet that nobody has trained, and return its files."""
    model = Model("lenet")
    model.net.add_external_output(lenet(model, "data"))
    workspace = tazza.Workspace()
    seed_operators(model.init_net.proto, 1)
    workspace.run_net_once(model.init_net.export())
    files = folder / "init_net.pb", folder / "predict_net.pb"
    tazza.save_nets(*files, model, workspace)
    return str(files[0]), str(files[1])


def pictures() -> np.ndarray[tuple[int, int, int], np.dtype[np.uint8]]:
    """Return the unlike pictures; record N of a database is picture N modulo their number."""
    return np.random.default_rng(3).integers(0, 256, (KINDS, SIZE, SIZE), np.uint8)


def write_pictures(path: Path, count: int) -> None:
    """Write an LMDB of so many pictures."""
    records = [image_record(image, number % 10) for number, image in enumerate(pictures())]
    write_records("lmdb", path, (records[number % KINDS] for number in range(count)), count)


def job_of(model: tuple[str, str], db: Path) -> Job:
    """Return the job: the three best classes of each picture."""
    return Job(model, Preprocessing(colors="grey"), db_type="lmdb", db=str(db))


def check(lines: Iterable[str], count: int, model: tuple[str, str]) -> None:
    """Check that each record has one line, in order, with what the net makes of its picture."""
    with tazza.load(*model) as predictor:
        (scores,) = predictor.run(data=Preprocessing(colors="grey", scale=1 / 256)(*pictures())).values()
    best = np.argsort(-scores, axis=1)[:, 0]
    number = -1
    for number, text in enumerate(lines):
        line = json.loads(text)
        assert line["image"] == f"{number:08}", f"line {number} is of record {line['image']}"
        first = line["classes"][0]
        picture = number % KINDS
        assert first["class"] == best[picture], (line, scores[picture])
        assert abs(first["score"] - scores[picture, best[picture]]) < SCORE_NEAR, (line, scores[picture])
    assert number + 1 == count


@dataclass(slots=True)
class Killer:
    """Kills a worker each time that another share of the items is done."""

    items: int
    kills: int
    killed: int = 0
    crews: list[Crew] = field(default_factory=list[Crew])
    random: random.Random = field(default_factory=lambda: random.Random(5))

    def crew(self, *arguments: Any) -> Crew:
        """Return a crew, and remember it."""
        self.crews.append(Crew(*arguments))
        return self.crews[-1]

    def __call__(self, done: int) -> None:
        """Kill one, if it is time."""
        if self.killed < self.kills and done * (self.kills + 1) > (self.killed + 1) * self.items:
            with suppress(ProcessLookupError):
                os.kill(self.random.choice(self.crews[-1].pids), signal.SIGKILL)
            self.killed += 1
