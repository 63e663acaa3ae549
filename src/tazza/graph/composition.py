"""Formulas of several pointwise nodes as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tazza.graph.graph import Node, Value
from tazza.operator import Expression, formulas_of
from tazza.tensor import TensorSpec

LONGEST = 4000
"""Letters of the longest text that a composition may have: what is used twice stands there twice."""


def formula_names(node: Node) -> list[str]:
    """Return for each input the name that it has in the node's formulas: its letter, numbered where that is variadic."""
    counts: dict[str, int] = {}
    names: list[str] = []
    for letter in node.view.input_slots:
        if node.view.schema.inputs_by_letter[letter].variadic:
            names.append(f"{letter}{counts.setdefault(letter, 0)}")
            counts[letter] += 1
        else:
            names.append(letter)
    return names


def formulas(node: Node) -> list[Expression] | None:
    """Return the formula of each output, None unless all have one."""
    if node.view.schema.formulas is None or not node.pure:
        return None
    found = formulas_of(node.view)
    counts: dict[str, int] = {}
    listed: list[Expression] = []
    for letter in node.view.output_slots:
        name = letter
        if node.view.schema.outputs_by_letter[letter].variadic:
            name = f"{letter}{counts.setdefault(letter, 0)}"
            counts[letter] += 1
        if name not in found:
            return None
        listed.append(found[name])
    return listed


def compose(nodes: Sequence[Node], names: Mapping[Value, str]) -> dict[Value, Expression]:
    """Return what each output of `nodes`, in the order in which they run, is in terms of the named values."""
    known = {value: Expression.parse(name) for value, name in names.items()}
    for node in nodes:
        found = formulas(node)
        assert found is not None, "only pointwise nodes are composed"
        values = {name: known[value] for name, value in zip(formula_names(node), node.inputs, strict=True)}
        for value, expression in zip(node.outputs, found, strict=True):
            known[value] = expression.substitute({name: values[name] for name in expression.names})
    return known


def broadcasts_plainly(node: Node) -> bool:
    """Whether all shapes are known, and the inputs broadcast against the outputs as NumPy does it, by their own dims."""
    specs = [value.tensor for value in node.inputs]
    made = [value.tensor for value in node.outputs]
    rule = node.view.schema.formulas
    if rule is None or None in specs or None in made or not made:
        return False
    named: dict[str, TensorSpec] = {n: s for n, s in zip(formula_names(node), specs, strict=True) if s is not None}
    aligned = {} if rule.align is None else rule.align(node.view, named)
    shape = tuple(made[0].shape) if made[0] is not None else ()
    if any(spec is None or tuple(spec.shape) != shape for spec in made):
        return False
    return all(
        _bare(tuple(aligned.get(name, tuple(spec.shape)))) == _bare(tuple(spec.shape))
        and _fits(tuple(spec.shape), shape)
        for name, spec in named.items()
    )


def _bare(dims: tuple[int, ...]) -> tuple[int, ...]:
    """Return dims without leading ones, which change nothing in broadcasting."""
    while dims and dims[0] == 1:
        dims = dims[1:]
    return dims


def _fits(dims: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    dims = _bare(dims)
    pairs = zip(reversed(dims), reversed(shape), strict=False)
    return len(dims) <= len(shape) and all(one in (1, other) for one, other in pairs)
