"""Inputs that a plan reads where the caller has them, instead of copies of them.

For a run the calls that read the blob of an input are moved to the memory of an array of the caller. That is possible
where nothing else looks at the blob's elements: no step writes over them, no output is they, no shape was inferred from
them, and every call that reads them is native and can be moved (`Movable`). The blob keeps what it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tazza.data_class import dataclass
from tazza.nets.plan.program import PlanValue, Program
from tazza.operator import Movable
from tazza.operator.native_calls import NativeCalls, Part
from tazza.tensor import ROW_MAJOR, Tensor


@dataclass(slots=True)
class Loan:
    """How the calls of an instance are moved to other memory for one input, and back.

    `start` and `end` bound the memory of the blob, `owners` have calls that read it, `at` is where they read it now;
    None while they are being moved, or if that was interrupted. Calls stay where they were moved to: who runs them
    moves them first (`Instance.borrow`, `Instance.give_back`), so an array may be gone as soon as its run is over.
    """

    start: int
    end: int
    owners: Sequence[Movable]
    at: int | None

    def move(self, address: int) -> None:
        """Let the calls read the input at an address."""
        if self.at == address:
            return
        self.at = None
        for owner in self.owners:
            owner.move(self.start, self.end, address - self.start)
        self.at = address


def loan_of(program: Program, name: str, tensor: Tensor, parts: Iterable[Part[int]]) -> Loan | None:
    """Return how calls that were bound to a tensor, the blob of an input, can be moved; None if they cannot."""
    value = program.inputs[name]
    if name in program.copied or name in program.values_read or value.spec.layout != ROW_MAJOR:
        return None
    readers = {position for position, step in enumerate(program.steps) if _is_among(value, step.inputs)}
    written = (output for step in program.steps for output in step.outputs)
    copied = (copy.source for copy in program.derived if copy.source is not None)
    if any(_is_among(value, others) for others in (program.outputs.values(), written, copied)):
        return None
    owners: dict[int, list[Movable]] = {}
    start, end = tensor.address, tensor.address + max(tensor.nbytes, 1)
    for positions, call in parts:
        if readers.isdisjoint(positions):
            continue
        for position, native in zip(positions, call.calls if isinstance(call, NativeCalls) else (None,), strict=True):
            if position not in readers:
                continue
            if native is None or not isinstance(native.owner, Movable):
                return None
            if native.owner.move(start, end, 0):
                owners.setdefault(position, []).append(native.owner)
    if owners.keys() != readers:
        return None
    return Loan(start, end, [one for found in owners.values() for one in found], start)


def _is_among(value: PlanValue, others: Iterable[PlanValue]) -> bool:
    return any(one.root is value for one in others)
