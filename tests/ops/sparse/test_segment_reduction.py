"""Reductions of segments and their gradients: by hand, row after row; what is wrong is named on every engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, GradientError, NumericError, ShapeError, TazzaError
from tazza.models import Model
from tazza.operator import RowSlices, find_schema, gradient_for_op, operator_def, run_op
from tazza.ops.sparse.segment_reduction import Backward, Forward, segment_gradients, segment_reductions
from tazza.workspace import Workspace
from tests.check import Case, check_op, engines_of, on_all_engines, run

Array = NDArray[Any]


def added(rows: Array, scalars: Array) -> Array:
    """Add rows, one after the other."""
    del scalars
    found = np.zeros(rows.shape[1:])
    for row in rows:
        found = found + row
    return found


def weighted(rows: Array, scalars: Array) -> Array:
    """Add rows times their scalars."""
    return np.tensordot(scalars.astype(np.float64), rows, 1)


def largest(rows: Array, scalars: Array) -> Array:
    """Keep the larger of two, row after row."""
    del scalars
    found: Array = rows[0]
    for row in rows[1:]:
        found = np.array(np.where(row > found, row, found))
    return found


BY_HAND: dict[str, Callable[[Array, Array], Array]] = {
    "Sum": added,
    "Mean": lambda rows, scalars: added(rows, scalars) / len(rows),
    "WeightedSum": weighted,
    "Max": largest,
    "LogSumExp": lambda rows, scalars: np.log(added(np.exp(rows), scalars)),
    "LogMeanExp": lambda rows, scalars: np.log(added(np.exp(rows), scalars) / len(rows)),
}
"""Reducer -> what it makes of rows that are there, by another formula."""


def values(*shape: int) -> Array:
    """Return float32 numbers of that shape, the same in every run."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def lengths(*numbers: int) -> Array:
    """Return int32 lengths or ids."""
    return np.array(numbers, np.int32)


def by_hand(reducer: str, rows: Array, ids: Array, segments: int, scalars: Array) -> Array:
    """Reduce segment after segment, in float64."""
    wide = rows.astype(np.float64)
    found = np.zeros((segments, *rows.shape[1:]))
    for m in range(segments):
        mine = [i for i, id in enumerate(ids) if id == m]
        if mine:
            found[m] = BY_HAND[reducer](wide[mine], scalars[mine])
    return found.astype(np.float32)


def ids_of(counts: Array) -> Array:
    """Return the segment of each row, of lengths."""
    return np.array([m for m, count in enumerate(counts) for _ in range(count)], np.int32)


DIVIDED: dict[str, list[tuple[Array, Array, int]]] = {
    "lengths": [(c, ids_of(c), len(c)) for c in (lengths(2, 0, 4, 1), lengths(0, 7), lengths(7, 0, 0))],
    "sorted ids": [(i, i, int(i[-1]) + 1) for i in (lengths(0, 0, 1, 2, 2, 2, 3), lengths(*[0] * 7))],
    "ids": [(i, i, int(i.max()) + 1) for i in (lengths(3, 0, 3, 0, 0, 1, 3), lengths(*[2] * 7))],
}
"""What divides 7 rows, the segment of each of these, and how many segments there are."""
ROW_SHAPES: list[tuple[int, ...]] = [(), (2, 5), (131,)]
"""The last is wider than several vectors."""
PICKS = np.array([10, 3, 3, 0, 7, 10, 5])


def problem(type: str, one: Forward, shape: tuple[int, ...], divided: tuple[Array, Array, int], indices: Array) -> Case:
    """Return a case of an operator."""
    by, ids, segments = divided
    scalars = values(7) + 1
    data = values(11 if one.kind.gathered else 7, *shape)
    given = [data, *([scalars] if one.reducer.weighted else []), *([indices] if one.kind.gathered else []), by]
    rows = data[indices] if one.kind.gathered else data
    return Case(type, given, by_hand(one.reducer.name, rows, ids, segments, scalars))


