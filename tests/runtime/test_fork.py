"""Forks: a child without the threads of its parent refuses native calls on several, and never waits for them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tazza.runtime.native_code import unavailable
from tazza.runtime.openmp import openmp_unavailable

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here"),
    pytest.mark.skipif(openmp_unavailable() is not None, reason=str(openmp_unavailable())),
    pytest.mark.skipif(unavailable() is not None, reason=str(unavailable())),
]

HEAD = """
import os
import signal
import numpy as np
import tazza.tensor as tt
import tazza.tensor.quantized
import tazza.tensor.sparse
from tazza.errors import UnavailableError
from tazza.runtime.threads import NUM_THREADS, thread_count

NUM_THREADS.set(2)

def told(act):
    try:
        act()
    except UnavailableError as error:
        return error.message
    return "ran"

def in_child(*acts):
    read, write = os.pipe()
    if os.fork() == 0:
        signal.alarm(20)  # ends it if it waits for ever
        os.write(write, "\\n".join(told(act) for act in acts).encode())
        os._exit(0)
    os.close(write)
    print(os.read(read, 4096).decode())
    os.wait()
"""

FRESH = """
tensor = tt.Tensor.from_numpy
rng = np.random.default_rng(0)
dense = rng.standard_normal((3000, 1000)).astype("f")
sparse = tt.sparse.CSR.from_dense(np.where(dense > 1, dense, 0))
X, D, E = tensor(dense), tensor(dense[:1000, :300].copy()), tensor(dense[:, :300].copy())
q = tt.quantized.quantize(D, 4)
acts = [
    lambda: sparse @ D,
    lambda: tt.sparse.sparse_matmul(sparse, E, transpose=True),
    lambda: tt.quantized.quantized_matmul(q, tt.quantized.quantize(tensor(dense[:300, :1000].copy()), 4)),
    *[lambda name=name: tt.run_op(name, X) for name in ("Relu", "Softmax", "Tanh")],
]
for act in acts:
    act()
in_child(*acts, lambda: thread_count() == 1 or 1 / 0)
for act in acts:
    act()
"""

BOUND = """
import ctypes
from tazza.operator import LocalBlobs, Operator, operator_def
from tazza.runtime.native import call_native
from tazza.runtime.segment import Segment

function = ctypes.CFUNCTYPE(*[ctypes.c_int64] * 5)(lambda *given: 0)
address = ctypes.cast(function, ctypes.c_void_p).value
blobs = LocalBlobs()
blobs.create_blob("X").set(tt.Tensor.from_numpy(np.ones((3000, 1000), "f")))
operator = Operator(operator_def("Softmax", ["X"], ["Y"], engine="jit"), blobs)
class Row:
    address, arguments, threads, owner = address, (1, 0, 0, 0), 0, None
several = Segment([Row])
acts = [
    operator.run, several.run, several.run_timed,
    lambda: call_native(address, 1), lambda: call_native(address, 1, threads=1), lambda: Segment([Row]).run(),
]
print(*map(told, acts))
in_child(*acts)
print(*map(told, acts))
"""

FRESH_PARENT = """
in_child(lambda: thread_count() == 2 or 1 / 0, lambda: tt.run_op("Softmax", np.ones((3000, 1000), "f")))
"""


def run(code: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", HEAD + code], capture_output=True, text=True, timeout=40, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_what_a_child_starts_anew_runs_on_its_one_thread() -> None:
    assert run(FRESH) == ["ran"] * 7


def test_what_was_bound_for_several_threads_is_refused() -> None:
    before, *child, after = run(BOUND)
    assert before == after == "ran ran ran ran ran ran"
    assert [text.startswith("this process was forked") for text in child] == [True] * 4 + [False] * 2
    assert child[4:] == ["ran", "ran"]


def test_a_child_of_a_process_without_threads_starts_its_own() -> None:
    assert run(FRESH_PARENT) == ["ran", "ran"]
