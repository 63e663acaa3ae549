"""Which outputs of an operator may be written over which of its inputs, and which have to be.

    in_place={"Y": "X"}            Y over X; of letters that stand for several blobs the first over the first
    in_place={"Y": ("A", "B")}     over either
    in_place={"Y": each("X")}      output k of Y over input k of X
    in_place={"Y": anything()}     each output of Y over any input
    in_place=anything()            every output over any input
    must_in_place={"Y": beside("i", "X")}    Y over X where i is given, too

The same forms say under `must_in_place` what an output has to overwrite where the inputs that they name are given.
`may_overwrite` and `must_overwrite` are the questions about an operator, `overwritten` is that about a type; nothing
else interprets the forms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from tazza.data_class import dataclass
from tazza.errors import SchemaError
from tazza.operator.letter import BlobSpec

if TYPE_CHECKING:
    from tazza.operator.schema import OpSchema
    from tazza.operator.view import OpView


@dataclass(frozen=True, slots=True)
class Each:
    """Blob k of an output letter over blob k of an input letter; see `each`."""

    letter: str

    def __str__(self) -> str:
        return f"each {self.letter}"


@dataclass(frozen=True, slots=True)
class Beside:
    """The first blob of an input letter where another letter is given as well; see `beside`."""

    given: str
    letter: str

    def __str__(self) -> str:
        return f"{self.letter} where {self.given} is given"


@dataclass(frozen=True, slots=True)
class Anything:
    """Any output over any input; see `anything`."""

    def __str__(self) -> str:
        return "any input"


Place: TypeAlias = "str | Each | Beside | Anything"
"""What one output letter may overwrite: a letter's first blob, maybe beside others, blob k of a letter, or whatever is
read."""
InPlace: TypeAlias = "Mapping[str, Place | tuple[Place, ...]] | Anything | None"
"""What a schema is given."""
Places: TypeAlias = "dict[str, tuple[Place, ...]]"
"""The same by output letter, as a schema has it."""


def each(letter: str) -> Each:
    """Let blob k of an output letter overwrite blob k of the input letter."""
    return Each(letter)


def beside(given: str, letter: str) -> Beside:
    """Speak of operators with the input `given` alone: an output overwrites the first blob of `letter` there."""
    return Beside(given, letter)


def letter_of(place: Place) -> str | None:
    """Return the input letter that a place names, if any."""
    return place.letter if isinstance(place, (Each, Beside)) else None if isinstance(place, Anything) else place


def anything() -> Anything:
    """Let an output, or all of them, overwrite any input."""
    return Anything()


def overwritten(schema: OpSchema) -> frozenset[str]:
    """Return the letters of inputs that outputs have to overwrite."""
    letters = (letter_of(place) for each_output in schema.must_in_place.values() for place in each_output)
    return frozenset(letter for letter in letters if letter is not None)


def places_of(given: InPlace, outputs: Sequence[BlobSpec]) -> Places:
    """Return what each output letter may, or must, overwrite."""
    if given is None:
        return {}
    if isinstance(given, Anything):
        return {spec.name: (given,) for spec in outputs}
    return {letter: place if isinstance(place, tuple) else (place,) for letter, place in given.items()}


def may_overwrite(op: OpView, output: int) -> tuple[int, ...]:
    """Return the positions of the inputs that output number `output` may be written over, as the schema lists them.

    >>> from tazza.operator import find_schema, operator_def
    >>> may_overwrite(find_schema("Sum").view(operator_def("Sum", ["a", "b"], ["c"])), 0)
    (0,)
    """
    schema = op.schema
    if not schema.in_place and not schema.must_in_place:
        return ()
    forced = must_overwrite(op, output)
    return tuple(dict.fromkeys((*_positions(op, schema.in_place, output), *forced)))


def must_overwrite(op: OpView, output: int) -> tuple[int, ...]:
    """Return the positions of the inputs one of which output number `output` has to overwrite; none where it is free.

    >>> from tazza.operator import find_schema, operator_def
    >>> must_overwrite(find_schema("Iter").view(operator_def("Iter", ["t"], ["t"])), 0)
    (0,)
    """
    forced = op.schema.must_in_place
    return _positions(op, forced, output) if forced else ()


def _positions(op: OpView, places: Places, output: int) -> tuple[int, ...]:
    letter = op.output_letters[output]
    found: list[int] = []
    for place in places.get(letter, ()):
        number = op.output_letters[:output].count(letter)
        if isinstance(place, Anything):
            found.extend(range(len(op.input_letters)))
            continue
        if isinstance(place, Beside) and place.given not in op.input_letters:
            continue
        positions = [position for position, other in enumerate(op.input_letters) if other == letter_of(place)]
        if isinstance(place, Each):
            found.extend(positions[number : number + 1])
        elif number == 0:
            found.extend(positions[:1])
    return tuple(found)


def check_in_place(op: OpView) -> None:
    """Check which outputs of an operator overwrite which inputs.

    Raises:
        SchemaError: one must, and does not; one may not, and does; or two overwrite one input.
    """
    inputs, outputs = op.definition.input, op.definition.output
    for position, name in enumerate(outputs):
        letter, forced = op.output_letters[position], must_overwrite(op, position)
        if forced and name not in [inputs[place] for place in forced]:
            first = forced[0]
            raise SchemaError(
                f"{op.type}: output {letter} = {name!r} must be in place of input "
                f"{op.input_letters[first]} = {inputs[first]!r}",
                hint=f"name the output {inputs[first]!r}",
            )
        _check_aliases(op, position, name)
    twice = [name for position, name in enumerate(outputs) if name in inputs and name in outputs[:position]]
    if twice:
        raise SchemaError(f"{op.type} writes a blob twice that it reads: {', '.join(twice)}")


def _check_aliases(op: OpView, output: int, out_name: str) -> None:
    read = [place for place, name in enumerate(op.definition.input) if name == out_name]
    allowed = may_overwrite(op, output) if read else ()
    for place in read:
        if place not in allowed:
            raise SchemaError(
                f"{op.type} cannot write {op.output_letters[output]} in place of {op.input_letters[place]}: "
                f"both are {out_name!r}",
                hint="give the output a name of its own",
            )
