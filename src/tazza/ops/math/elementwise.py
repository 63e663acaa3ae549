"""What elementwise families share: the cost of an operator that has a formula."""

from __future__ import annotations

from tazza.operator import Cost, OpView, formulas_of, streamed
from tazza.tensor import TensorSpec


def formula_cost(op: OpView, **specs: TensorSpec | None) -> Cost:
    """Return the cost of computing each output's formula once an element, and of moving every blob once.

    To be handed to `OpSchema.cost`.
    """
    inputs = tuple(specs[letter] for letter in op.input_letters)
    outputs = tuple(spec for letter in op.output_letters if (spec := specs[letter]) is not None)
    texts = zip(op.output_letters, outputs, strict=True)
    formulas = formulas_of(op)
    # Without a formula, an argument is NaN, and all there is to compute.
    each = {letter: formulas[letter].flops if letter in formulas else 1 for letter in op.output_letters}
    return streamed(inputs, outputs, flops=sum(each[letter] * spec.size for letter, spec in texts))
