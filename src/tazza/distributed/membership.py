"""Who takes part: which of how many ranks a process, or a thread, is, and what joins them."""

from __future__ import annotations

from tazza.data_class import dataclass
from tazza.distributed.mpi import MPI_ENGINE, mpi
from tazza.errors import ArgumentError

TIMEOUT_S = 600.0
"""How long a rank waits for the others in a step: some may read data or compile for minutes."""


@dataclass(frozen=True, slots=True)
class Membership:
    """One of `size` ranks; `engine` names the communicator, see `ops.distributed.communicator`.

    Threads of one process that are ranks of one world say the same `name`.
    """

    rank: int = 0
    size: int = 1
    engine: str = ""
    name: str = "ranks"
    timeout_s: float = TIMEOUT_S

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            ArgumentError: no such rank.
        """
        if not 0 <= self.rank < self.size:
            raise ArgumentError(f"rank {self.rank} is not one of {self.size}", hint="ranks count from 0")

    @property
    def leads(self) -> bool:
        """Whether this rank tests, prints, and writes files."""
        return self.rank == 0

    def share_of(self, batch: int) -> int:
        """Return how many of the examples of a joint batch are this rank's: as many as every other's.

        >>> Membership(1, 4).share_of(64)
        16

        Raises:
            ArgumentError: the batch cannot be divided so.
        """
        if batch % self.size:
            raise ArgumentError(
                f"a batch of {batch} cannot be divided among {self.size} ranks",
                hint=f"give a batch size that {self.size} divides: every rank takes as many, so that means are means",
            )
        return batch // self.size


def mpi_membership(timeout_s: float = TIMEOUT_S) -> Membership:
    """Return which of the processes that `mpiexec` started this is; MPI begins with that.

    Raises:
        UnavailableError: there is no MPI.
    """
    world = mpi().COMM_WORLD
    return Membership(int(world.rank), int(world.size), MPI_ENGINE, timeout_s=timeout_s)
