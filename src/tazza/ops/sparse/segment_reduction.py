"""Reductions of segments: for each reducer R of a table, each way to divide rows, in turn or picked by indices.

    Y[m] = R over the rows of segment m

Letters: M segments; DATA has N rows that are taken in turn, or V rows of which INDICES (I) picks; a row has the shape
S, and SCALARS of weighted reducers one number for each row that is taken. A segment without rows gives 0. What a
reducer is stands in `reducer`, what divides rows in `segment`; here is which operators are made of these.

A `Kind` is the forward operator of one division: Lengths<R>, SparseLengths<R> ... A `Backward` is a gradient operator:
its inputs by letters in their order, and the kinds that emit it. Those that none emits are there for nets that name
them. The gradient of DATA where it is picked from is one of rows: INDICES, and dX for each of them.

Source: Caffe2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tazza.errors import GradientError
from tazza.operator import (
    FLOAT,
    INDEX,
    Array,
    BlobSpec,
    Cost,
    Effects,
    GradientRequest,
    OpSchema,
    OpView,
    Role,
    arg,
    blob,
    ends,
    kernel,
    schema,
)
from tazza.operator.by_letter import by_letter
from tazza.ops.sparse.reducer import REDUCERS, Reducer, SegmentRows
from tazza.ops.sparse.segment import BY_IDS, BY_LENGTHS, BY_SORTED_IDS, Division, Parts, check_rows, row_count
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec
from tazza.tensor.expression import Expression

PICKED = frozenset({DataType.FLOAT, DataType.FLOAT16})
GRAD_ON_WEIGHTS = arg("grad_on_weights", bool, default=False, doc="the gradient of SCALARS is asked for too")
NOTHING: Array = np.zeros(0, np.float32)


@dataclass(frozen=True, slots=True)
class Kind:
    """The forward operators of one division; `floats` are the element types of DATA."""

    name: str
    division: Division
    gathered: bool = False
    floats: frozenset[DataType] = FLOAT

    @property
    def rows(self) -> str:
        """Dimension letter of the rows that are taken."""
        return "I" if self.gathered else "N"

    @property
    def noun(self) -> str:
        """What these are called in messages."""
        return "INDICES" if self.gathered else "rows of DATA"


KINDS = (
    Kind("Lengths", BY_LENGTHS),
    Kind("SparseLengths", BY_LENGTHS, gathered=True, floats=PICKED),
    Kind("SortedSegment", BY_SORTED_IDS),
    Kind("SparseSortedSegment", BY_SORTED_IDS, gathered=True),
    Kind("UnsortedSegment", BY_IDS),
    Kind("SparseUnsortedSegment", BY_IDS, gathered=True),
    Kind("SortedSegmentRange", BY_SORTED_IDS),
)
"""All forward operators, but for the reducer."""


@dataclass(frozen=True, slots=True)
class Backward:
    """A gradient operator.

    Attributes:
        name: of the type; `{}` stands for the reducer.
        kind: the forward operators whose reducers it is for.
        letters: its inputs.
        needs: what the reducers that it is for read beside dY; None: whatever that is.
        emitted_by: kinds whose gradient it is.
        weights: it gives the gradient of SCALARS too.
    """

    name: str
    kind: str
    letters: str
    needs: tuple[str, ...] | None
    emitted_by: str = ""
    weights: bool = False

    def serves(self, reducer: Reducer) -> bool:
        """Whether there is such an operator of a reducer."""
        return self.kind in reducer.kinds and self.needs in (None, reducer.needs)

    @property
    def gathered(self) -> bool:
        """Whether rows of DATA are picked."""
        return {"DATA", "INDICES"} <= set(self.letters.split())

    @property
    def told(self) -> bool:
        """Whether an input tells how many rows there are, beside what lengths add up to."""
        return bool({"SEGMENT_IDS", "SCALARS", "INDICES", "DATA"} & set(self.letters.split()))

    @property
    def noun(self) -> str:
        """What rows are called in messages."""
        names = {"INDICES": "INDICES", "DATA": "rows of DATA", "SCALARS": "SCALARS"}
        return next((names[letter] for letter in names if letter in self.letters.split()), "rows")

    def shapes(self, reducer: Reducer) -> frozenset[str]:
        """Return the inputs whose shape is read alone."""
        if self.gathered or "Y" in self.letters.split():
            return frozenset() if reducer.needs or self.gathered else frozenset({"DATA", "Y"})
        return frozenset({"DATA", "INDICES"} - ({"DATA"} if self.weights else set())) & set(self.letters.split())


SCALARS, RANGE = ("SCALARS",), "SortedSegmentRange"
BACKWARD = (
    Backward("LengthsIndicesInGradient{}Gradient", "Lengths", "dY LENGTHS DATA", (), "Lengths"),
    Backward("Lengths{}Gradient", "Lengths", "dY LENGTHS", ()),
    Backward("Lengths{}Gradient", "Lengths", "SCALARS dY LENGTHS", SCALARS, "Lengths"),
    Backward("Lengths{}WithMainInputGradient", "Lengths", "SCALARS dY LENGTHS DATA", SCALARS, "Lengths", weights=True),
    Backward(
        "Lengths{}WithMainInputAndForwardOutputGradient", "Lengths", "Y dY LENGTHS DATA", ("DATA", "Y"), "Lengths"
    ),
    *(
        row
        for name, told, emitted_by in (
            ("SparseLengthsIndicesInGradient{}", " INDICES", "SparseLengths"),
            ("SparseLengths{}", "", ""),
        )
        for row in (
            Backward(f"{name}Gradient", "SparseLengths", f"dY LENGTHS{told}", (), emitted_by),
            Backward(f"{name}Gradient", "SparseLengths", f"SCALARS dY LENGTHS{told}", SCALARS, emitted_by),
            Backward(
                f"{name}WithMainInputGradient",
                "SparseLengths",
                "SCALARS dY LENGTHS DATA INDICES",
                SCALARS,
                emitted_by,
                weights=True,
            ),
        )
    ),
    *(
        row
        for kind in ("SortedSegment", "UnsortedSegment")
        for name, emitted_by in ((kind, f"{kind} Sparse{kind}"), (f"Sparse{kind}", ""))
        for row in (
            Backward(f"{name}{{}}Gradient", name, "dY SEGMENT_IDS", (), emitted_by),
            Backward(f"{name}{{}}Gradient", name, "SCALARS dY SEGMENT_IDS", SCALARS, emitted_by),
        )
    ),
    Backward(f"{RANGE}{{}}Gradient", RANGE, "DATA Y dY SEGMENT_IDS", None, RANGE),
)
"""All gradient operators, but for the reducer."""


@dataclass(frozen=True, slots=True)
class Forward:
    """A declared forward operator."""

    reducer: Reducer
    kind: Kind
    schema: OpSchema


@dataclass(frozen=True, slots=True)
class Derived:
    """A declared gradient operator."""

    reducer: Reducer
    row: Backward
    division: Division
    schema: OpSchema


# -- forward -----------------------------------------------------------------------------------------------------------


def declare_forward(reducer: Reducer, kind: Kind) -> Forward:
    """Declare an operator; its letters are DATA, SCALARS, INDICES, and what divides the rows."""
    division, scalars = kind.division, (GRAD_ON_WEIGHTS,) if reducer.weighted else ()
    declared = schema(
        f"{kind.name}{reducer.name}",
        f"Y[m] = {reducer.text} {_words(kind, reducer)} in segment m; 0 where there are none.",
        inputs=_inputs(kind, reducer),
        outputs=[blob("Y", FLOAT, "M *S", dynamic=division.counted)],
        args=[*division.args, *scalars],
        effects=Effects.PURE,
        source="Caffe2",
        example=_example(kind, reducer),
    )

    @declared.cost
    def cost(op: OpView, DATA: TensorSpec, Y: TensorSpec, **others: TensorSpec) -> Cost:
        del op
        rows = others["INDICES"].shape[0] if kind.gathered else DATA.shape[0]
        taken = rows * (DATA.size // DATA.shape[0] if DATA.shape[0] else 0)
        read = taken * DATA.dtype.itemsize + sum(one.nbytes for one in others.values())
        return Cost(taken * reducer.flops, read, Y.nbytes)

    @declared.gradient
    def maker(g: GradientRequest) -> list[OperatorDef]:
        return _emit(g, reducer, kind)

    def compute(op: OpView, given: Mapping[str, Any]) -> None:
        _reduce(op, reducer, kind, given)

    kernel(declared)(by_letter(declared, compute))
    return Forward(reducer, kind, declared)


def _words(kind: Kind, reducer: Reducer) -> str:
    rows = "for the rows x = DATA[i] of the INDICES i" if kind.gathered else "for the rows x of DATA"
    return f"{rows} and their SCALARS w" if reducer.weighted else rows


def _inputs(kind: Kind, reducer: Reducer) -> list[BlobSpec]:
    table = blob("DATA", kind.floats, "V *S", role=Role.PARAMETER, doc="a table")
    return [
        table if kind.gathered else blob("DATA", kind.floats, "N *S"),
        *([blob("SCALARS", FLOAT, kind.rows, doc="of each row that is taken")] if reducer.weighted else []),
        *([blob("INDICES", INDEX, "I", role=Role.INDEX, doc="which row of DATA, in [0, V)")] if kind.gathered else []),
        kind.division.blob(kind.rows),
    ]


def _example(kind: Kind, reducer: Reducer) -> str:
    picked = ["[3.0, 1.0, 2.0]", *(["[1.0, 2.0, 1.0]"] if reducer.weighted else []), "[1, 2, 0]"]
    plain = ["[1.0, 2.0, 3.0]", *(["[1.0, 2.0, 1.0]"] if reducer.weighted else [])]
    given = ", ".join([*(picked if kind.gathered else plain), kind.division.example])
    first, last = reducer.example
    return f"""
    >>> run("{kind.name}{reducer.name}", {given}).astype(float).round(3).tolist()
    {[first, *[0.0] * kind.division.between, last]}
    """


def _emit(g: GradientRequest, reducer: Reducer, kind: Kind) -> list[OperatorDef]:
    weights = reducer.weighted and bool(g.op.grad_on_weights)
    rows = [row for row in BACKWARD if row.serves(reducer) and kind.name in row.emitted_by.split()]
    found = [row for row in rows if row.weights == weights]
    if not found:
        raise GradientError(
            f"{g.op.type} has no gradient of {'SCALARS' if weights else 'DATA'}",
            hint="leave out grad_on_weights" if weights else "cut the path with StopGradient",
        )
    (row,) = found
    inputs = [_read(g, letter, reducer) for letter in row.letters.split()]
    outputs = [g.sparse(0, indices=g.INDICES).values if kind.gathered else g.dDATA]
    return g.emit(row.name.format(reducer.name), inputs, [*outputs, *([g.dSCALARS] if row.weights else [])])


def _read(g: GradientRequest, letter: str, reducer: Reducer) -> str:
    if letter == "DATA" and not reducer.needs:  # its shape alone
        return g.like("DATA")
    return str(getattr(g, letter))


def _reduce(op: OpView, reducer: Reducer, kind: Kind, given: Mapping[str, Any]) -> None:
    DATA, Y, division = given["DATA"], given["Y"], kind.division
    indices = given.get("INDICES")
    rows, by = len(DATA) if indices is None else indices.size, given[division.letter]
    segments = division.count(op, by)
    parts = division.parts(op, by, rows, segments, kind.noun)
    if indices is not None:
        check_rows(op, indices, len(DATA))
    result = Y.allocate((segments, *DATA.shape[1:])) if division.counted else Y
    for m in range(segments):
        s = _segment(parts, m, given, result.dtype)
        result[m] = reducer.reduce(s) if s.n else 0


def _segment(parts: Parts, m: int, given: Mapping[str, Any], dtype: Any) -> SegmentRows:
    """Return what is known of segment m, in a type."""
    rows, n = parts.rows(m), parts.count(m)
    x = w = y = dy = NOTHING
    if "DATA" in given:
        picked = given["INDICES"][rows] if "INDICES" in given else rows
        x = given["DATA"][picked].astype(dtype, copy=False)
    if "SCALARS" in given:
        rank = (given["dY"] if "dY" in given else given["DATA"]).ndim
        w = given["SCALARS"][rows].reshape(n, *[1] * (rank - 1))
    if "dY" in given:
        dy, y = given["dY"][m], given["Y"][m] if "Y" in given else NOTHING
    return SegmentRows(n, x, w, y, dy)


# -- backward ----------------------------------------------------------------------------------------------------------


def declare_backward(reducer: Reducer, row: Backward) -> Derived:
    """Declare a gradient operator; where no input tells how many rows there are, the lengths do."""
    kind = next(kind for kind in KINDS if kind.name == row.kind)
    letters, division = row.letters.split(), kind.division
    specs = {
        "dY": blob("dY", FLOAT, "M *S"),
        "Y": blob("Y", FLOAT, "M *S", doc="of the forward operator"),
        "SCALARS": blob("SCALARS", FLOAT, "N", doc="of each row"),
        "DATA": _data(reducer, row),
        "INDICES": blob("INDICES", INDEX if row.gathered else None, "N", role=Role.INDEX, doc=_doc(row)),
        division.letter: division.blob("N"),
    }
    declared = schema(
        row.name.format(reducer.name),
        f"dX[n] = {reducer.back} for each row n of segment m, with dy = dY[m].",
        inputs=[specs[letter] for letter in letters],
        outputs=[
            blob("dX", FLOAT, "N *S", dynamic=not row.told),
            *([blob("dSCALARS", FLOAT, "N")] if row.weights else []),
        ],
        args=[*division.args, *([GRAD_ON_WEIGHTS] if reducer.weighted else [])],
        effects=Effects.PURE,
        no_gradient=ends("second derivatives are not built"),
        source="derivative of the forward operator",
        example=_backward_example(reducer, row, division),
    )

    @declared.cost
    def cost(op: OpView, dY: TensorSpec, dX: TensorSpec, **others: TensorSpec) -> Cost:
        del op
        read = sum(
            others[letter].nbytes for letter in letters if letter in others and letter not in row.shapes(reducer)
        )
        return Cost(dX.size * Expression.parse(reducer.back).flops, dY.nbytes + read, dX.nbytes)

    def compute(op: OpView, given: Mapping[str, Any]) -> None:
        _spread(op, Derived(reducer, row, division, declared), given)

    kernel(declared)(by_letter(declared, compute, without=row.shapes(reducer)))
    return Derived(reducer, row, division, declared)


def _data(reducer: Reducer, row: Backward) -> BlobSpec:
    if row.gathered:
        return blob("DATA", FLOAT, "V *S", role=Role.PARAMETER, doc="a table")
    if "DATA" in row.shapes(reducer) and "Y" not in row.letters.split():
        return blob("DATA", None, "N *S", role=Role.SHAPE, doc="of any type: its shape counts alone")
    return blob("DATA", FLOAT, "N *S")


def _doc(row: Backward) -> str:
    return "which row of DATA, in [0, V)" if row.gathered else "of any type: it counts how many there are"


def _backward_example(reducer: Reducer, row: Backward, division: Division) -> str:
    first, last = reducer.example
    dY = [5.0, *[6.0] * division.between, 7.0]
    values = {
        "dY": dY,
        "Y": [first, *[0.0] * division.between, last],
        "SCALARS": [1.0, 2.0, 1.0],
        "DATA": [3.0, 1.0, 2.0] if row.gathered else [1.0, 2.0, 3.0],
        "INDICES": [1, 2, 0],
        division.letter: division.example,
    }
    given = ", ".join(str(values[letter]) for letter in row.letters.split())
    taken = "[0]" if row.weights else ""
    return f"""
    >>> run("{row.name.format(reducer.name)}", {given}){taken}.astype(float).round(1).tolist()
    {[round(one, 1) for one in reducer.gradient_example]}
    """


def _spread(op: OpView, derived: Derived, given: Mapping[str, Any]) -> None:
    row, division, dX = derived.row, derived.division, given["dX"]
    by, segments = given[division.letter], len(given["dY"])
    rows = len(dX) if row.told else row_count(op, by)
    parts = division.parts(op, by, rows, segments, row.noun)
    if row.gathered:
        check_rows(op, given["INDICES"], len(given["DATA"]))
    result = dX if row.told else dX.allocate((rows, *given["dY"].shape[1:]))
    for m in range(segments):
        s = _segment(parts, m, given, result.dtype)
        if s.n:
            result[parts.rows(m)] = derived.reducer.spread(s)
            if row.weights:
                given["dSCALARS"][parts.rows(m)] = derived.reducer.weigh(s)


FORWARD_OPERATORS = tuple(
    declare_forward(reducer, kind) for reducer in REDUCERS for kind in KINDS if kind.name in reducer.kinds
)
GRADIENT_OPERATORS = tuple(declare_backward(one, row) for one in REDUCERS for row in BACKWARD if row.serves(one))
"""All operators of the tables."""
