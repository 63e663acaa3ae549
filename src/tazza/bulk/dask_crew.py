"""Parts as tasks of Dask: on processes of this machine, or on the workers of a cluster that see the same files.

Dask does anew what its workers lost; a part that was done lies in its folder, whoever did it. How many threads a worker
computes with is said where it is started (`TAZZA_NUM_THREADS`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

from tazza.bulk.crew import DEATHS_MAX
from tazza.bulk.job import Job
from tazza.bulk.part import predict_part
from tazza.bulk.source import Part, Reader
from tazza.data_class import dataclass
from tazza.errors import UnavailableError
from tazza.runtime.closing import Closing

LOCAL = "local"
"""The address of as many processes of this machine as there shall be workers."""


def nobody(items: int) -> None:
    """Tell nobody."""


def predict_task(job: Mapping[str, Any], part: Mapping[str, Any], folder: str) -> int:
    """Predict one part, as a task: the model is loaded for it. Return how many items are done.

    Raises:
        TazzaError: what is wrong with the model, or with all images.
    """
    made, items = Job.from_dict(job), Part.from_dict(part)
    with made.load() as predictor, Reader(made.db_type, made.db, made.prepare, made.batch_size) as reader:
        predict_part(predictor, made, items, reader, Path(folder), nobody)
    return items.count


@dataclass(slots=True)
class DaskCrew(Closing):
    """Predicts parts on the workers of a scheduler at `address`; for the rest as `bulk.crew.Crew`."""

    address: str
    job: Job
    folder: Path
    count: int
    told: Callable[[int], None] = nobody
    replaced: ClassVar[int] = 0
    """Dask does not tell."""

    def run(self, parts: Sequence[Part], *, done: int = 0) -> None:
        """Predict parts; `done` items are done before, which `told` counts too.

        Raises:
            UnavailableError: Dask is not installed, nobody answers at the address, or workers die again and again.
            TazzaError: what a worker says of the model, or of the images as a whole.
        """
        distributed = load_dask()
        with ExitStack() as held:
            client = held.enter_context(self._client(distributed, held))
            job, folder = self.job.to_dict(), str(self.folder)
            tasks = [
                client.submit(predict_task, job, asdict(part), folder, pure=False, retries=DEATHS_MAX - 1)
                for part in parts
            ]
            try:
                for task in distributed.as_completed(tasks):
                    done += task.result()
                    self.told(done)
            except distributed.KilledWorker as error:
                raise UnavailableError(
                    f"workers of Dask died again and again: {error}", hint="for memory, take fewer or a smaller batch"
                ) from error

    def close(self) -> None:
        """Nothing is held between runs."""

    def _client(self, distributed: Any, held: ExitStack) -> Any:
        if self.address != LOCAL:
            try:
                return distributed.Client(self.address)
            except OSError as error:
                raise UnavailableError(
                    f"no scheduler of Dask answers at {self.address}", hint="such as tcp://host:8786, or local"
                ) from error
        cluster = distributed.LocalCluster(n_workers=self.count, threads_per_worker=1, dashboard_address=None)
        return distributed.Client(held.enter_context(cluster))


def load_dask() -> Any:
    """Return the library.

    Raises:
        UnavailableError: it is not installed.
    """
    try:
        return importlib.import_module("distributed")
    except ImportError as error:
        raise UnavailableError(f"Dask is not available: {error}", hint="pip install 'tazza[dask]'") from error
