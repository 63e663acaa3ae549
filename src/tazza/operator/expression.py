"""Formulas of operators: texts beside a schema that say what a pointwise operator computes.

    formula(RELU, Y="relu(X)")

Engines compile them, graph passes compose several, and the operator's reference kernel, a plain function of its own,
judges them. The language is that of `tazza.tensor.expression`, but for casts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, TypeAlias

from tazza.data_class import dataclass
from tazza.errors import ArgumentError, SchemaError
from tazza.operator.declaring import declaring
from tazza.operator.mistake import strange_letters
from tazza.registry import note_change
from tazza.runtime.near_names import did_you_mean
from tazza.tensor.expression import Expression
from tazza.tensor.function import CASTS

if TYPE_CHECKING:
    from tazza.operator.schema import OpSchema, Spec
    from tazza.operator.view import OpView

Texts: TypeAlias = "Callable[[OpView], Mapping[str, str]]"
Align: TypeAlias = "Callable[[OpView, Mapping[str, Spec]], Mapping[str, tuple[int, ...]]]"


@dataclass(frozen=True, slots=True)
class Formulas:
    """What a schema keeps: texts by output letter, and how the dimensions of inputs lie under those of the outputs.

    `scalars` are texts of numbers of which a run has one each, by the name that stands for them in the others.
    """

    texts: Texts
    align: Align | None
    scalars: Mapping[str, str] = field(default_factory=dict[str, str])


NO_SCALARS: Mapping[str, str] = {}


def formula(
    schema: OpSchema,
    texts: Texts | None = None,
    /,
    *,
    align: Align | None = None,
    scalars: Mapping[str, str] = NO_SCALARS,
    **outputs: str,
) -> None:
    """State what a pointwise operator computes: one text for each output letter.

    Names are input letters and names of arguments, which stand for their values. The blobs of a variadic letter `X`
    are `X0`, `X1` ... Each output element depends on the elements of the inputs at the same place.

    Args:
        schema: the operator's.
        texts: a function of the OpView that gives output letter -> text, where that depends on arguments.
        align: `align(op, {name: spec})` gives for inputs the dims that broadcast, as NumPy's do, against the output;
            default: their own dims.
        scalars: name -> text of a number that all elements share, over arguments and inputs of one element, whole
            numbers too. It is computed once, in float64.
        outputs: output letter -> text.

    Raises:
        SchemaError: no text, an unknown output letter, a name that is neither letter nor argument, a cast.
    """
    with declaring():
        if (texts is None) == (not outputs):
            raise SchemaError(
                f"{schema.type}: give its formulas as texts or as a function of the operator, and one of them"
            )
        fixed = dict(outputs)
        _check_texts(schema, fixed, scalars)
    schema.formulas = Formulas((lambda op: fixed) if texts is None else texts, align, scalars)
    note_change()  # a kernel can be made of it from now on


def _check_texts(schema: OpSchema, texts: Mapping[str, str], scalars: Mapping[str, str]) -> None:
    allowed = {*schema.inputs_by_letter, *schema.args}
    for name, text in scalars.items():
        _check_text(schema, f"scalar {name}", text, allowed)
    for letter, text in texts.items():
        if letter not in schema.outputs_by_letter:
            near = did_you_mean(letter, schema.outputs_by_letter)
            raise SchemaError(f"{schema.type} has no output {letter!r}, so no formula of it", hint=near)
        _check_text(schema, letter, text, {*allowed, *scalars})


def _check_text(schema: OpSchema, of: str, text: str, allowed: Collection[str]) -> None:
    try:
        parsed = Expression.parse(text)
    except ArgumentError as error:
        raise SchemaError(f"{schema.type}: formula of {of}: {error.message}", hint=error.hint) from None
    strange = [name for name in parsed.names if name not in allowed]
    strange += [node.head for node in parsed.nodes() if node.head in CASTS]
    if strange:
        raise strange_letters(f"{schema.type}: formula {text!r} of {of} names", strange, allowed)


def formulas_of(op: OpView, like: OpSchema | None = None) -> dict[str, Expression]:
    """Return output letter -> expression over input letters, with the arguments' values; empty: it has no formula.

    It has none where an argument that stands in it is NaN, which no formula can name. `like` is the schema whose
    formulas they are, where it is not the operator's own.

    Raises:
        ArgumentError: an argument that stands in a formula is no number.
    """
    found = (op.schema if like is None else like).formulas
    return {} if found is None else with_arguments(op, found.texts(op))


def scalars_of(op: OpView, like: OpSchema | None = None) -> dict[str, Expression]:
    """Return the numbers that formulas name beside letters: name -> expression over inputs of one element.

    None at all where an argument that stands in one is NaN; `like` as for `formulas_of`.
    """
    found = (op.schema if like is None else like).formulas
    return {} if found is None else with_arguments(op, found.scalars)


def with_arguments(op: OpView, texts: Mapping[str, str]) -> dict[str, Expression]:
    """Return the expressions of texts, in which values stand for the names of the operator's arguments.

    None at all where one of these is NaN.

    Raises:
        ArgumentError: an argument that stands in a text is no number.
    """
    result: dict[str, Expression] = {}
    for letter, text in texts.items():
        parsed = Expression.parse(text)
        numbers = {name: _number(op, name) for name in parsed.names if name in op.schema.args}
        if any(math.isnan(number) for number in numbers.values()):
            return {}
        result[letter] = parsed.substitute(numbers)
    return result


def _number(op: OpView, name: str) -> float:
    value = op.arguments[name]
    if not isinstance(value, (bool, int, float)):
        raise op.error(ArgumentError, f"argument {name} = {value!r} of a formula is no number")
    return float(value)
