"""Expressions over elements of any types, integers and truths among them: a thread for each element.

Casts are in the expressions; without one, nothing is brought to another type but the result to that of its target, and
no integer to another type of integers. Of integers and bools alone, numbers in formulas get their types as for the CPU.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field

from tazza.codegen.block import Word
from tazza.codegen.formula_plan import Axes
from tazza.codegen.loop import when
from tazza.codegen.nvptx import GridKernel, place
from tazza.codegen.term import Lines, Term
from tazza.codegen.typed_function import TypedEmission, unsupported
from tazza.codegen.vector import MEMORY, Vector
from tazza.codegen.whole import WHOLE, Whole, misfit, whole
from tazza.data_class import dataclass
from tazza.engines.cuda.coordinate import HEAD, Lay, coordinates, laid, place_in
from tazza.engines.cuda.launch import THREADS, GridLaunch, Held, blocks_for, own_code
from tazza.errors import DTypeError, UnsupportedError
from tazza.operator import Expression
from tazza.tensor import DataType
from tazza.tensor.function import signature


@dataclass(frozen=True, slots=True)
class TypedForm:
    """What tells kernels apart.

    Attributes:
        results: over a0, a1 ....
        sources: element types of these.
        held: those of them whose words are the numbers themselves.
        targets: element types of results.
        lay: how elements lie.
        numbers: name in the results, which says both -> type and value.
    """

    results: tuple[Expression, ...]
    sources: tuple[DataType, ...]
    held: tuple[int, ...]
    targets: tuple[DataType, ...]
    lay: Lay
    numbers: Mapping[str, tuple[DataType, int]] = field(default_factory=dict[str, "tuple[DataType, int]"])

    @property
    def names(self) -> dict[str, DataType]:
        """The type of each name in the results."""
        given = {f"a{k}": dtype for k, dtype in enumerate(self.sources)}
        return given | {name: dtype for name, (dtype, _) in self.numbers.items()}

    def __str__(self) -> str:
        texts = "; ".join(one.text() for one in self.results)
        sources, targets = (", ".join(one.label for one in each) for each in (self.sources, self.targets))
        return f"typed {self.lay} {self.held} ({sources}) -> ({targets}): {texts}"


def types_of(results: Sequence[Expression], names: Mapping[str, DataType]) -> list[DataType]:
    """Return the type of each result.

    Raises:
        UnsupportedError: a function is not compiled for these types, or a number without a type is in it.
    """
    types: dict[object, DataType] = {}
    for node in (node for one in results for node in one.nodes()):
        if node.head == "constant":
            raise UnsupportedError("a number in the formula has no type")
        if node.head == "name":
            types[node] = names[str(node.value)]
            continue
        given = tuple(types[one] for one in node.arguments)
        try:
            wanted, types[node] = signature(node.head, given)
        except DTypeError as error:
            raise UnsupportedError(error.message) from None
        reason = unsupported(node.head, given)
        if wanted != given or reason is not None:
            shown = ", ".join(one.label for one in given)
            raise UnsupportedError(f"{node.head} of {shown} is not compiled" if reason is None else reason)
    return [types[one.root] for one in results]


def _numbered(
    results: tuple[Expression, ...], sources: Sequence[DataType], targets: Sequence[DataType]
) -> tuple[tuple[Expression, ...], dict[str, tuple[DataType, int]]]:
    """Return expressions whose numbers have types, and these; in floating point none may have a number.

    Raises:
        UnsupportedError: as `types_of`, or an integer would be cut.
    """
    names = {f"a{k}": dtype for k, dtype in enumerate(sources)}
    numbers: dict[str, tuple[DataType, int]] = {}
    if {*sources, *targets} <= WHOLE and any(node.head == "constant" for one in results for node in one.nodes()):
        found = [whole(one, names) for one in results]
        refused = [one for one in found if isinstance(one, str)]
        if refused:
            raise UnsupportedError(refused[0])
        typed = [one for one in found if isinstance(one, Whole)]
        numbers = {name: number for one in typed for name, number in one.numbers.items()}
        results = tuple(one.expression for one in typed)
    types = types_of(results, names | {name: dtype for name, (dtype, _) in numbers.items()})
    wrong = [reason for pair in zip(types, targets, strict=True) if (reason := misfit(*pair)) is not None]
    if wrong:
        raise UnsupportedError(wrong[0])
    return results, numbers


def typed_launch(
    results: tuple[Expression, ...],
    sources: Sequence[tuple[DataType, Word | Held]],
    targets: Sequence[tuple[DataType, Word]],
    axes: Axes,
) -> GridLaunch:
    """Return the launch of expressions over a0, a1 ...; axes are extents, and steps of sources and targets.

    Raises:
        UnsupportedError: as `types_of`, or an integer would be written as another type of integers.
    """
    size = math.prod(extent for extent, _ in axes)
    lay, words = laid(axes, size, [word for _, word in (*sources, *targets)])
    read, made = tuple(dtype for dtype, _ in sources), tuple(dtype for dtype, _ in targets)
    held = tuple(k for k, (_, word) in enumerate(sources) if isinstance(word, Held))
    results, numbers = _numbered(results, read, made)
    form = TypedForm(results, read, held, made, lay, numbers)
    code = own_code(str(form), GridKernel(len(words), lambda lines: _write(lines, form)))
    return GridLaunch(code, words, blocks_for(size))


def _write(lines: Lines, form: TypedForm) -> None:
    thread, block = place(lines)
    i = block * THREADS + thread
    when(i < HEAD.lazily(lines).count, lambda: _element(lines, form, i))


def _element(lines: Lines, form: TypedForm, i: Term) -> None:
    lay = form.lay
    numbers = coordinates(i, lay.depth, lay.bits)
    names = form.names
    values = {name: Vector(lines, 1, dtype).constant(value) for name, (dtype, value) in form.numbers.items()}
    for k, dtype in enumerate(form.sources):
        if k in form.held:
            at = lines.block_start.at(lay.first(k))
        else:
            pointer, index = place_in(i, numbers, lay.first(k))
            at = pointer.of(MEMORY[dtype]).at(index)
        values[f"a{k}"] = Vector(lines, 1, dtype).load_one(at)
    emission = TypedEmission(lines, 1, values, names)
    found = [emission.write(one) for one in form.results]
    for k, (value, dtype) in enumerate(zip(found, types_of(form.results, names), strict=True), len(form.sources)):
        target = form.targets[k - len(form.sources)]
        pointer, index = place_in(i, numbers, lay.first(k))
        computed = form.results[k - len(form.sources)].root.head != "name"
        made = Vector(lines, 1, dtype).converted(value, target, rounded=computed)
        Vector(lines, 1, target).store(made, pointer, index, None)
