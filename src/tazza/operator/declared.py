"""What schemas declare of arguments and operators together, and the check that every letter in a declaration is one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from tazza.data_class import dataclass
from tazza.errors import SchemaError
from tazza.operator.arity import AsMany, Pairs, Relation, Together
from tazza.operator.declaring import declaring
from tazza.operator.effect import Effects
from tazza.operator.in_place import letter_of
from tazza.operator.letter import BlobSpec
from tazza.operator.mistake import check_blob
from tazza.operator.view import INJECTED, RESERVED, OpView
from tazza.proto import NetDef, OperatorDef
from tazza.runtime.near_names import did_you_mean
from tazza.tensor import DataType

if TYPE_CHECKING:
    from tazza.operator.schema import OpSchema

Rest = TypeVar("Rest", bound="Callable[[OpView, int], tuple[list[OperatorDef], list[OperatorDef]] | None]")


@dataclass(frozen=True, slots=True)
class TrainingMode:
    """What an operator does only while it trains; `argument` = 1 switches that off, and then `outputs` fall away."""

    argument: str
    outputs: frozenset[str]


@dataclass(frozen=True, slots=True)
class Prediction:
    """How to make some outputs alone: `operators(op)` are what makes them without what only a loss reads."""

    outputs: frozenset[str]
    operators: Callable[[OpView], list[OperatorDef]]


@dataclass(frozen=True, slots=True)
class RowSums:
    """How a gradient operator is divided whose rows come in parts, by what `sums_rows` declares.

    Inputs `rows` hold the rows of a part each, outputs `sums` are sums over all of them. `rest(op, rank)`, with the
    rank of the first of `rows`, are operators that run once, before all parts, and those that make the other outputs
    of each; None where it cannot be divided.
    """

    rows: tuple[str, ...]
    sums: tuple[str, ...]
    rest: Callable[[OpView, int], tuple[list[OperatorDef], list[OperatorDef]] | None]


def sums_rows(schema: OpSchema, rows: Sequence[str], sums: Sequence[str]) -> Callable[[Rest], Rest]:
    """Declare by `rest(op, rank)` how an operator is divided; see `RowSums`.

    What is over all rows is then the same operator on all of them, with outputs `sums` alone, which come first.
    """
    check_letters(schema.type, "sums_rows", rows, "input", schema.inputs_by_letter)
    check_letters(schema.type, "sums_rows", sums, "output", schema.outputs_by_letter)

    def declare(rest: Rest) -> Rest:
        schema.row_sums = RowSums(tuple(rows), tuple(sums), rest)
        return rest

    return declare


@dataclass(frozen=True, slots=True)
class Undone:
    """The type of an operator that gives back what another one got; `when(op, behind)` says which pairs do."""

    type: str
    when: Callable[[OpView, OpView], bool] | None


@dataclass(frozen=True, slots=True)
class OneOf:
    """The arguments that hold the nets of which one runs; the run is refused where one of `refused_without` would.

    A missing one that is not among these is a net that does nothing.
    """

    arguments: tuple[str, ...]
    refused_without: frozenset[str]

    def nets(self, op: OpView) -> list[NetDef]:
        """Return the alternatives, in the order of the arguments."""
        found: list[NetDef] = []
        for name in self.arguments:
            value: NetDef | list[NetDef] | None = op.arguments[name]
            if isinstance(value, list):
                found.extend(value)
            elif value is not None or name not in self.refused_without:
                found.append(NetDef() if value is None else value)
        return found


def check_nets_named(schema: OpSchema) -> None:
    """Check that a schema with nets among its arguments says how these name blobs: a gradient relies on it.

    Raises:
        SchemaError: neither `lists_anything` nor `binds_nets` is declared.
    """
    nets = [name for name, spec in schema.args.items() if spec.holds_nets]
    if nets and not schema.lists_anything and not schema.binds_nets:
        with declaring():
            raise SchemaError(
                f"{schema.type}: it has a gradient maker and nets in {', '.join(nets)}, whose names mean nothing yet",
                hint="declare lists_anything=True where they run in the operator's workspace, binds_nets=True where "
                "they have names of their own",
            )


def check_declaration(schema: OpSchema) -> None:
    """Check the letters of a schema, and those that its letters, places and relations name.

    Raises:
        SchemaError: a letter is declared twice, is none of the schema's, or cannot be what is said of it.
    """
    type, inputs, outputs = schema.type, schema.inputs_by_letter, schema.outputs_by_letter
    clashes = sorted(schema.args.keys() & RESERVED | (inputs.keys() | outputs.keys()) & INJECTED)
    if clashes:
        raise SchemaError(
            f"{type}: {', '.join(clashes)} cannot be the name of an argument or letter",
            hint="OpView and kernels use it",
        )
    for noun, specs in (("input", schema.inputs), ("output", schema.outputs)):
        _check_once(type, noun, specs)
        for spec in specs:
            check_blob(type, spec)
    effects: object = schema.effects
    if not (effects is None or isinstance(effects, Effects) or callable(effects)):
        raise SchemaError(f"{type}: its effects are {effects!r}", hint="one of Effects, or a function of the operator")
    for spec in (*schema.inputs, *schema.outputs):
        _check_dtypes(type, spec, inputs)
    for spec in schema.inputs:
        check_letters(type, f"like of {spec.name}", _named(spec.like), "output", outputs)
    for spec in schema.outputs:
        check_letters(type, f"like of {spec.name}", _named(spec.like), "input", inputs)
        if spec.elsewhere:
            raise SchemaError(
                f"{type}: the output {spec.name} has other types on devices",
                hint="an output has the type of an input, or one that a rule gives",
            )
    for word, places in (("in_place", schema.in_place), ("must_in_place", schema.must_in_place)):
        check_letters(type, word, places, "output", outputs)
        over = [letter_of(place) for each in places.values() for place in each]
        check_letters(type, word, [one for one in over if one is not None], "input", inputs)
    _check_relations(type, schema.relations, inputs, outputs)


def check_letters(type: str, word: str, letters: Iterable[str], noun: str, declared: Collection[str]) -> None:
    """Check that what a declaration names are letters of a schema.

    Raises:
        SchemaError: one is not.
    """
    for letter in letters:
        if letter not in declared:
            near = did_you_mean(letter, declared)
            known = f"{noun}s: {', '.join(declared) if declared else 'none'}"
            with declaring():
                raise SchemaError(
                    f"{type}: {word} names {letter!r}, which is no {noun}",
                    hint=known if near is None else f"{near} {known}",
                )


def _check_dtypes(type: str, spec: BlobSpec, inputs: Collection[str]) -> None:
    if isinstance(spec.dtypes, str) and spec.dtypes not in inputs:
        near = did_you_mean(spec.dtypes, [*inputs, *(one.label for one in DataType)])
        types = ", ".join(f"DataType.{one.name}" for one in DataType)
        known = f"inputs: {', '.join(inputs) if inputs else 'none'}; element types are {types}"
        raise SchemaError(
            f"{type}: dtypes of {spec.name} names {spec.dtypes!r}, which is no input, nor is it an element type",
            hint=known if near is None else f"{near} {known}",
        )


def _named(letter: object) -> list[str]:
    return [letter] if isinstance(letter, str) else []


def _check_once(type: str, noun: str, specs: Sequence[BlobSpec]) -> None:
    names = [spec.name for spec in specs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SchemaError(f"{type}: two {noun}s have the letter {twice!r}", hint="give each a letter of its own")


def _check_relations(
    type: str, relations: Sequence[Relation], inputs: Mapping[str, BlobSpec], outputs: Mapping[str, BlobSpec]
) -> None:
    both = {**inputs, **outputs}
    in_turn: dict[str, Pairs] = {}
    for relation in relations:
        word = relation.word
        check_letters(type, word, relation.letters, "letter", both)
        if len(set(relation.letters)) < 2 or len(set(relation.letters)) != len(relation.letters):
            raise SchemaError(f"{type}: {word} names {', '.join(map(repr, relation.letters))}, not different letters")
        for letter in relation.letters:
            _check_kind(type, relation, both[letter])
        if isinstance(relation, Pairs):
            side = next((noun for noun, of in (("input", inputs), ("output", outputs)) if relation.letters[0] in of))
            check_letters(type, word, relation.letters, side, inputs if side == "input" else outputs)
            if side in in_turn:
                raise SchemaError(
                    f"{type}: pairs of {', '.join(relation.letters)} is the second one among its {side}s",
                    hint=f"the first is of {', '.join(in_turn[side].letters)}: all letters that take turns go into one",
                )
            in_turn[side] = relation


def _check_kind(type: str, relation: Relation, spec: BlobSpec) -> None:
    if isinstance(relation, Together) and not spec.optional:
        raise SchemaError(f"{type}: together names {spec.name!r}, which is not optional")
    if isinstance(relation, Pairs) and not spec.variadic:
        raise SchemaError(f"{type}: pairs names {spec.name!r}, which is not variadic")
    if isinstance(relation, AsMany) and spec.name == relation.letter and not spec.variadic:
        raise SchemaError(f"{type}: as_many names {spec.name!r}, which is not variadic")
