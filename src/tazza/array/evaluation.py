"""Computing lazy expressions: which of them share a kernel, where the results go, what may be overwritten when.

Several expressions are evaluated *at once*: each sees the operands as they were before, whatever is assigned. Those of
one shape that share an array become one kernel with several results. A target that is an operand itself, the same
elements at the same places, is overwritten in place. One that overlaps an operand otherwise gets its elements through
a temporary, and so does one that an expression of a later kernel still reads; `explain` tells which.

Constant state of an `Evaluation`: its expressions. Changing state: the plan, made anew when memory has moved. It is run
by one thread at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import Any, cast

import numpy as np

from tazza.array import blockwise  # registers the evaluator that is always there
from tazza.array.deferred import Lazy, lazy
from tazza.array.evaluator import Array, Sweep, prepare
from tazza.array.program import Application, ElementProgram, text_of
from tazza.data_class import dataclass
from tazza.errors import ArgumentError, DTypeError, ShapeError
from tazza.tensor.dim import Dim
from tazza.tensor.dtype import DataType
from tazza.tensor.function import CASTS, FUNCTIONS
from tazza.tensor.layout import Opaque
from tazza.tensor.offer import Offer
from tazza.tensor.promotion import can_cast
from tazza.tensor.tensor import Tensor
from tazza.tensor.transfer import check_writable

SEARCH = 10_000
"""How long NumPy looks for an element that two arrays share; without an answer they count as overlapping."""


@dataclass(slots=True)
class Group:
    """Expressions that one kernel computes: their numbers, sources and targets, and what runs."""

    numbers: list[int]
    program: ElementProgram
    values: list[Tensor | Array]
    sources: tuple[Array, ...]
    shape: Dim
    axes: tuple[int, ...] = ()
    targets: list[Array] = field(default_factory=list[Array])
    evaluator: str = ""
    prepared: Offer[Callable[[], None]] | None = None
    refused: dict[str, str] = field(default_factory=dict[str, str])


class Evaluation:
    """Expressions that are planned: kernels, targets, temporaries."""

    def __init__(
        self,
        roots: Sequence[Lazy],
        outs: Sequence[Tensor | None],
        evaluator: str | None = None,
        *,
        again: bool = False,
        stages: dict[int, Evaluation] | None = None,
    ) -> None:
        """Plan it, to be run `again` maybe; `stages` are reductions that the owner of the dict runs first."""
        if len(roots) != len(outs):
            raise ArgumentError(f"{len(roots)} expressions do not fit {len(outs)} targets", hint="one target for each")
        self._roots = [lazy(root) for root in roots]
        self._evaluator = evaluator
        self._again = again
        self._shared = stages
        self._given = list(outs)
        self.results = [
            Tensor(root.shape, root.dtype) if out is None else out for root, out in zip(self._roots, outs, strict=True)
        ]
        self._plan()

    def run(self) -> list[Tensor]:
        """Compute, and return the targets in the order of the expressions."""
        if self._again and self._moved():
            self._plan()
        if self._shared is None:
            for stage in self._stages.values():
                stage.run()
        for group in self._groups:
            assert group.prepared is not None, "planned"
            group.prepared.run()
        for target, temporary, _ in self._copies:
            np.copyto(target, temporary)
        for tensor in self.results:
            tensor.mark_written()
        return self.results

    def explain(self) -> str:
        """Tell the kernels in their order, what each reads and writes, and what goes through a temporary."""
        lines: list[str] = []
        for stage in self._stages.values() if self._shared is None else ():
            lines += ["first, as others start from it:", *(f"  {line}" for line in stage.explain().splitlines())]
        for group in self._groups:
            lines += _told(group)
        lines += [f"copied at the end: {target.nbytes:,} bytes, as {reason}" for target, _, reason in self._copies]
        return "\n".join(lines)

    # -- planning ------------------------------------------------------------------------------------------------------

    def _plan(self) -> None:
        for root, result in zip(self._roots, self.results, strict=True):
            _check_target(root, result)
        self._stages: dict[int, Evaluation] = {} if self._shared is None else self._shared
        orders = [order_of(inner_of(root)) for root in self._roots]
        for node in (node for order in orders for node in order if node.reduction):
            if id(node) not in self._stages:
                self._stages[id(node)] = Evaluation(
                    [node], [None], self._evaluator, again=self._again, stages=self._stages
                )
        self._groups = [self._group(numbers, orders) for numbers in self._partition(orders)]
        self._copies: list[tuple[Array, Array, str]] = []
        self._place()
        for group in self._groups:
            task = Sweep(group.program, group.shape, group.sources, tuple(group.targets), group.axes)
            group.evaluator, group.prepared, group.refused = prepare(task, self._evaluator)
        if not self._again:
            return
        self._memory = [(tensor, tensor.spec, tensor.storage.generation) for tensor in self._tensors()]
        self._reordered = any(isinstance(tensor.layout, Opaque) for tensor in self._tensors())

    def _moved(self) -> bool:
        return self._reordered or any(
            tensor.spec is not spec or tensor.storage.generation != generation
            for tensor, spec, generation in self._memory
        )

    def _tensors(self) -> Iterator[Tensor]:
        for group in self._groups:
            yield from (value for value in group.values if isinstance(value, Tensor))
        yield from self.results

    def _swept(self, number: int) -> Dim:
        """Return the shape that the kernel of an expression goes over."""
        root = self._roots[number]
        return root.operands[0].shape if root.reduction else self.results[number].shape

    def _partition(self, orders: list[list[Lazy]]) -> list[list[int]]:
        """Put expressions together that have one shape and share an array of more than one element."""
        if len(self._roots) == 1:
            return [[0]]
        groups: list[tuple[Dim, set[int], list[int]]] = []
        for number, root in enumerate(self._roots):
            shape = self._swept(number)
            if root.reduction:
                groups.append((shape, set(), [number]))
                continue
            mine = {id(node if node.value is None else node.value) for node in orders[number] if _is_array(node)}
            found, numbers = {*mine}, [number]
            for group in [one for one in groups if one[0] == shape and one[1] & mine]:
                groups.remove(group)
                found |= group[1]
                numbers = group[2] + numbers
            groups.append((shape, found, numbers))
        return [sorted(numbers) for _, _, numbers in groups]

    def _group(self, numbers: list[int], orders: list[list[Lazy]]) -> Group:
        """Lower expressions to one program, and find their arrays."""
        reduced = self._roots[numbers[0]]
        values, program = lower(
            [inner_of(self._roots[number]) for number in numbers],
            [node for number in numbers for node in orders[number]],
            {key: stage.results[0] for key, stage in self._stages.items()},
            tuple(self.results[number].dtype for number in numbers),
            reduced.reduction,
        )
        # Views: whoever gives an array another shape in place leaves these behind.
        sources = tuple(value.plain() if isinstance(value, Tensor) else value.view() for value in values)
        return Group(numbers, program, values, sources, self._swept(numbers[0]), reduced.axes)

    def _place(self) -> None:
        """Give every result its target: its own memory, or a temporary that is copied at the end."""
        taken: list[Array] = []
        for position, group in enumerate(self._groups):
            for number in group.numbers:
                target = self.results[number].array
                reason = None if self._given[number] is None else self._conflict(target, position)
                if self._given[number] is not None:
                    if any(_overlap(target, other) for other in taken):
                        raise ArgumentError(f"targets of expressions overlap: {self.results[number].spec} and another")
                    taken.append(target)
                if reason is not None:
                    temporary = Tensor(
                        target.shape, self.results[number].dtype, holder="temporary of an expression"
                    ).array
                    self._copies.append((target, temporary, reason))
                    target = temporary
                root = self._roots[number]
                group.targets.append(
                    target if root.kept else np.expand_dims(target, root.axes) if root.axes else target
                )

    def _conflict(self, target: Array, position: int) -> str | None:
        """Return why the target of a group cannot be written while the groups run, or None."""
        group = self._groups[position]
        for k, source in enumerate(group.sources):
            if np.may_share_memory(target, source) and not (
                not group.program.reduction and _same_places(target, source)
            ):
                if _overlap(target, source):
                    return f"the target overlaps a{k}, but not at the same places"
        for later in self._groups[position + 1 :]:
            if any(_overlap(target, source) for source in later.sources):
                return "a later kernel reads what the target was"
        return None


def compute_few(root: Lazy, out: Tensor | None) -> Tensor:
    """Compute an expression of few elements node by node, without a plan; it is complete before `out` is written."""
    values: dict[int, Any] = {}
    order = order_of(root)
    if any(node.reduction for node in order):
        return Evaluation([root], [out]).run()[0]
    with np.errstate(all="ignore"):
        for node in order[:-1]:
            values[id(node)] = _applied(node, values) if node.function else _operand(node)
        if out is None:
            out = Tensor(root.shape, root.dtype)
            _apply_into(root, values, out.array)
        else:
            _check_target(root, out)
            np.copyto(out.array, _applied(root, values) if root.function else _operand(root), casting="unsafe")
    out.mark_written()
    return out


def _apply_into(root: Lazy, values: dict[int, Any], target: Array) -> None:
    """Write the values of a node into fresh memory, without a copy where NumPy can."""
    function: Any = FUNCTIONS[root.function].evaluate if root.function else None
    if isinstance(function, np.ufunc) and root.dtype not in blockwise.HALVES:
        function(*[values[id(one)] for one in root.operands], out=target)
    else:
        np.copyto(target, _applied(root, values) if root.function else _operand(root), casting="unsafe")


def _operand(node: Lazy) -> Any:
    """Return the values of an operand, half-precision ones as float32."""
    value = _present(node)
    array = value.plain() if isinstance(value, Tensor) else value
    return array.astype(np.float32) if node.dtype in blockwise.HALVES else array


def _present(node: Lazy) -> Tensor | Array:
    """Return the value of an operand, which is still what it was when the expression was made.

    Raises:
        ShapeError, DTypeError: it took another shape or element type since.
    """
    value = node.value
    assert value is not None, "operands have one"
    shape = value.shape
    if shape is not node.shape and shape != node.shape:
        raise ShapeError(
            f"an operand of the expression has the shape {Dim(shape)} now, it had {node.shape}",
            hint="make the expression anew after a resize",
        )
    dtype = value.dtype if isinstance(value, Tensor) else DataType.of(value)
    if dtype is not node.dtype:
        raise DTypeError(
            f"an operand of the expression is of type {dtype} now, it was {node.dtype}",
            hint="make the expression anew after a resize",
        )
    return value


def _applied(node: Lazy, values: dict[int, Any]) -> Any:
    operands = node.operands
    if node.function in CASTS:
        (operand,) = operands
        return blockwise.casting(operand.dtype, node.dtype, operand.function != "")(values[id(operand)])
    return FUNCTIONS[node.function].evaluate(*[values[id(one)] for one in operands])


def inner_of(root: Lazy) -> Lazy:
    """Return what a root reduces, or the root itself."""
    return root.operands[0] if root.reduction else root


def order_of(root: Lazy) -> list[Lazy]:
    """Return every node below `root` once, operands before what uses them; reductions count as operands."""
    seen: set[int] = set()
    order: list[Lazy] = []
    waiting: list[tuple[Lazy, bool]] = [(root, False)]
    while waiting:
        node, entered = waiting.pop()
        if id(node) in seen:
            continue
        if entered or not node.function:
            seen.add(id(node))
            order.append(node)
        else:
            waiting.append((node, True))
            waiting += [(one, False) for one in reversed(node.operands)]
    return order


def _is_array(node: Lazy) -> bool:
    return not node.function and node.shape.numel != 1


def lower(
    roots: list[Lazy], order: list[Lazy], staged: dict[int, Tensor], targets: tuple[DataType, ...], reduction: str
) -> tuple[list[Tensor | Array], ElementProgram]:
    """Return the values of the operands, and the program; equal steps become one."""
    values: list[Tensor | Array] = []
    types: list[DataType] = []
    numbers: dict[int, int] = {}
    places: dict[int, int] = {}
    for node in order:
        if not node.function and id(node) not in numbers:
            value = staged[id(node)] if node.reduction else _present(node)
            place = places.get(id(value))
            if place is None:
                place = places[id(value)] = len(values)
                values.append(value)
                types.append(node.dtype)
            numbers[id(node)] = place
    first, steps = len(values), dict[Application, int]()
    for node in order:
        if node.function and id(node) not in numbers:
            step = (node.function, tuple([numbers[id(one)] for one in node.operands]))
            number = steps.get(step)
            if number is None:
                number = steps[step] = first + len(steps)
            numbers[id(node)] = number
    found = tuple([numbers[id(root)] for root in roots])
    return values, ElementProgram(tuple(types), tuple(steps), found, targets, reduction)


def _check_target(root: Lazy, out: Tensor) -> None:
    fits = root.shape == out.shape
    if not fits and not root.reduction:
        pairs = zip(reversed(root.shape), reversed(out.shape), strict=False)
        fits = len(root.shape) <= len(out.shape) and all(mine in (1, theirs) for mine, theirs in pairs)
    if not fits:
        raise ShapeError(f"an expression of shape {root.shape} does not fit the target {out.spec}")
    if not can_cast(root.dtype, out.dtype):
        raise DTypeError(
            f"an expression of type {root.dtype} is not written to the target {out.spec} without a cast",
            hint=f"say so: expression.cast({out.dtype.label!r})",
        )
    check_writable(out, "assign")


def _same_places(target: Array, source: Array) -> bool:
    return (
        target.__array_interface__["data"][0] == source.__array_interface__["data"][0]
        and target.shape == source.shape
        and target.strides == source.strides
        and target.itemsize == source.itemsize
    )


def _overlap(a: Array, b: Array) -> bool:
    if not np.may_share_memory(a, b):
        return False
    try:
        return np.shares_memory(a, b, cast("Any", SEARCH))  # the stub knows two values only
    except np.exceptions.TooHardError:
        return True


def _told(group: Group) -> list[str]:
    assert group.prepared is not None, "planned"
    state = "cached" if group.prepared.cached else "first use"
    shape = ", ".join(map(str, group.shape))
    lines = [f"{group.evaluator}: {group.prepared.kernel} ({state}), over [{shape}]"]
    lines += [f"  {line}" for line in text_of(group.program).splitlines()]
    read = 0
    for k, (value, source) in enumerate(zip(group.values, group.sources, strict=True)):
        told = f"  a{k}: {group.program.operands[k]}{list(source.shape)}, {source.nbytes:,} bytes read"
        if isinstance(value, Tensor) and isinstance(value.layout, Opaque):
            told += f", reordered from {value.layout} first"
        lines.append(told)
        read += source.nbytes
    written = sum(target.nbytes for target in group.targets)
    lines.append(f"  reads {read:,} bytes, writes {written:,} bytes, for {math.prod(group.shape):,} elements")
    return lines + [f"  {name} refused: {reason}" for name, reason in group.refused.items()]
