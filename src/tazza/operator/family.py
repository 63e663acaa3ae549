"""A family that is a table: operator types that one function declares, each from a row of data.

    @dataclass(frozen=True, slots=True)
    class Comparison:
        words: str
        compare: np.ufunc

    @family(
        {
            "EQ": Comparison("A = B", np.equal),
            "LT": Comparison("A < B", np.less),
        }
    )
    def comparisons(type: str, row: Comparison) -> OpSchema:
        made = schema(type, f"C = true where {row.words}.", inputs=..., outputs=...)
        made.infer(comparison_infer)

        @kernel(made)
        def compare(A: Array, B: Array, C: Array) -> None:
            row.compare(A, B, out=C)

        return made

The table stands above the function: each type by its whole name, so that a search finds it, and what tells it from the
others. The function says once what they have in common, as if there were one. Afterwards its name stands for the
`Family`, a mapping: `comparisons["EQ"]` is a schema, `comparisons.rows["EQ"]` its row.

Rules that need nothing of the row are functions of the module, as everywhere (`made.infer(comparison_infer)`); those
that do are closures. Types that differ by name only have no row: `@family("Concat", "DepthConcat")`. Two tables may
share their rows: gradient operators are a family over `gradients_of(comparisons)`, which names them by the type with
"Gradient" behind it. What is derived from another operator is a row too, and its function calls what derives it
(`operator.fused`, `ops.optimizer.rows`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from types import MappingProxyType
from typing import Any, Generic, TypeVar, cast, overload

from tazza.data_class import is_frozen
from tazza.errors import SchemaError
from tazza.operator.schema import OpSchema

R = TypeVar("R")


class Family(Mapping[str, OpSchema], Generic[R]):
    """Operator types that one function declares: type -> schema, in the order of the table. Made by `family`."""

    def __init__(self, name: str, rows: Mapping[str, R], declare: Callable[[str, R], OpSchema]) -> None:
        """Declare an operator type for each row."""
        self.name = name
        self.rows: Mapping[str, R] = MappingProxyType(dict(rows))
        self._schemas = {type: self._declared(type, declare(type, row)) for type, row in self.rows.items()}

    def __repr__(self) -> str:
        return f"Family({self.name}: {', '.join(self)})"

    def __getitem__(self, type: str) -> OpSchema:
        """Return the schema of a type."""
        return self._schemas[type]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the types."""
        return iter(self._schemas)

    def __len__(self) -> int:
        """Return the number of types."""
        return len(self._schemas)

    @property
    def schemas(self) -> tuple[OpSchema, ...]:
        """The schemas, in the order of the table."""
        return tuple(self._schemas.values())

    def _declared(self, type: str, made: OpSchema) -> OpSchema:
        if made.type != type:
            raise SchemaError(f"{self.name}: the row {type!r} declared {made.type!r}", hint="pass the type to schema()")
        made.family = self
        return made


@overload
def family(table: Mapping[str, R], /) -> Callable[[Callable[[str, R], OpSchema]], Family[R]]: ...
@overload
def family(*types: str) -> Callable[[Callable[[str], OpSchema]], Family[None]]: ...
def family(*given: Any) -> Callable[[Callable[..., OpSchema]], Family[Any]]:
    """Declare an operator type for each row of a table by the function below: `function(type, row)` -> its schema.

    Args:
        *given: operator type -> row, a frozen dataclass; or just the types, for a `function(type)`, where these differ
            by name only.

    Returns:
        A decorator that makes a `Family` of the function.

    Raises:
        SchemaError: the table has no rows; a row can be changed; the function declares another type than the row's.
    """
    table, bare = _table(given)
    if not table:
        raise SchemaError("a family has at least one row")
    for type, row in table.items():
        if not bare and not _is_data(row):
            raise SchemaError(f"the row of {type!r} is a {row.__class__.__name__}", hint="make it a frozen dataclass")

    def declare(function: Callable[..., OpSchema]) -> Family[Any]:
        def by_name(type: str, row: None) -> OpSchema:
            del row
            return function(type)

        return Family(function.__name__, table, by_name if bare else function)

    return declare


def gradients_of(forward: Family[R]) -> dict[str, R]:
    """Return the table of gradient operators: the type with "Gradient" behind it -> the row of the type."""
    return {f"{type}Gradient": row for type, row in forward.rows.items()}


def _table(given: tuple[Any, ...]) -> tuple[dict[str, Any], bool]:
    """Return the rows, and whether they are names alone."""
    if len(given) == 1 and isinstance(given[0], Mapping):
        return dict(cast("Mapping[str, Any]", given[0])), False
    if len(set(given)) != len(given):
        raise SchemaError(f"a family names a type twice: {', '.join(given)}")
    return dict.fromkeys(given), True


def _is_data(row: Any) -> bool:
    return is_dataclass(row) and not isinstance(row, type) and is_frozen(type(row))
