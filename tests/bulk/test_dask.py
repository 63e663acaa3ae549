"""Parts as tasks of Dask: one worker is killed, and nothing is lost or comes twice."""

from __future__ import annotations

import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tazza.bulk.dask_crew import DaskCrew, predict_task
from tazza.bulk.part import PartFiles
from tazza.bulk.run import Order, predict_all
from tazza.bulk.source import record_parts
from tazza.errors import UnavailableError
from tests.bulk.killed import check, job_of, write_lenet, write_pictures

COUNT = 500


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # what Dask says of its own
def test_a_worker_of_dask_is_killed(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="the extra dask is not installed")
    model, db, out = write_lenet(tmp_path), tmp_path / "pictures.lmdb", tmp_path / "classes.jsonl"
    write_pictures(db, COUNT)
    job = job_of(model, db)
    killed: list[int] = []
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with cluster, distributed.Client(cluster) as client:

        def kill(done: int) -> None:
            if not killed:
                killed.extend(client.run(os.getpid).values())
                os.kill(killed[0], signal.SIGKILL)

        crew = partial(DaskCrew, cluster.scheduler_address)
        found = predict_all(job, record_parts("lmdb", db, job.batch_size), out, Order(2, told=kill, crew=crew))
    assert (found.images, found.failed) == (COUNT, 0)
    assert len(killed) == 2
    with out.open() as lines:
        check(lines, COUNT, model)


@pytest.mark.slow
def test_a_task_is_one_part(tmp_path: Path) -> None:
    model, db = write_lenet(tmp_path), tmp_path / "pictures.lmdb"
    write_pictures(db, 40)
    job = job_of(model, db)
    parts = record_parts("lmdb", db, job.batch_size)
    fields: dict[str, Any] = {"number": 1, "start": 16, "stop": 32, "files": [], "key": parts[1].key}
    assert predict_task(job.to_dict(), fields, str(tmp_path)) == 16
    lines = list(PartFiles(tmp_path, parts[1]).read())
    assert [line["image"] for line in lines] == [f"{number:08}" for number in range(16, 32)]


def test_without_dask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UnavailableError, match=r"pip install 'tazza\[dask\]'"):
        DaskCrew("local", job_of(("a", "b"), tmp_path), tmp_path, 1).run([])
