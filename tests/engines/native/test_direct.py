"""How arrays lie for kernels that are called without a net, and what calls them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tazza.array.program import ElementProgram
from tazza.codegen.kernel import unavailable
from tazza.codegen.term import Lines
from tazza.codegen.vector import Vector
from tazza.engines.native import direct
from tazza.engines.native.direct import kind_along, lane_count, lay_of, native, read, runner, steps_of
from tazza.runtime.native_code import processor
from tazza.tensor import DataType
from tests.launching import kernel_of, pointer_at, run_kernel

compiles = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

Array = NDArray[Any]
F, D, B, I32, I64 = DataType.FLOAT, DataType.DOUBLE, DataType.BOOL, DataType.INT32, DataType.INT64


# -- how arrays lie ----------------------------------------------------------------------------------------------------


@st.composite
def broadcast(draw: st.DrawFn) -> tuple[Array, tuple[int, ...]]:
    """Draw a shape, and an array of any order of axes that broadcasts to it."""
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    own = [draw(st.sampled_from([1, extent])) for extent in shape[draw(st.integers(0, len(shape))) :]]
    axes = draw(st.permutations(range(len(own))))
    array = np.zeros([own[axis] for axis in axes], np.float32).transpose(np.argsort(axes))
    return array, shape


@given(broadcast())
def test_steps_are_those_of_numpy(drawn: tuple[Array, tuple[int, ...]]) -> None:
    """Along axes of one element they are never taken, and count as 0."""
    array, shape = drawn
    right = np.broadcast_to(array, shape).strides
    for step, wanted, extent in zip(steps_of(lay_of(array), shape), right, shape, strict=True):
        assert step == (0 if extent == 1 else wanted)


@pytest.mark.parametrize(("step", "kind"), [(0, "one"), (8, "dense"), (4, "step"), (-8, "step"), (24, "step")])
def test_kinds(step: int, kind: str) -> None:
    assert kind_along(step, 8) == kind


@compiles
@pytest.mark.parametrize("dtype", [F, D, I32, DataType.UINT8])
@pytest.mark.parametrize("step", [None, 3, -1])
def test_elements_are_read_as_they_lie(dtype: DataType, step: int | None) -> None:
    count = 4
    array = np.arange(40, dtype=dtype.numpy)
    source = array[10:] if step is None else array[20::step]
    target = np.zeros(count, dtype.numpy)

    def work(lines: Lines) -> None:
        v = Vector(lines, count, dtype)
        x, y = (pointer_at(lines, word) for word in (1, 2))
        jump = None if step is None else step * dtype.itemsize
        v.store(read(v, x, 2, jump, None), y, 0, None)

    run_kernel(f"direct: {dtype} {step}", work, 1, source.ctypes.data, target.ctypes.data)
    np.testing.assert_array_equal(target, source[2 : 2 + count])


# -- lanes -------------------------------------------------------------------------------------------------------------


def program(operands: tuple[DataType, ...], target: DataType, step: str = "add") -> ElementProgram:
    return ElementProgram(operands, ((step, tuple(range(len(operands)))),), (len(operands),), (target,))


@pytest.mark.parametrize(
    ("given", "bits"),
    [
        (program((F, F), F), 32),
        (program((D, D), D), 64),
        (program((I64, I64), I64), 64),
        (program((D, D), B, "lt"), 64),
        (program((D, D), F), 32),
        (program((F, D), D), 32),
        (program((I32, I32), I64), 32),
    ],
)
def test_lanes_fill_a_register_of_the_numbers_that_move(given: ElementProgram, bits: int) -> None:
    assert lane_count(given) == processor().vector_bytes * 8 // bits


# -- calling -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def counting() -> tuple[int, Array]:
    """Return a kernel that writes how many threads run to each thread's place, and the places."""
    places = np.zeros(4, np.int64)

    def work(lines: Lines) -> None:
        pointer_at(lines, 1).of("i64")[lines.who] = lines.many

    return kernel_of("direct: threads, noted", work), places


@compiles
def test_a_runner_calls_with_its_block(counting: tuple[int, Array]) -> None:
    address, places = counting
    run = runner(address, [2, places.ctypes.data], places)
    assert run.kept is places
    run()
    assert places.tolist() == [2, 2, 0, 0]
    assert native(address) is native(address), "one caller for each kernel"


@compiles
def test_threads_that_were_lost_in_a_fork_are_not_waited_for(
    counting: tuple[int, Array], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Process:
        lost = True

    address, places = counting
    run = runner(address, [3, places.ctypes.data], places)
    monkeypatch.setattr(direct, "PROCESS", Process())
    run()
    assert places.tolist() == [1, 0, 0, 0]


@compiles
@pytest.mark.parametrize(("threads", "noted"), [(1, 0), (2, 1)])
def test_threads_are_noted_once(
    counting: tuple[int, Array], threads: int, noted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the runner is made, not at each call."""
    address, places = counting
    notes: list[int] = []
    monkeypatch.setattr(direct, "note_threads", lambda: notes.append(1))
    run = runner(address, [threads, places.ctypes.data], places)
    run()
    run()
    assert len(notes) == noted
