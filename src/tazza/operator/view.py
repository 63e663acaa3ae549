"""The typed, validated view of an `OperatorDef` that infer, cost, gradient makers and kernels get as `op`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tazza.errors import ShapeError, TazzaError
from tazza.proto import OperatorDef

if TYPE_CHECKING:
    from tazza.operator.schema import OpSchema

ValueReader = Callable[[str], "NDArray[Any] | None"]


class OpView:
    """Arguments as attributes (`op.alpha`), checked and with the schema's defaults; and which blob stands where.

    `inputs` and `outputs` map the schema's letters to blob names, in order; a variadic letter maps to the tuple of its names. Two
    views with equal `key` behave the same on equal inputs, whatever the blobs are called.
    """

    __slots__ = ("_reader", "arguments", "definition", "input_slots", "output_slots", "schema", "values_read")

    def __init__(self, schema: OpSchema, definition: OperatorDef, arguments: Mapping[str, Any]) -> None:
        """Made by `OpSchema.view`, which checks everything first."""
        self.schema = schema
        self.definition = definition
        self.arguments = arguments
        self.input_slots = schema.input_slots(self, len(definition.input))
        self.output_slots = schema.output_slots(self, len(definition.output))
        self.values_read: set[str] = set()
        self._reader: ValueReader | None = None

    def __getattr__(self, name: str) -> Any:
        """Return an argument's value."""
        try:
            return self.arguments[name]
        except KeyError:
            raise AttributeError(f"{self.schema.type} declares no argument {name!r}") from None

    @property
    def type(self) -> str:
        """The operator type."""
        return self.schema.type

    def given(self, name: str) -> bool:
        """Whether the OperatorDef itself holds the argument, rather than the schema's default."""
        return any(argument.name == name for argument in self.definition.arg)

    def has_input(self, letter: str) -> bool:
        """Whether the optional input of that letter is there."""
        return letter in self.input_slots

    def has_output(self, letter: str) -> bool:
        """Whether the optional output of that letter is wanted."""
        return letter in self.output_slots

    def input_name(self, letter: str) -> str:
        """Return the name of the blob that stands for an input letter."""
        return self.definition.input[self.input_slots.index(letter)]

    def value(self, letter: str) -> NDArray[Any] | None:
        """Return the value of an input while shapes are inferred, or None where only its spec is known.

        Operators whose output shape depends on an input's values call this; the executor then infers anew whenever they change.
        """
        self.values_read.add(letter)
        return None if self._reader is None else self._reader(letter)

    def read_values_with(self, reader: ValueReader | None) -> None:
        """Let `value` answer through `reader`."""
        self._reader = reader

    def require(self, condition: bool | np.bool_, relation: str, hint: str | None = None) -> None:
        """Raise a `ShapeError` that states `relation`, unless `condition` holds."""
        if not condition:
            raise self.error(ShapeError, relation, hint)

    def error(self, kind: type[TazzaError], message: str, hint: str | None = None) -> TazzaError:
        """Return an error that begins with the operator's type."""
        return kind(f"{self.type}: {message}", hint=hint)
