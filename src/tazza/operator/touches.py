"""Which blobs an operator reads and writes, by name, nets among its arguments included: the one place that knows.

An operator names blobs in its definition; what nets within it (branches, bodies of loops, step nets) read and write in
the workspace of the operator it touches as well, whether it names it or not. Hazards, parts of plans, last readers,
live ranges, the backward pass, graphs, predictors and checkpoints ask `touches`, or `read_first` for several.

What a branch writes may stay unwritten: `writes` are what a run may write, `certain` what every run leaves written.
Where the schema declares that one of several nets runs (`SCHEMA.runs_one_of`), that is certain which all of them write.
Without that and without a rule (`@SCHEMA.touches`) nets among the arguments are taken to run, or not, in the workspace
of the operator, and the outputs that it names to be written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import reduce
from itertools import chain
from typing import NamedTuple

from tazza.errors import TazzaError
from tazza.operator.nested import nested_nets
from tazza.operator.registry import SCHEMAS
from tazza.operator.view import OpView
from tazza.proto import NetDef, OperatorDef


class Touched(NamedTuple):
    """Names of blobs in one workspace, each once, in order of appearance.

    Args:
        reads: what is read as it was before.
        writes: what may be written.
        certain: what is written in every run; some of `writes`.
        after: what must be there first, though nobody looks at it: control inputs.
    """

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    certain: frozenset[str] = frozenset()
    after: tuple[str, ...] = ()

    @property
    def named(self) -> tuple[str, ...]:
        """All names."""
        return _once(self.reads, self.writes, self.after)

    def perhaps(self) -> Touched:
        """Return what is touched if this happens, or does not."""
        return Touched(self.reads, self.writes, frozenset(), self.after)

    def then(self, other: Touched) -> Touched:
        """Return what is touched if first this happens, and then `other`.

        >>> Touched((), ("y",), frozenset("y")).then(Touched(("x", "y"), ("z",)))
        Touched(reads=('x',), writes=('y', 'z'), certain=frozenset({'y'}), after=())
        """
        return in_turn([self, other])

    def or_else(self, other: Touched) -> Touched:
        """Return what is touched if either this happens or `other`."""
        reads, writes = _once(self.reads, other.reads), _once(self.writes, other.writes)
        return Touched(reads, writes, self.certain & other.certain, _once(self.after, other.after))

    def also(self, *, reads: Iterable[str] = (), writes: Iterable[str] = (), certain: Iterable[str] = ()) -> Touched:
        """Return what is touched if the operator itself reads and writes these besides."""
        return self._replace(
            reads=_once(self.reads, reads), writes=_once(self.writes, writes), certain=self.certain.union(certain)
        )

    def given(self, names: Collection[str]) -> Touched:
        """Return what is touched where these are handed in, so that they need not be there before."""
        reads, after = (tuple(name for name in each if name not in names) for each in (self.reads, self.after))
        return self._replace(reads=reads, after=after)

    def seen_as(self, names: Mapping[str, str]) -> Touched:
        """Return this as another workspace sees it: under its own names for those in `names`; the rest is local."""
        reads, writes, after = (
            _once(names[name] for name in each if name in names) for each in (self.reads, self.writes, self.after)
        )
        return Touched(reads, writes, frozenset(names[name] for name in self.certain if name in names), after)


NOTHING = Touched()


def touches(op: OpView | OperatorDef) -> Touched:
    """Return what an operator touches in its workspace; one that nobody declares touches what it names.

    >>> from tazza.operator.definition import operator_def
    >>> touches(operator_def("Relu", ["x"], ["y"])).writes
    ('y',)

    Raises:
        SchemaError, ArgumentError, FormatError: the operator, or one within that has a rule of its own, is not legal.
    """
    if isinstance(op, OperatorDef):
        return _touched(op, op)
    if op.touched is None:
        op.touched = _touched(op.definition, op)
    return op.touched


def _touched(definition: OperatorDef, op: OpView | OperatorDef) -> Touched:
    inner = touched_within(op)
    if inner is NOTHING:  # most operators, which are asked often
        inputs, outputs = _once(definition.input), _once(definition.output)
        return Touched(inputs, outputs, frozenset(outputs), _once(definition.control_input))
    return Touched(
        _once(definition.input, inner.reads),
        _once(definition.output, inner.writes),
        inner.certain,
        _once(definition.control_input, inner.after),
    )


def touched_within(op: OpView | OperatorDef) -> Touched:
    """Return what nets within an operator touch in its workspace: `NOTHING` without nets.

    With nets, `certain` holds what the operator surely writes by itself too.

    Raises:
        SchemaError, ArgumentError, FormatError: as `touches`.
    """
    definition = op.definition if isinstance(op, OpView) else op
    schema = op.schema if isinstance(op, OpView) else SCHEMAS.get(definition.type)
    if schema is not None and schema.touches_rule is not None:
        return schema.touches_rule(op if isinstance(op, OpView) else schema.typed_view(definition))
    if schema is not None and schema.one_of is not None:
        view = op if isinstance(op, OpView) else schema.typed_view(definition)
        return reduce(Touched.or_else, map(touched_by, schema.one_of.nets(view)))
    nets = list(nested_nets(definition))
    if not nets:
        return NOTHING
    inner = in_turn(touched_by(net).perhaps() for net in nets)
    return Touched(inner.reads, inner.writes, frozenset(definition.output), inner.after)


def touched_by(net: NetDef) -> Touched:
    """Return what a run of a net touches in the workspace that it runs in.

    Raises:
        SchemaError, ArgumentError, FormatError: as `touches`; the message tells where the operator stands.
    """
    return in_turn(each_touched(net))


def each_touched(net: NetDef) -> list[Touched]:
    """Return what each operator of a net touches.

    Raises:
        SchemaError, ArgumentError, FormatError: as `touched_by`.
    """
    return [_located(net, position, op) for position, op in enumerate(net.op)]


def in_turn(touched: Iterable[Touched]) -> Touched:
    """Return what is touched by several, one after the other."""
    each = list(touched)
    return Touched(
        _read_first(each, perhaps_made=False),
        _once(*(one.writes for one in each)),
        frozenset[str]().union(*(one.certain for one in each)),
        _once(*(one.after for one in each)),
    )


def as_named(op: OperatorDef, touched: Touched) -> Touched:
    """Return what an operator touches, less what it reads and does not name: nets written by hand do not list that."""
    named = _once(op.input)
    return touched if touched.reads == named else touched._replace(reads=named)


def read_first(ops: Iterable[OperatorDef | Touched], *, perhaps_made: bool = False) -> tuple[str, ...]:
    """Return the blobs that operators in a row read before they write them, in order: what they take over.

    Args:
        ops: in execution order, or what each touches.
        perhaps_made: take what a branch writes for made, so that what is left has to come from somebody else.

    Raises:
        SchemaError, ArgumentError, FormatError: as `touches`.
    """
    touched = [op if isinstance(op, Touched) else touches(op) for op in ops]
    return _read_first(touched, perhaps_made=perhaps_made)


def all_named(ops: Iterable[OperatorDef], before: Collection[str] = ()) -> Iterator[OperatorDef]:
    """Yield operators, those that list anything (`OpSchema.lists_anything`) with all that nets within them touch.

    What such a net may leave as it was counts as an input, where it is there (`before`, or since an operator named it):
    its gradient goes on.
    """
    there = set(before)
    for op in ops:
        touched = touches(op)
        schema = SCHEMAS.get(op.type)
        if schema is not None and schema.lists_anything:
            made = OperatorDef()
            made.CopyFrom(op)
            kept = (name for name in touched.writes if name not in touched.certain and name in there)
            made.input.extend(name for name in _once(touched.reads, kept) if name not in op.input)
            made.output.extend(name for name in touched.writes if name not in op.output)
            op = made
        there.update(touched.named)
        yield op


def _read_first(touched: Iterable[Touched], *, perhaps_made: bool) -> tuple[str, ...]:
    made: set[str] = set()
    found: dict[str, None] = {}
    for each in touched:
        found.update(dict.fromkeys(name for name in each.reads if name not in made))
        made.update(each.writes if perhaps_made else each.certain)
    return tuple(found)


def _located(net: NetDef, position: int, op: OperatorDef) -> Touched:
    try:
        return touches(op)
    except TazzaError as error:
        error.add_context(f"in operator {position} ({op.type}) of net {net.name!r}")
        raise


def _once(*names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names[0] if len(names) == 1 else chain(*names)))
