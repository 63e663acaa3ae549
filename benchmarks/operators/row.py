"""What is timed: a row is one operator with its inputs, and what PyTorch calls the same.

A family is a function from numbers that it draws to rows, under `@family`; its file is named after a folder of
`tazza.ops`. Arrays live as long as their row. `torch` is PyTorch, and None where it is not installed: peers name it
when they run, not before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tazza.proto import OperatorDef

torch: Any = import_module("torch") if find_spec("torch") is not None else None
F: Any = None if torch is None else torch.nn.functional

Array = NDArray[Any]
Peer = (
    Callable[[], Any]
    | Callable[[Any], Any]
    | Callable[[Any, Any], Any]
    | Callable[[Any, Any, Any], Any]
    | Callable[[Any, Any, Any, Any], Any]
    | Callable[[Any, Any, Any, Any, Any], Any]
    | Callable[[Any, Any, Any, Any, Any, Any, Any], Any]
)
"""Takes the inputs as tensors, returns what the operator gives: a tensor or several, None for what is not compared."""
CLOSE = 1e-4
"""What results may differ by, of the largest number of a result."""
ELEMENTS = 1_000_000


@dataclass(frozen=True, slots=True)
class Row:
    """One operator; `theirs` are the inputs of the peer where they are not those of the operator.

    With `steps` the peer is called once, with the tensors, and returns what a run calls. `first` are operators that run
    once before, as those that quantize the inputs. `gradient` are the inputs whose gradients are a row of their own,
    those of the first output; `random` results are alike, not equal. `place` says for outputs, by position, which
    input they overwrite.
    """

    type: str
    inputs: Sequence[Array]
    peer: Peer | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    outputs: int = 1
    what: str = ""
    gradient: Sequence[int] = ()
    place: Mapping[int, int] = field(default_factory=dict[int, int])
    theirs: Sequence[Array] | None = None
    steps: bool = False
    random: bool = False
    close: float = CLOSE
    most: float | None = None
    """What the ratio should at most be, where it is not what the family aims at."""
    first: Sequence[OperatorDef] = ()
    reads: Sequence[str] | None = None
    """What the operator reads, where it is not the inputs themselves, `in0`, `in1` ...."""

    @property
    def name(self) -> str:
        """What a line calls it."""
        return f"{self.type}, {self.what}" if self.what else self.type


class Draw:
    """Draws the numbers of rows: as large as they are timed, or tiny."""

    def __init__(self, *, tiny: bool) -> None:
        """Begin with the same numbers each time."""
        self.tiny = tiny
        self._random = np.random.default_rng(0)

    def extent(self, large: int, tiny: int) -> int:
        """Return one of the two.

        >>> Draw(tiny=True).extent(1000, 3)
        3
        """
        return tiny if self.tiny else large

    @property
    def many(self) -> int:
        """Elements of what has one dimension."""
        return self.extent(ELEMENTS, 630)

    @property
    def square(self) -> tuple[int, int]:
        """Rows and columns that are `many` together."""
        return self.extent(1000, 30), self.extent(1000, 21)

    def normal(self, *shape: int) -> Array:
        """Return numbers about 0."""
        return self._random.standard_normal(shape, np.float32)

    def between(self, low: float, high: float, *shape: int) -> Array:
        """Return numbers of an interval."""
        return (low + (high - low) * self._random.random(shape, np.float32)).astype(np.float32)

    def whole(self, behind: int, *shape: int, dtype: DTypeLike = np.int64) -> Array:
        """Return whole numbers from 0 on, below `behind`."""
        return self._random.integers(0, behind, shape).astype(dtype)

    def yes(self, *shape: int) -> Array:
        """Return truth values, half of them true."""
        return self._random.random(shape) < 0.5

    def order(self, count: int, dtype: DTypeLike = np.int64) -> Array:
        """Return the numbers below `count` in a random order."""
        return self._random.permutation(count).astype(dtype)


@dataclass(frozen=True, slots=True)
class Family:
    """A table of rows, and what the ratio of each should at most be."""

    name: str
    rows: Callable[[Draw], Iterator[Row]]
    most: float


FAMILIES: dict[str, Family] = {}
"""By name; filled by `family`."""
FAST, OTHER = 1.0, 1.2
"""What ratios should at most be: of what nets spend their time on, and of all else."""


def family(most: float = OTHER) -> Callable[[Callable[[Draw], Iterator[Row]]], Callable[[Draw], Iterator[Row]]]:
    """Return a decorator that registers a table under the name of its function."""

    def register(function: Callable[[Draw], Iterator[Row]]) -> Callable[[Draw], Iterator[Row]]:
        FAMILIES[function.__name__] = Family(function.__name__, function, most)
        return function

    return register


def load() -> None:
    """Import all tables: the files of the folder `families`."""
    from pathlib import Path

    for path in sorted((Path(__file__).parent / "families").glob("*.py")):
        if path.stem != "__init__":
            import_module(f"benchmarks.operators.families.{path.stem}")
