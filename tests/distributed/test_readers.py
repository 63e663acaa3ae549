"""Readers of databases go on where they were, whatever the number of ranks, round after round."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tazza.db.images import write_records
from tazza.distributed.data_parallel import data_parallel
from tazza.distributed.membership import Membership
from tazza.models import Model, sgd
from tazza.models.training import Trainer
from tazza.proto import TensorProto, TensorProtos
from tazza.workspace import Workspace
from tests.distributed.cases import seeded
from tests.ops.distributed.test_collective import together

BATCH, STEPS = 4, 3
"""Records of a joint batch, and steps between two checkpoints."""


def write_numbers(path: Path, count: int) -> None:
    """Write a database whose records are a number and half of it."""
    records = (
        TensorProtos(
            protos=[TensorProto(dims=[1], data_type=TensorProto.FLOAT, float_data=[x]) for x in (one, one / 2)]
        ).SerializeToString()
        for one in map(float, range(count))
    )
    write_records("minidb", path, records, count)


def model_of(path: Path, batch: int) -> Model:
    """Return a model that reads so many records a step."""
    model = Model("numbers")
    reader = model.init_net.add("CreateDB", (), "reader", db_type="minidb", db=str(path))
    x, half = model.net.add("TensorProtosDBInput", reader, ["x", "half"], batch_size=batch)
    model.net.add("SquaredL2Distance", [model.fc(x, "y", 1, 1), half], "distances")
    model.add_gradients([model.averaged_loss("distances", "loss")])
    sgd(model, 1e-3)
    return model


def learn(data: Path, ranks: int, checkpoint: Path, begin: int, steps: int = STEPS) -> tuple[list[Any], list[float]]:
    """Learn some steps, from a checkpoint unless it is the beginning; return the records of joint batches, and losses.

    The checkpoint is written by rank 0.
    """

    def act(rank: int, _: object) -> tuple[list[Any], list[float]]:
        model = seeded(model_of(data, BATCH // ranks))
        if ranks > 1:
            data_parallel(model, Membership(rank, ranks, name=f"{checkpoint} {begin}"))
        model.net.proto.external_output.extend(["x", "loss"])
        found: tuple[list[Any], list[float]] = [], []
        with Trainer(model.init_net.proto, model.net.proto, workspace := Workspace(), accuracy=None) as trainer:
            if begin:
                trainer.load(checkpoint)
            for _step in range(steps):
                found[1].append(trainer.step().loss)
                found[0].append(workspace.fetch("x").reshape(-1))
            trainer.save(checkpoint)
        return found

    every = together(ranks, act)
    for one in every:
        if isinstance(one, BaseException):
            raise one
    joint = [np.sort(np.concatenate(parts)).tolist() for parts in zip(*(records for records, _ in every), strict=True)]
    return joint, every[0][1]


@pytest.mark.slow
@pytest.mark.parametrize("count", [8, 11])
def test_one_two_four_and_one_rank_read_what_one_does(count: int, tmp_path: Path) -> None:
    """Of 8 records each rank has as many, of 11 it has not; a batch lies across two rounds."""
    data = tmp_path / "data"
    write_numbers(data, count)
    records, losses = learn(data, 1, tmp_path / "alone", 0, 4 * STEPS)
    stream = np.arange(4 * STEPS * BATCH) % count
    assert records == [np.sort(batch).tolist() for batch in stream.reshape(-1, BATCH)]
    for begin, ranks in enumerate((1, 2, 4, 1)):
        part = slice(begin * STEPS, (begin + 1) * STEPS)
        found = learn(data, ranks, tmp_path / "some", begin)
        assert found[0] == records[part]
        assert found[1] == pytest.approx(losses[part], rel=1e-5)
