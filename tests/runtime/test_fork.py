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
import tazza.array as ta
import tazza.array.quantized
import tazza.array.sparse
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
        signal.alarm(60)  # ends it if it waits for ever
        os.write(write, "\\n".join(told(act) for act in acts).encode())
        os._exit(0)
    os.close(write)
    print(os.read(read, 4096).decode())
    os.wait()
"""

FRESH = """
tensor = ta.Tensor.from_numpy
rng = np.random.default_rng(0)
dense = rng.standard_normal((3000, 1000)).astype("f")
sparse = ta.sparse.CSR.from_dense(np.where(dense > 1, dense, 0))
X, D, E = tensor(dense), tensor(dense[:1000, :300].copy()), tensor(dense[:, :300].copy())
q = ta.quantized.quantize(D, 4)
acts = [
    lambda: sparse @ D,
    lambda: ta.sparse.sparse_matmul(sparse, E, transpose=True),
    lambda: ta.quantized.quantized_matmul(q, ta.quantized.quantize(tensor(dense[:300, :1000].copy()), 4)),
    *[lambda name=name: ta.run_op(name, X) for name in ("Relu", "Softmax", "Tanh")],
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
blobs.create_blob("X").set(ta.Tensor.from_numpy(np.ones((3000, 1000), "f")))
operator = Operator(operator_def("Softmax", ["X"], ["Y"], engine="native"), blobs)
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
in_child(lambda: thread_count() == 2 or 1 / 0, lambda: ta.run_op("Softmax", np.ones((3000, 1000), "f")))
"""

NETS = """
from tazza import Model, Predictor, Workspace
from tazza.models.zoo import lenet

model = Model("lenet")
lenet(model, "data")
for op in model.init_net.proto.op:
    op.device_option.random_seed = 1
made = model.net.proto
made.external_output.append("softmax")
images = np.random.default_rng(0).random((8, 1, 28, 28), np.float32)

def load():
    workspace = Workspace()
    workspace.run_net_once(model.init_net.proto)
    return Predictor(made, workspace)

old = load()
expected = old.run(data=images)["softmax"]

def anew():
    np.testing.assert_allclose(load().run(data=images)["softmax"], expected, rtol=1e-4)

in_child(lambda: old.run(data=images), anew, anew)
old.run(data=images)
"""


def run(code: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", HEAD + code], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
def test_what_a_child_starts_anew_runs_on_its_one_thread() -> None:
    assert run(FRESH) == ["ran"] * 7


@pytest.mark.slow
def test_what_was_bound_for_several_threads_is_refused() -> None:
    before, *child, after = run(BOUND)
    assert before == after == "ran ran ran ran ran ran"
    assert [text.startswith("this process was forked") for text in child] == [True] * 4 + [False] * 2
    assert child[4:] == ["ran", "ran"]


@pytest.mark.slow
def test_a_child_of_a_process_without_threads_starts_its_own() -> None:
    assert run(FRESH_PARENT) == ["ran", "ran"]


LOCKED = """
import gc, importlib, pkgutil, sys, tempfile, threading, warnings
import _thread
import tazza
from tazza.db import DBReader, open_db
from tazza.device import Event
from tests.device.host_stream import HostStream
from tazza.errors import TazzaError
from tazza.interop.predictor import SEATS, Predictor
from tazza.operator import operator_def
from tazza.ops.control.mutex import Mutex
from tazza.proto import NetDef
from tazza.runtime import log
from tazza.tensor import CPUPlace, Tensor
from tazza.workspace import Workspace

for found in pkgutil.walk_packages(tazza.__path__, "tazza."):
    if not found.name.endswith("__main__"):
        try:
            importlib.import_module(found.name)
        except (ImportError, TazzaError):
            pass  # an engine that is not here

KINDS = (type(threading.Lock()), type(threading.RLock()))

def locks():
    objects = [one for one in gc.get_objects() if str(type(one).__module__).startswith("tazza")]
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("tazza")]
    for one in (*objects, *modules):
        slots = {name for kind in type(one).__mro__ for name in kind.__dict__.get("__slots__", ())} - {"__weakref__"}
        for name in (*getattr(one, "__dict__", {}), *slots):
            value = getattr(one, name, None)
            if isinstance(value, KINDS):
                yield f"{type(one).__name__}.{name}", value

OPS = [operator_def("Relu", ["x"], ["a"]), operator_def("Tanh", ["x"], ["b"]), operator_def("Sum", ["a", "b"], ["y"])]
ws = Workspace()
x = np.ones((3, 5), "f")
ws.feed("x", x)
nets = {type: ws.create_net(NetDef(name=type, type=type, op=OPS, num_workers=2, external_output=["y"]))
        for type in ("simple", "simple_refcount", "dag", "async_scheduling", "plan")}
for net in nets.values():
    net.run(); net.run()
