"""Features of examples that come in several groups, merged: one list of features for each of N examples.

A feature has an id, and for an example that has it a value, a list, or a map of keys to values. A group k of Multi*
says how many features each example has; one of Single* is a single feature, which an example has or has not:

    Scalar    lengths (N), ids (F), X (F)                              X (N), presence (N)
    List      lengths (N), ids (F), counts (F), X (I)                  counts (N), X (I), presence (N)
    Map       lengths (N), ids (F), counts (F), keys (I), X (I)        counts (N), keys (I), X (I), presence (N)

F = sum of `lengths` features of the group, I = sum of `counts` items of them. Id k of `feature_ids` is that of the
single feature k. What is merged has the letters of Multi*; for an example it holds the features of group 0, then those
of group 1 ... The gradient of X is taken back in the same order.

Of a blob that holds more than is asked for, the first elements count, of any shape. Items of a single feature belong
to the examples that have it: what `counts` says of others does not matter.

Source: Caffe2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tazza.data_class import dataclass
from tazza.errors import ArgumentError, NumericError
from tazza.operator import (
    Array,
    DynamicOutput,
    Effects,
    GradientRequest,
    OpSchema,
    OpView,
    Role,
    arg,
    as_many,
    blob,
    ends,
    family,
    gradients_of,
    kernel,
    not_written,
    pairs,
    schema,
)
from tazza.operator.by_letter import by_letter
from tazza.ops.shape.axis import product, require_one_type, require_within
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec

VALUES = frozenset({DataType.BOOL, DataType.INT32, DataType.INT64, DataType.FLOAT, DataType.DOUBLE, DataType.STRING})
STRUCTURE = ("lengths", "counts", "presence")
"""Letters that say which elements belong to what: the gradient reads them."""
FEATURE_IDS = arg("feature_ids", list[int], [], doc="the id of each feature")

INPUTS = {
    "lengths": blob("lengths", DataType.INT32, variadic=True, role=Role.INDEX, doc="features of each example"),
    "ids": blob("ids", DataType.INT64, variadic=True, role=Role.INDEX, doc="of each feature"),
    "counts": blob("counts", DataType.INT32, variadic=True, role=Role.INDEX, doc="items of each feature"),
    "keys": blob("keys", VALUES, variadic=True, role=Role.DATA, doc="of each item; of one type"),
    "X": blob("X", VALUES, variadic=True, role=Role.DATA, doc="the values; of one type"),
    "presence": blob("presence", DataType.BOOL, variadic=True, role=Role.INDEX, doc="whether an example has it"),
}
OUTPUTS = {
    "lengths": blob("Y_lengths", DataType.INT32),
    "ids": blob("Y_ids", DataType.INT64, dynamic=True),
    "counts": blob("Y_counts", DataType.INT32, dynamic=True),
    "keys": blob("Y_keys", dynamic=True),
    "X": blob("Y", dynamic=True),
}


@dataclass(frozen=True, slots=True)
class Merge:
    """The letters of a group in their order; what a feature is; and what the example gives and finds."""

    letters: str
    noun: str
    given: str
    found: str

    @property
    def names(self) -> list[str]:
        """The letters of a group."""
        return self.letters.split()

    @property
    def single(self) -> bool:
        """Whether a group is one feature."""
        return "presence" in self.names

    @property
    def listed(self) -> bool:
        """Whether features have items."""
        return "counts" in self.names

    @property
    def merged(self) -> list[str]:
        """What there is of merged groups."""
        return [name for name in OUTPUTS if name in ("lengths", "ids", *self.names)]

    @property
    def structure(self) -> list[str]:
        """The letters that the gradient reads."""
        return [name for name in self.names if name in STRUCTURE]


def _enough(op: OpView, letter: str, values: Array, count: int) -> None:
    op.require(values.size >= count, f"{letter} has {values.size} elements, {count} are asked for")


def _first(op: OpView, letter: str, values: Array, count: int) -> Array:
    """Return the first `count` elements of a blob."""
    _enough(op, letter, values, count)
    return values.reshape(-1)[:count]


def _not_negative(op: OpView, letter: str, numbers: Array) -> Array:
    require_within(op, letter, numbers, 0)
    return numbers


def _all_told(op: OpView, letter: str, values: Array, numbers: str, total: int) -> Array:
    """Return the elements of a blob, which numbers must add up to."""
    if values.size != total:
        message = f"{numbers} add up to {total}, and {letter} has {values.size} elements"
        raise op.error(NumericError, message, "they must be as many")
    return values.reshape(-1)


@dataclass(frozen=True, slots=True)
class Group:
    """The features of a group: the example of each, and how many items it has; 1 where it is a value."""

    examples: Array
    counts: Array

    @property
    def items(self) -> Array:
        """The example of each item."""
        return np.repeat(self.examples, self.counts)


def _group(op: OpView, row: Merge, given: Mapping[str, Any], k: int, N: int) -> Group:
    """Return what the structure of group k says of N examples: of no more features and items than blobs hold."""
    name, items = (f"X{k}", given["X"][k]) if "X" in given else ("dY", given["dY"])
    if row.single:
        present = _first(op, f"presence{k}", given["presence"][k], N)
        examples = np.flatnonzero(present)
        counts = np.ones_like(examples)
        if row.listed:
            said = np.where(present, _first(op, f"counts{k}", given["counts"][k], N), 0)
            counts = _not_negative(op, f"counts{k}", said)[present]
    else:
        lengths = _not_negative(op, f"lengths{k}", _first(op, f"lengths{k}", given["lengths"][k], N))
        features = int(lengths.sum(dtype=np.int64))
        _enough(op, *((f"counts{k}", given["counts"][k]) if row.listed else (name, items)), features)
        examples = np.repeat(np.arange(N), lengths)
        counts = np.ones_like(examples)
        if row.listed:
            counts = _not_negative(op, f"counts{k}", _first(op, f"counts{k}", given["counts"][k], features))
    if row.listed:
        _enough(op, name, items, int(counts.sum(dtype=np.int64)))
    return Group(examples, counts)


def _in_turn(examples: Sequence[Array]) -> Array:
    """Return places among all groups, one behind the other: by example, and by group for one example.

    >>> _in_turn([np.array([0, 1, 1]), np.array([0, 0, 1])])
    array([0, 3, 4, 1, 2, 5])
    """
    return np.argsort(np.concatenate(examples), kind="stable")


def _taken(op: OpView, row: Merge, given: Mapping[str, Any], letter: str, k: int, group: Group) -> Array:
    """Return the ids, keys or values of a group, one for each feature or item."""
    name, count = f"{letter}{k}", int(group.counts.sum())
    if letter == "ids":
        if row.single:
            return np.full(group.examples.size, op.feature_ids[k])
        return _all_told(op, name, given["ids"][k], f"lengths{k}", group.examples.size)
    values = given[letter][k]
    if row.single and not row.listed:
        return values.reshape(-1)[group.examples]
    exact = letter == "X" and row.listed and not row.single
    return _all_told(op, name, values, f"counts{k}", count) if exact else _first(op, name, values, count)


def _merge(op: OpView, row: Merge, given: Mapping[str, Any]) -> None:
    first = given[row.names[0]]
    N, K = first[0].size, range(len(first))
    if row.single and not row.listed:
        for k in K:
            _first(op, f"X{k}", given["X"][k], N)
    groups = [_group(op, row, given, k, N) for k in K]
    features, items = (_in_turn([getattr(one, of) for one in groups]) for of in ("examples", "items"))
    joined = {
        letter: np.concatenate([_taken(op, row, given, letter, k, groups[k]) for k in K])
        for letter in row.merged
        if letter in ("ids", "keys", "X")
    }
    joined["counts"] = np.concatenate([one.counts for one in groups])
    given["Y_lengths"][...] = np.bincount(np.concatenate([one.examples for one in groups]), minlength=N)
    for letter in row.merged[1:]:
        places = features if letter in ("ids", "counts") else items
        given[OUTPUTS[letter].name].allocate(places.shape)[...] = joined[letter][places]


def _size(spec: TensorSpec) -> int | None:
    return None if spec.dims is None else product(spec.dims)


@family(
    {
        "MergeSingleScalarFeatureTensors": Merge(
            "X presence",
            "a value",
            "[1.0, 2.0], np.array([True, False]), [3.0, 4.0], np.array([True, True]), feature_ids=[11, 12]",
            "[[2, 1], [11, 12, 12], [1.0, 3.0, 4.0]]",
        ),
        "MergeSingleListFeatureTensors": Merge(
            "counts X presence",
            "a list",
            "[1, 0], [1.0], np.array([True, False]), [0, 2], [2.0, 3.0], np.array([False, True]), feature_ids=[11, 12]",
            "[[1, 1], [11, 12], [1, 2], [1.0, 2.0, 3.0]]",
        ),
        "MergeSingleMapFeatureTensors": Merge(
            "counts keys X presence",
            "a map",
            "[1, 0], [7], [1.0], np.array([True, False]), [0, 2], [8, 9], [2.0, 3.0], np.array([False, True]), "
            "feature_ids=[11, 12]",
            "[[1, 1], [11, 12], [1, 2], [7, 8, 9], [1.0, 2.0, 3.0]]",
        ),
        "MergeMultiScalarFeatureTensors": Merge(
            "lengths ids X",
            "a value",
            "[1, 1], np.array([11, 12]), [1.0, 2.0], [1, 0], np.array([13]), [3.0]",
            "[[2, 1], [11, 13, 12], [1.0, 3.0, 2.0]]",
        ),
        "MergeMultiListFeatureTensors": Merge(
            "lengths ids counts X",
            "a list",
            "[1, 1], np.array([11, 12]), [1, 0], [1.0], [1, 0], np.array([13]), [2], [2.0, 3.0]",
            "[[2, 1], [11, 13, 12], [1, 2, 0], [1.0, 2.0, 3.0]]",
        ),
        "MergeMultiMapFeatureTensors": Merge(
            "lengths ids counts keys X",
            "a map",
            "[1, 1], np.array([11, 12]), [1, 0], [7], [1.0], [1, 0], np.array([13]), [2], [8, 9], [2.0, 3.0]",
            "[[2, 1], [11, 13, 12], [1, 2, 0], [7, 8, 9], [1.0, 2.0, 3.0]]",
        ),
    }
)
def merges(type: str, row: Merge) -> OpSchema:
    """Features of several groups, merged."""
    made = schema(
        type,
        f"Y = the features of all groups, by example; each is {row.noun}.",
        inputs=[INPUTS[letter] for letter in row.names],
        outputs=[OUTPUTS[letter] for letter in row.merged],
        args=[FEATURE_IDS] if row.single else [],
        relations=[pairs(*row.names)],
        effects=Effects.PURE,
        source="Caffe2",
        example=f'''
    >>> [one.tolist() for one in run("{type}", {row.given})]
    {row.found}
    ''',
    )

    if row.single:

        @made.validate
        def validate(op: OpView) -> None:
            _check_ids(op, op.input_letters.count("X"))

    @made.infer
    def infer(op: OpView, **specs: tuple[TensorSpec, ...]) -> tuple[TensorSpec, ...]:
        dtypes = {letter: require_one_type(op, letter, specs[letter]) for letter in ("keys", "X") if letter in specs}
        N = _size(specs[row.names[0]][0])
        dtypes |= {"lengths": DataType.INT32, "ids": DataType.INT64, "counts": DataType.INT32}
        return tuple(TensorSpec((N if letter == "lengths" else None,), dtypes[letter]) for letter in row.merged)

    @made.gradient
    def maker(g: GradientRequest) -> list[OperatorDef]:
        letters = list(enumerate(g.op.input_letters))
        read = [g.I(i) for i, letter in letters if letter in row.structure]
        dX = [g.GI(i) for i, letter in letters if letter == "X"]
        return g.emit(f"{type}Gradient", [*read, g.dY], dX)

    def compute(op: OpView, given: Mapping[str, Any]) -> None:
        _merge(op, row, given)

    kernel(made)(by_letter(made, compute))
    return made


def _check_ids(op: OpView, count: int) -> None:
    """Check that each of `count` features has an id."""
    if len(op.feature_ids) < count:
        message = f"feature_ids names {len(op.feature_ids)} features, there are {count}"
        raise op.error(ArgumentError, message, "give an id for each")


def _spread(op: OpView, row: Merge, given: Mapping[str, Any]) -> None:
    first = given[row.structure[0]]
    groups = [_group(op, row, given, k, first[0].size) for k in range(len(first))]
    order = _in_turn([one.items for one in groups])
    joined = np.empty(order.size, given["dY"].dtype)
    joined[order] = _first(op, "dY", given["dY"], order.size)
    ends_at = np.cumsum([one.items.size for one in groups])
    for group, part, dX in zip(groups, np.split(joined, ends_at[:-1]), given["dX"], strict=True):
        if row.listed or not row.single:
            dX.allocate(part.shape)[...] = part
        else:
            dX[...] = b"" if dX.dtype == object else 0
            dX.flat[group.examples] = part


def _backward_example(type: str, row: Merge) -> str:
    given = {
        "lengths": ("[1, 0]", "[1, 1]"),
        "counts": ("[1, 0]", "[1, 1]"),
        "presence": ("np.array([True, False])", "np.array([True, True])"),
    }
    if row.structure == ["lengths", "counts"]:
        given["counts"] = "[1]", "[1, 1]"
    inputs = ", ".join(given[letter][k] for k in range(2) for letter in row.structure)
    first = [5.0, 0.0] if row.structure == ["presence"] else [5.0]
    return f"""
    >>> [one.tolist() for one in run("{type}", {inputs}, [5.0, 6.0, 7.0], outputs=2)]
    {[first, [6.0, 7.0]]}
    """


@family(gradients_of(merges))
def merge_gradients(type: str, row: Merge) -> OpSchema:
    """The gradient of each X, from that of the merged one."""
    scalar = row.single and not row.listed
    rest = "0 where there is none" if scalar else "one behind the other"
    made = schema(
        type,
        f"dX = the elements of dY that came from each X, {rest}.",
        inputs=[*(INPUTS[letter] for letter in row.structure), blob("dY", VALUES, role=Role.DATA)],
        outputs=[blob("dX", variadic=True, dynamic=not scalar)],
        args=[FEATURE_IDS] if row.single else [],
        relations=[*([pairs(*row.structure)] if len(row.structure) > 1 else []), as_many("dX", row.structure[0])],
        effects=Effects.PURE,
        no_gradient=ends("second derivatives are not built"),
        source="derivative of the forward operator",
        example=_backward_example(type, row),
    )

    @made.infer
    def infer(op: OpView, dY: TensorSpec, **specs: tuple[TensorSpec, ...]) -> tuple[TensorSpec, ...]:
        del op
        like = specs[row.structure[0]]
        return tuple(TensorSpec(spec.dims if scalar else (None,), dY.dtype) for spec in like)

    def compute(op: OpView, given: Mapping[str, Any]) -> None:
        _spread(op, row, given)

    kernel(made)(by_letter(made, compute))
    return made


DENSE = schema(
    "MergeDenseFeatureTensors",
    """Y = the values X (N, F ...) of the features that each example has, where presence is true, by example.

    Of blobs with more than N F elements the first count.""",
    inputs=[
        blob("X", VALUES, doc="a value of each feature for each example"),
        blob("presence", DataType.BOOL, role=Role.INDEX, doc="whether an example has a feature"),
    ],
    outputs=[OUTPUTS["lengths"], OUTPUTS["ids"], OUTPUTS["X"]],
    args=[FEATURE_IDS],
    effects=Effects.PURE,
    no_gradient=not_written("Caffe2 has none either"),
    source="Caffe2",
    example="""
    >>> presence = np.array([[True, False], [True, True]])
    >>> [one.tolist() for one in run("MergeDenseFeatureTensors", [[1, 2], [3, 4]], presence, feature_ids=[11, 12])]
    [[1, 2], [11, 11, 12], [1, 3, 4]]
    """,
)


@DENSE.infer
def dense_infer(op: OpView, X: TensorSpec, presence: TensorSpec) -> tuple[TensorSpec, ...]:
    if X.dims is not None:
        op.require(len(X.dims) >= 2, f"X has rank {len(X.dims)}, it has a row for each example")
        if X.dims[1] is not None:
            _check_ids(op, X.dims[1])
    rows = None if X.dims is None else X.dims[0]
    return TensorSpec((rows,), DataType.INT32), TensorSpec((None,), DataType.INT64), TensorSpec((None,), X.dtype)


@kernel(DENSE)
def dense(op: OpView, X: Array, presence: Array, Y_lengths: Array, Y_ids: DynamicOutput, Y: DynamicOutput) -> None:
    N, F = X.shape[:2]
    present = _first(op, "presence", presence, N * F).reshape(N, F)
    ids = np.array(op.feature_ids, np.int64)[np.nonzero(present)[1]]
    Y_lengths[...] = present.sum(axis=1)
    Y_ids.allocate(ids.shape)[...] = ids
    Y.allocate(ids.shape)[...] = _first(op, "X", X, N * F).reshape(N, F)[present]
