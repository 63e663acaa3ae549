"""Further cases for `record_golden`: segments of rows by lengths and by ids, all reducers, and their gradients.

python3.8 -m tools.golden_segments [FOLDER [TYPE ...]]
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tools.golden_rows import halves, signed, whole
from tools.record_golden import Call, caffe2, main

SHAPES: list[tuple[int, ...]] = [(3,), (2, 5), ()]
"""Of a row."""
PICKS = np.array([10, 3, 3, 0, 7, 10, 5])
DIVISIONS: dict[str, list[Any]] = {
    "Lengths": [whole(2, 0, 4, 1), whole(0, 7), whole(7, 0, 0)],
    "SortedSegment": [whole(0, 0, 1, 2, 2, 2, 3), whole(*[0] * 7), whole(*range(7))],
    "UnsortedSegment": [whole(3, 0, 3, 0, 0, 1, 3), whole(*[2] * 7), whole(*range(6, -1, -1))],
}
"""Of 7 rows."""
EMPTY = {"Lengths": whole(0, 0), "SortedSegment": whole(), "UnsortedSegment": whole()}
PLAIN = ("Sum", "Mean", "WeightedSum")
RANGES = ("Sum", "Mean", "Max", "LogSumExp", "LogMeanExp")


def letter(division: str) -> str:
    """Return what the input is called that divides the rows."""
    return "LENGTHS" if division == "Lengths" else "SEGMENT_IDS"


def count_of(division: str, by: Any) -> int:
    """Return how many segments there are."""
    return len(by) if division == "Lengths" else int(by.max(initial=-1)) + 1


def forward_calls(division: str, reducer: str, gathered: bool) -> list[Call]:
    """Return cases of one operator: all shapes, all divisions, both types of indices, nothing at all."""
    by, shape = DIVISIONS[division], SHAPES[0]
    plain: list[tuple[Any, Any, Any]] = [(signed(11 if gathered else 7, *s), by[0], PICKS) for s in SHAPES]
    plain += [(halves(11 if gathered else 7, *shape), one, PICKS.astype(np.int32)) for one in by[1:]]
    plain.append((signed(11, *shape)[: 11 if gathered else 0], EMPTY[division], PICKS[:0]))
    if gathered and division == "Lengths":
        plain.append((signed(11, *shape).astype(np.float16), by[0], PICKS))
    found: list[Call] = []
    for number, (data, one, picks) in enumerate(plain):
        given: dict[str, Any] = {"DATA": data}
        if "Weighted" in reducer:
            given["SCALARS"] = signed(len(picks) if gathered else len(data))
        if gathered:
            given["INDICES"] = picks
        given[letter(division)] = one
        some: dict[str, Any] = {"num_segments": 9} if division == "UnsortedSegment" and number in (1, 5) else {}
        if "Weighted" in reducer and division == "Lengths" and number == 1:
            some["grad_on_weights"] = 1
        found.append(Call(given, ["y"], some))
    return found


def forward() -> list[tuple[str, list[Call]]]:
    """Operators of all divisions."""
    found: list[tuple[str, list[Call]]] = []
    for division in DIVISIONS:
        for kind in ("", "Sparse"):
            reducers = (*PLAIN, "Max") if division == "Lengths" and not kind else PLAIN
            for reducer in reducers:
                if division != "Lengths" or reducer != "Sum":  # recorded with the other rows
                    found.append((kind + division + reducer, forward_calls(division, reducer, bool(kind))))
    for reducer in RANGES:
        found.append((f"SortedSegmentRange{reducer}", forward_calls("SortedSegment", reducer, False)))
    weighted = [Call({"DATA": signed(7, *s), "SCALARS": signed(7)}, ["y"], {}) for s in SHAPES]
    weighted.append(Call({"DATA": signed(4, 3), "SCALARS": signed(6)}, ["y"], {"grad_on_weights": 1}))
    weighted.append(Call({"DATA": signed(4, 3)[:0], "SCALARS": signed(0)}, ["y"], {}))
    shapes = [Call({"X": signed(7, *SHAPES[1])}, ["y"], some) for some in ({}, {"axes": [2, 0]}, {"axes": [1, 1]})]
    shapes += [Call({"X": one}, ["y"], {}) for one in (whole(3, 1), PICKS[:0], halves(4, 3).astype(np.float16))]
    return [*found, ("ReduceFrontWeightedSum", weighted), ("Shape", shapes)]


def backward_calls(letters: str, division: str, table: bool = False) -> list[Call]:
    """Return cases of a gradient operator with inputs of these letters."""
    by = DIVISIONS[division]
    problems: list[tuple[Any, Any]] = [(shape, by[0]) for shape in SHAPES]
    problems += [(SHAPES[0], one) for one in (*by[1:], EMPTY[division])]
    found: list[Call] = []
    for number, (shape, one) in enumerate(problems):
        count = count_of(division, one)
        rows = int(one.sum()) if division == "Lengths" else len(one)
        values: dict[str, Any] = {
            "dY": signed(count, *shape),
            letter(division): one,
            "SCALARS": signed(rows) + 2,
            "INDICES": PICKS[:rows].astype(np.int32 if number == 2 else np.int64),
            "DATA": signed(11, *shape) if table else halves(rows, *shape),
        }
        outputs = ["dX", "dSCALARS"] if "SCALARS" in letters and "DATA" in letters else ["dX"]
        found.append(Call({name: values[name] for name in letters.split()}, outputs, {}))
    return found


LENGTHS_GRADIENTS: list[tuple[str, str, str]] = [
    ("LengthsIndicesInGradient{}Gradient", "Mean", "dY LENGTHS DATA"),
    ("Lengths{}Gradient", "Mean", "dY LENGTHS"),
    ("SparseLengths{}Gradient", "Mean", "dY LENGTHS"),
    ("SparseLengthsIndicesInGradient{}Gradient", "Mean", "dY LENGTHS INDICES"),
    ("Lengths{}Gradient", "WeightedSum", "SCALARS dY LENGTHS"),
    ("SparseLengths{}Gradient", "WeightedSum", "SCALARS dY LENGTHS"),
    ("SparseLengthsIndicesInGradient{}Gradient", "WeightedSum", "SCALARS dY LENGTHS INDICES"),
    ("Lengths{}WithMainInputGradient", "WeightedSum", "SCALARS dY LENGTHS DATA"),
    ("SparseLengths{}WithMainInputGradient", "WeightedSum", "SCALARS dY LENGTHS DATA INDICES"),
    ("SparseLengthsIndicesInGradient{}WithMainInputGradient", "WeightedSum", "SCALARS dY LENGTHS DATA INDICES"),
]


def backward() -> list[tuple[str, list[Call]]]:
    """Gradient operators of sums, means and weighted sums."""
    found: list[tuple[str, list[Call]]] = []
    for name, reducer, letters in LENGTHS_GRADIENTS:
        found.append((name.format(reducer), backward_calls(letters, "Lengths", "INDICES" in letters)))
    for division in ("SortedSegment", "UnsortedSegment"):
        for kind in ("", "Sparse"):
            for reducer in PLAIN:
                letters = f"{'SCALARS ' * ('Weighted' in reducer)}dY SEGMENT_IDS"
                found.append((f"{kind}{division}{reducer}Gradient", backward_calls(letters, division)))
    front = [Call({"s": signed(7), "dY": signed(*s), "n": np.array([7, *s])}, ["dX"], {}) for s in SHAPES[:2]]
    front.append(Call({"s": signed(7), "dY": signed(3), "n": np.array([4, 3])}, ["dX"], {}))
    return [*found, ("ReduceFrontWeightedSumGradient", front)]


def of_outputs() -> list[tuple[str, list[Call]]]:
    """Gradient operators that read what the forward operator gave."""
    core, workspace, _ = caffe2()
    found: list[tuple[str, list[Call]]] = []
    for type, division, name, letters in [
        ("LengthsMax", "Lengths", "LengthsMaxWithMainInputAndForwardOutputGradient", "Y dY LENGTHS DATA"),
        *((f"SortedSegmentRange{one}", "SortedSegment", "", "DATA Y dY SEGMENT_IDS") for one in RANGES),
    ]:
        calls: list[Call] = []
        for call in backward_calls(
            letters.replace("Y ", "", 1) if letters[0] == "Y" else "DATA dY SEGMENT_IDS", division
        ):
            workspace.ResetWorkspace()
            for key in ("DATA", letter(division)):
                workspace.FeedBlob(key, call.inputs[key])
            workspace.RunOperatorOnce(core.CreateOperator(type, ["DATA", letter(division)], ["Y"]))
            values = {**call.inputs, "Y": workspace.FetchBlob("Y")}
            calls.append(Call({key: values[key] for key in letters.split()}, ["dX"], {}))
        found.append((name if name else f"{type}Gradient", calls))
    return found


if __name__ == "__main__":
    main([forward, backward, of_outputs])