def cases() -> list[Case]:
    """Return cases of all operators: rows of several shapes, then the other divisions, with other indices."""
    found: list[Case] = []
    for type, one in segment_reductions.rows.items():
        first, *others = DIVIDED[one.kind.division.name]
        found += [problem(type, one, shape, first, PICKS) for shape in ROW_SHAPES]
        found += [problem(type, one, (3,), divided, PICKS.astype(np.int32)) for divided in others]
    for type in ("LengthsSum", "LengthsMax"):
        empty = [np.zeros((0, 3), np.float32), lengths(0, 0)]
        found.append(Case(type, empty, np.zeros((2, 3)), gradient=False))
    return found


def gradient_problem(one: Backward, shape: tuple[int, ...]) -> tuple[dict[str, Array], Array]:
    """Return inputs of a gradient operator by letters, and the segment of each row."""
    by, ids, segments = DIVIDED[one.division.name][0]
    gathered = one.gathered
    table = values(11, *shape)
    rows = table[PICKS] if gathered else values(7, *shape)
    scalars = values(7) + 1
    Y = by_hand(one.reducer.name, rows, ids, segments, scalars)
    data = table if gathered else rows
    known = {"dY": values(segments, *shape), "Y": Y, "DATA": data, "SCALARS": scalars, "INDICES": PICKS}
    return {**known, one.division.letter: by}, ids


def slopes(one: Backward, given: dict[str, Array], ids: Array) -> tuple[Array, Array]:
    """Return the slopes of the sum of dY * Y by rows and by scalars, in float64, from differences of one row alone."""
    rows = (given["DATA"][PICKS] if one.gathered else given["DATA"]).astype(np.float64)
    scalars, dY, step = given["SCALARS"].astype(np.float64), given["dY"].astype(np.float64), 1e-6
    reduce = BY_HAND[one.reducer.name]
    of_rows, of_scalars = np.zeros(rows.shape), np.zeros(len(rows))
    ends: list[Any]
    for i, m in enumerate(ids):
        mine = ids == m
        for place in np.ndindex(*rows.shape[1:]):
            ends = []
            for change in (step, -step):
                moved = rows.copy()
                moved[(i, *place)] += change
                ends.append(reduce(moved[mine], scalars[mine])[place])
            of_rows[(i, *place)] = dY[(m, *place)] * (ends[0] - ends[1]) / (2 * step)
        ends = []
        for change in (step, -step):
            moved = scalars.copy()
            moved[i] += change
            ends.append((dY[m] * reduce(rows[mine], moved[mine])).sum())
        of_scalars[i] = (ends[0] - ends[1]) / (2 * step)
    return of_rows, of_scalars


def gradient_cases() -> list[Case]:
    """Return cases of all gradient operators, against slopes."""
    found: list[Case] = []
    for type, one in segment_gradients.rows.items():
        for shape in ((), (2, 5), (37,))[: 3 if one.emitted_by else 1]:
            given, ids = gradient_problem(one, shape)
            rows, scalars = slopes(one, given, ids)
            wanted = [rows, scalars] if one.weights else rows
            found.append(Case(type, [given[letter] for letter in one.letters.split()], wanted))
    return found


@on_all_engines([*cases(), *gradient_cases()])
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


@pytest.mark.parametrize("engine", engines_of("SparseLengthsSum"))
def test_rows_of_16_bits_are_added_in_float32(engine: str) -> None:
    table, indices, counts = values(11, 19).astype(np.float16), np.array([10, 3, 3, 0]), lengths(1, 3)
    (Y,), _ = run(operator_def("SparseLengthsSum", ["in0", "in1", "in2"], ["Y"]), [table, indices, counts], engine)
    assert Y.dtype == np.float32
    np.testing.assert_allclose(Y, by_hand("Sum", table[indices], ids_of(counts), 2, np.zeros(4)), rtol=1e-6, atol=1e-6)


