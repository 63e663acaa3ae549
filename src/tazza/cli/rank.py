"""One rank of a job, which `tazza launch` starts and watches: `python -m tazza.cli.rank train lenet`."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import traceback


def main() -> None:
    """Run a command as one of several ranks; all end together, or this one says why not.

    The process never says farewell to MPI when a rank is gone, since that would wait for it.
    """
    from tazza.distributed.membership import mpi_membership
    from tazza.distributed.mpi import lost
    from tazza.distributed.watch import RankWatch

    own = mpi_membership()
    if not own.leads:  # it ends behind the leader, which ends a training in order
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
    watch = RankWatch()
    status = _run()
    if status == 0:
        if watch.finish():
            return
        sys.stderr.write(f"error: rank {own.rank} was done, and cannot end with the others: {lost()}\n")
    else:
        watch.leave(f"rank {own.rank} has ended with status {status}")
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status if status else 1)


def _run() -> int:
    from tazza.cli import main as command

    try:
        command()
    except SystemExit as ended:
        return 0 if ended.code is None else ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    main()
