"""What an operator queues on cuDNN: plans, and a few of the library's older functions, one behind the other."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Protocol, TypeAlias

from tazza.data_class import dataclass
from tazza.device import Context, device_of
from tazza.device.cuda import CUDADevice, queue_of
from tazza.device.cuda.vendor import vector_of
from tazza.engines.cudnn._declarations import NUMBERS
from tazza.engines.cudnn.descriptor import Maker
from tazza.engines.cudnn.graph import TYPES, Form, Problem
from tazza.engines.cudnn.library import CUDNN, TensorDescriptor
from tazza.engines.cudnn.plan import Plan, Wishes, choose_plan
from tazza.engines.cudnn.search import fastest_plan
from tazza.errors import KernelError
from tazza.operator import Call, Launch, Operands
from tazza.runtime.cache import Cache
from tazza.tensor import DataType, Tensor

Chosen: TypeAlias = "tuple[Plan | None]"
PLANS: Cache[tuple[Problem, Wishes], Chosen] = Cache("plans of cuDNN", 4096)
"""What was chosen; each device has a cache of its own, which ends with it."""


def maker_of(context: Context) -> Maker:
    """Return whom descriptors of a context's device are made for."""
    return Maker(partial(CUDNN.call, queue_of(context).device), CUDNN.handle_of(context))


def plan_of(context: Context, problem: Problem, wishes: Wishes) -> Plan | None:
    """Return the plan for a problem on the device of a context, or None where the library has none."""
    kept = device_of(context.place).handle("plans of cuDNN", PLANS.another, lambda ended: ended.clear())
    key = problem, wishes
    found = kept.get(key)
    if found is None:
        choose = fastest_plan if wishes.search else _ranked
        kept.put(key, found := (choose(context, maker_of(context), problem, wishes),))
    return found[0]


def _ranked(context: Context, maker: Maker, problem: Problem, wishes: Wishes) -> Plan | None:
    del context
    return choose_plan(maker, problem, wishes)


class Work(Protocol):
    """One call of the library."""

    @property
    def scratch_bytes(self) -> int:
        """The bytes of its workspace."""
        ...

    def bind(self, operands: Operands, handle: int) -> Callable[[], None]:
        """Return what makes it."""
        ...


@dataclass(frozen=True, slots=True)
class Planned:
    """A run of a plan.

    Attributes:
        problem: what it computes.
        wishes: what was asked of it.
        plan: the plan.
        letters: letters of the problem -> those of the operator; what is missing is a bias of zeros.
    """

    problem: Problem
    wishes: Wishes
    plan: Plan
    letters: Mapping[str, str]

    @property
    def scratch_bytes(self) -> int:
        """The bytes of its workspace."""
        return self.plan.workspace_bytes

    def bind(self, operands: Operands, handle: int) -> Callable[[], None]:
        """Return what runs it; where memory lies less well than the plan wants, another one is made."""
        context, plan, scratch = operands.context, self.plan, operands.scratch
        kept = [self._tensor(letter, operands) for letter in self.problem.letters]
        addresses = {letter: one.address for letter, one in zip(self.problem.letters, kept, strict=True)}
        if any(address % self.problem.alignment for address in addresses.values()):
            plan = self._for_any_address(context)
            scratch = context.scratch(plan.workspace_bytes) if plan.workspace_bytes else None
        workspace = None if scratch is None or not plan.workspace_bytes else scratch.address
        pack, device = plan.pack(maker_of(context), addresses, workspace), queue_of(context).device

        def call(_kept: object = (kept, scratch)) -> None:
            CUDNN.call(device, "cudnnBackendExecute", handle, plan.descriptor.handle, pack.handle)

        return call

    def _for_any_address(self, context: Context) -> Plan:
        problem = replace(self.problem, alignment=self.problem.dtype.itemsize)
        plan = plan_of(context, problem, self.wishes)
        if plan is None:
            raise KernelError(f"cuDNN computes this for addresses that are multiples of {self.problem.alignment} alone")
        return plan

    def _tensor(self, letter: str, operands: Operands) -> Tensor:
        if letter in self.letters:
            found: Tensor | tuple[Tensor, ...] = operands.tensors[self.letters[letter]]
            return found[0] if isinstance(found, tuple) else found  # a letter of several, of which there is one
        return vector_of(operands.context, 0, self.problem.dtype, self.problem.Y.dims[1])


class Older:
    """A call of a function that is older than graphs: some tensors read, one written."""

    scratch_bytes = 0

    def __init__(
        self, device: CUDADevice, function: str, dtype: DataType, *given: tuple[str, Form], added: bool = False
    ) -> None:
        """Describe the tensors, of which the last is written, or added to, by their letters and how they lie."""
        self._device, self.function, self._added = device, function, added
        number = NUMBERS[f"CUDNN_{TYPES[dtype]}"]
        self._given = [(letter, TensorDescriptor(device, number, form.dims, form.steps)) for letter, form in given]

    def bind(self, operands: Operands, handle: int) -> Callable[[], None]:
        """Return what makes the call."""
        kept = [operands[letter] for letter, _ in self._given]
        pairs = [(made.handle, tensor.address) for (_, made), tensor in zip(self._given, kept, strict=True)]
        alpha, beta = ctypes.c_float(1.0), ctypes.c_float(float(self._added))
        if self.function == "cudnnSetTensor":
            arguments = (*pairs[0], ctypes.addressof(beta))
        else:
            arguments = (ctypes.addressof(alpha), *pairs[0], ctypes.addressof(beta), *pairs[1])

        def call(_kept: object = (kept, alpha, beta)) -> None:
            CUDNN.call(self._device, self.function, handle, *arguments)

        return call


@dataclass(frozen=True, slots=True)
class Lent:
    """A part of an operator that the engine computes that offered most, on the same stream."""

    launch: Launch

    @property
    def scratch_bytes(self) -> int:
        """Those of the launch."""
        return self.launch.scratch_bytes

    def bind(self, operands: Operands, handle: int) -> Callable[[], None]:
        """Return its call."""
        del handle
        return self.launch.bind(operands)


@dataclass(frozen=True, slots=True)
class CudnnLaunch:
    """Queues calls of the library, one behind the other."""

    works: tuple[Work, ...]
    capturable: bool = True

    @property
    def scratch_bytes(self) -> int:
        """The largest workspace."""
        return max((work.scratch_bytes for work in self.works), default=0)

    @property
    def implementation(self) -> str:
        """What engines of the library run it, by their numbers, and which of them add in any order."""
        return " + ".join(str(work.plan) for work in self.works if isinstance(work, Planned))

    def bind(self, operands: Operands) -> Call:
        """Return what queues them on the stream of the context."""
        handle = CUDNN.handle_of(operands.context)
        calls = [work.bind(operands, handle) for work in self.works]

        def call() -> None:
            for one in calls:
                one()

        return call