WRONG: list[tuple[list[int], list[int], str]] = [
    ([1, 9, 0], [2, 1], r"INDICES\[1\] is 9, not in \[0, 5\)"),
    ([1, 0, -1], [2, 1], r"INDICES\[2\] is -1, not in \[0, 5\)"),
    ([1, 0, 2], [4, -1], r"LENGTHS\[1\] is -1, it must be at least 0"),
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


def test_the_largest_of_rows_that_are_picked_has_no_gradient() -> None:
    """Caffe2 has the operator on devices alone, and no gradient."""
    op = find_schema("SparseLengthsMax").view(operator_def("SparseLengthsMax", ["x", "i", "l"], ["y"]))
    with pytest.raises(GradientError, match="Caffe2 has none either"):
        gradient_for_op(op, ["dy"])
    with pytest.raises(DTypeError, match="DATA is float16"):
        run_op("SparseLengthsMax", values(5, 3).astype(np.float16), np.array([1]), lengths(1))


EMITTED: list[tuple[str, str, str, str]] = [
    ("LengthsSum", "LengthsIndicesInGradientSumGradient", "dY LENGTHS DATA", "DATA_grad"),
    ("SparseLengthsSum", "SparseLengthsIndicesInGradientSumGradient", "dY LENGTHS INDICES", "DATA_grad_values"),
    ("SortedSegmentSum", "SortedSegmentSumGradient", "dY SEGMENT_IDS", "DATA_grad"),
    ("SparseSortedSegmentSum", "SortedSegmentSumGradient", "dY SEGMENT_IDS", "DATA_grad_values"),
    ("UnsortedSegmentSum", "UnsortedSegmentSumGradient", "dY SEGMENT_IDS", "DATA_grad"),
    ("SparseUnsortedSegmentSum", "UnsortedSegmentSumGradient", "dY SEGMENT_IDS", "DATA_grad_values"),
    ("SortedSegmentRangeSum", "SortedSegmentRangeSumGradient", "DATA Y dY SEGMENT_IDS", "DATA_grad"),
    ("LengthsMean", "LengthsIndicesInGradientMeanGradient", "dY LENGTHS DATA", "DATA_grad"),
    ("SparseLengthsMean", "SparseLengthsIndicesInGradientMeanGradient", "dY LENGTHS INDICES", "DATA_grad_values"),
    ("SortedSegmentMean", "SortedSegmentMeanGradient", "dY SEGMENT_IDS", "DATA_grad"),
    ("SparseSortedSegmentMean", "SortedSegmentMeanGradient", "dY SEGMENT_IDS", "DATA_grad_values"),
    ("UnsortedSegmentMean", "UnsortedSegmentMeanGradient", "dY SEGMENT_IDS", "DATA_grad"),
    ("SparseUnsortedSegmentMean", "UnsortedSegmentMeanGradient", "dY SEGMENT_IDS", "DATA_grad_values"),
    ("SortedSegmentRangeMean", "SortedSegmentRangeMeanGradient", "DATA Y dY SEGMENT_IDS", "DATA_grad"),
    ("LengthsWeightedSum", "LengthsWeightedSumGradient", "SCALARS dY LENGTHS", "DATA_grad"),
    (
        "LengthsWeightedSum",
        "LengthsWeightedSumWithMainInputGradient",
        "SCALARS dY LENGTHS DATA",
        "DATA_grad SCALARS_grad",
    ),
    (
        "SparseLengthsWeightedSum",
        "SparseLengthsIndicesInGradientWeightedSumGradient",
        "SCALARS dY LENGTHS INDICES",
        "DATA_grad_values",
    ),
    (
        "SparseLengthsWeightedSum",
        "SparseLengthsIndicesInGradientWeightedSumWithMainInputGradient",
        "SCALARS dY LENGTHS DATA INDICES",
        "DATA_grad_values SCALARS_grad",
    ),
    ("SortedSegmentWeightedSum", "SortedSegmentWeightedSumGradient", "SCALARS dY SEGMENT_IDS", "DATA_grad"),
    (
        "SparseSortedSegmentWeightedSum",
        "SortedSegmentWeightedSumGradient",
        "SCALARS dY SEGMENT_IDS",
        "DATA_grad_values",
    ),
    ("UnsortedSegmentWeightedSum", "UnsortedSegmentWeightedSumGradient", "SCALARS dY SEGMENT_IDS", "DATA_grad"),
    (
        "SparseUnsortedSegmentWeightedSum",
        "UnsortedSegmentWeightedSumGradient",
        "SCALARS dY SEGMENT_IDS",
        "DATA_grad_values",
    ),
    ("LengthsMax", "LengthsMaxWithMainInputAndForwardOutputGradient", "Y dY LENGTHS DATA", "DATA_grad"),
    ("SortedSegmentRangeMax", "SortedSegmentRangeMaxGradient", "DATA Y dY SEGMENT_IDS", "DATA_grad"),
    ("SortedSegmentRangeLogSumExp", "SortedSegmentRangeLogSumExpGradient", "DATA Y dY SEGMENT_IDS", "DATA_grad"),
    ("SortedSegmentRangeLogMeanExp", "SortedSegmentRangeLogMeanExpGradient", "DATA Y dY SEGMENT_IDS", "DATA_grad"),
]
"""Forward operators of inputs that are called by their letters, and what Caffe2 emits for a gradient dY.

Where it gives the gradient of SCALARS too, that was asked for.
"""
UNEMITTED: list[str] = [
    "LengthsSumGradient",
    "SparseLengthsSumGradient",
    "SparseSortedSegmentSumGradient",
    "SparseUnsortedSegmentSumGradient",
    "LengthsMeanGradient",
    "SparseLengthsMeanGradient",
    "SparseSortedSegmentMeanGradient",
    "SparseUnsortedSegmentMeanGradient",
    "SparseLengthsWeightedSumGradient",
    "SparseLengthsWeightedSumWithMainInputGradient",
    "SparseSortedSegmentWeightedSumGradient",
    "SparseUnsortedSegmentWeightedSumGradient",
]
"""Gradient operators that no maker emits."""


@pytest.mark.parametrize(("type", "gradient", "inputs", "outputs"), EMITTED)
def test_what_is_emitted(type: str, gradient: str, inputs: str, outputs: str) -> None:
    """As recorded of Caffe2; that of a table is one of rows, and nothing dense."""
    declared = find_schema(type)
    letters = [spec.name for spec in declared.inputs]
    weights: dict[str, Any] = {"grad_on_weights": 1} if "SCALARS_grad" in outputs else {}
    (step,), given = gradient_for_op(declared.view(operator_def(type, letters, ["Y"], **weights)), ["dY"])
    assert (step.type, list(step.input), list(step.output)) == (gradient, inputs.split(), outputs.split())
    assert given[0] == (RowSlices("INDICES", "DATA_grad_values") if "INDICES" in letters else "DATA_grad")
    assert [one for one in given[1:] if one is not None] == outputs.split()[1:]


def test_every_gradient_operator_is_emitted_or_known() -> None:
    assert set(segment_gradients) == {row[1] for row in EMITTED} | set(UNEMITTED)


@pytest.mark.parametrize("type", ["SortedSegmentWeightedSum", "SparseUnsortedSegmentWeightedSum"])
def test_ids_give_no_gradient_of_scalars(type: str) -> None:
    declared = find_schema(type)
    definition = operator_def(type, [spec.name for spec in declared.inputs], ["Y"], grad_on_weights=1)
    with pytest.raises(GradientError, match="has no gradient of SCALARS"):
        gradient_for_op(declared.view(definition), ["dY"])


WRONG_IDS: list[tuple[str, list[int], str]] = [
    ("SortedSegmentSum", [0, 0, 2], r"SEGMENT_IDS\[2\] is 2, behind 0"),
    ("SortedSegmentMean", [1, 1, 1], r"SEGMENT_IDS\[0\] is 1, the first is 0"),
    ("SortedSegmentRangeLogSumExp", [0, 1, 0], r"SEGMENT_IDS\[2\] is 0, behind 1"),
    ("SortedSegmentRangeMax", [0, -1, 0], r"SEGMENT_IDS\[1\] is -1, behind 0"),
    ("UnsortedSegmentSum", [0, -3, 2], r"SEGMENT_IDS\[1\] is -3, not in"),
    ("SortedSegmentSumGradient", [0, 0, 1], "name 2 segments, and dY has 3 rows"),
    ("SortedSegmentMeanGradient", [0, 1, 3], r"SEGMENT_IDS\[2\] is 3, behind 1"),
    ("UnsortedSegmentMeanGradient", [0, 3, 1], r"SEGMENT_IDS\[1\] is 3, not in \[0, 3\)"),
    ("UnsortedSegmentSumGradient", [0, 2, -2147483648], r"SEGMENT_IDS\[2\] is -2147483648, not in \[0, 3\)"),
]


@pytest.mark.parametrize(("type", "ids", "text"), WRONG_IDS)
def test_wrong_ids_are_named(type: str, ids: list[int], text: str) -> None:
    for engine in engines_of(type):
        with pytest.raises(NumericError, match=text):
            run(operator_def(type, ["in0", "in1"], ["Y"]), [values(3, 5), lengths(*ids)], engine)


@pytest.mark.parametrize("engine", engines_of("UnsortedSegmentSum"))
def test_a_given_number_of_segments(engine: str) -> None:
    definition = operator_def("UnsortedSegmentSum", ["in0", "in1"], ["Y"], num_segments=5)
    (Y,), _ = run(definition, [np.ones((3, 2), np.float32), lengths(3, 0, 3)], engine)
    np.testing.assert_array_equal(Y, np.array([[1, 1], [0, 0], [0, 0], [2, 2], [0, 0]], np.float32))
    with pytest.raises(NumericError, match=r"SEGMENT_IDS\[1\] is 5, not in \[0, 5\)"):
        run(definition, [np.ones((3, 2), np.float32), lengths(3, 5, 3)], engine)


@pytest.mark.parametrize("type", ["SortedSegmentRangeLogSumExp", "SortedSegmentRangeLogMeanExp", "LengthsMax"])
def test_infinity_and_nan(type: str) -> None:
    inf, nan = np.inf, np.nan
    rows = np.array([inf, 1, -inf, 3, -inf, -inf, nan, 1, 1, nan, 1000, 1000], np.float32)
    by = lengths(*[2] * 6) if type == "LengthsMax" else lengths(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5)
    more = {"LengthsMax": 0, "SortedSegmentRangeLogSumExp": np.log(2), "SortedSegmentRangeLogMeanExp": 0}[type]
    less = np.log(2) if "Mean" in type else 0
    for engine in engines_of(type):
        (Y,), _ = run(operator_def(type, ["in0", "in1"], ["Y"]), [rows, by], engine)
        np.testing.assert_allclose(Y, [inf, 3 - less, -inf, nan, nan, 1000 + more], rtol=1e-6)


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
        wanted = by_hand("Sum", W[indices], ids_of(counts), len(counts), np.zeros(len(indices)))
        np.testing.assert_allclose(ws.fetch("y"), wanted, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(ws.fetch("back"), np.repeat(wanted, counts, axis=0), rtol=1e-5, atol=1e-6)


def test_segments_with_more_axes() -> None:
    """A step of a recurrent net sees Y and dY so; DATA says what a row is, and its elements are counted."""
    DATA, ids = np.arange(15, dtype=np.float32).reshape(5, 3), np.zeros(5, np.int32)
    Y, dY = run_op("SortedSegmentRangeLogSumExp", DATA, ids), np.array([[1, 2, 3]], np.float32)
    plain = run_op("SortedSegmentRangeLogSumExpGradient", DATA, Y, dY, ids)
    for engine in engines_of("SortedSegmentRangeLogSumExpGradient"):
        deep = run_op("SortedSegmentRangeLogSumExpGradient", DATA, Y[None], dY[None], ids, engine=engine)
        np.testing.assert_allclose(deep, plain, rtol=1e-6)
    with pytest.raises(ShapeError, match=r"dY has the shape \(1, 2\), DATA \(5, 3\)"):
        run_op("SortedSegmentRangeLogSumExpGradient", DATA, Y, dY[:, :2], ids)
