"""The code that goes over rows: of any cut, on any number of threads, cut into chunks or whole, in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tazza.codegen import kernel
from tazza.codegen.kernel import unavailable
from tazza.engines.native import row_program
from tazza.operator import operator_def
from tazza.runtime.threads import NUM_THREADS
from tests.check import run

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

Array = NDArray[Any]


def numbers(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def computed(type: str, *inputs: Array, outputs: int = 1, **args: Any) -> list[Array]:
    """Return the outputs that this engine makes; it has to take the call."""
    letters = [f"x{i}" for i in range(len(inputs))]
    definition = operator_def(type, letters, [f"y{i}" for i in range(outputs)], **args)
    results, operator = run(definition, list(inputs), "native")
    assert operator.choices[-1].engine == "native"
    return results


@given(
    st.lists(st.tuples(st.integers(1, 70), st.booleans()), min_size=1, max_size=3),
    st.sampled_from(["ReduceSum", "ReduceMax", "ReduceMin", "ReduceL2"]),
)
@settings(max_examples=30, deadline=None)
def test_any_axes(axes: list[tuple[int, bool]], type: str) -> None:
    """Reduced axes lie at the front, at the end, between, or at both ends."""
    x = numbers(*(extent for extent, _ in axes))
    chosen = [axis for axis, (_, reduced) in enumerate(axes) if reduced]
    where = tuple(chosen) if chosen else None
    wide = x.astype(np.float64)
    wanted = {
        "ReduceSum": lambda: wide.sum(where),
        "ReduceMax": lambda: wide.max(where),
        "ReduceMin": lambda: wide.min(where),
        "ReduceL2": lambda: np.sqrt(np.square(wide).sum(where)),
    }[type]()
    (found,) = computed(type, x, axes=chosen, keepdims=0)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


SHAPES = [((50_003,), [0]), ((3, 20_011), [1]), ((20_011, 3), [0]), ((7, 5, 6_007), [0, 2]), ((300, 41), [1])]


@pytest.mark.parametrize(("shape", "axes"), SHAPES)
def test_threads_change_no_bit(shape: tuple[int, ...], axes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "THREAD_NS", 0.01)
    monkeypatch.setattr(row_program, "CHUNK", 1 << 10)
    x = numbers(*shape) + 3
    results: list[list[bytes]] = []
    for count in (1, 2, 3, 7):
        with NUM_THREADS.override(count):
            found = computed("Moments", x, outputs=2, axes=axes)
            results.append([one.tobytes() for one in found])
            np.testing.assert_allclose(found[0].ravel(), x.astype(float).mean(tuple(axes)).ravel(), rtol=1e-6)
            np.testing.assert_allclose(found[1].ravel(), x.astype(float).var(tuple(axes)).ravel(), rtol=1e-5)
    assert all(one == results[0] for one in results)


def test_a_variance_is_not_that_of_a_rounded_mean() -> None:
    x = np.float32(1000) + numbers(4, 999) * np.float32(1e-3)
    _, variance = computed("Moments", x, outputs=2, axes=[1], keepdims=0)
    np.testing.assert_allclose(variance, x.astype(float).var(1), rtol=1e-4)


@pytest.mark.parametrize("size", [5, 100_003])
def test_what_is_overwritten_is_read_first(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number that all elements share is an output in place: no thread may see it too early."""
    monkeypatch.setattr(kernel, "THREAD_NS", 0.01)
    monkeypatch.setattr(row_program, "CHUNK", 1 << 10)
    names = ["W", "b", "dW", "lr"]
    given = [numbers(size), np.array([2.0], np.float32), numbers(size) + 1, np.array([-0.5], np.float32)]
    results = [
        run(operator_def("Wngrad", names, ["W", "b"]), [one.copy() for one in given], engine)[0]
        for engine in ("native", "reference")
    ]
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-6)


def test_nan_at_the_start_of_a_row_alone_stays() -> None:
    x = numbers(3, 200)
    x[0, 0] = x[1, 150] = np.nan
    for type, matrix in (("ReduceBackMax", x), ("ReduceFrontMax", x.T.copy())):
        (found,) = computed(type, matrix)
        np.testing.assert_array_equal(found, [np.nan, np.nanmax(x[1]), x[2].max()])
    (found,) = computed("ReduceMax", x, axes=[1], keepdims=0)
    np.testing.assert_array_equal(found, x.max(1))


def agree(type: str, inputs: list[Array], outputs: int, **args: Any) -> None:
    """Check that the numbers are those of the reference."""
    names, made = [f"x{i}" for i in range(len(inputs))], [f"y{i}" for i in range(outputs)]
    definition = operator_def(type, names, made, **args)
    found, operator = run(definition, inputs, "native")
    assert operator.choices[-1].engine == "native"
    wanted, _ = run(definition, inputs, "reference")
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (2, 64), (67, 70)])
@pytest.mark.parametrize("type", ["Ftrl", "GFtrl"])
def test_pairs_lie_in_turn(type: str, shape: tuple[int, int]) -> None:
    agree(type, [numbers(*shape), np.abs(numbers(*shape, 2)), numbers(*shape) * 3], 2, alpha=0.5, lambda1=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(2, 6, 5, 7), (3, 4, 1, 1), (1, 8, 33, 40)])
def test_rows_share_what_is_said_of_some_and_programs_hand_on(shape: tuple[int, ...]) -> None:
    N, C = shape[:2]
    X, gamma = numbers(*shape), numbers(C) + 2
    agree("GroupNorm", [X, gamma, numbers(C)], 3, group=2)
    statistics = [numbers(N, 2), np.abs(numbers(N, 2)) + 1]
    agree("GroupNormGradient", [X[::-1].copy(), X, gamma, gamma, *statistics], 3, group=2)


def never(*_: object) -> bool:
    return False


@pytest.mark.parametrize("shape", [(2, 6, 5), (20, 16, 70), (3, 4, 40_000), (0, 4, 3)])
@pytest.mark.parametrize("is_test", [False, True])
def test_rows_that_others_are_made_of_follow_them(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], *, is_test: bool
) -> None:
    """Both in one kernel give the bits of one kernel after the other."""
    given = (numbers(*shape), numbers(shape[1]), numbers(shape[1]) + 1)
    args: dict[str, Any] = {"outputs": 1 if is_test else 3, "group": 2, "is_test": is_test}
    with monkeypatch.context() as patched:
        patched.setattr(row_program._Made, "around", never)  # pyright: ignore[reportPrivateUsage] -- what tells
        apart = computed("GroupNorm", *given, **args)
    # The launch of a call is kept: another argument makes it anew.
    for ours, expected in zip(computed("GroupNorm", *given, **args, order="nchw"), apart, strict=True):
        np.testing.assert_array_equal(ours, expected)
