"""The second target: PTX of kernels, and the same texts run on the CPU, a thread for each thread of a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tazza.codegen.kernel import unavailable
from tazza.codegen.nvptx import GridKernel, code_of, place, ptx_of
from tazza.codegen.term import Lines
from tazza.errors import UnsupportedError
from tazza.runtime import native_code
from tazza.tensor.expression import Expression
from tests.cuda_grid import MEETINGS, Grid, backwards
from tests.grid_kernels import elementwise, row_sums
from tests.launching import pointer_at

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

THREADS = 8


def run(kernel: GridKernel, blocks: int, words: Sequence[int]) -> None:
    """Run all threads of a kernel on the CPU."""
    Grid(kernel.text("kernel"), "kernel")(blocks, THREADS, words)


def test_elementwise_ptx() -> None:
    ptx = ptx_of(elementwise(Expression.parse("max(a, 0) * b + 2"), ("a", "b"), 256).text("scaled"))
    assert ".visible .entry scaled(" in ptx
    assert ".target sm_70" in ptx
    assert ptx.count("ld.global") == 2, "LLVM sees which memory is meant"
    assert "st.global" in ptx
    assert "bar.sync" not in ptx


def test_reduction_ptx() -> None:
    ptx = ptx_of(row_sums(256).text("row_sums"))
    assert ".visible .entry row_sums(" in ptx
    assert ".shared .align 16 .b8 shared[2048]" in ptx
    assert ptx.count("bar.sync") == 8, "once for each halving of 256"
    assert "ld.shared" in ptx
    assert "st.shared" in ptx


def test_how_many_threads_a_block_may_have_is_told() -> None:
    """Else the assembler may give each of them more registers than there are for all."""
    kernel = elementwise(Expression.parse("a + 1"), ("a",), 1024)
    assert ".maxntid" not in ptx_of(kernel.text("small"))
    assert ".maxntid 1024" in ptx_of(replace(kernel, most_threads=1024).text("large"))
    run(replace(kernel, most_threads=8), 0, [])


@pytest.mark.parametrize("n", [0, 1, 8, 21])
def test_elementwise_on_threads(n: int) -> None:
    random = np.random.default_rng(n)
    a, b = (random.standard_normal(n).astype(np.float32) for _ in range(2))
    result = np.full(n + 1, np.nan, np.float32)
    kernel = elementwise(Expression.parse("max(a, 0) * b + 2"), ("a", "b"), THREADS)
    run(kernel, -(-n // THREADS), [*(one.ctypes.data for one in (a, b, result)), n])
    np.testing.assert_allclose(result[:n], np.maximum(a, 0) * b + 2, rtol=1e-6)
    assert np.isnan(result[n]), "nothing is written behind the end"


def test_threads_that_hang_on_each_other_are_found() -> None:
    """Each adds to what the one before it wrote: forwards a sum of all so far, backwards of two."""

    def write(lines: Lines) -> None:
        t = place(lines)[0]
        here = pointer_at(lines, 0).of("i64").at(t)
        before = here.of("i64").at(-1)
        total = before.of("i64").load() + here.of("i64").load()
        here.of("i64").store(total)

    found: list[list[int]] = []
    for order in (nullcontext(), backwards()):
        X = np.array([0, *range(THREADS)], np.int64)
        with order:
            run(GridKernel(1, write), 1, [X.ctypes.data + 8])
        found.append(X[1:].tolist())
    assert found == [[0, 1, 3, 6, 10, 15, 21, 28], [0, 1, 3, 5, 7, 9, 11, 13]]


def test_reduction_on_threads() -> None:
    X = np.random.default_rng(3).standard_normal((3, THREADS))
    Y = np.full(3, np.nan)
    MEETINGS.clear()
    run(row_sums(THREADS), 3, [X.ctypes.data, Y.ctypes.data])
    np.testing.assert_allclose(Y, X.sum(1), rtol=1e-12)
    assert MEETINGS == [0] * 3 + [1] * 3 + [2] * 3, "8 sums are halved three times"


def test_formulas_of_functions_are_written_for_both_targets() -> None:
    """Polynomials, masks and bits are those of the CPU's vectors, in one lane."""
    kernel = elementwise(Expression.parse("where(isnan(a), 0, tanh(a) * exp(b))"), ("a", "b"), THREADS)
    assert ".visible .entry curve(" in ptx_of(kernel.text("curve"))
    a, b = np.array([0.5, np.nan, -3], np.float32), np.array([1, 2, -0.25], np.float32)
    result = np.empty(3, np.float32)
    run(kernel, 1, [*(one.ctypes.data for one in (a, b, result)), 3])
    np.testing.assert_allclose(result, np.where(np.isnan(a), 0, np.tanh(a) * np.exp(b)), rtol=1e-6)


def test_what_no_gpu_has_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="atan2f is not written for a GPU"):
        elementwise(Expression.parse("atan2(x, x)"), ("x",), THREADS).text("kernel")


def test_code_is_kept_between_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_code, "cache_folder", lambda: tmp_path)
    kernel = elementwise(Expression.parse("a + 1"), ("a",), THREADS)
    made = code_of("a kernel of a test", lambda: kernel)
    assert f".entry {made.name}(" in made.ptx
    (entry,) = tmp_path.glob("*.ptx")
    native_code.CODES.clear()
    assert code_of("a kernel of a test", lambda: pytest.fail("it is kept")) == made
    entry.write_bytes(entry.read_bytes()[:-1] + b"x")
    native_code.CODES.clear()
    assert code_of("a kernel of a test", lambda: kernel) == made, "what is damaged is made again"
