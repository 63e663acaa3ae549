"""TT and rows of trains: by the whole matrix, element after element; what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, NumericError, ShapeError, TazzaError
from tazza.operator import find_schema, gradient_for_op, operator_def, run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]


def values(*shape: int, seed: int = 0) -> Array:
    """Return float32 numbers of that shape, the same in every run."""
    return np.random.default_rng([sum(shape), seed]).standard_normal(shape).astype(np.float32)


def whole(cores: Sequence[Array]) -> Array:
    """Return the matrix of cores (i, r, j, r): an element after the other, both numbers with the last digit fastest."""
    rows = list(product(*(range(core.shape[0]) for core in cores)))
    columns = list(product(*(range(core.shape[2]) for core in cores)))
    made = np.zeros((len(rows), len(columns)))
    for (n, row), (m, column) in product(enumerate(rows), enumerate(columns)):
        chain = np.ones((1, 1))
        for core, a, b in zip(cores, row, column, strict=True):
            chain = chain @ core[a, :, b, :].astype(np.float64)
        made[n, m] = chain.item()
    return made


def drawn(inp: list[int], out: list[int], ranks: list[int]) -> list[Array]:
    """Return cores (i, r, j, r)."""
    extents = zip(inp, ranks[:-1], out, ranks[1:], strict=True)
    return [values(*extent, seed=k) for k, extent in enumerate(extents)]


def listed(cores: Sequence[Array]) -> Array:
    """Return cores as TT takes them: the last one first, each as (i, r of the next one, r, j)."""
    return np.concatenate([core.transpose(0, 3, 1, 2).ravel() for core in reversed(cores)])


def multiplied(inp: list[int], out: list[int], ranks: list[int], *shape: int) -> Case:
    """Return a product of X of that shape with a random train; b and the list of cores have elements more."""
    cores, X, b = drawn(inp, out, ranks), values(*shape), values(int(np.prod(out)) + 2)
    expected = X.reshape(shape[0], -1) @ whole(cores) + b[:-2]
    arguments = {"inp_sizes": inp, "out_sizes": out, "tt_ranks": ranks}
    inputs = [X, b, np.append(listed(cores), np.float32(7))]
    return Case("TT", inputs, expected.astype(np.float32), arguments, batched=(0,), slack=10, id=f"{shape} {out}")


FACTORS: dict[str, Any] = {"factor_i": [2, 3, 4], "factor_j": [2, 1, 3], "ranks": [1, 2, 3, 1]}
ROWS = np.array([0, 5, 23, 7, 5])
LENGTHS = np.array([2, 0, 3], np.int32)
THREE = drawn(FACTORS["factor_i"], FACTORS["factor_j"], FACTORS["ranks"])


def table() -> Array:
    """Return the matrix by the numbers of its rows, of which the first digit is fastest."""
    made = whole(THREE)
    order = [a * 12 + b * 4 + c for c, b, a in product(range(4), range(3), range(2))]
    return made[order]


def looked_up(columns: int, lengths: Array = LENGTHS) -> Case:
    """Return sums of rows, with as many columns as that."""
    rows, sums, at = table(), np.zeros((len(lengths), columns)), 0
    for segment, length in enumerate(lengths):
        for row in ROWS[at : at + length]:
            sums[segment, :6] += rows[row, :columns]
        at += int(length)
    digits = np.array([[row % 2, row // 2 % 3, row // 6] for row in ROWS])
    one = np.stack([THREE[0][a, 0] for a, _, _ in digits])
    two = np.stack([(THREE[0][a, 0] @ THREE[1][b, :, 0]).reshape(2, 3) for a, b, _ in digits])
    expected = sums.astype(np.float32), one, two, digits
    arguments: dict[str, Any] = FACTORS | {"emb_size": columns}
    return Case("TTSparseLengthsSum", [*THREE, ROWS, lengths], expected, arguments, outputs=4, slack=10, gradient=False)


CASES = [
    multiplied([2, 3, 4], [3, 2, 5], [1, 2, 3, 1], 3, 24),
    multiplied([3, 2], [4, 5], [1, 2, 1], 1, 2, 3),
    multiplied([5], [3], [1, 1], 4, 5),
    looked_up(6),
    looked_up(8),
    looked_up(6, np.array([1, 3], np.int32)),
]


@on_all_engines(CASES)
def test_trains(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_columns_that_are_left_out() -> None:
    full, less = (run_op("TTSparseLengthsSum", *THREE, ROWS, LENGTHS, emb_size=n, **FACTORS)[0] for n in (6, 5))
    np.testing.assert_array_equal(less, full[:, :5])


def test_nothing_is_picked() -> None:
    found = run_op("TTSparseLengthsSum", *THREE, ROWS[:0], 0 * LENGTHS, emb_size=6, **FACTORS)
    assert [one.shape for one in found] == [(3, 6), (0, 2, 2), (0, 2, 3), (0, 3)]
    back = run_op("TTSparseLengthsSumGradient", *THREE, 0 * LENGTHS, *found[1:], found[0], emb_size=6, **FACTORS)
    assert [(one.shape, one.any()) for one in back] == [(core.shape, False) for core in THREE]


@pytest.mark.parametrize("columns", [5, 6, 8])
def test_gradient_by_differences(columns: int) -> None:
    """The sum of Y dY changes by that of core and gradient, since it is linear in each core."""
    arguments: dict[str, Any] = FACTORS | {"emb_size": columns}
    Y, *kept = run_op("TTSparseLengthsSum", *THREE, ROWS, LENGTHS, **arguments)
    dY = values(3, columns, seed=9)
    back = run_op("TTSparseLengthsSumGradient", *THREE, LENGTHS, *kept, dY, **arguments)
    for k, gradient in enumerate(back):
        other = values(*THREE[k].shape, seed=11)
        cores = [other if n == k else core for n, core in enumerate(THREE)]
        moved = run_op("TTSparseLengthsSum", *cores, ROWS, LENGTHS, **arguments)[0]
        np.testing.assert_allclose((moved * dY).sum(), (other * gradient).sum(), rtol=1e-4)
        np.testing.assert_allclose((Y * dY).sum(), (THREE[k] * gradient).sum(), rtol=1e-4)


def test_gradient_reads_what_was_kept() -> None:
    inputs, outputs = ["a", "b", "c", "i", "l"], ["y", "p", "q", "d"]
    op = find_schema("TTSparseLengthsSum").view(operator_def("TTSparseLengthsSum", inputs, outputs, **FACTORS))
    (emitted,), given = gradient_for_op(op, ["dy", None, None, None])
    assert emitted.type == "TTSparseLengthsSumGradient"
    assert list(emitted.input) == ["a", "b", "c", "l", "p", "q", "d", "dy"]
    assert list(emitted.output) == ["a_grad", "b_grad", "c_grad"]
    assert given == ["a_grad", "b_grad", "c_grad", None, None]


X, B, SIZES = values(2, 6), values(20), {"inp_sizes": [2, 3], "out_sizes": [4, 5], "tt_ranks": [1, 2, 1]}
LIST = listed(drawn(**{"inp": [2, 3], "out": [4, 5], "ranks": [1, 2, 1]}))
SIX = FACTORS | {"emb_size": 6}
REFUSED: list[tuple[str, list[Any], dict[str, Any], type[TazzaError], str]] = [
    ("TT", [X[:, :5], B, LIST], SIZES, ShapeError, "a row of X has 5 elements, inp_sizes have the product 6"),
    ("TT", [X[0], B, LIST], SIZES, ShapeError, "X has rank 1"),
    ("TT", [X, B[:4], LIST], SIZES, ShapeError, "b has 4 elements, 20 are read"),
    ("TT", [X, B, LIST[1:]], SIZES, ShapeError, "cores has 45 elements, 46 are read"),
    ("TT", [X, B, LIST], SIZES | {"out_sizes": [20]}, ArgumentError, "out_sizes has 1 numbers, it must have 2"),
    ("TT", [X, B, LIST], SIZES | {"tt_ranks": [1, 2]}, ArgumentError, "tt_ranks has 2 numbers, it must have 3"),
    ("TT", [X, B, LIST], SIZES | {"tt_ranks": [2, 2, 1]}, ArgumentError, "tt_ranks begins with 2"),
    ("TT", [X, B, LIST], SIZES | {"inp_sizes": []}, ArgumentError, "inp_sizes has 0 numbers, it must have 1"),
    ("TT", [X, B, LIST], SIZES | {"inp_sizes": [0, 6]}, ArgumentError, "inp_sizes holds 0"),
    (
        "TTSparseLengthsSum",
        [*THREE, ROWS + 1, LENGTHS],
        SIX,
        NumericError,
        "index 24 at 2 is row 4 of core2, which has 4",
    ),
    ("TTSparseLengthsSum", [*THREE, -ROWS, LENGTHS], SIX, NumericError, "index -5 at 1 is row"),
    ("TTSparseLengthsSum", [*THREE, ROWS, LENGTHS + 1], SIX, NumericError, "lengths add up to 8, and there are 5 rows"),
    ("TTSparseLengthsSum", [*THREE, ROWS, -LENGTHS], SIX, NumericError, r"lengths\[0\] is -2"),
    ("TTSparseLengthsSum", [*THREE[::-1], ROWS, LENGTHS], SIX, ShapeError, "core2 has 8 elements, its rows have 9"),
    (
        "TTSparseLengthsSum",
        [*THREE, ROWS, LENGTHS],
        SIX | {"factor_i": [6, 4]},
        ArgumentError,
        "factor_j has 3 numbers",
    ),
    ("TTSparseLengthsSum", [*THREE, ROWS, LENGTHS], SIX | {"emb_size": 0}, ArgumentError, "emb_size"),
]


@pytest.mark.parametrize(("type", "inputs", "arguments", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], arguments: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **arguments)
