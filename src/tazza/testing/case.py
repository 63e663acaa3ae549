"""One call of an operator, as data, and where it can run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Any, NamedTuple, cast

from tazza.data_class import dataclass
from tazza.device import device_option
from tazza.operator import ENGINES, find_schema, operator_def, why_unavailable
from tazza.proto import OperatorDef
from tazza.tensor import CPUPlace, Place
from tazza.testing.value import Array, fresh


@dataclass(frozen=True)
class Case:
    """One call of an operator and what must come out.

    Attributes:
        type: the operator's.
        inputs: arrays, numbers, lists, or `Int8Tensor`s; one for each input, in order.
        expected: the outputs, or a function of the inputs that gives them by another formula than the kernel's.
        args: arguments by name.
        outputs: how many there are; None: all that are not optional.
        batched: the inputs whose first axis may be cut to length 0.
        gradient: False switches the comparison of gradients off, for a reason that the test says.
        slack: by what the tolerances are multiplied, for sums of many numbers.
        id: what the case is called in lists.
        place: where it runs.
    """

    type: str
    inputs: Sequence[Any]
    expected: Any
    args: dict[str, Any] = field(default_factory=dict[str, Any])
    outputs: int | None = None
    batched: tuple[int, ...] = ()
    gradient: bool = True
    slack: float = 1.0
    id: str = ""
    place: Place = CPUPlace()

    def arrays(self) -> list[Array]:
        """Return fresh copies of the inputs."""
        return [cast("Array", fresh(value)) for value in self.inputs]

    def definition(self, engine: str = "") -> OperatorDef:
        """Return the OperatorDef with inputs in0, in1 ... and outputs out0 ..."""
        declared = find_schema(self.type)
        count = sum(not spec.optional for spec in declared.outputs) if self.outputs is None else self.outputs
        names = [f"in{i}" for i in range(len(self.inputs))], [f"out{i}" for i in range(count)]
        device = None if self.place.is_host else device_option(self.place)
        return operator_def(self.type, *names, engine=engine, device=device, **self.args)


class Trial(NamedTuple):
    """A case on an engine, and what both are called together."""

    case: Case
    engine: str
    name: str


def engines_of(type: str, place: Place | None = None) -> list[str]:
    """Return the engines that have a kernel of this type for a place, by default the host, and are available."""
    kind = (CPUPlace() if place is None else place).kind
    return [name for name in ENGINES if why_unavailable(type, kind, name) is None]


def trials(cases: Iterable[Case]) -> list[Trial]:
    """Return every case with each engine that has a kernel for it: the parameters of a test.

    >>> [trial.name for trial in trials([Case("Relu", [[1.0]], [[1.0]])]) if trial.engine == "reference"]
    ['Relu-0-reference']
    """
    return [
        Trial(case, engine, f"{case.type}-{case.id if case.id else position}-{engine}")
        for position, case in enumerate(cases)
        for engine in engines_of(case.type)
    ]