ws.run_operator(operator_def("CreateMutex", [], ["m"]))
ws.feed("t", np.zeros(1, np.int64))
counting = ws.create_net(NetDef(name="count", op=[operator_def("AtomicIter", ["m", "t"], ["t"])]))
folder = tempfile.mkdtemp()
from tazza.db.base import Mode
readers = []
for kind in ("minidb", "lmdb"):
    with open_db(kind, folder + "/" + kind, Mode.NEW) as db:
        with db.transaction() as transaction:
            transaction.put(b"1", b"v")
    readers.append(DBReader(kind, folder + "/" + kind))
SEATS.set(2)
predictor = Predictor(NetDef(name="p", op=OPS, external_input=["x"], external_output=["y"]))
predictor.run(x=x)

def fresh(type):
    other = Workspace()
    other.feed("x", x)
    net = other.create_net(NetDef(name="fresh", type=type, op=OPS, num_workers=2, external_output=["y"]))
    net.run()
    net.run_async().wait(60)
    net.close()
    return other.fetch("y")

def log_once():
    log.configure()

def told(act):
    try:
        act()
    except TazzaError as error:
        return type(error).__name__
    return "ran"

over, occupied = threading.Event(), threading.Event()
ended = nets["dag"].run_async()
ended.wait(60)
idle, busy = HostStream(CPUPlace(), 0), HostStream(CPUPlace(), 1)
told_before, begun = Event(), Event()
idle.record(told_before)
idle.synchronize()
busy.submit(over.wait)
busy.record(begun)
ws.run_operator(operator_def("CreateMutex", [], ["n"]))
stuck = ws.create_net(NetDef(name="stuck", type="async_scheduling", op=[operator_def("AtomicIter", ["n", "t"], ["t"])]))

def occupy():
    with ws.blob("n").get(Mutex):
        occupied.set()
        over.wait()

threading.Thread(target=occupy, daemon=True).start()
occupied.wait()
pending = stuck.run_async()
while not any(thread.name.startswith("tazza-") for thread in threading.enumerate()):
    pass

acts = {
    **{"run " + type: net.run for type, net in nets.items()},
    **{"async " + type: (lambda net=net: net.run_async().wait(60)) for type, net in nets.items()},
    **{"fresh " + type: (lambda type=type: fresh(type)) for type in nets},
    "log": log_once, "count": counting.run, "predictor": lambda: predictor.run(x=x),
    "read minidb": readers[0].read, "read lmdb": readers[1].read, "feed": lambda: ws.feed("new", x),
    "flag": lambda: NUM_THREADS.set(1), "compile": lambda: ta.run_op("Softmax", np.ones((7, 11), "f"), engine="native"),
    "fetch": lambda: ws.fetch("y"), "tensor": lambda: ta.Tensor.from_numpy(x) + 1,
    "close predictor": predictor.close, "close": nets["dag"].close,
    "result": lambda: pending.result(), "exception": lambda: pending.exception(), "wait": lambda: pending.wait(60),
    "call back": lambda: pending.add_done_callback(print), "cancel": lambda: pending.cancel(),
    "result of before": ended.result, "state": lambda: (pending.done(), pending.running()),
    "synchronize": busy.synchronize, "record": lambda: busy.record(Event()), "query": busy.query,
    "submit": lambda: busy.submit(print), "recover": busy.recover, "event": begun.wait,
    "tell of event": lambda: begun.on_done(print), "event of before": told_before.wait,
    "idle stream": lambda: (idle.submit(gc.isenabled), idle.synchronize()),
    "stuck net": stuck.run, "close stuck net": stuck.close,
}
held, taken = [], threading.Event()

def hold():
    for name, lock in list(locks()):
        if lock.acquire(blocking=False):
            held.append(name)
    predictor._seats.free.clear()
    taken.set()
    over.wait()

gc.collect()
threading.Thread(target=hold, daemon=True).start()
taken.wait()
assert len(held) > 40, held
for name, act in acts.items():
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        os.write(write, told(act).encode())
        os._exit(0)
    os.close(write)
    print(name, "=", os.read(read, 4096).decode(), flush=True)
    os.waitpid(child, 0)
os._exit(0)
"""


@pytest.mark.slow
def test_a_child_never_waits_for_what_another_thread_of_its_parent_held() -> None:
    """Every lock that any object of the package has is held while the process forks, and all seats are in use."""
    told = dict(line.split(" = ") for line in run(LOCKED))
    assert {name for name, how in told.items() if not how} == set(), "it waited for ever"
    assert {name: how for name, how in told.items() if how not in ("ran", "UnavailableError")} == {}
    unhurt = ("log", "count", "feed", "flag", "fetch", "tensor", "result of before", "state", "cancel", "idle stream")
    assert {name for name in (*unhurt, "event of before") if told[name] != "ran"} == set()
    gone = ("result", "exception", "wait", "call back", "synchronize", "record", "query", "submit", "recover", "event")
    assert {name for name in (*gone, "tell of event") if told[name] == "ran"} == set(), "nobody ends it here"


@pytest.mark.slow
def test_a_predictor_that_is_loaded_anew_runs_in_a_child_of_one_that_ran() -> None:
    old, *new = run(NETS)
    assert old.startswith("this process was forked")
    assert new == ["ran", "ran"]
