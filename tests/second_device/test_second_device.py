"""Operators, copies, host work and plans on a device whose memory the host cannot read."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tazza.device import current_context, device_option
from tazza.errors import PlaceError, TazzaError, UnsupportedError
from tazza.graph.text import parse_net
from tazza.nets import create_net
from tazza.operator import operator_def, run_op
from tazza.proto import NetDef
from tazza.tensor import CPUPlace, CUDAPlace, Tensor
from tazza.tensor.transfer import to_place
from tazza.workspace import Workspace
from tests.check import Case, check_op
from tests.ops.control import test_blobs_queue, test_counter
from tests.ops.nn import test_fc, test_relu
from tests.ops.reduce import test_reduce
from tests.ops.shape import test_copy
from tests.second_device.device import ENGINE, MEMORY, second_device
from tests.sequences import Sequence

HERE = CUDAPlace(0)
X = np.array([[-1.5, 0.25, 3.0], [2.0, -0.5, -4.0]], np.float32)
TYPES = ("simple", "dag", "async_scheduling", "simple_refcount", "plan")

FAMILIES = [*test_relu.CASES, *test_fc.CASES, *test_reduce.CASES]
COPIES = [case for case in test_copy.CASES if case.inputs[0].dtype != object and case.type != "StopGradient"]


@pytest.fixture(autouse=True)
def device() -> Generator[None]:
    """Have the second device."""
    with second_device():
        yield


def _named(case: Case) -> str:
    return f"{case.type} {case.id}"


@pytest.mark.parametrize("case", FAMILIES, ids=_named)
def test_families_run_there(case: Case) -> None:
    check_op(case, ENGINE, HERE)


@pytest.mark.parametrize("case", COPIES, ids=_named)
def test_copies_run_there(case: Case) -> None:
    check_op(case, "reference", HERE)


@pytest.mark.parametrize("case", [*test_counter.CASES, *test_blobs_queue.CASES], ids=lambda case: case.id)
def test_work_of_the_host_runs_there(case: Sequence) -> None:
    check_op(case, place=HERE)


# -- memory ------------------------------------------------------------------------------------------------------------


def test_the_host_gets_no_view_of_it() -> None:
    there = to_place(Tensor.from_numpy(X), HERE)
    for look in (there.numpy, lambda: there.array, lambda: there.storage.allocation.buffer):  # pyright: ignore[reportOptionalMemberAccess] -- it has memory
        with pytest.raises(UnsupportedError, match="not memory that the CPU reads"):
            look()
    with pytest.raises((TazzaError, AttributeError)):
        np.from_dlpack(there)  # pyright: ignore[reportArgumentType] -- that is what is refused
    np.testing.assert_array_equal(there.plain(), X)  # a copy
    np.testing.assert_array_equal(to_place(there, "cpu").numpy(), X)


def test_an_operator_without_a_net_leaves_what_it_is_given() -> None:
    """One that must overwrite gets a copy on the device; arrays of the host do not go there by themselves."""
    numbers = [X, 2 * X, np.array([0.5], np.float32), 3 * X]
    given = [to_place(Tensor.from_numpy(one), HERE) for one in numbers]
    where: dict[str, Any] = {"outputs": 3, "device": device_option(HERE), "momentum": 0.5}
    found = run_op("MomentumSGDUpdate", *given, **where)
    wanted = run_op("MomentumSGDUpdate", *numbers, outputs=3, momentum=0.5)
    for one, expected in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(one), expected)
    for one, before in zip(given, numbers, strict=True):
        np.testing.assert_array_equal(one.plain(), before)
    with pytest.raises(PlaceError, match="lies at cpu, but is read at cuda:0"):
        run_op("MomentumSGDUpdate", *numbers, **where)


def test_what_is_assigned_goes_there() -> None:
    there = Tensor((2,), place=HERE)
    there.assign(X)
    assert there.place == HERE
    np.testing.assert_array_equal(there.plain(), X)


@pytest.mark.slow
def test_it_is_open_while_work_runs_and_never_else() -> None:
    there = to_place(Tensor.from_numpy(X), HERE)
    span = there.storage.allocation
    assert span is not None
    with MEMORY.opened([span]):
        first = ctypes.c_float.from_address(there.address).value
    assert first == X[0, 0]
    code = (
        "import ctypes\n"
        "from tests.second_device.device import MEMORY\n"
        "mapping, address = MEMORY.take(100)\n"
        "ctypes.c_float.from_address(address).value\n"
    )
    root = Path(__file__).parent.parent.parent
    ended = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, check=False)
    assert ended.returncode == -signal.SIGSEGV


# -- places ------------------------------------------------------------------------------------------------------------


def test_a_blob_of_another_place_is_an_error_that_names_both_and_the_copy() -> None:
    workspace = Workspace()
    workspace.feed("x", X)
    there = device_option(HERE)
    relu = operator_def("Relu", ["x"], ["y"], device=there)
    with pytest.raises(PlaceError, match=r"Relu reads X = 'x', which lies at cpu, but is read at cuda:0") as caught:
        workspace.run_operator(relu)
    assert "CopyFromCPUInput with the device option of cuda:0" in str(caught.value)
    workspace.run_operator(operator_def("CopyFromCPUInput", ["x"], ["x there"], device=there))
    with pytest.raises(PlaceError, match=r"lies at cuda:0, but is read at cpu(?s:.)*EnsureCPUOutput .* of cuda:0"):
        workspace.run_operator(operator_def("Relu", ["x there"], ["y"]))
    other = device_option(CUDAPlace(1))
    with pytest.raises(PlaceError, match=r"lies at cuda:0, but is read at cuda:1(?s:.)*Copy with .* of cuda:1"):
        workspace.run_operator(operator_def("Relu", ["x there"], ["y"], device=other))
    workspace.run_operator(operator_def("Relu", ["x there"], ["y"], device=there))
    np.testing.assert_array_equal(workspace.fetch("y"), np.maximum(X, 0))


def test_a_blob_that_moves_is_noticed() -> None:
    workspace = Workspace()
    workspace.blobs["x"] = workspace.create_blob("x")
    workspace.blobs["x"].set(to_place(Tensor.from_numpy(X), HERE))
    net = NetDef(name="moving", op=[operator_def("Relu", ["x"], ["y"], device=device_option(HERE))])
    made = create_net(net, workspace)
    made.run()
    workspace.blobs["x"].set(Tensor.from_numpy(X))
    with pytest.raises(PlaceError, match="lies at cpu"):
        made.run()
    made.close()


def test_what_is_on_the_host_by_the_schema_stays_there() -> None:
    """The shape that Reshape reads, the iteration that LearningRate reads."""
    workspace = Workspace()
    workspace.feed("shape", np.array([3, 2]))
    workspace.feed("x", X)
    there = device_option(HERE)
    for op in (
        operator_def("CopyFromCPUInput", ["x"], ["t"], device=there),
        operator_def("Iter", [], ["iter"], device=there),
        operator_def("LearningRate", ["iter"], ["lr"], device=there, base_lr=0.5, policy="fixed"),
    ):
        workspace.run_operator(op)
    assert [workspace.blob(name).tensor().place for name in ("iter", "lr", "t")] == [CPUPlace(), HERE, HERE]
    assert workspace.fetch("lr") == 0.5
    blob = workspace.blob("iter")
    blob.set(to_place(blob.tensor(), HERE))
    with pytest.raises(PlaceError, match="LearningRate reads t = 'iter', which lies at cuda:0, but is read at cpu"):
        workspace.run_operator(
            operator_def("LearningRate", ["iter"], ["lr"], device=there, base_lr=0.5, policy="fixed")
        )


def test_host_work_runs_wherever_its_operator_stands(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    workspace = Workspace(root=tmp_path)
    workspace.feed("x", X)
    there = device_option(HERE)
    for op in (
        operator_def("CopyFromCPUInput", ["x"], ["t"], device=there),
        operator_def("Print", ["t"], [], device=there),
        operator_def("Summarize", ["t"], ["s"], device=there),
        operator_def("Save", ["t"], [], device=there, db="t.minidb", db_type="minidb", absolute_path=0),
    ):
        workspace.run_operator(op)
    assert "Tensor t of type float. Dims: (2,3,): -1.5,0.25,3,2,-0.5,-4" in capsys.readouterr().out
    assert workspace.blob("s").tensor().place == HERE
    np.testing.assert_array_equal(workspace.fetch("s"), run_op("Summarize", X, outputs=1))
    assert (tmp_path / "t.minidb").exists()


# -- nets --------------------------------------------------------------------------------------------------------------

LINES = (
    "net: there",
    "in: x, w, b",
    "out: y, total",
    "h = FC(t, v, c)",
    "h = Relu(h)",
    "s = Sigmoid(h)",
    "m = Mul(h, s)",
    "r = ReduceSum(m; axes=[1], keepdims=0)",
)


def _net(type: str) -> NetDef:
    """Return copies to the device, work there, and copies back; Relu in place, so that hazards matter."""
    net = parse_net(*LINES)
    there = device_option(HERE)
    ins = [operator_def("CopyFromCPUInput", [x], [y]) for x, y in (("x", "t"), ("w", "v"), ("b", "c"))]
    outs = [operator_def("EnsureCPUOutput", [x], [y]) for x, y in (("m", "y"), ("r", "total"))]
    ops = [*ins, *net.op, *outs]
    del net.op[:]
    net.op.extend(ops)
    net.type, net.num_workers = type, 2
    net.device_option.CopyFrom(there)
    return net


@pytest.mark.parametrize("type", TYPES)
def test_nets_run_there(type: str) -> None:
    random = np.random.default_rng(3)
    w, b = random.standard_normal((5, 3)).astype(np.float32), random.standard_normal(5).astype(np.float32)
    workspace = Workspace()
    for name, value in (("x", X), ("w", w), ("b", b)):
        workspace.feed(name, value)
    net = create_net(_net(type), workspace)
    for scale in (1, 2, 3):
        x = np.tile(X, (scale, 1)) * np.float32(scale)  # another batch each time
        workspace.feed("x", x)
        for _ in range(3):
            net.run()
        h = np.maximum(x @ w.T + b, 0).astype(np.float64)
        wanted = h / (1 + np.exp(-h))
        np.testing.assert_allclose(workspace.fetch("y"), wanted, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(workspace.fetch("total"), wanted.sum(1), rtol=1e-5, atol=1e-5)
    if type == "plan":
        taken = {row.engine for row in net.explain().rows}
        assert taken == {ENGINE, "reference"}, "the copies, and one compiled region"
    net.close()


def test_a_plan_says_that_its_input_lies_elsewhere() -> None:
    workspace = Workspace()
    workspace.feed("x", X)
    net = NetDef(name="n", type="plan", op=[operator_def("Relu", ["x"], ["y"], device=device_option(HERE))])
    made = create_net(net, workspace)
    with pytest.raises(PlaceError, match=r"Relu reads X = 'x', which lies at cpu, but is read at cuda:0"):
        made.run()
    made.close()


def test_what_fails_there_is_told_by_who_waits() -> None:
    """A launch queues; what went wrong is said where its work is waited for, and forgotten then."""
    context = current_context(HERE)
    assert context.stream is not None

    def fail() -> Any:
        raise ZeroDivisionError("on the device")

    context.stream.submit(fail)
    with pytest.raises(ZeroDivisionError, match="on the device"):
        context.wait()
    np.testing.assert_array_equal(to_place(Tensor.from_numpy(X), HERE).plain(), X)
