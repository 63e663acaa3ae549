"""NumPy's BLAS gets the process's threads where a kernel in NumPy is bound, and nothing is loaded for it elsewhere."""

from __future__ import annotations

import subprocess
import sys
from typing import Any, cast

import numpy as np
import pytest

from tazza.operator import operator_def
from tazza.runtime.blas import set_blas_threads
from tazza.runtime.threads import NUM_THREADS
from tazza.workspace import Workspace


def blas_threads() -> set[int]:
    """Return how many threads each BLAS of this process says that it uses."""
    from threadpoolctl import threadpool_info  # pyright: ignore[reportMissingTypeStubs] -- it ships none

    return {one["num_threads"] for one in cast("list[dict[str, Any]]", threadpool_info()) if one["user_api"] == "blas"}


@pytest.mark.parametrize("threads", [1, 2])
def test_a_kernel_in_numpy_has_the_threads_of_the_process(threads: int) -> None:
    workspace = Workspace()
    for name in "ab":
        workspace.feed(name, np.ones((3, 3), np.float32))
    former = set_blas_threads(3 - threads)
    try:
        with NUM_THREADS.override(threads):
            workspace.run_operator(operator_def("MatMul", ["a", "b"], ["c"], engine="reference"))
            assert blas_threads() == {threads}
    finally:
        set_blas_threads(former)


_RUNS = """
import sys
import numpy as np
from tazza.operator import operator_def
from tazza.workspace import Workspace
workspace = Workspace()
for name in "ab":
    workspace.feed(name, np.ones((3, 3), np.float32))
workspace.run_operator(operator_def("MatMul", ["a", "b"], ["c"], engine=sys.argv[1]))
print(workspace.fetch("c")[0, 0], "threadpoolctl" in sys.modules)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "told"), [("onednn", "3.0 False"), ("reference", "3.0 True")])
def test_who_calls_no_blas_does_not_ask_for_it(engine: str, told: str) -> None:
    if engine == "onednn":
        library = pytest.importorskip("tazza.engines.onednn.library")
        if library.unavailable() is not None:
            pytest.skip(library.unavailable())
    done = subprocess.run([sys.executable, "-c", _RUNS, engine], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == told
