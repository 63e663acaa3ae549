"""Trees of fields: which lengths a field stands under, and how far a number of records reaches in each domain.

A field is a tensor; its name says where it stands. `ids:lengths` tells how many rows each record has in `ids`, and in
every field whose name begins with `ids:`; `ids:values:lengths` is one such level deeper. A *domain* is the rows that
one lengths field counts; domain 0 has a row for each record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tazza.data_class import dataclass
from tazza.errors import ArgumentError, DTypeError
from tazza.operator import Array, OpView, arg

FIELDS = arg("fields", list[str], [], doc="a name for each field, such as `ids:lengths`; lengths stand before values")


@dataclass(frozen=True, slots=True)
class Field:
    """A field, and the position of the lengths that it stands under; None at the top."""

    name: str
    lengths: int | None

    @property
    def counts(self) -> bool:
        """Whether it is lengths."""
        return self.name.split(":")[-1] == "lengths"


def read_fields(names: Sequence[str]) -> tuple[Field, ...]:
    """Return the fields with the nearest lengths above each.

    >>> [field.lengths for field in read_fields(["i:lengths", "i:values:lengths", "i:values:values", "label"])]
    [None, 0, 1, None]
    """
    domains = {tuple(name.split(":")[:-1]): n for n, name in enumerate(names) if name.split(":")[-1] == "lengths"}
    found: list[Field] = []
    for n, name in enumerate(names):
        path = tuple(name.split(":"))
        above = [domains[path[:k]] for k in range(len(path), 0, -1) if domains.get(path[:k], n) != n]
        found.append(Field(name, above[0] if above else None))
    return tuple(found)


class Span(NamedTuple):
    """The rows of some records, in each domain: where they begin, and how many they are."""

    starts: list[int]
    rows: list[int]

    @property
    def ends(self) -> list[int]:
        """Where they end."""
        return [start + rows for start, rows in zip(self.starts, self.rows, strict=True)]


@dataclass(frozen=True, slots=True)
class Tree:
    """Fields, the positions of those that are lengths, and the domain of each."""

    fields: tuple[Field, ...]
    counting: tuple[int, ...]
    domains: tuple[int, ...]

    def limits(self, columns: Sequence[Array]) -> list[int | None]:
        """Return how many rows the shortest field of each domain has; None where a domain has no field."""
        found: list[int | None] = [None] * (len(self.counting) + 1)
        for domain, column in zip(self.domains, columns, strict=True):
            least = found[domain]
            found[domain] = len(column) if least is None else min(least, len(column))
        return found

    def lengths(self, op: OpView, columns: Sequence[Array], domain: int, start: int, rows: int) -> Array:
        """Return how many rows of a domain below the top each of some rows above it has, as int64.

        Raises:
            DTypeError, ShapeError: they are not int32; one is negative.
        """
        position = self.counting[domain - 1]
        name, column = self.fields[position].name, columns[position]
        if column.dtype != np.int32:
            raise op.error(DTypeError, f"field {name!r} is {column.dtype}, lengths are int32")
        found = column.reshape(-1)[start : start + rows]
        op.require(bool((found >= 0).all()), f"field {name!r} holds {found.min(initial=0)}, lengths are at least 0")
        return found.astype(np.int64)

    def check_reach(self, op: OpView, limits: Sequence[int | None], domain: int, end: int) -> None:
        """Check that the fields of a domain have as many rows as its lengths tell.

        Raises:
            ShapeError: they have fewer.
        """
        limit, name = limits[domain], self.fields[self.counting[domain - 1]].name
        op.require(limit is None or end <= limit, f"{name!r} reaches to row {end}, its fields have {limit}")

    def span(self, op: OpView, columns: Sequence[Array], starts: Sequence[int], count: int) -> Span:
        """Return the rows of the next records, `count` or as many as there are.

        Raises:
            DTypeError, ShapeError: lengths are not int32, one is negative, or they reach beyond the fields.
        """
        limits = self.limits(columns)
        top = limits[0]
        rows = [min(count, max(0 if top is None else top - starts[0], 0))]
        for domain, position in enumerate(self.counting, 1):
            above = self.domains[position]
            lengths = self.lengths(op, columns, domain, starts[above], rows[above])
            rows.append(int(lengths.sum()))
            self.check_reach(op, limits, domain, starts[domain] + rows[domain])
        return Span(list(starts), rows)


def read_tree(op: OpView, names: Sequence[str]) -> Tree:
    """Return the tree of fields with these names.

    Raises:
        ArgumentError: a field stands before its lengths.
    """
    fields = read_fields(names)
    counting = tuple(n for n, field in enumerate(fields) if field.counts)
    for n, field in enumerate(fields):
        if field.lengths is not None and field.lengths > n:
            raise op.error(
                ArgumentError,
                f"field {n}, {field.name!r}, stands before its lengths, {fields[field.lengths].name!r}",
                hint="lengths come first",
            )
    return Tree(
        fields, counting, tuple(0 if one.lengths is None else 1 + counting.index(one.lengths) for one in fields)
    )


def check_columns(op: OpView, tree: Tree, columns: Sequence[Array]) -> None:
    """Check that there is a tensor for each field, with a first axis.

    Raises:
        ShapeError: there are more or less; one has rank 0.
    """
    op.require(len(columns) == len(tree.fields), f"{len(columns)} blobs for {len(tree.fields)} fields")
    for field, column in zip(tree.fields, columns, strict=True):
        op.require(column.ndim > 0, f"field {field.name!r} has rank 0, a field has a row for each record at least")
