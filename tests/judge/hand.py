"""What draws: a `Hand` with its own random numbers, the `Sketch` of a problem, and the registry of family generators.

A sketch says shapes, or values where they matter, by the schema's letters (a list for a variadic one), and arguments.
What it leaves out is drawn from the schema. It need not be legal: candidates that the operator refuses are drawn again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from tazza.operator import OpSchema
from tazza.tensor import DataType

Array: TypeAlias = NDArray[Any]
Shape: TypeAlias = tuple[int, ...]
T = TypeVar("T")

CHANNELS = (1, 3, 7, 8, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 70)
"""Beside those that are drawn evenly: around the widths of vectors and blocks."""


@dataclass
class Sketch:
    """A candidate; letters that are absent are drawn by the schema, or left out where they are optional."""

    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    shapes: dict[str, Any] = field(default_factory=dict[str, Any])
    values: dict[str, Any] = field(default_factory=dict[str, Any])
    outputs: int | None = None
    over: Mapping[str, str] = field(default_factory=dict[str, str])
    """Letters of outputs that overwrite an input although they need not, and the letters of these."""


@dataclass
class Hand:
    """Draws numbers, extents and shapes; `given` pins the shapes of inputs by blob name, `dtype` their element type."""

    rng: np.random.Generator
    given: Mapping[str, Shape] = field(default_factory=dict[str, Shape])
    dtype: DataType | None = None
    wild: bool = False
    taken: set[int] = field(default_factory=set[int])
    filled: int = 0

    def chance(self, probability: float) -> bool:
        """Return True with that probability."""
        return bool(self.rng.random() < probability)

    def integer(self, least: int, most: int) -> int:
        """Return an integer of [least, most]; `least` where that is empty."""
        return least if most <= least else int(self.rng.integers(least, most, endpoint=True))

    def pick(self, choices: Sequence[T]) -> T:
        """Return one of `choices`."""
        return choices[int(self.rng.integers(len(choices)))]

    def real(self, least: float, most: float) -> float:
        """Return a float of [least, most), exact in float32."""
        return float(np.float32(self.rng.uniform(least, most)))

    def batch(self) -> int:
        """Return a number of images: 1 to 4, sometimes none."""
        return 0 if self.chance(0.04) else self.integer(1, 4)

    def channels(self) -> int:
        """Return a number of channels, 1 to 70."""
        return self.integer(1, 70) if self.chance(0.6) else self.pick(CHANNELS)

    def size(self, least: int = 1, most: int = 9) -> int:
        """Return a small extent, one that was not drawn before where there is one."""
        fresh = [n for n in range(least, most + 1) if n not in self.taken]
        found = self.pick(fresh) if fresh else self.integer(least, most)
        self.taken.add(found)
        return found

    def dims(self, least: int = 0, most: int = 5, *, elements: int = 6000) -> Shape:
        """Return a shape of a rank in [least, most], of which one extent may be large, and sometimes one is 0."""
        rank = self.integer(least, most)
        if rank == least == 0 and self.chance(0.6):
            rank = self.integer(1, most)
        self.taken.clear()
        shape = [self.size(1, 7) for _ in range(rank)]
        if rank > 0 and self.chance(0.6):
            shape[self.integer(0, rank - 1)] = self.channels()
        while int(np.prod(shape, dtype=np.int64)) > elements:
            shape[int(np.argmax(shape))] //= 2
        if rank > 0 and self.chance(0.04):
            shape[self.integer(0, rank - 1)] = 0
        return tuple(shape)

    def shape(self, letter: str, least: int = 0, most: int = 5) -> Shape:
        """Return the shape given for an input, else one that is drawn."""
        return self.given[letter] if letter in self.given else self.dims(least, most)

    def image(
        self,
        letter: str = "X",
        *,
        spatial: tuple[int, int] = (1, 3),
        most: int = 9,
        orders: Sequence[str] = ("NCHW", "NHWC"),
    ) -> tuple[str, Shape]:
        """Return an order, and the shape of an input (N, C, in...) in that order."""
        order = self.pick(orders)
        if letter in self.given:
            return order, self.given[letter]
        D = self.pick([d for d in (1, 2, 2, 2, 3, 0) if spatial[0] <= d <= spatial[1]])
        self.taken.clear()
        N, C, inner = self.batch(), self.channels(), [self.size(1, most if D < 3 else 6) for _ in range(D)]
        return order, (N, C, *inner) if order == "NCHW" else (N, *inner, C)

    def some(self, arguments: Mapping[str, Any], probability: float = 0.5) -> dict[str, Any]:
        """Return those arguments that are not None, each with that probability."""
        return {name: value for name, value in arguments.items() if value is not None and self.chance(probability)}


Generator: TypeAlias = Callable[[Hand, OpSchema], Sketch]
GENERATORS: dict[str, Generator] = {}
"""Operator type -> what sketches its problems where the schema's patterns and ranges do not suffice."""


def draws(*types: str) -> Callable[[Generator], Generator]:
    """Register a generator of sketches for these types."""

    def decorate(function: Generator) -> Generator:
        for type in types:
            if type in GENERATORS:
                raise LookupError(f"{type} has a generator already")
            GENERATORS[type] = function
        return function

    return decorate


def divisors(number: int) -> list[int]:
    """Return the divisors of a number above 0, in order.

    >>> divisors(6)
    [1, 2, 3, 6]
    """
    return [d for d in range(1, number + 1) if number % d == 0] if number > 0 else [1]


def orders_of(schema: OpSchema) -> tuple[str, ...]:
    """Return the orders that images of an operator may have."""
    choices = schema.args["order"].choices
    assert choices is not None
    return tuple(order for order in choices if order.isupper())


def channels_of(order: str, shape: Shape) -> int:
    """Return the number of channels of an image."""
    return shape[(len(shape) - 1) if order.upper() == "NHWC" and len(shape) > 2 else 1]


def spatial_of(order: str, shape: Shape) -> Shape:
    """Return the spatial extents of an image."""
    return shape[1:-1] if order.upper() == "NHWC" else shape[2:]


def as_list(value: Any) -> list[Any]:
    """Return what a sketch says of a letter as a list: of shapes, or of arrays."""
    return cast("list[Any]", value) if isinstance(value, list) else [value]
