"""Reductions of segments: a reducer R, a way to divide rows, and rows that are taken in turn or picked by indices.

    Y[m] = R over the rows of segment m

Letters: M segments; DATA has N rows that are taken in turn, or V rows of which INDICES (I) picks; a row has the shape
S, and SCALARS of weighted reducers one number for each row that is taken. A segment without rows gives 0. What a
reducer is stands in `reducer`, what divides rows in `segment`; here is which operators are made of these.

A forward operator is a row of `segment_reductions`, a gradient operator one of `BACKWARD`: its inputs by letters in
their order, and the operators that emit it. The gradient of DATA where it is picked from is one of rows: INDICES, and
dX for each of them.

Source: Caffe2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tazza.data_class import dataclass
from tazza.errors import GradientError
from tazza.operator import (
    FLOAT,
    INDEX,
    BlobSpec,
    Cost,
    Effects,
    GradientRequest,
    NoGradient,
    OpSchema,
    OpView,
    Role,
    arg,
    blob,
    ends,
    family,
    kernel,
    not_written,
    schema,
    show_dims,
)
from tazza.operator.by_letter import by_letter
from tazza.ops.shape.axis import agree, product
from tazza.ops.sparse.reducer import (
    LOG_MEAN_EXP,
    LOG_SUM_EXP,
    MAX,
    MEAN,
    NOTHING,
    SUM,
    WEIGHTED_SUM,
    Reducer,
    SegmentRows,
)
from tazza.ops.sparse.segment import BY_IDS, BY_LENGTHS, BY_SORTED_IDS, Division, Parts, check_rows, row_count
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec
from tazza.tensor.expression import Expression

PICKED = frozenset({DataType.FLOAT, DataType.FLOAT16})
GRAD_ON_WEIGHTS = arg("grad_on_weights", bool, default=False, doc="the gradient of SCALARS is asked for too")


@dataclass(frozen=True, slots=True)
class Kind:
    """How rows come: what divides them, whether INDICES pick them, the element types of DATA."""

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


LENGTHS, PICKED_LENGTHS = Kind(BY_LENGTHS), Kind(BY_LENGTHS, gathered=True, floats=PICKED)
PICKED_ROWS = Kind(BY_LENGTHS, gathered=True)
SORTED, PICKED_SORTED = Kind(BY_SORTED_IDS), Kind(BY_SORTED_IDS, gathered=True)
IDS, PICKED_IDS = Kind(BY_IDS), Kind(BY_IDS, gathered=True)


@dataclass(frozen=True, slots=True)
class Forward:
    """A forward operator, and why it has no gradient if it has none."""

    reducer: Reducer
    kind: Kind
    source: str = "Caffe2"
    no_gradient: NoGradient | None = None


@dataclass(frozen=True, slots=True)
class Backward:
    """A gradient operator.

    Attributes:
        reducer, division: those of the forward operators.
        letters: its inputs, in their order.
        emitted_by: the forward operators whose gradient it is.
        weights: it gives the gradient of SCALARS too.
    """

    reducer: Reducer
    division: Division
    letters: str
    emitted_by: tuple[str, ...] = ()
    weights: bool = False

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

    @property
    def shapes(self) -> frozenset[str]:
        """The inputs whose shape is read alone."""
        read = {*self.reducer.needs, *(["DATA"] if self.weights else []), *(["INDICES"] if self.gathered else [])}
        return frozenset({"DATA", "INDICES", "Y"} - read) & set(self.letters.split())


BACKWARD = {
    "LengthsIndicesInGradientSumGradient": Backward(SUM, BY_LENGTHS, "dY LENGTHS DATA", ("LengthsSum",)),
    "LengthsSumGradient": Backward(SUM, BY_LENGTHS, "dY LENGTHS"),
    "LengthsIndicesInGradientMeanGradient": Backward(MEAN, BY_LENGTHS, "dY LENGTHS DATA", ("LengthsMean",)),
    "LengthsMeanGradient": Backward(MEAN, BY_LENGTHS, "dY LENGTHS"),
    "LengthsWeightedSumGradient": Backward(WEIGHTED_SUM, BY_LENGTHS, "SCALARS dY LENGTHS", ("LengthsWeightedSum",)),
    "LengthsWeightedSumWithMainInputGradient": Backward(
        WEIGHTED_SUM, BY_LENGTHS, "SCALARS dY LENGTHS DATA", ("LengthsWeightedSum",), weights=True
    ),
    "LengthsMaxWithMainInputAndForwardOutputGradient": Backward(MAX, BY_LENGTHS, "Y dY LENGTHS DATA", ("LengthsMax",)),
    "SparseLengthsIndicesInGradientSumGradient": Backward(SUM, BY_LENGTHS, "dY LENGTHS INDICES", ("SparseLengthsSum",)),
    "SparseLengthsSumGradient": Backward(SUM, BY_LENGTHS, "dY LENGTHS"),
    "SparseLengthsIndicesInGradientMeanGradient": Backward(
        MEAN, BY_LENGTHS, "dY LENGTHS INDICES", ("SparseLengthsMean",)
    ),
    "SparseLengthsMeanGradient": Backward(MEAN, BY_LENGTHS, "dY LENGTHS"),
    "SparseLengthsIndicesInGradientWeightedSumGradient": Backward(
        WEIGHTED_SUM, BY_LENGTHS, "SCALARS dY LENGTHS INDICES", ("SparseLengthsWeightedSum",)
    ),
    "SparseLengthsIndicesInGradientWeightedSumWithMainInputGradient": Backward(
        WEIGHTED_SUM, BY_LENGTHS, "SCALARS dY LENGTHS DATA INDICES", ("SparseLengthsWeightedSum",), weights=True
    ),
    "SparseLengthsWeightedSumGradient": Backward(WEIGHTED_SUM, BY_LENGTHS, "SCALARS dY LENGTHS"),
    "SparseLengthsWeightedSumWithMainInputGradient": Backward(
        WEIGHTED_SUM, BY_LENGTHS, "SCALARS dY LENGTHS DATA INDICES", weights=True
    ),
    "SortedSegmentSumGradient": Backward(
        SUM, BY_SORTED_IDS, "dY SEGMENT_IDS", ("SortedSegmentSum", "SparseSortedSegmentSum")
    ),
    "SortedSegmentMeanGradient": Backward(
        MEAN, BY_SORTED_IDS, "dY SEGMENT_IDS", ("SortedSegmentMean", "SparseSortedSegmentMean")
    ),
    "SortedSegmentWeightedSumGradient": Backward(
        WEIGHTED_SUM,
        BY_SORTED_IDS,
        "SCALARS dY SEGMENT_IDS",
        ("SortedSegmentWeightedSum", "SparseSortedSegmentWeightedSum"),
    ),
    "SparseSortedSegmentSumGradient": Backward(SUM, BY_SORTED_IDS, "dY SEGMENT_IDS"),
    "SparseSortedSegmentMeanGradient": Backward(MEAN, BY_SORTED_IDS, "dY SEGMENT_IDS"),
    "SparseSortedSegmentWeightedSumGradient": Backward(WEIGHTED_SUM, BY_SORTED_IDS, "SCALARS dY SEGMENT_IDS"),
    "UnsortedSegmentSumGradient": Backward(
        SUM, BY_IDS, "dY SEGMENT_IDS", ("UnsortedSegmentSum", "SparseUnsortedSegmentSum")
    ),
    "UnsortedSegmentMeanGradient": Backward(
        MEAN, BY_IDS, "dY SEGMENT_IDS", ("UnsortedSegmentMean", "SparseUnsortedSegmentMean")
    ),
    "UnsortedSegmentWeightedSumGradient": Backward(
        WEIGHTED_SUM,
        BY_IDS,
        "SCALARS dY SEGMENT_IDS",
        ("UnsortedSegmentWeightedSum", "SparseUnsortedSegmentWeightedSum"),
    ),
    "SparseUnsortedSegmentSumGradient": Backward(SUM, BY_IDS, "dY SEGMENT_IDS"),
    "SparseUnsortedSegmentMeanGradient": Backward(MEAN, BY_IDS, "dY SEGMENT_IDS"),
    "SparseUnsortedSegmentWeightedSumGradient": Backward(WEIGHTED_SUM, BY_IDS, "SCALARS dY SEGMENT_IDS"),
    "SortedSegmentRangeSumGradient": Backward(SUM, BY_SORTED_IDS, "DATA Y dY SEGMENT_IDS", ("SortedSegmentRangeSum",)),
    "SortedSegmentRangeMeanGradient": Backward(
        MEAN, BY_SORTED_IDS, "DATA Y dY SEGMENT_IDS", ("SortedSegmentRangeMean",)
    ),
    "SortedSegmentRangeMaxGradient": Backward(MAX, BY_SORTED_IDS, "DATA Y dY SEGMENT_IDS", ("SortedSegmentRangeMax",)),
    "SortedSegmentRangeLogSumExpGradient": Backward(
        LOG_SUM_EXP, BY_SORTED_IDS, "DATA Y dY SEGMENT_IDS", ("SortedSegmentRangeLogSumExp",)
    ),
    "SortedSegmentRangeLogMeanExpGradient": Backward(
        LOG_MEAN_EXP, BY_SORTED_IDS, "DATA Y dY SEGMENT_IDS", ("SortedSegmentRangeLogMeanExp",)
    ),
}
"""Gradient operators. Those that no forward operator emits are there for nets that name them."""


# -- forward -----------------------------------------------------------------------------------------------------------


def _words(kind: Kind, reducer: Reducer) -> str:
    rows = "for the rows x = DATA[i] of the INDICES i" if kind.gathered else "for the rows x of DATA"
    return f"{rows} and their SCALARS w" if reducer.weighted else rows


def _inputs(kind: Kind, reducer: Reducer) -> list[BlobSpec]:
    table = blob("DATA", kind.floats, "V *S", role=Role.PARAMETER, doc="a table")
    scalars = blob("SCALARS", FLOAT, kind.rows, role=Role.DATA, doc="of each row that is taken")
    return [
        table if kind.gathered else blob("DATA", kind.floats, "N *S"),
        *([scalars] if reducer.weighted else []),
        *([blob("INDICES", INDEX, "I", role=Role.INDEX, doc="which row of DATA, in [0, V)")] if kind.gathered else []),
        kind.division.blob(kind.rows),
    ]


def _example(type: str, kind: Kind, reducer: Reducer) -> str:
    picked = ["[3.0, 1.0, 2.0]", *(["[1.0, 2.0, 1.0]"] if reducer.weighted else []), "[1, 2, 0]"]
    plain = ["[1.0, 2.0, 3.0]", *(["[1.0, 2.0, 1.0]"] if reducer.weighted else [])]
    given = ", ".join([*(picked if kind.gathered else plain), kind.division.example])
    first, last = reducer.example
    return f"""
    >>> run("{type}", {given}).astype(float).round(3).tolist()
    {[first, *[0.0] * kind.division.between, last]}
    """


def _emit(g: GradientRequest, row: Forward) -> list[OperatorDef]:
    weights = row.reducer.weighted and bool(g.op.grad_on_weights)
    found = [type for type, one in BACKWARD.items() if g.op.type in one.emitted_by and one.weights == weights]
    if not found:
        raise GradientError(
            f"{g.op.type} has no gradient of {'SCALARS' if weights else 'DATA'}",
            hint="leave out grad_on_weights" if weights else "cut the path with StopGradient",
        )
    inputs = [_read(g, letter, row.reducer) for letter in BACKWARD[found[0]].letters.split()]
    outputs = [g.sparse(0, indices=g.INDICES).values if row.kind.gathered else g.dDATA]
    return g.emit(found[0], inputs, [*outputs, *([g.dSCALARS] if weights else [])])


def _read(g: GradientRequest, letter: str, reducer: Reducer) -> str:
    if letter == "DATA" and not reducer.needs:  # its shape alone
        return g.like("DATA")
    return str(getattr(g, letter))


def _reduce(op: OpView, row: Forward, given: Mapping[str, Any]) -> None:
    reducer, kind = row.reducer, row.kind
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


@family(
    {
        "LengthsSum": Forward(SUM, LENGTHS),
        "LengthsMean": Forward(MEAN, LENGTHS),
        "LengthsWeightedSum": Forward(WEIGHTED_SUM, LENGTHS),
        "LengthsMax": Forward(MAX, LENGTHS),
        "SparseLengthsSum": Forward(SUM, PICKED_LENGTHS),
        "SparseLengthsMean": Forward(MEAN, PICKED_LENGTHS),
        "SparseLengthsWeightedSum": Forward(WEIGHTED_SUM, PICKED_LENGTHS),
        "SparseLengthsMax": Forward(MAX, PICKED_ROWS, no_gradient=not_written("Caffe2 has none either")),
        "SortedSegmentSum": Forward(SUM, SORTED),
        "SortedSegmentMean": Forward(MEAN, SORTED),
        "SortedSegmentWeightedSum": Forward(WEIGHTED_SUM, SORTED),
        "SparseSortedSegmentSum": Forward(SUM, PICKED_SORTED),
        "SparseSortedSegmentMean": Forward(MEAN, PICKED_SORTED),
        "SparseSortedSegmentWeightedSum": Forward(WEIGHTED_SUM, PICKED_SORTED),
        "UnsortedSegmentSum": Forward(SUM, IDS),
        "UnsortedSegmentMean": Forward(MEAN, IDS),
        "UnsortedSegmentWeightedSum": Forward(WEIGHTED_SUM, IDS),
        "SparseUnsortedSegmentSum": Forward(SUM, PICKED_IDS),
        "SparseUnsortedSegmentMean": Forward(MEAN, PICKED_IDS),
        "SparseUnsortedSegmentWeightedSum": Forward(WEIGHTED_SUM, PICKED_IDS),
        "SortedSegmentRangeSum": Forward(SUM, SORTED),
        "SortedSegmentRangeMean": Forward(MEAN, SORTED),
        "SortedSegmentRangeMax": Forward(MAX, SORTED),
        "SortedSegmentRangeLogSumExp": Forward(LOG_SUM_EXP, SORTED),
        "SortedSegmentRangeLogMeanExp": Forward(LOG_MEAN_EXP, SORTED),
    }
)
def segment_reductions(type: str, row: Forward) -> OpSchema:
    """A reduction; its letters are DATA, SCALARS, INDICES, and what divides the rows."""
    reducer, kind = row.reducer, row.kind
    division, scalars = kind.division, (GRAD_ON_WEIGHTS,) if reducer.weighted else ()
    declared = schema(
        type,
        f"Y[m] = {reducer.text} {_words(kind, reducer)} in segment m; 0 where there are none.",
        inputs=_inputs(kind, reducer),
        outputs=[blob("Y", FLOAT, "M *S", dynamic=division.counted)],
        args=[*division.args, *scalars],
        effects=Effects.PURE,
        no_gradient=row.no_gradient,
        source=row.source,
        example=_example(type, kind, reducer),
    )

    @declared.cost
    def cost(op: OpView, DATA: TensorSpec, Y: TensorSpec, **others: TensorSpec) -> Cost:
        del op
        rows = others["INDICES"].shape[0] if kind.gathered else DATA.shape[0]
        taken = rows * (DATA.size // DATA.shape[0] if DATA.shape[0] else 0)
        read = taken * DATA.dtype.itemsize + sum(one.nbytes for one in others.values())
        return Cost(taken * reducer.flops, read, Y.nbytes)

    def maker(g: GradientRequest) -> list[OperatorDef]:
        return _emit(g, row)

    if row.no_gradient is None:
        declared.gradient(maker)

    def compute(op: OpView, given: Mapping[str, Any]) -> None:
        _reduce(op, row, given)

    kernel(declared)(by_letter(declared, compute))
    return declared


# -- backward ----------------------------------------------------------------------------------------------------------


def _data(row: Backward) -> BlobSpec:
    if row.gathered:
        return blob("DATA", FLOAT, "V *S", role=Role.PARAMETER, doc="a table")
    if "DATA" in row.shapes and "Y" not in row.letters.split():
        return blob("DATA", None, "N *S", role=Role.SHAPE, doc="of any type: its shape counts alone")
    return blob("DATA", FLOAT, "N *S")


def _doc(row: Backward) -> str:
    return "which row of DATA, in [0, V)" if row.gathered else "of any type: it counts how many there are"


def _backward_example(type: str, row: Backward) -> str:
    reducer, division = row.reducer, row.division
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
    >>> run("{type}", {given}){taken}.astype(float).round(1).tolist()
    {[round(one, 1) for one in reducer.gradient_example]}
    """


