"""Reductions in one loop against NumPy: along any axes of arrays that lie anyhow, in parts, on any threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tazza.array.evaluator import Sweep
from tazza.array.program import REDUCTIONS, ElementProgram, reduced_type
from tazza.codegen.kernel import unavailable
from tazza.engines.native import reduction
from tazza.engines.native.reduction import Form, prepare_reduction
from tazza.runtime.threads import NUM_THREADS
from tazza.tensor import DataType

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

Array = NDArray[Any]
F, D, I32 = DataType.FLOAT, DataType.DOUBLE, DataType.INT32
NUMPY: dict[str, Any] = {name: getattr(np, name) for name in REDUCTIONS}


def task(name: str, sources: Sequence[Array], axes: tuple[int, ...], square: bool = False) -> Sweep:
    """Return the reduction of a0, of a0 * a0, or of a0 * a1, with a target that is full of something else."""
    shape: tuple[int, ...] = np.broadcast_shapes(*(one.shape for one in sources))
    types = tuple(DataType.of(one.dtype) for one in sources)
    last = len(types) if square or len(types) > 1 else 0
    steps = (("mul", (0, len(types) - 1)),) if last else ()
    target = reduced_type(name, DataType.of(sources[0].dtype))
    program = ElementProgram(types, steps, (last,), (target,), name)
    dims = [1 if axis in axes else extent for axis, extent in enumerate(shape)]
    return Sweep(program, shape, tuple(sources), (np.full(dims, 77, target.numpy),), axes)


def found(given: Sweep) -> Array:
    prepare_reduction(given).run()
    return given.targets[0]


def expected(given: Sweep) -> Array:
    name, (first, *more) = given.program.reduction, given.sources
    exact = first.astype(float) if given.program.operands[0].is_float else first
    values = exact * (more[0] if more else exact) if given.program.steps else exact
    return NUMPY[name](np.broadcast_to(values, given.shape), axis=given.axes, keepdims=True)


@st.composite
def sweeps(draw: st.DrawFn) -> Sweep:
    """Draw a reduction of whole numbers, which are exact, of an array whose axes lie in any order."""
    shape = draw(st.lists(st.integers(1, 20), min_size=1, max_size=3))
    order = draw(st.permutations(range(len(shape))))
    memory = np.random.default_rng(len(shape)).integers(-3, 4, [2 * shape[axis] for axis in order])
    every = tuple(slice(None, None, draw(st.sampled_from([2, -2]))) for _ in shape)
    dtype = draw(st.sampled_from([np.float32, np.float64, np.int32, np.bool_]))
    array = memory.astype(dtype)[every].transpose(np.argsort(order))
    axes = draw(st.lists(st.sampled_from(range(len(shape))), min_size=1, unique=True).map(sorted))
    whole = ["sum", "max", "min", "any", "all", "mean"]
    name = draw(st.sampled_from(whole if dtype is not np.bool_ else ["any", "all"]))
    if name in ("any", "all"):
        array = array != 0
    return task(name, (array,), tuple(axes))


@pytest.mark.slow
@settings(max_examples=25)
@given(sweeps())
def test_any_axes_of_what_lies_anyhow(given: Sweep) -> None:
    np.testing.assert_allclose(found(given), expected(given), rtol=1e-6)


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 2), (0, 1, 2)])
def test_every_reduction(name: str, axes: tuple[int, ...]) -> None:
    array = np.random.default_rng(1).standard_normal((3, 5, 37)).astype(np.float32) * 0.5 + 1
    given = task(name, (array > 0.3,) if name in ("any", "all") else (array,), axes)
    np.testing.assert_allclose(found(given), expected(given), rtol=2e-6)


def test_what_is_reduced_is_computed_in_the_same_loop() -> None:
    """And one operand is repeated along the axis that is reduced, another along the one that is kept."""
    random = np.random.default_rng(2)
    a, b = random.standard_normal((7, 1)).astype(np.float32), random.standard_normal((1, 43)).astype(np.float32)
    for axes in ((0,), (1,), (0, 1)):
        given = task("sum", (a, b), axes)
        np.testing.assert_allclose(found(given), expected(given), rtol=1e-5, atol=1e-5)


def test_targets_with_steps() -> None:
    array = np.arange(7 * 40, dtype=np.float32).reshape(7, 40)
    memory = np.full((1, 120), -1, np.float32)
    given = task("sum", (array,), (0,))._replace(targets=(memory[:, ::3],))
    prepare_reduction(given).run()
    np.testing.assert_array_equal(memory[0, ::3], array.sum(0))
    assert (memory[0, 1::3] == -1).all()


@pytest.mark.parametrize("chunk", [50, 400])
@pytest.mark.parametrize("name", ["sum", "mean", "prod", "max"])
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
def test_parts_are_joined(name: str, axes: tuple[int, ...], chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With parts of few elements there are many of each item; half precision is kept in float32 between them."""
    monkeypatch.setattr(reduction, "CHUNK", chunk)
    random = np.random.default_rng(3)
    for dtype in (np.float32, np.float16, np.float64):
        array = (1 + random.standard_normal((11, 90)) / 50).astype(dtype)
        given = task(name, (array,), axes)
        assert "chunks each" in prepare_reduction(given).kernel
        rtol = 2e-3 if dtype is np.float16 else 1e-5
        np.testing.assert_allclose(found(given), expected(given), rtol=rtol)


def all_threads(most: int, *of: float) -> int:
    """Return the most threads, whatever there is to do."""
    del of
    return most


@pytest.mark.slow
def test_results_do_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reduction, "CHUNK", 100)
    monkeypatch.setattr(reduction, "threads_for", all_threads)
    array = np.random.default_rng(4).standard_normal((13, 700)).astype(np.float32)
    for axes in ((0,), (1,), (0, 1)):
        results: list[Array] = []
        for threads in (1, 2, 3):
            with NUM_THREADS.override(threads):
                given = task("sum", (array,), axes, square=True)
                assert f"on {threads} threads" in prepare_reduction(given).kernel
                results.append(found(given))
        for one in results[1:]:
            np.testing.assert_array_equal(one, results[0])


@pytest.mark.parametrize(("name", "value"), [("sum", 0), ("prod", 1), ("any", False), ("all", True)])
def test_reductions_of_nothing(name: str, value: float) -> None:
    array = np.zeros((5, 0), bool if name in ("any", "all") else np.float32)
    np.testing.assert_array_equal(found(task(name, (array,), (1,))), np.full((5, 1), value))


def test_kernels_are_kept_by_form() -> None:
    """Another extent takes the same kernel, another reduction or way to lie none of these."""
    wide = np.ones((9, 53), np.float32)
    prepare_reduction(task("sum", (wide,), (1,)))
    assert prepare_reduction(task("sum", (np.ones((4, 71), np.float32),), (1,))).cached
    assert prepare_reduction(task("sum", (wide[:, ::2],), (1,))).run is not None
    forms = {
        Form(ElementProgram((dtype,), (), (0,), (F,), name), (kind, "one"), kept, 1, row, F, end).text
        for dtype in (F, D)
        for name in ("sum", "max")
        for kind in ("dense", "step")
        for kept in (0, 1)
        for row in (False, True)
        for end in (False, True)
    }
    assert len(forms) == 64
