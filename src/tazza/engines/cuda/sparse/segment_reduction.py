"""Reductions of segments, and their gradients: a thread for each element of a segment's row.

What joins rows, and what a row gets of the gradient, are the formulas of the table of reducers. A thread takes the rows
of its segment in their order; an index is looked at before anything is read with it. Scalars get their gradients from a
thread for each segment. How many segments ids name is asked of the device, and waited for, where no argument says it;
those in any order are followed from the first row of their segment on.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from functools import partial

from tazza.codegen.block import Scratch, Slot, Word
from tazza.codegen.function import Emission
from tazza.codegen.loop import count_loop, fold_loop, when
from tazza.codegen.term import Term
from tazza.data_class import dataclass
from tazza.engines.cuda.launch import fetched
from tazza.engines.cuda.occurrence import Occurrences
from tazza.engines.cuda.sparse.division import starts_bytes, starts_launch
from tazza.engines.cuda.threads import Threads, Write, each_launch, zeros_launch
from tazza.engines.cuda.translated import addresses, translated
from tazza.operator import Expression, Launch, LaunchChain, Operands, OpView, SizedLaunch
from tazza.operator.kernel import Sizes
from tazza.ops.sparse.reducer import Reducer
from tazza.ops.sparse.segment import BY_IDS
from tazza.ops.sparse.segment_reduction import Backward, Forward, segment_gradients, segment_reductions
from tazza.tensor import DataType, TensorSpec

COMPLAINT = "INDICES that are those of no row"
STRANGE = "SEGMENT_IDS that are those of no segment"


@dataclass(frozen=True, slots=True)
class Segments:
    """What kernels of one call share: M segments, D elements of a row, rows that are taken, rows of the table.

    `bits` are those of an index, 0 where rows are taken in turn; `dtype` is the type of DATA.
    """

    count: int
    width: int
    rows: int
    table: int
    bits: int
    dtype: DataType = DataType.FLOAT

    @property
    def words(self) -> dict[str, Word]:
        """Numbers, and where segments begin."""
        return {"width": max(1, self.width), "elements": self.width, "table": self.table, "starts": Scratch()}

    def launch(self, name: str, count: int, letters: Iterable[str], write: Write) -> Launch:
        """Return the launch of a kernel over so many things."""
        words = self.words | addresses(*letters)
        complaint, scratch = COMPLAINT if self.bits else "", starts_bytes(self.count)
        told = f"{name} {self.bits} {self.dtype.label}"
        return each_launch(told, count, words, write, complaint=complaint, scratch_bytes=scratch)

    def span(self, t: Threads, m: Term) -> tuple[Term, Term]:
        """Return where segment m begins and ends."""
        return t.index("starts", m), t.index("starts", m + 1)

    def picked(self, t: Threads, i: Term) -> tuple[Term, Term]:
        """Return which row of DATA row i is, and whether there is such a one; if not, that is told."""
        if not self.bits:
            return i, t.lines.number(True, "i1")
        found = t.index("INDICES", i, self.bits)
        good = found.below(t.w.table)
        t.require(good)
        return found, good

    def element(self, t: Threads, name: str, row: Term, d: Term) -> Term:
        """Return element d of a row."""
        dtype = self.dtype if name == "DATA" else DataType.FLOAT
        return t.load(name, row * t.w.width + d, dtype)

    def data(self, t: Threads, i: Term, d: Term) -> Term:
        """Return element d of the row of DATA that row i is; 0 where there is none."""
        row, good = self.picked(t, i)
        return t.where(good, lambda: self.element(t, "DATA", row, d), 0.0)


def _reduction(s: Segments, reducer: Reducer, t: Threads, k: Term) -> None:
    """Y[m, d] = the rows of segment m joined."""
    v = t.single
    m, d = t.split(k, t.w.width)
    begin, end = s.span(t, m)
    n = t.counted(end - begin)

    def joined(start: float, text: str, top: Term) -> Term:
        def join(i: Term, y: Term) -> Term:
            values = {"n": n, "y": y, "x": s.data(t, i, d), "top": top}
            return _written(t, text, values | _weight(t, reducer.weighted, i))

        return fold_loop(begin, end, v.constant(start), join)

    top = v.constant(0.0)
    if reducer.topped:
        top = _written(t, "where(isfinite(y), y, 0)", {"y": joined(-math.inf, "max(y, x)", top)})
    result = _written(t, reducer.finish, {"y": joined(reducer.start, reducer.join, top), "n": n, "top": top})
    t.store("Y", k, begin.equals(end).choose(0.0, result))


def _spread(s: Segments, reducer: Reducer, t: Threads, k: Term) -> None:
    """dX[i, d] = what each row i of segment m gets of dY[m, d]."""
    names = Expression.parse(reducer.back).names
    m, d = t.split(k, t.w.width)
    begin, end = s.span(t, m)
    known = {"n": t.counted(end - begin), "dy": t.load("dY", k)}
    if "y" in names:
        known["y"] = t.load("Y", k)

    def row(i: Term) -> None:
        values = known | _weight(t, "w" in names, i) | ({"x": s.data(t, i, d)} if "x" in names else {})
        t.store("dX", i * t.w.width + d, _written(t, reducer.back, values))

    count_loop(t.lines, begin, end, row)


def _weigh(s: Segments, reducer: Reducer, t: Threads, m: Term) -> None:
    """dSCALARS[i] = the sum over the elements of each row i of segment m."""

    def row(i: Term) -> None:
        picked, good = s.picked(t, i)

        def of_element(d: Term) -> Term:
            values = {"dy": s.element(t, "dY", m, d), "x": s.element(t, "DATA", picked, d)}
            return _written(t, reducer.back_scalar, values)

        t.store("dSCALARS", i, t.where(good, lambda: t.total(0, t.w.elements, of_element), 0.0))

    count_loop(t.lines, *s.span(t, m), row)


def _weight(t: Threads, weighted: bool, i: Term) -> dict[str, Term]:
    """Return the scalar of row i as a value of formulas, none where these have none."""
    return {"w": t.load("SCALARS", i)} if weighted else {}


def _told(r: Reducer) -> str:
    """Return what tells kernels of a reducer apart."""
    return str((r.start, r.join, r.finish, r.back, r.back_scalar))


def _written(t: Threads, text: str, values: Mapping[str, Term]) -> Term:
    return Emission(t.single, values).write(Expression.parse(text))


# -- launches ----------------------------------------------------------------------------------------------------------


def _bits(INDICES: TensorSpec | None) -> int:
    return 0 if INDICES is None else 8 * INDICES.dtype.itemsize


def _forward(row: Forward, op: OpView, specs: Mapping[str, TensorSpec]) -> Launch:
    division = row.kind.division
    DATA, INDICES, by = specs["DATA"], specs.get("INDICES"), specs[division.letter]
    width, rows = math.prod(DATA.shape[1:]), DATA.shape[0] if INDICES is None else INDICES.size
    read = sorted({"Y"} | ({"DATA", "SCALARS", "INDICES"} & specs.keys()))

    def launch(M: int) -> Launch:
        s = Segments(M, width, rows, DATA.shape[0], _bits(INDICES), DATA.dtype)
        if division is BY_IDS:
            return _of_ids(s, row.reducer, read)
        sums = s.launch(f"segments {_told(row.reducer)}", M * width, read, partial(_reduction, s, row.reducer))
        return LaunchChain((starts_launch(division, M, rows), sums))

    if not division.counted:
        return launch(by.size)

    def sizes(operands: Operands) -> Sizes:
        given = division is BY_IDS and op.num_segments >= 0
        M = op.num_segments if given else division.count(op, fetched(operands, division.letter))
        return {"Y": (M, *DATA.shape[1:])}

    scratch = Occurrences(rows, 0, 32).scratch_bytes if division is BY_IDS else starts_bytes(rows)
    return SizedLaunch(sizes, lambda found: launch(found["Y"][0]), {"Y": DataType.FLOAT}, scratch)


def _of_ids(s: Segments, reducer: Reducer, read: Iterable[str]) -> Launch:
    """Return the launches of segments whose rows stand anywhere: zeros, first occurrences of ids, then sums."""
    ids = Occurrences(s.rows, s.count, 32, 0, BY_IDS.letter, STRANGE)

    def write(t: Threads, k: Term) -> None:
        first, d = t.split(k, t.w.width)
        end = t.w.indices_count

        def counted(i: Term, n: Term) -> tuple[Term, Term]:
            return t.index("next", i), n + 1

        def joined(i: Term, y: Term) -> tuple[Term, Term]:
            values = {"y": y, "x": s.data(t, i, d), **_weight(t, reducer.weighted, i)}
            return t.index("next", i), _written(t, reducer.join, values)

        def segment() -> None:
            y = t.gather(first, end, t.single.constant(reducer.start), joined)
            n = t.gather(first, end, 0, counted)
            values = {"y": y, "n": t.counted(n)}
            place = t.index("indices", first, 32) * t.w.width + d
            t.store("Y", place, _written(t, reducer.finish, values))

        when(t.index("first", first).differs(0), segment)

    words = {**ids.words, "width": max(1, s.width), "table": s.table, **addresses(*read)}
    told = f"segments of ids {_told(reducer)} {s.bits} {s.dtype.label}"
    complaint, scratch = COMPLAINT if s.bits else "", ids.scratch_bytes
    sums = each_launch(told, s.rows * s.width, words, write, complaint=complaint, scratch_bytes=scratch)
    return LaunchChain((zeros_launch("Y", s.count * s.width), ids.launch(), sums))


def _from_ids(row: Backward, s: Segments, there: Collection[str]) -> Launch:
    """Return the launches of what each row gets of its segment, where ids in any order say which one that is."""
    reducer, scratch = row.reducer, 8 * s.count
    words = {"width": max(1, s.width), "segments": s.count, "many": Scratch()}
    words |= {**addresses(*sorted({"dX", *there})), "by": Slot(row.division.letter)}

    def count(t: Threads, i: Term) -> None:
        m = t.index("by", i, 32)
        good = m.below(t.w.segments)
        when(good, lambda: (t.add_to("many", m), None)[1])
        t.require(good)

    def spread(t: Threads, k: Term) -> None:
        i, d = t.split(k, t.w.width)
        m = t.index("by", i, 32)

        def row_of_segment() -> None:
            n = t.counted(t.index("many", m))
            values = {"n": n, "dy": t.load("dY", m * t.w.width + d)}
            t.store("dX", k, _written(t, reducer.back, values | _weight(t, reducer.weighted, i)))

        when(m.below(t.w.segments), row_of_segment)

    told = f"of ids {_told(reducer)}"
    return LaunchChain(
        (
            each_launch("no rows of ids", s.count, words, lambda t, m: t.put("many", m, 0), scratch_bytes=scratch),
            each_launch("rows of ids", s.rows, words, count, complaint=STRANGE, scratch_bytes=scratch),
            each_launch(f"spread {told}", s.rows * s.width, words, spread, scratch_bytes=scratch),
        )
    )


def _backward(row: Backward, op: OpView, specs: Mapping[str, TensorSpec]) -> Launch:
    reducer, dY, dX = row.reducer, specs["dY"], specs[op.output_letters[0]]
    M, rows, table = dY.shape[0], dX.shape[0], specs["DATA"].shape[0] if row.gathered else 0
    s = Segments(M, math.prod(dY.shape[1:]), rows, table, _bits(specs["INDICES"]) if row.gathered else 0)
    there = {letter for letter in op.input_letters if letter not in row.shapes} - {row.division.letter}
    if row.division is BY_IDS:
        return _from_ids(row, s, there)
    letters = sorted({"dX", *there})
    spread = s.launch(f"spread {_told(reducer)}", M * s.width, letters, partial(_spread, s, reducer))
    launches = [starts_launch(row.division, M, rows), spread]
    if row.weights:
        letters = sorted({"dSCALARS", *there})
        launches.append(s.launch(f"weigh {_told(reducer)}", M, letters, partial(_weigh, s, reducer)))
    return LaunchChain(tuple(launches))


def _register_forward(type: str, row: Forward) -> None:
    @translated(segment_reductions[type])
    def reduction(op: OpView, specs: Mapping[str, TensorSpec]) -> Launch:
        return _forward(row, op, specs)


def _register_backward(type: str, row: Backward) -> None:
    @translated(segment_gradients[type])
    def gradient(op: OpView, specs: Mapping[str, TensorSpec]) -> Launch:
        return _backward(row, op, specs)


for _type, _reduction_row in segment_reductions.rows.items():
    _register_forward(_type, _reduction_row)
for _type, _gradient_row in segment_gradients.rows.items():
    if _gradient_row.told:
        _register_backward(_type, _gradient_row)
