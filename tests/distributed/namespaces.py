"""Two hosts, played by network namespaces of this machine, with MPI over TCP between them; needs root, and Linux.

python -m tests.distributed.namespaces

Each namespace has a host name of its own, and a cable leads from one to the other. `mpiexec` runs in the first one and
reaches the second by a program that stands for ssh. What the ranks learn has to be what one process does.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from tazza.distributed.starting import is_open_mpi, mpiexec, start_command
from tests.distributed.cases import CASES
from tests.distributed.mpi_there import MOST_S, ROOT

HOSTS = ("10.213.77.1", "10.213.77.2")
"""Addresses of the hosts; `mpiexec` knows them by these."""
NAMES = ("tazza-host-1", "tazza-host-2")
CABLE = ("tazza-cable-1", "tazza-cable-2")
RANKS = "tests.distributed.ranks"
VARIABLES = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "OMP_NUM_THREADS": "1"}
"""Of all processes: kernels of one thread add in one order."""
SSH = """#!/bin/sh
# Runs a command on a host as ssh does: options, the host, then words that a shell of that host reads.
while [ "${1#-}" != "$1" ]; do shift; done
host=$1; shift
case $host in %(first)s) space=%(name_1)s ;; *) space=%(name_2)s ;; esac
exec ip netns exec "$space" unshare --uts sh -c "hostname $space; export PATH='%(path)s'; $*"
"""


def why_no_hosts() -> str | None:
    """Return why hosts cannot be played here; None where they can."""
    if os.name != "posix" or os.geteuid() != 0:
        return "network namespaces need root"
    for program in ("ip", "unshare"):
        if shutil.which(program) is None:
            return f"there is no {program}"
    tried = subprocess.run(["unshare", "--net", "--uts", "true"], capture_output=True, check=False)
    return None if tried.returncode == 0 else "no network namespace can be made"


@dataclass(frozen=True)
class Hosts:
    """Two hosts that are there: a folder with the program that stands for ssh."""

    folder: Path

    def run(self, *words: str) -> str:
        """Run a module on two ranks, one a host, and return what it printed.

        Raises:
            AssertionError: it failed, or did not end.
        """
        program = mpiexec()
        assert program is not None, "the caller has looked"
        open_mpi = is_open_mpi(program)
        options = self._open_mpi() if open_mpi else self._mpich()
        environment = {**os.environ, **start_command(2, []).environment, **self._variables(open_mpi)}
        command = [str(program), *options, "-n", "2", sys.executable, "-m", *words]
        inside = ["ip", "netns", "exec", NAMES[0], "unshare", "--uts", "sh", "-c", f'hostname {NAMES[0]}; exec "$@"']
        done = subprocess.run(
            [*inside, "sh", *command], env=environment, capture_output=True, text=True, timeout=MOST_S, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def _mpich(self) -> Sequence[str]:
        own = ["-launcher", "ssh", "-launcher-exec", str(self.folder / "ssh"), "-hosts", ",".join(HOSTS)]
        return [*own, "-localhost", HOSTS[0], "-iface", CABLE[0]]

    def _open_mpi(self) -> Sequence[str]:
        through = ["--prtemca", "plm_ssh_agent", str(self.folder / "ssh"), "--prtemca", "plm_ssh_no_tree_spawn", "1"]
        tcp = ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"]
        return [*through, *tcp, "--host", ",".join(f"{host}:1" for host in HOSTS), "--bind-to", "none"]

    def _variables(self, open_mpi: bool) -> Mapping[str, str]:
        return VARIABLES if open_mpi else {**VARIABLES, "FI_PROVIDER": "tcp"}


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@contextmanager
def two_hosts() -> Generator[Hosts]:
    """Make two hosts, which are gone behind the block."""
    with TemporaryDirectory(prefix="hosts-") as folder:
        try:
            for name in NAMES:
                _ip("netns", "add", name)
            _ip("link", "add", CABLE[0], "netns", NAMES[0], "type", "veth", "peer", CABLE[1], "netns", NAMES[1])
            for name, host, end in zip(NAMES, HOSTS, CABLE, strict=True):
                _ip("-n", name, "address", "add", f"{host}/24", "dev", end)
                for link in ("lo", end):
                    _ip("-n", name, "link", "set", link, "up")
            beside = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
            script = Path(folder) / "ssh"
            script.write_text(SSH % {"first": HOSTS[0], "name_1": NAMES[0], "name_2": NAMES[1], "path": beside})
            script.chmod(0o755)
            yield Hosts(Path(folder))
        finally:
            for name in NAMES:
                with suppress(subprocess.CalledProcessError):
                    _ip("netns", "delete", name)


def check_case(hosts: Hosts, case: str, folder: Path) -> None:
    """Check that two hosts learn what one process does, bit by bit.

    Raises:
        AssertionError: they do not.
    """
    joint, alone = folder / f"{case}.npz", folder / f"{case}-alone.npz"
    hosts.run(RANKS, "train", case, "simple", str(joint))
    environment = {**os.environ, **VARIABLES}
    subprocess.run([sys.executable, "-m", RANKS, "alone", case, "2", str(alone)], env=environment, check=True)
    with np.load(joint) as found, np.load(alone) as wanted:
        assert set(found) == set(wanted)
        for name in wanted:
            np.testing.assert_array_equal(found[name], wanted[name], err_msg=name)


def main() -> None:
    """Run all operators and train all cases between two hosts."""
    with TemporaryDirectory(prefix="namespaces-") as folder, two_hosts() as hosts:
        hosts.run(RANKS, "operators")
        print("all operators between two hosts: as between threads", flush=True)
        for case in CASES:
            check_case(hosts, case, Path(folder))
            print(f"{case} on two hosts: the bits of one process", flush=True)


if __name__ == "__main__":
    main()
