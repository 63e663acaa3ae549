"""Pointwise kernels: layouts, threads, dtypes, and that a kernel is found for every schema with a formula."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tazza.codegen import kernel
from tazza.codegen.kernel import unavailable
from tazza.operator import KERNELS, SCHEMAS, LocalBlobs, Operator, operator_def
from tazza.runtime.threads import NUM_THREADS
from tazza.tensor import DataType, Tensor, channels_last

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

Array = NDArray[Any]


def compute(text: str, *inputs: Array | Tensor, refused: bool = False) -> Tensor:
    """Run Pointwise on the engine."""
    names = [f"x{i}" for i in range(len(inputs))]
    blobs = LocalBlobs()
    for name, value in zip(names, inputs, strict=True):
        blobs.create_blob(name).set(value if isinstance(value, Tensor) else Tensor.from_numpy(value))
    operator = Operator(operator_def("Pointwise", names, ["y"], engine="native", expressions=[text]), blobs)
    operator.run()
    assert (operator.choices[-1].engine == "native") is not refused
    return operator.outputs[0].tensor()


def numbers(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def channels_last_tensor(x: Array) -> Tensor:
    tensor = Tensor(x.shape, DataType.FLOAT, layout=channels_last(x.shape))
    tensor.array[...] = x
    return tensor


def test_a_shared_layout_is_kept() -> None:
    x, s = numbers(2, 3, 5, 7), numbers(2, 3, 5, 7)[::-1].copy()
    found = compute("x0 * x1", channels_last_tensor(x), channels_last_tensor(s))
    assert found.layout == channels_last(x.shape)
    np.testing.assert_array_equal(found.array, x * s)


def test_vectors_over_channels_last() -> None:
    x, c = numbers(2, 3, 5, 7), numbers(3, 1, 1)
    found = compute("x0 * x1", channels_last_tensor(x), c)
    assert found.layout == channels_last(x.shape)
    np.testing.assert_array_equal(found.array, x * c)


def test_mixed_layouts() -> None:
    x, s = numbers(2, 3, 5, 7), numbers(2, 3, 5, 7)[::-1].copy()
    np.testing.assert_array_equal(compute("x0 - x1", channels_last_tensor(x), s).array, x - s)


@pytest.mark.slow
@given(
    st.lists(st.integers(1, 4), min_size=0, max_size=4),
    st.lists(st.lists(st.booleans(), min_size=4, max_size=4), min_size=1, max_size=3),
)
@settings(max_examples=40, deadline=None)
def test_broadcasting(dims: list[int], kept: list[list[bool]]) -> None:
    """Each operand keeps some extents and has 1 for the others; sometimes leading ones are left out."""
    arrays = [numbers(*dims)]
    for keep in kept:
        shape = [extent if one else 1 for extent, one in zip(dims, keep, strict=False)]
        arrays.append(numbers(*(shape[1:] if shape and shape[0] == 1 else shape)))
    text = " + ".join(f"{i + 1} * x{i}" for i in range(len(arrays)))
    wanted = sum((np.float32(i + 1) * x for i, x in enumerate(arrays[1:], 1)), np.float32(1) * arrays[0])
    np.testing.assert_allclose(compute(text, *arrays).array, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shapes", [[(30_011,)], [(97, 311), (311,)], [(3, 20_011), (3, 1)]])
def test_threads_change_no_bit(shapes: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = [numbers(*shape) for shape in shapes]
    text = "tanh(x0) + exp(x0 * 0.5)" if len(arrays) == 1 else "tanh(x0 * x1)"
    monkeypatch.setattr(kernel, "THREAD_NS", 1)
    results: list[bytes] = []
    for count in (1, 2, 3):
        with NUM_THREADS.override(count):
            results.append(compute(text, *arrays).array.tobytes())
    assert results[0] == results[1] == results[2]


def test_small_work_stays_on_one_thread() -> None:
    assert kernel.threads_for(8, 1000, 1, 8) == 1
    assert kernel.threads_for(8, 10_000_000, 1, 8) == 8


def test_bfloat16() -> None:
    x = np.array([1, 1.00390625, 1.01171875, -3e38, np.inf, np.nan], np.float32).astype(ml_dtypes.bfloat16)
    wide = x.astype(np.float32)
    with np.errstate(all="ignore"):
        wanted = (wide * np.float32(1.001)).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(compute("x0 * 1.001", x).array.astype(np.float32), wanted.astype(np.float32))


def test_too_many_separate_dimensions_are_refused() -> None:
    x, y = numbers(2, 3, 2, 3, 2, 3, 2), numbers(2, 1, 2, 1, 2, 1, 2)
    np.testing.assert_array_equal(compute("x0 + x1", x, y, refused=True).array, x + y)


def test_every_schema_with_a_formula_has_a_kernel() -> None:
    declared = [name for name in SCHEMAS if SCHEMAS[name].formulas is not None]
    assert {"Relu", "Sum", "Pointwise", "MomentumSGDUpdate"} <= set(declared)
    assert all((name, "cpu", "native") in KERNELS for name in declared)
