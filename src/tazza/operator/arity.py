"""Which letter each blob of an operator stands for, and how many of one letter follow from those of another.

    relations=[as_many("Y", "X")]       as many outputs Y as inputs X
    relations=[pairs("X", "w")]         inputs X0, w0, X1, w1 ...
    relations=[together("mean", "var")]  both, or neither

Relations speak of inputs and outputs alike, since letters differ. Where a side has several variadic letters, they share
its blobs evenly, one row after the other, or in turn where they are `pairs`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, TypeAlias

from tazza.data_class import dataclass
from tazza.errors import SchemaError
from tazza.operator.letter import BlobSpec
from tazza.runtime.cache import remembered


@dataclass(frozen=True, slots=True)
class AsMany:
    """There are as many blobs of `letter` as of `other`; see `as_many`."""

    word: ClassVar[str] = "as_many"
    letter: str
    other: str

    @property
    def letters(self) -> tuple[str, ...]:
        """All that it speaks of."""
        return self.letter, self.other

    def wrong(self, counts: Mapping[str, int]) -> str | None:
        """Return the relation that does not hold for these numbers of blobs by letter, None where it does."""
        found, wanted = counts[self.letter], counts[self.other]
        return None if found == wanted else f"there are {found} {self.letter} for {wanted} {self.other}"


@dataclass(frozen=True, slots=True)
class Pairs:
    """Variadic letters that take turns; see `pairs`."""

    word: ClassVar[str] = "pairs"
    letters: tuple[str, ...]

    def wrong(self, counts: Mapping[str, int]) -> str | None:
        """Return the relation that does not hold for these numbers of blobs by letter, None where it does."""
        if len({counts[letter] for letter in self.letters}) == 1:
            return None
        return f"{_listed(counts, self.letters)} do not go in turn"


@dataclass(frozen=True, slots=True)
class Together:
    """Optional letters that are there together, or not at all; see `together`."""

    word: ClassVar[str] = "together"
    letters: tuple[str, ...]

    def wrong(self, counts: Mapping[str, int]) -> str | None:
        """Return the relation that does not hold for these numbers of blobs by letter, None where it does."""
        if len({counts[letter] > 0 for letter in self.letters}) == 1:
            return None
        missing = " and ".join(letter for letter in self.letters if not counts[letter])
        there = " and ".join(letter for letter in self.letters if counts[letter])
        return f"{there} without {missing}: they come together or not at all"


Relation: TypeAlias = AsMany | Pairs | Together


def as_many(letter: str, other: str) -> AsMany:
    """Say that there are as many blobs of one letter as of another: outputs, then inputs, or two variadic inputs."""
    return AsMany(letter, other)


def pairs(*letters: str) -> Pairs:
    """Say that variadic letters, two or more, take turns: `pairs("X", "w")` stands for X0, w0, X1, w1 ..."""
    return Pairs(letters)


def together(*letters: str) -> Together:
    """Say that optional letters are there together, or not at all."""
    return Together(letters)


def wrong_numbers(relations: Sequence[Relation], counts: Mapping[str, int]) -> str | None:
    """Return the first relation that does not hold for these numbers of blobs by letter, None where all do."""
    return next((wrong for relation in relations if (wrong := relation.wrong(counts)) is not None), None)


def letters_of(specs: Sequence[BlobSpec], count: int, relations: Sequence[Relation] = ()) -> tuple[str, ...]:
    """Return letters by position: required ones first, then optional ones; variadic letters share what is left.

    >>> from tazza.operator import blob
    >>> X, w = blob("X", variadic=True), blob("w", variadic=True)
    >>> letters_of([blob("Y"), X, w], 5), letters_of([blob("Y"), X, w], 5, [pairs("X", "w")])
    (('Y', 'X', 'X', 'w', 'w'), ('Y', 'X', 'w', 'X', 'w'))
    """
    widths = {spec.name: 0 if spec.optional else 1 for spec in specs}
    left = count - sum(widths.values())
    for spec in specs:
        if spec.optional and not spec.variadic and left > 0:
            widths[spec.name], left = 1, left - 1
    many = [spec.name for spec in specs if spec.variadic]
    if many:
        total = max(left, 0) + sum(widths[name] for name in many)
        for place, name in enumerate(many):
            widths[name] = total // len(many) + (place < total % len(many))
    turns = next(
        (relation for relation in relations if isinstance(relation, Pairs) and relation.letters[0] in many), None
    )
    letters: list[str] = []
    for spec in specs:
        if turns is None or spec.name not in turns.letters:
            letters.extend([spec.name] * widths[spec.name])
        elif spec.name == turns.letters[0]:
            rounds = max(widths[name] for name in turns.letters)
            letters.extend(name for turn in range(rounds) for name in turns.letters if turn < widths[name])
    return tuple(letters)


class LetterRow:
    """The letters of one side of an operator type, its inputs or its outputs: `noun` says which.

    `letters(count)` are those that so many blobs stand for (`letters_of`), found out once for a number of blobs.
    """

    def __init__(self, noun: str, specs: Sequence[BlobSpec], relations: Sequence[Relation]) -> None:
        """Take the letters in their order."""
        self.noun = noun
        self.names = tuple(spec.name for spec in specs)
        self._specs, self._relations = specs, relations
        self.least = sum(not spec.optional for spec in specs)
        self.most = None if any(spec.variadic for spec in specs) else len(specs)
        self.letters = remembered("letters of operators", entries=64)(self._letters)

    def _letters(self, count: int) -> tuple[str, ...]:
        return letters_of(self._specs, count, self._relations)

    def check(self, type: str, count: int) -> None:
        """Check a number of blobs.

        Raises:
            SchemaError: an operator of that type takes more, or fewer.
        """
        least, most = self.least, self.most
        if count < least or (most is not None and count > most):
            span = f"{least}" if least == most else f"{least} or more" if most is None else f"{least} to {most}"
            hint = f"{self.noun}s: {', '.join(self.names)}" if self.names else None
            raise SchemaError(f"{type} has {count} {self.noun}s, it takes {span}", hint=hint)


def output_count(
    inputs: Sequence[BlobSpec], outputs: Sequence[BlobSpec], relations: Sequence[Relation], count: int
) -> int | None:
    """Return how many outputs an operator has with so many inputs, None where that does not follow from them.

    >>> from tazza.operator import blob
    >>> X, Y = blob("X", variadic=True), blob("Y", variadic=True)
    >>> output_count([X], [Y], [as_many("Y", "X")], 3), output_count([X], [Y], [], 3)
    (3, None)
    """
    letters = letters_of(inputs, count, relations)
    follows = {relation.letter: relation.other for relation in relations if isinstance(relation, AsMany)}
    found = 0
    for spec in outputs:
        if follows.get(spec.name) in {each.name for each in inputs}:
            found += letters.count(follows[spec.name])
        elif spec.optional or spec.variadic:
            return None
        else:
            found += 1
    return found


def _listed(counts: Mapping[str, int], letters: Sequence[str]) -> str:
    return " and ".join(f"{counts[letter]} {letter}" for letter in letters)


def all_named(type: str, what: str, letters: tuple[str, ...], count: int) -> tuple[str, ...]:
    """Return the letters that arguments give to `count` inputs or outputs.

    Raises:
        SchemaError: there are more blobs than letters.
    """
    if len(letters) != count:
        raise SchemaError(
            f"{type} has {count} {what}, its arguments name {len(letters)}: {', '.join(letters)}",
            hint="leave out what its arguments do not ask for",
        )
    return letters
