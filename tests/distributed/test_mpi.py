"""Worlds of processes: every operator, and the results of worlds of threads."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.distributed.cases import CASES, train_alone
from tests.distributed.mpi_there import needs_mpi, run_ranks
from tests.distributed.ranks import read
from tests.distributed.thread_ranks import check_same

pytestmark = [needs_mpi, pytest.mark.slow]
PROGRAM = "tests.distributed.ranks"


@pytest.mark.parametrize("size", [1, 2, 4])
def test_every_operator(size: int) -> None:
    run_ranks(size, PROGRAM, "operators")


@pytest.mark.parametrize(("size", "net_type"), [(2, "simple"), (2, "dag"), (2, "plan"), (4, "simple")])
@pytest.mark.parametrize("case", CASES)
def test_ranks_learn_what_one_process_does(case: str, net_type: str, size: int, tmp_path: Path) -> None:
    run_ranks(size, PROGRAM, "train", case, net_type, str(tmp_path / "found.npz"))
    wanted = train_alone(CASES[case], size)
    slack = 0 if size == 2 and net_type != "plan" else 1e-4
    check_same(read(tmp_path / "found.npz"), wanted, slack)
