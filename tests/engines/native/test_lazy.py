"""Compiled lazy expressions against the evaluator in NumPy: functions, types, strides, reductions, which kernels."""

from __future__ import annotations

import itertools
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tazza.array.deferred import Lazy, apply, bind, evaluate, lazy
from tazza.codegen.kernel import unavailable
from tazza.codegen.typed_function import unsupported
from tazza.engines.native import lazy as jit_lazy
from tazza.engines.native import reduction as jit_reduction
from tazza.errors import UnsupportedError
from tazza.tensor import DataType, Tensor
from tazza.tensor.function import CASTS, FUNCTIONS, signature
from tazza.tensor.promotion import kind_of

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

TYPES = [dtype for dtype in DataType if dtype is not DataType.STRING]
Array = NDArray[Any]


def numbers(dtype: DataType, count: int, seed: int) -> Array:
    """Return numbers of all sizes, and special ones."""
    random = np.random.default_rng(seed)
    if kind_of(dtype) == 0:
        return random.integers(0, 2, count).astype(bool)
    if kind_of(dtype) == 1:
        edge = np.iinfo(dtype.numpy)
        drawn = random.integers(max(edge.min, -9), 10, count).astype(dtype.numpy)
        drawn[:4] = [edge.min, edge.max, 0, 1]
        return drawn
    drawn = random.standard_normal(count) * np.exp(random.uniform(-4, 4, count))
    drawn[:7] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0]
    return drawn.astype(dtype.numpy)


def everything(dtype: DataType, count: int) -> list[tuple[str, Lazy]]:
    """Return every function that is compiled for a type, applied to operands of it."""
    operands = [lazy(numbers(dtype, count, seed)[seed : count - 3 + seed]) for seed in range(3)]
    found: list[tuple[str, Lazy]] = []
    for name, function in FUNCTIONS.items():
        first = [operands[0] > operands[1]] if name == "where" else []
        given = [*first, *operands[: function.arity - len(first)]]
        try:
            wanted, _ = signature(name, tuple(one.dtype for one in given))
        except TypeError:
            continue
        if unsupported(name, wanted) is None:
            found.append((name, apply(name, *given)))
    return found


FEW_DIGITS = {DataType.FLOAT: 2e-6, DataType.DOUBLE: 2e-13, DataType.FLOAT16: 1e-3, DataType.BFLOAT16: 8e-3}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_functions_give_what_they_give_in_numpy(dtype: DataType) -> None:
    count = 45  # whole vectors and a rest, whatever their width
    cases = everything(dtype, count)
    casts = [(name, one) for name, one in cases if name in CASTS]
    cases = [pair for pair in cases if pair not in casts]
    if dtype.is_float:  # what does not fit an integer is any
        x = lazy(np.arange(-20, 22).astype(dtype.numpy) / dtype.numpy.type(2))
        casts = [(name, x.cast(name)) for name, _ in casts if not name.startswith("uint")]
    assert len(cases) + len(casts) >= 20
    for start in range(0, len(cases), 24):
        compare([*cases[start : start + 24]])
    compare(casts)


def compare(cases: list[tuple[str, Lazy]]) -> None:
    """Evaluate expressions in one kernel, and in NumPy."""
    compiled = evaluate([one for _, one in cases], evaluator="native")
    judged = evaluate([one for _, one in cases], evaluator="numpy")
    for (name, _), found, expected in zip(cases, compiled, judged, strict=True):
        if found.dtype.is_float:
            exact = [one.array.astype(np.float64) for one in (found, expected)]
            digits = FEW_DIGITS[found.dtype]
            np.testing.assert_allclose(*exact, rtol=digits, atol=digits / 10, err_msg=f"{name} {found.dtype}")
        else:
            np.testing.assert_array_equal(found.array, expected.array, err_msg=f"{name} {found.dtype}")


