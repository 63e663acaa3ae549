"""Reductions of segments and their gradients: by hand, row after row; what is wrong is named on every engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, NumericError, ShapeError, TazzaError
from tazza.models import Model
from tazza.operator import RowSlices, find_schema, gradient_for_op, operator_def, run_op
from tazza.ops.sparse.lengths import lengths_reductions
from tazza.workspace import Workspace
from tests.check import Case, check_op, engines_of, on_all_engines, run

Array = NDArray[Any]


def added(rows: Array) -> Array:
    """Add rows, one after the other."""
    found = np.zeros(rows.shape[1:])
    for row in rows:
        found = found + row
    return found


BY_HAND = {"Sum": added}
"""Reducer -> what it makes of rows, by another formula."""


def values(*shape: int) -> Array:
    """Return float32 numbers of that shape, the same in every run."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def lengths(*numbers: int) -> Array:
    """Return int32 lengths."""
    return np.array(numbers, np.int32)


def by_hand(reducer: str, rows: Array, counts: Array) -> Array:
    """Reduce segment after segment, in float64."""
    wide, begin = rows.astype(np.float64), 0
    found = np.zeros((len(counts), *rows.shape[1:]))
    for m, count in enumerate(counts):
        found[m] = BY_HAND[reducer](wide[begin : begin + count])
        begin += int(count)
    return found.astype(np.float32)


SHAPES = [(7,), (7, 3), (7, 2, 5), (7, 67), (7, 130)]
"""Of 7 rows; some are wider than several vectors."""
COUNTS = [lengths(2, 0, 4, 1), lengths(0, 7), lengths(7, 0, 0)]


def cases() -> list[Case]:
    """Return cases of all reducers."""
    found: list[Case] = []
    for reducer in (row.name for row in lengths_reductions.rows.values()):
        for shape in SHAPES:
            for counts in COUNTS[: 3 if shape == (7, 3) else 1]:
                rows = values(*shape)
                found.append(Case(f"Lengths{reducer}", [rows, counts], by_hand(reducer, rows, counts)))
                table, indices = values(11, *shape[1:]), np.array([10, 3, 3, 0, 7, 10, 5])
                for dtype in (np.int32, np.int64):
                    given = [table, indices.astype(dtype), counts]
                    wanted = by_hand(reducer, table[indices], counts)
                    found.append(Case(f"SparseLengths{reducer}", given, wanted))
    empty = [np.zeros((0, 3), np.float32), lengths(0, 0)]
    found.append(Case("LengthsSum", empty, np.zeros((2, 3)), gradient=False))
    return found


def gradient_cases() -> list[Case]:
    """Return cases of the gradient operators of sums, which repeat what they are given."""
    found: list[Case] = []
    for shape in SHAPES:
        dY, counts = values(4, *shape[1:]), lengths(2, 0, 4, 1)
        wanted = np.stack([dY[m] for m in (0, 0, 2, 2, 2, 2, 3)])
        indices = np.array([10, 3, 3, 0, 7, 10, 5])
        found.append(Case("LengthsIndicesInGradientSumGradient", [dY, counts, values(*shape)], wanted))
        found.append(Case("SparseLengthsIndicesInGradientSumGradient", [dY, counts, indices], wanted))
        found += [Case(f"{kind}LengthsSumGradient", [dY, counts], wanted) for kind in ("", "Sparse")]
    return found


@on_all_engines([*cases(), *gradient_cases()])
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


@pytest.mark.parametrize("engine", engines_of("SparseLengthsSum"))
def test_rows_of_16_bits_are_added_in_float32(engine: str) -> None:
    table, indices, counts = values(11, 19).astype(np.float16), np.array([10, 3, 3, 0]), lengths(1, 3)
    (Y,), _ = run(operator_def("SparseLengthsSum", ["in0", "in1", "in2"], ["Y"]), [table, indices, counts], engine)
    assert Y.dtype == np.float32
    np.testing.assert_allclose(Y, by_hand("Sum", table[indices], counts), rtol=1e-6, atol=1e-6)


