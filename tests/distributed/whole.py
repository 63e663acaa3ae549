"""ResNet-50 as large as it is published, on small pictures: what it learns on ranks of MPI, and in one process.

python -m tests.distributed.whole [NET_TYPE ...]

One process runs the shares of all ranks one after the other. Two ranks have its bits behind three steps, in every type
of net but `plan`; `plan`, and four ranks, have the same parameters but for rounding behind the first step. Later steps
make more of such differences, as normalizations over so few pixels do.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tazza.distributed.starting import is_open_mpi, mpiexec
from tazza.nets.base import NETS, PLAN
from tests.distributed.cases import STEPS, WHOLE
from tests.distributed.mpi_there import run_ranks
from tests.distributed.ranks import read
from tests.distributed.thread_ranks import check_same

PROGRAM = "tests.distributed.ranks"
ROUNDED = 1e-6
"""Relative difference where gradients are added, or operators run, in another order."""
MOST_S = 900.0
"""How long one training may take on a machine that does other things too."""


def main(net_types: Sequence[str]) -> None:
    """Hold ranks against one process, and say how long each took.

    Raises:
        AssertionError: they differ.
    """
    program = mpiexec()
    assert program is not None, "ranks are started by mpiexec"
    print("Open MPI" if is_open_mpi(program) else "MPICH", flush=True)
    runs = [(2, net_type) for net_type in (net_types if net_types else NETS)]
    with TemporaryDirectory(prefix="whole-") as name:
        for case in WHOLE:
            for size, net_type in [*runs, (4, "simple")]:
                began_s = time.monotonic()
                exact = size == 2 and net_type != PLAN
                steps = STEPS if exact else 1
                alone, together = Path(name, f"{case}-{size}-{steps}.npz"), Path(name, "together.npz")
                if not alone.exists():
                    run_ranks(1, PROGRAM, "alone", case, str(size), str(alone), str(steps), most_s=MOST_S)
                run_ranks(size, PROGRAM, "train", case, net_type, str(together), str(steps), most_s=MOST_S)
                check_same(read(together), read(alone), 0 if exact else ROUNDED)
                same = "the bits" if exact else "the numbers, but for rounding,"
                took_s = time.monotonic() - began_s
                print(f"{case}, {size} ranks, {net_type}: {same} of one process; {took_s:.0f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