def _spread(op: OpView, row: Backward, given: Mapping[str, Any]) -> None:
    division, dX = row.division, given["dX"]
    by, segments = given[division.letter], len(given["dY"])
    rows = len(dX) if row.told else row_count(op, division.letter, by)
    parts = division.parts(op, by, rows, segments, row.noun)
    if row.gathered:
        check_rows(op, given["INDICES"], len(given["DATA"]))
    result = dX if row.told else dX.allocate((rows, *given["dY"].shape[1:]))
    for m in range(segments):
        s = _segment(parts, m, given, result.dtype)
        if s.n:
            result[parts.rows(m)] = row.reducer.spread(s)
            if row.weights:
                given["dSCALARS"][parts.rows(m)] = row.reducer.weigh(s)


def _inferred(op: OpView, DATA: TensorSpec, **others: TensorSpec) -> tuple[TensorSpec, ...]:
    """Return what the gradients are like: DATA, and SCALARS where they have one; checks Y and dY against DATA."""
    if DATA.dims is not None:
        for letter in {"Y", "dY"} & others.keys():
            dims = others[letter].dims
            relation = (
                None if dims is None else f"{letter} has the shape {show_dims(dims)}, DATA {show_dims(DATA.dims)}"
            )
            fits = dims is None or agree(product(dims[1:]), product(DATA.dims[1:]))
            op.require(fits, str(relation), "a segment has as many elements as a row")
    rows = TensorSpec(None if DATA.dims is None else DATA.dims[:1], DataType.FLOAT)
    return (TensorSpec(DATA.dims, DataType.FLOAT), rows)[: len(op.output_letters)]


