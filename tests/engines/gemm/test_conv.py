"""Convolution by matrix products: every way to make columns, 1x1 without columns, and the shared column buffer."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.device import current_context
from tazza.engines.gemm.conv import Sizes, describe
from tazza.engines.gemm.memory import BUFFER, MUTEX
from tazza.errors import BlobTypeError
from tazza.operator import LocalBlobs, Operator, find_schema, operator_def, run_op
from tazza.ops.control.mutex import Mutex
from tazza.ops.nn.conv import FORCE_SHARED_BUFFER
from tazza.tensor import CPUPlace, DataType, Tensor, TensorSpec
from tazza.workspace import Workspace
from tests.check import Case, check_op
from tests.ops.nn.test_conv import channels_last, convolve, values

Array = NDArray[Any]

CASES = [
    Case(
        "Conv",
        [values(2, 4, 9, 8), values(6, 2, 3, 2), values(6)],
        convolve(strides=[2, 1], dilations=[1, 3], group=2),
        {"kernels": [3, 2], "strides": [2, 1], "dilations": [1, 3], "group": 2},
        id="copy",
    ),
    Case(
        "Conv",
        [values(2, 9, 8, 4), values(6, 3, 2, 2), values(6)],
        channels_last(convolve(strides=[2, 1], dilations=[1, 3], group=2)),
        {"kernels": [3, 2], "strides": [2, 1], "dilations": [1, 3], "group": 2, "order": "NHWC"},
        id="copy-nhwc",
    ),
    Case(
        "Conv",
        [values(2, 3, 7, 6), values(5, 3, 3, 2)],
        convolve(pads=[0, 2, 0, 0]),
        {"kernels": [3, 2], "pads": [0, 2, 0, 0]},
        batched=(0,),
        id="one side padded",
    ),
    Case(
        "Conv",
        [values(2, 9, 8, 4), values(6, 3, 2, 2), values(6)],
        channels_last(convolve(pads=[1, 0, 2, 3], strides=[2, 3], dilations=[2, 1], group=2)),
        {
            "kernels": [3, 2],
            "strides": [2, 3],
            "dilations": [2, 1],
            "pads": [1, 0, 2, 3],
            "group": 2,
            "order": "NHWC",
        },
        batched=(0,),
        id="general-nhwc",
    ),
    Case(
        "Conv",
        [values(2, 3, 9, 8), values(5, 3, 2, 3)],
        convolve(strides=[3, 2], dilations=[1, 2]),
        {"kernels": [2, 3], "strides": [3, 2], "dilations": [1, 2]},
        id="stride over kernel",
    ),
    Case(
        "Conv1D",
        [values(2, 3, 6), values(5, 3, 1), values(5)],
        lambda X, W, b: convolve(strides=[4])(X[..., :5], W, b),  # pyright: ignore[reportUnknownLambdaType] -- Case.expected is Any
        {"kernels": [1], "strides": [4], "legacy_pad": 2},
        id="negative pad",
    ),
    Case(
        "Conv1D",
        [values(2, 8, 6), values(4, 3, 3), values(4)],
        channels_last(convolve(pads=[2, 1], strides=[2], group=2)),
        {"kernels": [3], "pads": [2, 1], "strides": [2], "group": 2, "order": "NHWC"},
        id="1d-nhwc",
    ),
    Case(
        "Conv3D",
        [values(2, 5, 4, 6, 4), values(6, 2, 3, 2, 2), values(6)],
        channels_last(convolve(pads=[1, 0, 1, 0, 1, 1], strides=[1, 1, 2], dilations=[1, 1, 2], group=2)),
        {
            "kernels": [2, 3, 2],
            "pads": [1, 0, 1, 0, 1, 1],
            "strides": [1, 1, 2],
            "dilations": [1, 1, 2],
            "group": 2,
            "order": "NHWC",
        },
        slack=4,
        id="3d-nhwc",
    ),
    Case(
        "Conv",
        [values(2, 2, 4, 3, 3, 5), values(3, 2, 2, 1, 2, 3), values(3)],
        convolve(pads=[0, 0, 0, 1, 1, 0, 0, 0], strides=[1, 2, 1, 1], dilations=[2, 1, 1, 1]),
        {"kernels": [2, 1, 2, 3], "pads": [0, 0, 0, 1, 1, 0, 0, 0], "strides": [1, 2, 1, 1], "dilations": [2, 1, 1, 1]},
        slack=4,
        id="4d",
    ),
    Case(
        "Conv",
        [values(3, 5, 7, 4), values(6, 1, 1, 2), values(6)],
        channels_last(convolve(group=2)),
        {"kernel": 1, "group": 2, "order": "NHWC"},
        batched=(0,),
        id="1x1-nhwc-groups",
    ),
    Case(
        "Conv",
        [values(2, 3, 6, 5), values(4, 3, 1, 1), values(4)],
        convolve(pads=[0, 1, 0, 1], strides=[2, 1]),
        {"kernel": 1, "strides": [2, 1], "pads": [0, 1, 0, 1]},
        id="1x1 with stride and pad",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_conv(case: Case) -> None:
    check_op(case, "gemm")


@pytest.mark.parametrize(
    ("args", "columns", "stage"),
    [
        ({"kernel": 3}, True, False),
        ({"kernel": 3, "dilation": 2, "stride": 2}, True, False),
        ({"kernel": 3, "pad": 1}, True, True),
        ({"kernel": 3, "pad_t": 0, "pad_l": 0, "pad_b": 0, "pad_r": 1}, True, True),
        ({"kernel": 1, "dilation": 2}, False, False),
        ({"kernel": 1, "stride": 2}, True, False),
        ({"kernel": 1, "pad": 1}, True, True),
    ],
)
def test_columns_and_padding_are_made_only_where_needed(args: dict[str, Any], columns: bool, stage: bool) -> None:
    k = args["kernel"]
    op = find_schema("Conv").view(operator_def("Conv", ["X", "W"], ["Y"], **args))
    sizes = describe(op, TensorSpec((2, 4, 9, 8), DataType.FLOAT), TensorSpec((6, 4, k, k), DataType.FLOAT))
    assert isinstance(sizes, Sizes)
    assert (sizes.columns is not None) == columns
    assert (sizes.columns is not None and sizes.columns.stage_shape is not None) == stage


def test_other_strides_are_reordered() -> None:
    blobs = LocalBlobs()
    rows = values(2, 7, 6, 3)
    X, W = Tensor.from_numpy(rows).view((2, 3, 7, 6), strides=(126, 1, 18, 3)), values(5, 3, 3, 2)
    blobs.create_blob("X").set(X)
    blobs.create_blob("W").set(Tensor.from_numpy(W))
    operator = Operator(operator_def("Conv", ["X", "W"], ["Y"], engine="gemm", kernels=[3, 2]), blobs)
    operator.run()
    assert operator.choices[-1].engine == "gemm"
    expected = run_op("Conv", np.moveaxis(rows, -1, 1), W, kernels=[3, 2], engine="reference")
    np.testing.assert_allclose(blobs.blobs["Y"].tensor().plain(), expected, rtol=1e-5, atol=1e-5)


def test_memory_of_before_is_no_padding() -> None:
    """Padding lies in scratch memory that other operators wrote to."""
    current_context(CPUPlace()).scratch(1 << 14).buffer.fill(255)
    X, W = values(2, 3, 5, 6), values(4, 3, 3, 3)
    Y = run_op("Conv", X, W, kernel=3, pad=2, engine="gemm")
    assert np.isfinite(Y).all()
    dW, dX = run_op("ConvGradient", X, W, Y, kernel=3, pad=2, no_bias=1, outputs=2, engine="gemm")
    assert np.isfinite(dW).all()
    assert np.isfinite(dX).all()


# -- the shared column buffer (behaviours.md row 29) -------------------------------------------------------------------


def workspace_of(X: Array, W: Array) -> Workspace:
    """Return a workspace with the inputs X and W."""
    workspace = Workspace()
    workspace.feed("X", X)
    workspace.feed("W", W)
    return workspace


def shared(workspace: Workspace, type: str = "Conv", output: str = "Y", **args: Any) -> Operator:
    """Return an operator on X and W of the workspace that shares the buffer."""
    definition = operator_def(type, ["X", "W"], [output], engine="gemm", shared_buffer=1, **args)
    return Operator(definition, workspace)


def buffers(workspace: Workspace) -> list[str]:
    """Return the names of the blobs that belong to the buffer."""
    return [name for name in workspace.blob_names() if "SHARED_CONV_BUFFER" in name]


@pytest.mark.parametrize(
    ("order", "X", "W", "args", "shape"),
    [
        ("NCHW", values(2, 3, 4, 5), values(2, 3, 3, 2), {"kernels": [3, 2]}, (18, 2, 4)),
        ("NHWC", values(2, 4, 5, 3), values(2, 3, 2, 3), {"kernels": [3, 2]}, (2, 4, 18)),
        ("NCHW", values(2, 4, 4, 5), values(2, 2, 3, 2), {"kernels": [3, 2], "group": 2}, (24, 2, 4)),
        ("NCHW", values(2, 3, 4, 5, 6), values(2, 3, 3, 2, 4), {"kernels": [3, 2, 4]}, (72, 2, 4, 3)),
    ],
)
def test_the_operator_makes_the_buffer_itself(
    order: str, X: Array, W: Array, args: dict[str, Any], shape: tuple[int, ...]
) -> None:
    workspace = workspace_of(X, W)
    operator = shared(workspace, order=order, **args)
    assert buffers(workspace) == [MUTEX, BUFFER]
    assert b"nullptr (uninitialized)" in workspace.fetch(BUFFER)
    assert workspace.fetch(MUTEX).endswith(b"a C++ native class of type std::unique_ptr<std::mutex>.")
    operator.run()
    assert workspace.fetch(BUFFER).shape == shape
    np.testing.assert_array_equal(workspace.fetch("Y"), run_op("Conv", X, W, order=order, engine="gemm", **args))


def test_without_columns_the_buffer_stays_empty() -> None:
    workspace = workspace_of(values(2, 3, 4, 5), values(2, 3, 1, 1))
    shared(workspace, kernel=1).run()
    assert buffers(workspace) == [MUTEX, BUFFER]
    assert workspace.blob(BUFFER).is_empty


def test_the_gradient_does_not_share() -> None:
    workspace = workspace_of(values(2, 3, 4, 5), values(2, 3, 3, 2))
    workspace.feed("dY", values(2, 2, 2, 4))
    definition = operator_def(
        "ConvGradient", ["X", "W", "dY"], ["dW", "dX"], kernels=[3, 2], no_bias=1, shared_buffer=1
    )
    workspace.run_operator(definition)
    assert buffers(workspace) == []


def test_the_flag_makes_everybody_share() -> None:
    workspace = workspace_of(values(2, 3, 4, 5), values(2, 3, 3, 2))
    with FORCE_SHARED_BUFFER.override(True):
        workspace.run_operator(operator_def("Conv", ["X", "W"], ["Y"], engine="gemm", kernels=[3, 2], shared_buffer=0))
    assert buffers(workspace) == [MUTEX, BUFFER]
    assert workspace.fetch(BUFFER).shape == (18, 2, 4)


def test_the_flag_may_change_between_making_and_running() -> None:
    workspace = workspace_of(values(2, 3, 4, 5), values(2, 3, 3, 2))
    operator = Operator(operator_def("Conv", ["X", "W"], ["Y"], engine="gemm", kernels=[3, 2]), workspace)
    with FORCE_SHARED_BUFFER.override(True):
        operator.run()
    assert workspace.fetch(BUFFER).shape == (18, 2, 4)


def test_operators_of_different_sizes_take_turns() -> None:
    """The buffer grows when the larger one runs; the smaller one finds it again wherever it is."""
    X, W, U = values(2, 3, 6, 5), values(4, 3, 2, 2), values(4, 3, 3, 4)
    workspace = workspace_of(X, W)
    small = shared(workspace, kernel=2)
    workspace.feed("W", W)
    workspace.feed("U", U)
    definition = operator_def("Conv", ["X", "U"], ["Z"], engine="gemm", kernels=[3, 4], pad=3, shared_buffer=1)
    large = Operator(definition, workspace)
    wanted = {
        "Y": run_op("Conv", X, W, kernel=2, engine="gemm"),
        "Z": run_op("Conv", X, U, kernels=[3, 4], pad=3, engine="gemm"),
    }
    for operator, name, shape in [(small, "Y", (12, 5, 4)), (large, "Z", (36, 10, 8)), (small, "Y", (12, 5, 4))]:
        operator.run()
        assert workspace.fetch(BUFFER).shape == shape
        np.testing.assert_array_equal(workspace.fetch(name), wanted[name])


class CountingMutex(Mutex):
    """Counts who came in."""

    def __init__(self) -> None:
        """Nobody came yet."""
        super().__init__()
        self.entered = 0
        enter = self.__enter__

        def count() -> bool:
            self.entered += 1
            return enter()

        self.__enter__ = count


def test_a_run_holds_the_mutex() -> None:
    workspace = workspace_of(values(2, 3, 4, 5), values(2, 3, 3, 2))
    mutex = CountingMutex()
    workspace.create_blob(MUTEX).set(mutex)
    operator, done = shared(workspace, kernels=[3, 2]), Event()

    def run() -> None:
        operator.run()
        done.set()

    thread = Thread(target=run)
    with mutex:
        thread.start()
        assert not done.wait(0.02)
    thread.join()
    assert done.is_set()
    assert mutex.entered == 2
    assert not mutex.held


def test_a_failing_run_leaves_the_mutex() -> None:
    workspace = workspace_of(values(2, 3, 4, 5), values(2, 3, 3, 2))
    operator = shared(workspace, kernels=[3, 2])
    workspace.blob(BUFFER).set("text")
    with pytest.raises(BlobTypeError, match="wanted caffe2::Tensor"):
        operator.run()
    assert not workspace.blob(MUTEX).get(Mutex).held


def test_a_blob_that_is_no_mutex_is_refused() -> None:
    workspace = workspace_of(values(2, 3, 4, 5), values(2, 3, 3, 2))
    workspace.feed(MUTEX, "text")
    with pytest.raises(BlobTypeError, match=r"holds std::string, wanted std::unique_ptr<std::mutex>"):
        shared(workspace, kernels=[3, 2])


def test_threads_share_one_buffer() -> None:
    """Two operators of different sizes run at the same time, again and again; nobody sees the other's columns."""
    X, W = values(2, 3, 9, 8), values(4, 3, 3, 2)
    workspace = workspace_of(X, W)
    plain: dict[str, Any] = {"kernels": [3, 2]}
    padded: dict[str, Any] = plain | {"pad": 2}
    operators = [shared(workspace, output="Y", **plain), shared(workspace, output="Z", **padded)]
    wanted = [run_op("Conv", X, W, engine="gemm", **args) for args in (plain, padded)]

    def repeat(index: int) -> bool:
        right = True
        for _ in range(50):
            operators[index].run()
            right = right and np.array_equal(workspace.fetch("YZ"[index]), wanted[index])
        return right

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(repeat, range(2))) == [True, True]


def test_a_child_workspace_uses_its_parents_buffer() -> None:
    parent = workspace_of(values(2, 3, 4, 5), values(2, 3, 3, 2))
    shared(parent, kernels=[3, 2])
    child = Workspace(parent=parent)
    shared(child, output="Z", kernels=[3, 2]).run()
    assert child.local_blobs() == ["Z"]
    assert not parent.blob(BUFFER).is_empty
