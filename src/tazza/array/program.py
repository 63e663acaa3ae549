"""Programs: lazy expressions as a flat list of steps over typed operands, without their values.

    operands  a0 float32, a1 float32, a2 float32        steps  v3 = a0 * a1;  v4 = v3 + a2        results  v4

Steps refer to operands and earlier steps by number. Equal structure gives equal programs, so a program is the key under
which evaluators keep their kernels: numbers such as 2 in `2 * x` are operands, not part of it. A result may end in a
reduction. `expressions` gives the same as trees, the form that plans use.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import NamedTuple

from tazza.runtime.cache import remembered
from tazza.tensor.dtype import DataType
from tazza.tensor.expression import Expression, Node
from tazza.tensor.function import FUNCTIONS, signature
from tazza.tensor.promotion import BOOL, FLOATING, INTEGER, kind_of

Application = tuple[str, tuple[int, ...]]
"""Name of a function, and numbers of what it is applied to."""

DEEPEST_LINE = 12
"""How deep a line of `text_of` nests; what is deeper begins a new one."""


class ElementProgram(NamedTuple):
    """What is computed for each element of the space that is swept, and the reduction (or "") that follows."""

    operands: tuple[DataType, ...]
    steps: tuple[Application, ...]
    results: tuple[int, ...]
    targets: tuple[DataType, ...]
    reduction: str = ""


REDUCTIONS = {"sum": "add", "prod": "mul", "mean": "add", "max": "max", "min": "min", "any": "max", "all": "min"}
"""Reduction -> the function that joins two parts of it."""


@remembered("types of programs", entries=1024)
def types_of(program: ElementProgram) -> tuple[DataType, ...]:
    """Return the type of each operand and of each step."""
    found = list(program.operands)
    for name, operands in program.steps:
        found.append(signature(name, tuple(found[one] for one in operands))[1])
    return tuple(found)


def accumulator_type(reduction: str, dtype: DataType) -> DataType:
    """Return the type in which a reduction is carried: float64 for sums of floating point, else int64."""
    if reduction in ("any", "all"):
        return DataType.BOOL
    if reduction in ("max", "min"):
        return dtype
    return DataType.DOUBLE if kind_of(dtype) == FLOATING or reduction == "mean" else DataType.INT64


def reduced_type(reduction: str, dtype: DataType) -> DataType:
    """Return the type of the result: sums of integers and bools are int64, means of them float64."""
    if reduction in ("any", "all"):
        return DataType.BOOL
    if reduction in ("max", "min") or kind_of(dtype) == FLOATING:
        return dtype
    return DataType.DOUBLE if reduction == "mean" else DataType.INT64


def initial(reduction: str, dtype: DataType) -> float | int:
    """Return what a reduction of nothing gives; of max and min, what any element replaces."""
    if reduction in ("sum", "mean", "any"):
        return 0
    if reduction in ("prod", "all"):
        return 1
    low = reduction == "max"
    if kind_of(dtype) == FLOATING:
        return float("-inf") if low else float("inf")
    if kind_of(dtype) == BOOL:
        return 0 if low else 1
    assert kind_of(dtype) == INTEGER
    bits = 8 * dtype.itemsize
    if dtype in (DataType.UINT8, DataType.UINT16):
        return 0 if low else 2**bits - 1
    return -(2 ** (bits - 1)) if low else 2 ** (bits - 1) - 1


def expressions(program: ElementProgram) -> list[Expression]:
    """Return the results as expressions over a0, a1 ...; what two of them share is one node."""
    nodes = [Node("name", f"a{k}") for k in range(len(program.operands))]
    for name, operands in program.steps:
        nodes.append(Node(name, None, tuple(nodes[one] for one in operands)))
    return [Expression(nodes[one]) for one in program.results]


@remembered("flops of programs", entries=1024)
def flops_of(program: ElementProgram) -> int:
    """Return the floating-point operations for one element."""
    return sum(FUNCTIONS[name].flops for name, _ in program.steps) + (1 if program.reduction else 0)


def steps_text(program: ElementProgram) -> str:
    """Return the steps and results, complete and as long as the program: what names a kernel.

    >>> f = DataType.FLOAT
    >>> steps_text(ElementProgram((f, f), (("mul", (0, 1)), ("add", (2, 1))), (3,), (f,), "sum"))
    'v2 = mul 0 1; v3 = add 2 1; sum 3'
    """
    first = len(program.operands)
    steps = [f"v{k} = {name} {' '.join(map(str, taken))}" for k, (name, taken) in enumerate(program.steps, first)]
    return "; ".join([*steps, " ".join([program.reduction, *map(str, program.results)]).strip()])


def text_of(program: ElementProgram) -> str:
    """Return the program as lines: one for each result, and before them one for each value that is used twice.

    >>> f = DataType.FLOAT
    >>> print(text_of(ElementProgram((f, f), (("mul", (0, 1)), ("add", (2, 2))), (3,), (f,), "sum")))
    v2 = a0 * a1
    sum(v2 + v2) -> float32
    """
    lines: list[str] = []
    used = Counter(itertools.chain(program.results, *(set(taken) for _, taken in program.steps)))
    twice = {one for _, taken in program.steps for one in taken if used[one] > 1 or taken.count(one) > 1}
    nodes = [(Node("name", f"a{k}"), 0) for k in range(len(program.operands))]
    for number, (name, taken) in enumerate(program.steps, len(nodes)):
        node = Node(name, None, tuple(nodes[one][0] for one in taken))
        depth = 1 + max(nodes[one][1] for one in taken)
        if number in twice or depth == DEEPEST_LINE:
            lines.append(f"v{number} = {Expression(node).text()}")
            node, depth = Node("name", f"v{number}"), 0
        nodes.append((node, depth))
    for number, target in zip(program.results, program.targets, strict=True):
        text = Expression(nodes[number][0]).text()
        lines.append(f"{program.reduction}({text}) -> {target}" if program.reduction else f"{text} -> {target}")
    return "\n".join(lines)
