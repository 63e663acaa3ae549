"""Features of several groups, merged: feature after feature from what each example has; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, NumericError, SchemaError, ShapeError, TazzaError
from tazza.operator import find_schema, gradient_for_op, operator_def, run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]
Feature = tuple[int, list[tuple[int, float]]]
"""The id, and the items: a key and a value each."""
Examples = list[list[Feature]]


def drawn(rng: np.random.Generator, examples: int, single: int | None, kind: str) -> Examples:
    """Return features of each example; those of a group that is a single feature have its id."""

    def items() -> list[tuple[int, float]]:
        count = 1 if kind == "Scalar" else int(rng.integers(0, 4))
        return [(int(rng.integers(100)), float(np.float32(rng.standard_normal()))) for _ in range(count)]

    if single is not None:
        return [[(single, items())] if rng.random() < 0.6 else [] for _ in range(examples)]
    return [[(int(rng.integers(1000)), items()) for _ in range(rng.integers(0, 4))] for _ in range(examples)]


def told(examples: Examples, kind: str, dtype: Any) -> list[Array]:
    """Return lengths, ids, counts, keys and values, as far as there are any."""
    features = [feature for one in examples for feature in one]
    items = [item for _, own in features for item in own]
    columns = {
        "lengths": np.array([len(one) for one in examples], np.int32),
        "ids": np.array([id for id, _ in features], np.int64),
        "counts": np.array([len(own) for _, own in features], np.int32),
        "keys": np.array([key for key, _ in items], np.int64),
        "values": np.array([value for _, value in items], np.float32).astype(dtype),
    }
    absent = {"Scalar": {"counts", "keys"}, "List": {"keys"}, "Map": set[str]()}[kind]
    return [column for name, column in columns.items() if name not in absent]


def told_alone(examples: Examples, kind: str, dtype: Any) -> list[Array]:
    """Return the same of a single feature, with presence last."""
    presence = np.array([bool(one) for one in examples])
    if kind == "Scalar":
        return [np.array([one[0][1][0][1] if one else 9.0 for one in examples], np.float32).astype(dtype), presence]
    counts = np.array([len(one[0][1]) if one else 0 for one in examples], np.int32)
    return [counts, *told(examples, kind, dtype)[3:], presence]


def case(form: str, kind: str, seed: int, groups: int, dtype: Any = np.float32) -> Case:
    """Return a merge of random groups of 5 examples; the gradient is checked of floats."""
    rng = np.random.default_rng(seed)
    ids = [31 + k for k in range(groups)] if form == "Single" else [None] * groups
    each = [drawn(rng, 5, id, kind) for id in ids]
    give = told_alone if form == "Single" else told
    inputs = [array for one in each for array in give(one, kind, dtype)]
    merged = [[feature for one in each for feature in one[n]] for n in range(5)]
    arguments = {"feature_ids": ids} if form == "Single" else {}
    found = tuple(told(merged, kind, dtype))
    name = f"Merge{form}{kind}FeatureTensors"
    id = f"{name} {groups} {np.dtype(dtype)}"
    return Case(name, inputs, found, arguments, outputs=len(found), gradient=dtype is not np.int32, id=id)


FORMS = [(form, kind) for form in ("Single", "Multi") for kind in ("Scalar", "List", "Map")]
CASES = [
    *(case(form, kind, seed, groups) for form, kind in FORMS for seed, groups in enumerate((3, 1), 7)),
    *(case(form, kind, 5, 2, np.float64) for form, kind in FORMS),
    *(case(form, kind, 6, 2, np.int32) for form, kind in FORMS),
]


@on_all_engines(CASES)
def test_merged(case: Case, engine: str) -> None:
    check_op(case, engine)


def texts(*values: str) -> Array:
    """Return text."""
    return np.array([value.encode() for value in values], object)


HAS, HAS_NOT = np.array([True, False, True]), np.array([False, True, False])
X = np.arange(6, dtype=np.float32).reshape(2, 3)
PRESENT = np.array([[True, False, True], [False, True, False]])
IDS: dict[str, Any] = {"feature_ids": [7, 8, 9]}
LENGTHS = np.array([1, 2], np.int32)
OTHERS = [
    Case("MergeDenseFeatureTensors", [X, PRESENT], ([2, 1], [7, 9, 8], [0.0, 2.0, 4.0]), IDS, outputs=3),
    Case(
        "MergeDenseFeatureTensors",
        [X.reshape(2, 3, 1).astype(np.int64), PRESENT.reshape(-1)],
        ([2, 1], [7, 9, 8], [0, 2, 4]),
        IDS | {"feature_ids": [7, 8, 9, 10]},
        outputs=3,
        id="other shapes, an id more",
    ),
    Case("MergeDenseFeatureTensors", [X[:0], PRESENT[:0]], ([], [], []), IDS, outputs=3, id="no examples"),
    Case(
        "MergeSingleScalarFeatureTensors",
        [texts("a", "b", "c"), HAS],
        ([1, 0, 1], [7, 7], texts("a", "c")),
        {"feature_ids": [7]},
        outputs=3,
        gradient=False,
        id="text",
    ),
    Case(
        "MergeSingleListFeatureTensors",  # as Caffe2: items are taken one behind the other by those that have some
        [np.array([2, 0, 1], np.int32), np.array([1.0, 2.0, 3.0], np.float32), HAS_NOT | HAS & ~HAS[::-1]],
        ([0, 1, 0], [7], [0], []),
        {"feature_ids": [7]},
        outputs=4,
        gradient=False,
        id="counts of those that have none",
    ),
    Case(
        "MergeMultiScalarFeatureTensors",
        [LENGTHS, np.array([11, 12, 13]), np.arange(4, dtype=np.float32)],
        ([1, 2], [11, 12, 13], [0.0, 1.0, 2.0]),
        outputs=3,
        gradient=False,
        id="a value more",
    ),
    Case(
        "MergeSingleScalarFeatureTensorsGradient", [HAS, HAS_NOT, X[0]], ([0.0, 0.0, 2.0], [0.0, 1.0, 0.0]), outputs=2
    ),
    Case(
        "MergeSingleListFeatureTensorsGradient",
        [np.array([2, 9, 1], np.int32), HAS, np.array([0, 3, 0], np.int32), HAS_NOT, X],
        ([0.0, 1.0, 5.0], [2.0, 3.0, 4.0]),
        outputs=2,
    ),
    Case(
        "MergeSingleScalarFeatureTensorsGradient",
        [HAS, HAS_NOT, texts("a", "b", "c")],
        (texts("a", "", "c"), texts("", "b", "")),
        outputs=2,
        gradient=False,
        id="text",
    ),
    Case(
        "MergeMultiScalarFeatureTensorsGradient", [LENGTHS, LENGTHS[::-1].copy(), X], ([0, 3, 4], [1, 2, 5]), outputs=2
    ),
    Case(
        "MergeMultiListFeatureTensorsGradient",
        [LENGTHS, np.array([2, 0, 1], np.int32), LENGTHS[::-1].copy(), np.array([1, 1, 0], np.int32), X],
        ([0.0, 1.0, 4.0], [2.0, 3.0]),
        outputs=2,
        gradient=False,
        id="dY with an element more",
    ),
]


@on_all_engines(OTHERS)
def test_others(case: Case, engine: str) -> None:
    check_op(case, engine)


EMITTED = {
    "MergeSingleScalarFeatureTensors": "presence",
    "MergeSingleListFeatureTensors": "counts presence",
    "MergeSingleMapFeatureTensors": "counts presence",
    "MergeMultiScalarFeatureTensors": "lengths",
    "MergeMultiListFeatureTensors": "lengths counts",
    "MergeMultiMapFeatureTensors": "lengths counts",
}


@pytest.mark.parametrize(("type", "read"), EMITTED.items())
def test_gradients_read_the_structure(type: str, read: str) -> None:
    schema = find_schema(type)
    inputs = [f"{letter}{k}" for k in range(2) for letter in schema.inputs_by_letter]
    arguments: dict[str, Any] = IDS if "Single" in type else {}
    op = schema.view(operator_def(type, inputs, list(schema.outputs_by_letter), **arguments))
    (emitted,), given = gradient_for_op(op, [*[None] * (len(schema.outputs) - 1), "dY"])
    assert emitted.type == f"{type}Gradient"
    assert list(emitted.input) == [*(f"{letter}{k}" for k in range(2) for letter in read.split()), "dY"]
    assert list(emitted.output) == ["X0_grad", "X1_grad"]
    assert [name for name in given if name is not None] == ["X0_grad", "X1_grad"]


THREE = np.array([11, 12, 13])
REFUSED: list[tuple[str, list[Any], dict[str, Any], type[TazzaError], str]] = [
    ("DenseFeatureTensors", [X, PRESENT[:1]], IDS, ShapeError, "presence has 3 elements, 6 are asked for"),
    (
        "DenseFeatureTensors",
        [X, PRESENT],
        {"feature_ids": [7, 8]},
        ArgumentError,
        "feature_ids names 2 features, there are 3",
    ),
    ("DenseFeatureTensors", [X[0], PRESENT], IDS, ShapeError, "X has rank 1"),
    ("SingleScalarFeatureTensors", [X[0], HAS, X[1], HAS], {"feature_ids": [7]}, ArgumentError, "there are 2"),
    ("SingleScalarFeatureTensors", [X[0], HAS[:2]], IDS, ShapeError, "presence0 has 2 elements, 3 are asked for"),
    ("SingleScalarFeatureTensors", [X[0], HAS, X[1, :2], HAS], IDS, ShapeError, "X1 has 2 elements, 3 are asked for"),
    ("SingleScalarFeatureTensors", [X[0], HAS, THREE, HAS], IDS, DTypeError, "X1 is int64, X0 is float32"),
    ("SingleScalarFeatureTensors", [X[0], HAS, X[0]], IDS, SchemaError, "2 X and 1 presence do not go in turn"),
    ("SingleListFeatureTensors", [[1, 0, 1], X[0, :1], HAS], IDS, ShapeError, "X0 has 1 elements, 2 are"),
    ("SingleListFeatureTensors", [[2, -1, 1], X[0], ~HAS], IDS, NumericError, r"counts0\[1\] is -1"),
    ("MultiScalarFeatureTensors", [LENGTHS, THREE[:2], X[0]], {}, NumericError, "lengths0 add up to 3, and ids0 has 2"),
    ("MultiScalarFeatureTensors", [[-1, 2], THREE, X[0]], {}, NumericError, r"lengths0\[0\] is -1"),
    (
        "MultiListFeatureTensors",
        [LENGTHS, THREE, [1, 0, 1], X[0]],
        {},
        NumericError,
        "counts0 add up to 2, and X0 has 3",
    ),
    ("MultiListFeatureTensors", [LENGTHS, THREE, [1, 0], X[0]], {}, ShapeError, "counts0 has 2 elements, 3 are"),
    ("MultiScalarFeatureTensorsGradient", [LENGTHS, LENGTHS, X[0]], {}, ShapeError, "dY has 3 elements, 6 are"),
]


@pytest.mark.parametrize(("type", "inputs", "arguments", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], arguments: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(f"Merge{type}", *inputs, **arguments)
