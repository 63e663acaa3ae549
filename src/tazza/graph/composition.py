"""Formulas of several pointwise nodes as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tazza.graph.graph import Node, Value
from tazza.operator import FLOAT, Expression, formulas_of
from tazza.tensor import TensorSpec

LONGEST = 4000
"""Letters of the longest text that a composition may have: what is used twice stands there twice."""


def formula_names(node: Node) -> list[str]:
    """Return for each input its name in the node's formulas: its letter, numbered where that is variadic."""
    counts: dict[str, int] = {}
    names: list[str] = []
    for letter in node.view.input_letters:
        if node.view.schema.inputs_by_letter[letter].variadic:
            names.append(f"{letter}{counts.setdefault(letter, 0)}")
            counts[letter] += 1
        else:
            names.append(letter)
    return names


def formulas(node: Node) -> list[Expression] | None:
    """Return the formula of each output over elements alone, None unless all have one."""
    rule = node.view.schema.formulas
    if rule is None or rule.scalars or not node.pure:
        return None
    found = formulas_of(node.view)
    counts: dict[str, int] = {}
    listed: list[Expression] = []
    for letter in node.view.output_letters:
        name = letter
        if node.view.schema.outputs_by_letter[letter].variadic:
            name = f"{letter}{counts.setdefault(letter, 0)}"
            counts[letter] += 1
        if name not in found:
            return None
        listed.append(found[name])
    return listed


def shaped_as_result(node: Node, value: Value) -> bool:
    """Whether an input surely has the shape and type of the output of a pointwise node: as declared, or as known."""
    schema = node.view.schema
    letter = node.view.input_letters[node.inputs.index(value)]
    declared, twin = schema.inputs_by_letter[letter], schema.inputs_by_letter.get(schema.outputs[0].like or "")
    if declared is twin:
        return True
    if twin is not None and twin.dims is not None and declared.dims == twin.dims and declared.dtypes == twin.name:
        return True
    spec, result = value.tensor, node.outputs[0].tensor
    return spec is not None and result is not None and spec == result


def keeps_shape(node: Node) -> bool:
    """Whether all inputs of a pointwise node have the shape and type of its outputs in a legal net, known or not."""
    return all(shaped_as_result(node, value) for value in node.inputs)


def declares_float(node: Node) -> bool:
    """Whether a node that keeps shapes, and so types, takes nothing but float32: what one of its inputs has to be."""
    declared = (node.view.schema.inputs_by_letter[letter] for letter in node.view.input_letters)
    return any(one.taken_on(host=node.view.on_host) == FLOAT for one in declared)


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


def broadcast_dims(node: Node) -> dict[str, tuple[int, ...]]:
    """Return for each name in the formulas of a node the dims by which it broadcasts; all shapes must be known."""
    specs = {name: value.tensor for name, value in zip(formula_names(node), node.inputs, strict=True)}
    return lying_dims(node, {name: spec for name, spec in specs.items() if spec is not None})


def lying_dims(node: Node, named: Mapping[str, TensorSpec]) -> dict[str, tuple[int, ...]]:
    """Return for each name in the formulas of a node whose shape is known the dims by which it broadcasts.

    Raises:
        ShapeError: they do not broadcast.
    """
    rule = node.view.schema.formulas
    aligned = {} if rule is None or rule.align is None else dict(rule.align(node.view, named))
    return {name: tuple(aligned.get(name, tuple(spec.shape))) for name, spec in named.items() if spec.shape_known}


def broadcasts_plainly(node: Node) -> bool:
    """Whether all shapes are known, and inputs broadcast against the outputs as NumPy does it, by their own dims."""
    specs = [value.tensor for value in node.inputs]
    shapes = {None if value.tensor is None else tuple(value.tensor.shape) for value in node.outputs}
    shape = shapes.pop() if len(shapes) == 1 else None
    if None in specs or shape is None:
        return False
    own = {name: tuple(spec.shape) for name, spec in zip(formula_names(node), specs, strict=True) if spec is not None}
    return all(
        _bare(dims) == _bare(own[name]) and _fits(own[name], shape) for name, dims in broadcast_dims(node).items()
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