@st.composite
def operands(draw: st.DrawFn) -> list[Array]:
    """Make arrays that broadcast together, in orders and with steps of their own."""
    shape = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 17]), max_size=4)))
    found: list[Array] = []
    for seed in range(2):
        own = tuple(extent if draw(st.booleans()) else 1 for extent in shape)
        order = draw(st.permutations(range(len(own))))
        laid = np.random.default_rng(seed).standard_normal([own[axis] * 2 for axis in order]).astype(np.float32)
        found.append(laid[tuple(slice(None, None, 2) for _ in order)].transpose(np.argsort(order)))
    return [np.broadcast_to(one, shape) if draw(st.booleans()) else one for one in found]


@pytest.mark.slow
@given(operands())
@settings(max_examples=25, derandomize=True)  # each needs a kernel, which is kept
def test_arrays_may_lie_as_they_like(pair: list[Array]) -> None:
    a, b = pair
    found = (lazy(a) - b).evaluate(evaluator="native").array
    np.testing.assert_array_equal(found, a - b)
    assert found.flags.c_contiguous


def test_targets_may_lie_as_they_like() -> None:
    a = np.random.default_rng(0).standard_normal((5, 37)).astype(np.float32)
    wide = Tensor.from_numpy(np.zeros((37, 10), np.float64))
    turned = wide.view((5, 37), offset=1, strides=(2, 10))
    (lazy(a) * 2).evaluate(turned, evaluator="native")
    np.testing.assert_array_equal(wide.array[:, 1::2], a.T * 2)
    assert not wide.array[:, ::2].any()


@pytest.mark.slow
@given(
    st.sampled_from(["sum", "mean", "max", "min", "prod", "any", "all"]),
    st.sampled_from([(300,), (40, 33), (6, 5, 40), (3, 70, 2), (2, 0, 3)]),
    st.sampled_from([DataType.FLOAT, DataType.INT8, DataType.BFLOAT16]),
    st.data(),
)
@settings(max_examples=25, derandomize=True)
def test_reductions(name: str, shape: tuple[int, ...], dtype: DataType, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(shape))))
    axes = data.draw(st.sets(st.sampled_from([k for k in order if shape[k] > 0]), min_size=1).map(tuple))
    random = np.random.default_rng(2)
    laid = random.integers(-3, 4, [shape[k] for k in order]).astype(dtype.numpy)
    x = laid.transpose(np.argsort(order))
    expression = getattr(lazy(x), name)(axes)
    found, expected = (expression.evaluate(evaluator=one).array.astype(float) for one in ("native", "numpy"))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.slow
def test_large_reductions_are_cut_into_chunks_and_joined() -> None:
    x = np.random.default_rng(3).standard_normal((70, 3000)).astype(np.float32)
    for axis, name in itertools.product((None, 0, 1), ("sum", "mean", "max")):
        for array in (x, x.T):
            found = getattr(lazy(array), name)(axis).evaluate(evaluator="native").array
            expected = getattr(np, name)(array.astype(np.float64), axis=axis)
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    x[5, 7] = np.nan
    assert np.isnan(lazy(x).max().evaluate().array)


@pytest.mark.slow
def test_the_number_of_threads_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(4).standard_normal((37, 5001)).astype(np.float32)
    expressions = [apply("exp", lazy(x)), lazy(x).sum(), lazy(x).sum(0), lazy(x.T).sum(0), (lazy(x) * x).mean(1)]
    alone = [one.evaluate(evaluator="native").array for one in expressions]
    for module in (jit_lazy, jit_reduction):
        monkeypatch.setattr(module, "thread_count", lambda: 3)
    for one, expected in zip(expressions, alone, strict=True):
        np.testing.assert_array_equal(one.evaluate(evaluator="native").array, expected)