@family(BACKWARD)
def segment_gradients(type: str, row: Backward) -> OpSchema:
    """A gradient operator; where no input tells how many rows there are, the lengths do."""
    letters, division, reducer = row.letters.split(), row.division, row.reducer
    # Where DATA tells S, what is of segments needs as many elements: a step of a recurrent net sees it with more axes.
    loose = "DATA" in letters and not row.gathered
    own = "M *_" if loose else "M *S"
    specs = {
        "dY": blob("dY", FLOAT, own),
        "Y": blob("Y", FLOAT, own, doc="of the forward operator"),
        "SCALARS": blob("SCALARS", FLOAT, "N", doc="of each row"),
        "DATA": _data(row),
        "INDICES": blob("INDICES", INDEX if row.gathered else None, "N", role=Role.INDEX, doc=_doc(row)),
        division.letter: division.blob("N"),
    }
    declared = schema(
        type,
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
        example=_backward_example(type, row),
    )

    if loose:
        declared.infer(_inferred)

    @declared.cost
    def cost(op: OpView, dY: TensorSpec, dX: TensorSpec, **others: TensorSpec) -> Cost:
        del op
        read = sum(others[letter].nbytes for letter in letters if letter in others and letter not in row.shapes)
        return Cost(dX.size * Expression.parse(reducer.back).flops, dY.nbytes + read, dX.nbytes)

    def compute(op: OpView, given: Mapping[str, Any]) -> None:
        shaped = {k: v.reshape(len(v), *given["dX"].shape[1:]) for k, v in given.items() if loose and k in ("Y", "dY")}
        _spread(op, row, {**given, **shaped})

    kernel(declared)(by_letter(declared, compute, without=row.shapes))
    return declared
