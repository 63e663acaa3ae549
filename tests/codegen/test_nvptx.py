"""The second target: PTX of two kernels, and the same texts run on the CPU, a thread for each thread of a GPU."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tazza.codegen.kernel import unavailable
from tazza.codegen.nvptx import OUTSIDE, GridKernel, elementwise, ptx_of, row_sums, thread_text
from tazza.runtime.native_code import llvm_binding
from tazza.tensor.expression import Expression

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

THREADS = 8


class Grid:
    """Runs a kernel's text block by block, with as many threads as a block has, which meet at its barriers."""

    def __init__(self, kernel: GridKernel, threads: int) -> None:
        self.threads = threads
        self.meetings = 0
        self._here = threading.local()
        self._gate = threading.Barrier(threads, action=self._met, timeout=30)
        llvm: Any = llvm_binding()
        answers: Sequence[Any] = (
            ctypes.CFUNCTYPE(ctypes.c_int32)(lambda: self._here.thread),
            ctypes.CFUNCTYPE(ctypes.c_int32)(lambda: self._here.block),
            ctypes.CFUNCTYPE(None)(lambda: self._gate.wait()),
        )
        for name, answer in zip(OUTSIDE.values(), answers, strict=True):
            llvm.add_symbol(name, ctypes.cast(answer, ctypes.c_void_p).value)
        module = llvm.parse_assembly(thread_text(kernel.text("kernel")))
        module.verify()
        machine = llvm.Target.from_default_triple().create_target_machine(opt=1, jit=True)
        self._kept = llvm.create_mcjit_compiler(module, machine), answers
        self._kept[0].finalize_object()
        self._function = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * (len(kernel.addresses) + len(kernel.numbers)))(
            self._kept[0].get_function_address("kernel")
        )

    def _met(self) -> None:
        self.meetings += 1

    def __call__(self, blocks: int, *arguments: int) -> None:
        for block in range(blocks):
            threads = [threading.Thread(target=self._thread, args=(i, block, arguments)) for i in range(self.threads)]
            for one in threads:
                one.start()
            for one in threads:
                one.join()

    def _thread(self, thread: int, block: int, arguments: tuple[int, ...]) -> None:
        self._here.thread, self._here.block = thread, block
        self._function(*arguments)


def test_elementwise_ptx() -> None:
    text = elementwise(Expression.parse("max(a, 0) * b + 2"), ("a", "b"), 256).text("scaled")
    ptx = ptx_of(text)
    assert ".visible .entry scaled(" in ptx
    assert ".target sm_70" in ptx
    assert ptx.count("ld.global") == 2, "LLVM sees which memory is meant"
    assert "st.global" in ptx
    assert "bar.sync" not in ptx


def test_reduction_ptx() -> None:
    ptx = ptx_of(row_sums(256).text("row_sums"))
    assert ".visible .entry row_sums(" in ptx
    assert ".shared .align 16 .b8 shared[1024]" in ptx
    assert ptx.count("bar.sync") == 8, "once for each halving of 256"
    assert "ld.shared" in ptx
    assert "st.shared" in ptx


@pytest.mark.parametrize("n", [0, 1, 8, 21])
def test_elementwise_on_threads(n: int) -> None:
    random = np.random.default_rng(n)
    a, b = (random.standard_normal(n).astype(np.float32) for _ in range(2))
    result = np.full(n + 1, np.nan, np.float32)
    kernel = elementwise(Expression.parse("max(a, 0) * b + 2"), ("a", "b"), THREADS)
    Grid(kernel, THREADS)(-(-n // THREADS), a.ctypes.data, b.ctypes.data, result.ctypes.data, n)
    np.testing.assert_allclose(result[:n], np.maximum(a, 0) * b + 2, rtol=1e-6)
    assert np.isnan(result[n]), "nothing is written behind the end"


@pytest.mark.parametrize(("rows", "width"), [(1, 1), (2, 5), (3, 8), (2, 37)])
def test_reduction_on_threads(rows: int, width: int) -> None:
    X = np.random.default_rng(width).standard_normal((rows, width)).astype(np.float32)
    Y = np.full(rows, np.nan, np.float32)
    grid = Grid(row_sums(THREADS), THREADS)
    grid(rows, X.ctypes.data, Y.ctypes.data, width)
    np.testing.assert_allclose(Y, X.sum(1, dtype=np.float64), rtol=1e-5, atol=1e-6)
    assert grid.meetings == 3 * rows, "8 sums are halved three times"


def test_formulas_of_functions_are_written_for_both_targets() -> None:
    """Polynomials, masks and bits are those of the CPU's vectors, in one lane."""
    kernel = elementwise(Expression.parse("where(isnan(a), 0, tanh(a) * exp(b))"), ("a", "b"), THREADS)
    assert ".visible .entry curve(" in ptx_of(kernel.text("curve"))
    a, b = np.array([0.5, np.nan, -3], np.float32), np.array([1, 2, -0.25], np.float32)
    result = np.empty(3, np.float32)
    Grid(kernel, THREADS)(1, a.ctypes.data, b.ctypes.data, result.ctypes.data, 3)
    np.testing.assert_allclose(result, np.where(np.isnan(a), 0, np.tanh(a) * np.exp(b)), rtol=1e-6)