WRONG: list[tuple[list[int], list[int], str]] = [
    ([1, 9, 0], [2, 1], r"INDICES\[1\] is 9, not in \[0, 5\)"),
    ([1, 0, -1], [2, 1], r"INDICES\[2\] is -1, not in \[0, 5\)"),
    ([1, 0, 2], [4, -1], r"LENGTHS\[1\] is -1, it cannot be negative"),
    ([1, 0, 2], [1, 1, 2], r"LENGTHS\[2\] = 2 ends at 4, and there are 3 INDICES"),
    ([1, 0, 2], [1, 0], r"the 2 LENGTHS add up to 1, and there are 3 INDICES"),
    ([1, 0, 2], [2**31 - 1, 2**31 - 1, 2**31 - 1], r"LENGTHS\[0\] = 2147483647 ends at 2147483647"),
]


@pytest.mark.parametrize("engine", engines_of("SparseLengthsSum"))
@pytest.mark.parametrize(("indices", "counts", "text"), WRONG)
def test_what_is_wrong_is_named(indices: list[int], counts: list[int], text: str, engine: str) -> None:
    definition = operator_def("SparseLengthsSum", ["in0", "in1", "in2"], ["Y"])
    with pytest.raises(NumericError, match=text):
        run(definition, [values(5, 3), np.array(indices), lengths(*counts)], engine)


@pytest.mark.parametrize("type", [type for type in ("LengthsSum", "LengthsSumGradient")])
def test_wrong_lengths_of_rows_in_turn(type: str) -> None:
    for engine in engines_of(type):
        with pytest.raises(NumericError, match=r"LENGTHS\[1\] is -2"):
            run(operator_def(type, ["in0", "in1"], ["Y"]), [values(2, 3), lengths(4, -2)], engine)


@pytest.mark.parametrize(
    ("inputs", "kind"),
    [
        ([values(7, 3), np.array([2, 5])], DTypeError),
        ([values(7, 3), np.array([[2], [5]], np.int32)], ShapeError),
        ([values(7, 3).astype(np.float64), lengths(2, 5)], DTypeError),
        ([np.float32(3), lengths(1)], ShapeError),
    ],
)
def test_refused(inputs: list[Array], kind: type[TazzaError]) -> None:
    with pytest.raises(kind):
        run_op("LengthsSum", *inputs)


def test_the_gradient_is_one_of_rows() -> None:
    op = find_schema("SparseLengthsSum").view(operator_def("SparseLengthsSum", ["W", "i", "l"], ["y"]))
    (step,), given = gradient_for_op(op, ["y_grad"])
    assert given == [RowSlices("i", "W_grad_values"), None, None]
    assert (step.type, list(step.input)) == ("SparseLengthsIndicesInGradientSumGradient", ["y_grad", "l", "i"])
    assert list(step.output) == ["W_grad_values"]


def test_gradient_of_rows_against_differences() -> None:
    """d/dW of the sum of R * Y, in float64, for a table of which rows are taken twice and never."""
    W, indices, counts, R = values(5, 3), np.array([4, 0, 4, 2]), lengths(1, 0, 3), values(3, 3)
    rows = run_op("SparseLengthsIndicesInGradientSumGradient", R, counts, indices)
    dense = np.zeros(W.shape)
    np.add.at(dense, indices, rows)
    for place in np.ndindex(*W.shape):
        up, down = W.astype(np.float64), W.astype(np.float64)
        up[place] += 0.5
        down[place] -= 0.5
        slope = (by_hand("Sum", up[indices], counts) - by_hand("Sum", down[indices], counts)) * R
        assert dense[place] == pytest.approx(slope.sum(), abs=1e-5)


@pytest.mark.parametrize("net_type", ["simple", "parallel", "plan"])
def test_lengths_change_from_run_to_run(net_type: str) -> None:
    """What comes with the data is no constant: neither folded, nor kept from an earlier run."""
    model = Model("segments")
    model.net.add("SparseLengthsSum", ["W", "i", "l"], "y")
    model.net.add("LengthsSumGradient", ["y", "l"], "back")
    net = model.net.export()
    net.type, net.num_workers = net_type, 2
    net.external_output.extend(["y", "back"])
    ws, W = Workspace(), values(6, 3)
    ws.feed("W", W)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        counts = rng.integers(0, 4, 1 + seed).astype(np.int32)
        indices: Array = rng.integers(0, 6, int(counts.sum()))
        ws.feed("i", indices)
        ws.feed("l", counts)
        if seed == 0:
            ws.create_net(net)
        ws.run_net(net.name)
        wanted = by_hand("Sum", W[indices], counts)
        np.testing.assert_allclose(ws.fetch("y"), wanted, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(ws.fetch("back"), np.repeat(wanted, counts, axis=0), rtol=1e-5, atol=1e-6)
