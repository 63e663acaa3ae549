"""Pictures in an LMDB through LeNet with two workers, some of which are killed: nothing is lost or comes twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tazza.bulk.run import Order, parts_folder, predict_all
from tazza.bulk.source import record_parts
from tests.bulk.killed import Killer, check, job_of, write_lenet, write_pictures

COUNT = 3000


@pytest.mark.slow
def test_nothing_is_lost_and_nothing_comes_twice(tmp_path: Path) -> None:
    model, db, out = write_lenet(tmp_path), tmp_path / "pictures.lmdb", tmp_path / "classes.jsonl"
    write_pictures(db, COUNT)
    job = job_of(model, db)
    killer = Killer(COUNT, kills=3)
    parts = record_parts("lmdb", db, job.batch_size)
    found = predict_all(job, parts, out, Order(2, told=killer, crew=killer.crew))
    assert (found.images, found.failed, found.kept) == (COUNT, 0, 0)
    assert killer.killed == 3
    assert 1 <= found.replaced <= 3
    with out.open() as lines:
        check(lines, COUNT, model)
    assert not parts_folder(out).exists()
