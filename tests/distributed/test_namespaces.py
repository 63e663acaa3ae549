"""Two hosts, played by network namespaces, with MPI over TCP."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.distributed.mpi_there import needs_mpi
from tests.distributed.namespaces import check_case, two_hosts, why_no_hosts

pytestmark = [needs_mpi, pytest.mark.slow, pytest.mark.skipif(why_no_hosts() is not None, reason=str(why_no_hosts()))]


def test_two_hosts_learn_what_one_process_does(tmp_path: Path) -> None:
    """All cases and operators: `python -m tests.distributed.namespaces`."""
    with two_hosts() as hosts:
        check_case(hosts, "clicks", tmp_path)
