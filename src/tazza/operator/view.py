"""The typed, validated view of an `OperatorDef` that infer, cost, gradient makers and kernels get as `op`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tazza.device.option import merge, names_host
from tazza.errors import ShapeError, TazzaError
from tazza.proto import NetDef, OperatorDef
from tazza.runtime.invariance import BATCH_INVARIANT

if TYPE_CHECKING:
    from tazza.operator.schema import OpSchema
    from tazza.operator.touches import Touched

ValueOf = Callable[[str], "NDArray[Any] | None"]
"""Answers for an input letter with the value of that input, where it is known while shapes are inferred."""


class OpView:
    """Arguments as attributes (`op.alpha`), checked and with defaults; and which letter each blob stands for.

    A view is immutable but for `runs_on`, which its net may say, for `touched`, where `operator.touches` keeps its
    answer, and `reads`: the letters whose values `value_of` was asked for. Inference works on a copy (`with_values`),
    so that one view can serve many threads.
    """

    __slots__ = (
        "_values",
        "arguments",
        "definition",
        "input_letters",
        "of_invariant_net",
        "output_letters",
        "reads",
        "runs_on",
        "schema",
        "touched",
    )

    def __init__(self, schema: OpSchema, definition: OperatorDef, arguments: Mapping[str, Any]) -> None:
        """Made by `OpSchema.view`, which checks everything first."""
        self.schema = schema
        self.definition = definition
        self.arguments = arguments
        self.reads: set[str] = set()
        self._values: ValueOf | None = None
        self.touched: Touched | None = None
        self.runs_on = definition.device_option
        self.of_invariant_net = False  # `OpSchema.view` knows
        self.input_letters: tuple[str, ...] = schema.input_letters(self, len(definition.input))
        self.output_letters: tuple[str, ...] = schema.output_letters(self, len(definition.output))

    def with_values(self, values: ValueOf | None) -> OpView:
        """Return a copy whose `value_of` answers through `values`, with `reads` of its own."""
        copy = object.__new__(OpView)
        copy.schema, copy.definition, copy.arguments = self.schema, self.definition, self.arguments
        copy.input_letters, copy.output_letters = self.input_letters, self.output_letters
        copy.reads, copy._values = set(), values
        copy.touched, copy.of_invariant_net = self.touched, self.of_invariant_net
        copy.runs_on = self.runs_on
        return copy

    def within(self, net: NetDef) -> OpView:
        """Return this view, which from now on is where the net says that its operators run, or itself says."""
        if net.HasField("device_option"):
            self.runs_on = merge(net.device_option, self.definition.device_option)
        return self

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

    @property
    def batch_invariant(self) -> bool:
        """Whether its net, or the process, wants each image to have the same bits in any batch."""
        return self.of_invariant_net or BATCH_INVARIANT.value

    @property
    def on_host(self) -> bool:
        """Whether the operator runs on the host, as far as its definition or that of its net says."""
        return names_host(self.runs_on)

    def given(self, name: str) -> bool:
        """Whether the OperatorDef itself holds the argument, rather than the schema's default."""
        return any(argument.name == name for argument in self.definition.arg)

    def has_input(self, letter: str) -> bool:
        """Whether the optional input of that letter is there."""
        return letter in self.input_letters

    def has_output(self, letter: str) -> bool:
        """Whether the optional output of that letter is wanted."""
        return letter in self.output_letters

    def input_name(self, letter: str) -> str:
        """Return the name of the (first) blob that stands for an input letter."""
        return self.definition.input[self.input_letters.index(letter)]

    def value_of(self, letter: str) -> NDArray[Any] | None:
        """Return the value of an input while shapes are inferred, or None where only its spec is known.

        Operators whose output shape depends on an input's values call this; the executor then infers anew whenever
        they change.
        """
        self.reads.add(letter)
        return None if self._values is None else self._values(letter)

    def require(self, condition: bool | np.bool_, relation: str, hint: str | None = None) -> None:
        """Raise a `ShapeError` that states `relation`, unless `condition` holds."""
        if not condition:
            raise self.error(ShapeError, relation, hint)

    def error(self, kind: type[TazzaError], message: str, hint: str | None = None) -> TazzaError:
        """Return an error that begins with the operator's type."""
        return kind(f"{self.type}: {message}", hint=hint)


RESERVED = frozenset(name for name in dir(OpView) if not name.startswith("_"))
"""Names that arguments cannot have, since `op.<name>` is something else."""

INJECTED = frozenset({"op", "operator", "workspace", "random", "context", "quantization"})
"""Parameters of kernels that are no letters."""