@pytest.mark.slow
def test_large_results_pass_by_the_caches_and_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit_lazy, "STREAM_BYTES", 1000)
    x = np.random.default_rng(5).standard_normal(1001).astype(np.float32)
    for dtype in ("float32", "float64", "bfloat16", "bool", "int16"):
        expression = (lazy(x) * 3).cast(dtype)
        assert ("pass by" in expression.explain(evaluator="native")) == (expression.dtype.itemsize * 1001 >= 1000)
        np.testing.assert_array_equal(
            expression.evaluate(evaluator="native").array, (x * 3).astype(expression.dtype.numpy)
        )
    held = Tensor.from_numpy(x)
    assert "pass by" not in (lazy(held) + 1).explain(held, evaluator="native")


def test_numbers_sizes_and_letters_do_not_make_another_kernel() -> None:
    x = np.ones(99, np.float32)
    assert "(first use)" in (lazy(x) * 0.125 + lazy(x) * x * x).explain(evaluator="native")
    y = np.ones((3, 50), np.float32)
    assert "(cached)" in (lazy(y) * 7 + lazy(y) * y * y).explain(evaluator="native")
    assert "(first use)" in (lazy(y) * 7 - lazy(y) * y).explain(evaluator="native")


def test_what_is_not_compiled_is_said() -> None:
    n = np.arange(20_000)
    power = apply("pow", lazy(n), n % 3)
    assert "native refused: pow of int64 is not compiled" in power.explain()
    with pytest.raises(UnsupportedError, match="evaluator 'native' does not take it: pow of int64"):
        power.evaluate(evaluator="native")
    long = lazy(n)
    for _ in range(jit_lazy.MOST_STEPS + 1):
        long = long + n
    assert "functions > 150" in long.explain()
    assert "native: one loop over 20000" in (lazy(n) + 1 + n).explain()
    assert (lazy(n) + 1).explain().startswith("NumPy, as there is one cheap function")


def test_without_a_compiler_numpy_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit_lazy, "unavailable", lambda: "the package llvmlite is missing")
    expression = lazy(np.arange(40_000)) + 3 - 2
    assert "numpy: NumPy" in expression.explain()
    assert "native refused: the package llvmlite is missing" in expression.explain()
    assert expression.evaluate().array[-1] == 40_000


def test_an_adam_update_is_one_kernel_in_place() -> None:
    random = np.random.default_rng(6)
    p, g, m, v = (Tensor.from_numpy(abs(random.standard_normal((7, 33)).astype(np.float32))) for _ in range(4))
    rate = Tensor.from_numpy(np.array(0.5, np.float32))
    old = [one.copied() for one in (p, g, m, v)]
    new_m = lazy(m) * 0.9 + lazy(g) * 0.1
    new_v = lazy(v) * 0.999 + lazy(g) * g * 0.001
    new_p = lazy(p) - lazy(rate) * new_m / (apply("sqrt", new_v) + 1e-8)
    step = bind([new_p, new_m, new_v], [p, m, v], evaluator="native")
    assert step.explain().count("one loop over") == 1
    step.run()
    expected_m = old[2] * np.float32(0.9) + old[1] * np.float32(0.1)
    expected_v = old[3] * np.float32(0.999) + old[1] * old[1] * np.float32(0.001)
    np.testing.assert_array_equal(m.array, expected_m)
    np.testing.assert_array_equal(v.array, expected_v)
    expected = old[0] - np.float32(0.5) * expected_m / (np.sqrt(expected_v) + np.float32(1e-8))
    np.testing.assert_array_equal(p.array, expected)
    rate.numpy()[...] = 0
    step.run()
    np.testing.assert_array_equal(p.array, expected)


FORK = """
import os
import numpy as np
from tazza.runtime.threads import NUM_THREADS
from tazza.array.deferred import bind, lazy
NUM_THREADS.set(2)
x = np.ones(1 << 20)
step = bind([lazy(x) * 3, lazy(x).sum()])
assert "on 2 threads" in step.explain()
step.run()
child = os.fork()
if child == 0:
    y, total = step.run()
    os._exit(0 if y.array[-1] == 3 and total.array[()] == 1 << 20 else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.slow
def test_a_forked_process_computes_alone() -> None:
    """The threads of the first process are not there; to wait for them would take forever."""
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "0\n"
