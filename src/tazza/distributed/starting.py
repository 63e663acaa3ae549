"""Starting processes on this machine as ranks: `mpiexec`, and what it is told, by the library that it belongs to."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path

from tazza.data_class import dataclass
from tazza.distributed.mpi import HINT
from tazza.errors import UnavailableError

PROGRAM = "mpiexec"
RANK_VARIABLES = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")
SIZE_VARIABLES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS")
"""What starters of ranks set: Hydra of MPICH, PRRTE of Open MPI, `srun` of SLURM."""


@dataclass(frozen=True, slots=True)
class Command:
    """Words of a command, and variables that it needs."""

    words: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict[str, str])


def mpiexec() -> Path | None:
    """Return the `mpiexec` beside this Python, since wheels bring their own, or that of the system; None without."""
    beside = Path(sys.executable).parent / PROGRAM
    if os.access(beside, os.X_OK):
        return beside
    found = shutil.which(PROGRAM)
    return None if found is None else Path(found)


def is_open_mpi(program: Path) -> bool:
    """Whether a `mpiexec` is that of Open MPI, as it says itself."""
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    return "Open MPI" in told.stdout or "prterun" in told.stdout


def start_command(size: int, words: Sequence[str]) -> Command:
    """Return the command that starts ranks on this machine.

    Raises:
        UnavailableError: there is no `mpiexec`.
    """
    program = mpiexec()
    if program is None:
        raise UnavailableError(f"there is no {PROGRAM} that starts ranks", hint=HINT)
    if not is_open_mpi(program):
        return Command([str(program), "-n", str(size), *words])
    # It starts no more ranks than there are cores unless told, ties each to one, and has a word with root, who is all
    # there is in many containers.
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} if os.geteuid() == 0 else {}
    options = ["--map-by", ":OVERSUBSCRIBE", "--bind-to", "none"]
    return Command([str(program), *options, "-n", str(size), *words], root)


def rank_here() -> int | None:
    """Return which rank whoever started this process says that it is; None where nobody does."""
    return _number(RANK_VARIABLES)


def size_here() -> int | None:
    """Return how many ranks whoever started this process says that there are; None where nobody does."""
    return _number(SIZE_VARIABLES)


def _number(names: Sequence[str]) -> int | None:
    found = (os.environ.get(name, "") for name in names)
    return next((int(text) for text in found if text.isdecimal()), None)
