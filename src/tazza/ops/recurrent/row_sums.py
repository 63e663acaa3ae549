"""Gradients that are sums over the rows of all steps, computed once, behind the last step that runs.

The product of a step, Y = X W^T, has the gradients dW = dY^T X and dX = dY W. Over T steps of N rows dW is a sum of T
small products, each of which reads and writes all of it. Where X lies on rows of a state, and dY on rows of gradients,
all of these are there when the last step has run: dW is one product of T N rows then, and steps are left with dX.

What is a sum over rows, and what is left, schemas declare (`operator.declared.RowSums`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

from tazza.data_class import dataclass
from tazza.operator import BlobOwner, LocalBlobs, OpView, RunnableNet, Touched, find_schema, touches
from tazza.operator.declared import RowSums
from tazza.ops.recurrent.recurrence import LOCAL_TYPE, Link, Parameter, declare_inputs
from tazza.ops.recurrent.step import own_blob, view_rows
from tazza.proto import NetDef, OperatorDef

STATE_RANK = 3
"""Of states, and of what lies on rows of them: (1, N, D)."""


@dataclass(frozen=True, slots=True)
class Apart:
    """A backward step net in parts: what runs once before the steps, the step, and what runs once behind them.

    `rows` are the blobs of the last part that lie on rows of all steps, `made` the parameters whose gradients it makes.
    """

    first: NetDef
    step: NetDef
    last: NetDef
    rows: tuple[Link, ...]
    made: frozenset[str]

    def over(self, steps: int) -> list[Link]:
        """Return the links of `rows` to the rows of so many steps."""
        return [replace(link, window=steps) for link in self.rows]


def taken_apart(
    net: NetDef,
    links: Sequence[Link],
    parameters: Sequence[Parameter],
    states: Collection[str],
    sequences: Collection[str],
) -> Apart:
    """Return a backward step net in parts.

    Args:
        net: one step.
        links: of its blobs.
        parameters: whose gradients are added up over the steps.
        states: blobs outside that hold all values of a state; the net does not write them.
        sequences: blobs outside that hold gradients of states, or of the sequence, in a row for each step.
    """
    parts = {name: NetDef(name=f"{net.name}/{name}", type=LOCAL_TYPE) for name in ("first", "last")}
    step = NetDef()
    step.CopyFrom(net)
    del step.op[:]
    rows: list[Link] = []
    made: set[str] = set()
    finder = _Finder(net, links, parameters, states, sequences)
    for place, op in enumerate(net.op):
        view = find_schema(op.type).view(op)
        found = finder.division(place, view)
        if found is None:
            step.op.append(op)
            continue
        parts["first"].op.extend(placed(op, found.first))
        step.op.extend(placed(op, found.each))
        parts["last"].op.append(found.last)
        rows.extend(link for link in found.rows if link not in rows)
        made.update(found.parameters)
    for part in parts.values():
        declare_inputs(part, (name for op in part.op for name in op.input))
    return Apart(parts["first"], step, parts["last"], tuple(rows), frozenset(made))


@dataclass(frozen=True, slots=True)
class _Division:
    first: list[OperatorDef]
    each: list[OperatorDef]
    last: OperatorDef
    rows: tuple[Link, ...]
    parameters: tuple[str, ...]


class _Finder:
    """Says how operators of a step are divided."""

    def __init__(
        self,
        net: NetDef,
        links: Sequence[Link],
        parameters: Sequence[Parameter],
        states: Collection[str],
        sequences: Collection[str],
    ) -> None:
        self._touched: list[Touched] = [touches(op) for op in net.op]
        count = Counter(link.internal for link in links)
        self._links = {link.internal: link for link in links if count[link.internal] == 1 and link.window == 1}
        self._of_step = {one.of_step: one for one in parameters}
        self._states, self._sequences = states, sequences

    def division(self, place: int, op: OpView) -> _Division | None:
        """Return how the operator at a place is divided; None where it is not, or what it reads or makes forbids it."""
        rule = op.schema.row_sums
        if rule is None:
            return None
        sums = [name for name, letter in self._outputs(op) if letter in rule.sums]
        rows = self._rows(place, op, rule)
        if rows is None or not all(map(self._is_sum, sums)) or not self._others_stay(op, rule):
            return None
        rest = rule.rest(op, STATE_RANK)
        if rest is None:
            return None
        last = OperatorDef()
        last.CopyFrom(op.definition)
        del last.output[:]
        last.output.extend(self._of_step[name].gradient for name in sums)
        return _Division(*rest, last, rows, tuple(self._of_step[name].name for name in sums))

    @staticmethod
    def _outputs(op: OpView) -> Iterator[tuple[str, str]]:
        return zip(op.definition.output, op.output_letters, strict=True)

    def _is_sum(self, name: str) -> bool:
        """Whether a blob is the gradient of a parameter from one step, and nothing else adds to it or reads it."""
        writers = sum(name in touched.writes for touched in self._touched)
        return name in self._of_step and writers == 1 and not any(name in touched.reads for touched in self._touched)

    def _rows(self, place: int, op: OpView, rule: RowSums) -> tuple[Link, ...] | None:
        """Return the links of the blobs with rows, where what they lie on keeps, behind the step, what is read now.

        The first is a state, the others are gradients.
        """
        found: list[Link] = []
        for name, letter in zip(op.definition.input, op.input_letters, strict=True):
            if letter not in rule.rows:
                continue
            link = self._links.get(name)
            outside, later = (self._sequences, self._touched[place:]) if found else (self._states, self._touched)
            if link is None or link.external not in outside or any(name in touched.writes for touched in later):
                return None
            found.append(link)
        return tuple(found)

    def _others_stay(self, op: OpView, rule: RowSums) -> bool:
        """Whether what else it reads is the same in all steps."""
        names = zip(op.definition.input, op.input_letters, strict=True)
        others = {name for name, letter in names if letter not in rule.rows}
        return not others & self._links.keys() and not any(others & set(touched.writes) for touched in self._touched)


def placed(like: OperatorDef, ops: Sequence[OperatorDef]) -> Sequence[OperatorDef]:
    """Return operators that run where another one does."""
    for op in ops:
        if like.HasField("device_option"):
            op.device_option.CopyFrom(like.device_option)
    return ops


class AroundSteps:
    """Runs what stands before and behind the steps, in the workspace that all of them see and in a child of it.

    State: the two nets, made for one shared workspace, and the child with the blobs that lie on rows of all steps.
    """

    def __init__(self, apart: Apart, make: Callable[[NetDef, BlobOwner], RunnableNet]) -> None:
        """Take the parts, and what makes a net in a workspace."""
        self.apart = apart
        self._make = make
        self._shared: LocalBlobs | None = None
        self._within: LocalBlobs | None = None
        self._first: RunnableNet | None = None
        self._last: RunnableNet | None = None

    def begin(self, shared: LocalBlobs) -> None:
        """Run what stands before the steps."""
        if not self.apart.made:
            return
        if self._shared is not shared:
            self.close()
            self._shared, self._within = shared, shared.child()
            for op in self.apart.first.op:
                for name in op.output:
                    own_blob(shared, name)
            self._first = self._make(self.apart.first, shared)
        assert self._first is not None
        self._first.run()

    def end(self, owner: BlobOwner, steps: int) -> None:
        """Run what stands behind so many steps."""
        if not self.apart.made:
            return
        assert self._within is not None, "it has begun"
        for link in self.apart.over(steps):
            outer = owner.create_blob(link.external).tensor()
            outer.make_plain()
            own_blob(self._within, link.internal).set(view_rows(outer, link.offset, link.window, link.internal))
        if self._last is None:
            self._last = self._make(self.apart.last, self._within)
        self._last.run()

    def close(self) -> None:
        """End the nets."""
        for net in (self._first, self._last):
            if net is not None:
                net.close()
        self._first = self._last = None
