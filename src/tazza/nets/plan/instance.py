"""A program bound to memory: an arena of its own, the blobs of a workspace, and a list of calls.

Constant state: program, owner. Changing state: the binding (tensors, arena, calls, what was watched). Whoever runs an
instance owns it for that time. Invariant: the calls hold while every blob that they were bound to has the same tensor,
spec and memory; `watch` compares identities, `bind` does all anew.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza.device import Context, Generator
from tazza.errors import TazzaError
from tazza.nets.plan.copies import Copies, Copy
from tazza.nets.plan.lending import Loan, loan_of
from tazza.nets.plan.program import PlanValue, Program, Step
from tazza.nets.plan.recorded import Recorded, record
from tazza.operator import BlobOwner, Call, Kernel, Operands
from tazza.operator.kernel import kernel_failure
from tazza.operator.native_calls import NativeCalls, Part, grouped, run_parts
from tazza.operator.reorder import bind_reorder, relayout
from tazza.operator.schema import gather_all
from tazza.operator.watch import Watch, Watched, watched
from tazza.tensor import Allocation, Opaque, Storage, Tensor
from tazza.tensor.allocation import address_of, allocator_of
from tazza.tensor.quantization import Quantization

RECORDED_IN = (2, 4, 8)
"""Which runs of a binding a device records, the later ones where it has refused: the first has loaded all there is."""


class SparedError(Exception):
    """A constant is needed whose memory was given back, before anything ran; the net brings it back."""


class StepHost:
    """What steps need of the net: generators and states that outlive a binding."""

    def generator(self, step: Step) -> Generator:
        """Return the random generator of a step's operator."""
        raise NotImplementedError

    def state(self, step: Step, kernel: Kernel) -> Any:
        """Return what a kernel keeps for a step's operator."""
        raise NotImplementedError


class Instance:
    """A program that can run."""

    def __init__(
        self,
        program: Program,
        copies: Copies,
        owner: BlobOwner,
        host: StepHost,
        context: Context,
    ) -> None:
        """Keep what `bind` needs; nothing is allocated yet."""
        self.program = program
        self.context = context
        self.on_host = context.place.is_host
        self._owner = owner
        self._host = host
        self._copies = copies
        self.held: dict[PlanValue, Copy] = {}
        """The copies of constants that it reads, shared with other instances."""
        self._arena: Allocation | None = None
        self._parts: Sequence[Part[int]] = ()
        self._silent = True
        self.recorded: Recorded | None = None
        """What a device runs instead of the calls, from the second run of a binding on."""
        self._runs = 0
        self._storage: Storage | None = None
        self._written: list[Storage] = []
        self._constants: dict[PlanValue, tuple[Copy, Tensor]] = {}
        self._bound: dict[PlanValue, Tensor] = {}
        self.watch = Watch()
        """Of what calls are bound to; broken until `note_values` was called behind a binding."""
        self._meanings: list[tuple[Tensor, Quantization | None]] = []
        """Tensors of inputs that are written over, whose integers then stand for other numbers, and for which."""
        self.loans: dict[str, Loan | None] = {}
        """By input, what calls are bound to that an earlier run left outside of its blob."""

    def unbound(self) -> bool:
        """Whether `bind` has to run before the next run."""
        return (not self._parts and bool(self.program.steps)) or self.watch.moved()

    def note_values(self, flags: int) -> None:
        """Take the values that shapes were inferred from for known as they are now; `flags`: see `kernel_changes`."""
        found = ((self._bound[self.program.inputs[name]], key) for name, key in self.program.values_read.items())
        self.watch.values = [(tensor, tensor.storage.version, key) for tensor, key in found]
        self.watch.flags = flags

    def hold(self) -> None:
        """Take the copies of constants that it will read, made or not: what nobody holds is gone at any moment.

        Raises:
            OutOfMemoryError: one does not fit.
        """
        if not self.held:
            with self._copies.lock:
                self.held = {value: self._copies.of(value) for value in self.program.derived}

    def lacking(self, names: Iterable[str]) -> list[str]:
        """Return those of some inputs whose elements it needs, and not only the copies that it holds."""
        found: list[str] = []
        for name in names:
            value, blob = self.program.inputs.get(name), self._owner.get_blob(name)
            if value is not None and blob is not None:
                copies, storage = self.program.copied.get(name), blob.tensor().storage
                if copies is None or not all(self.held[copy].is_of(storage) for copy in copies):
                    found.append(name)
        return found

    # -- binding -------------------------------------------------------------------------------------------------------

    def bind(self) -> None:
        """Bind every launch to addresses; `hold` was called.

        Raises:
            OutOfMemoryError: the arena does not fit.
        """
        self._parts, self.recorded, self._runs = (), None, 0
        self.watch = Watch()  # what fails half-way is bound to nothing
        self._bound.clear()
        blobs: list[Watched] = []
        self.loans.clear()  # what is bound anew reads blobs
        self._meanings.clear()
        for name, value in self.program.inputs.items():
            blobs.append(self._bind_input(name, value))
        for name, value in self.program.outputs.items():
            blobs.extend(self._bind_output(name, value))
        self._bind_derived()
        arena = self.program.arena
        if self._arena is None and arena.nbytes:
            self._arena = allocator_of(self.context.place, "arena").allocate(arena.nbytes, "arena of a plan")
        self._storage = Storage(self.context.place, allocation=self._arena)
        count = len(self.program.steps)
        parts = list(grouped((position, self._step(position, self.context)) for position in range(count)))
        self._silent = all(isinstance(call, NativeCalls) for _, call in parts)
        self._written = [self._bound[value.root].storage for value in self.program.outputs.values()]
        self.watch = Watch(blobs)
        self._parts = parts  # last, since it says that all is bound

    def _bind_input(self, name: str, value: PlanValue) -> Watched:
        blob = self._owner.get_blob(name)
        assert blob is not None, "the net looked for it"
        tensor = blob.tensor()
        if name not in self.program.copied:  # copies are made of it however it lies
            layout = value.spec.layout
            with self._copies.lock:
                if isinstance(layout, Opaque) and layout.derived:
                    self._copies.note_move(name, layout)
                relayout(tensor, layout, self.context)
        self._bound[value] = tensor
        return watched(blob)

    def _bind_output(self, name: str, value: PlanValue) -> list[Watched]:
        blob = self._owner.create_blob(name)
        if name not in self.program.inputs:
            if not isinstance(blob.value, Tensor):
                blob.reset()
            tensor = blob.tensor()
            tensor.resize_to(value.spec)
            tensor.reserve()
        elif blob.tensor().quantization != value.spec.quantization:
            self._meanings.append((blob.tensor(), value.spec.quantization))
        self._bound[value.root] = _shaped(blob.tensor(), value.root)
        return [watched(blob)] if name not in self.program.inputs else []

    def _bind_derived(self) -> None:
        self._constants.clear()
        for value, copy in self.held.items():
            assert value.source is not None, "derived values have a source"
            self._bound[value] = copy.tensor
            self._constants[value] = copy, self._bound[value.source]

    def _step(self, position: int, context: Context) -> Call:
        """Bind a step to where everything lies, on a context."""
        step, scratch = self.program.steps[position], None
        if step.launch.scratch_bytes:
            scratch = self._slice(self.program.scratch_offsets[position], step.launch.scratch_bytes)
        try:
            return step.launch.bind(self._operands(step, self._tensors(step), scratch, context))
        except TazzaError as error:
            error.add_context(f"in operator {self._name(position)}")
            raise

    def _slice(self, offset: int, nbytes: int) -> Allocation:
        assert self._arena is not None, "scratch memory is part of the arena"
        return self._arena.part(offset, nbytes)

    def _tensors(self, step: Step) -> list[Tensor]:
        storage, found = self._storage, list[Tensor]()
        assert storage is not None, "made when it is bound"
        for value in (*step.inputs, *step.outputs):
            tensor = self._bound.get(value)
            if tensor is None:
                root = value.root
                if root.home == "arena":
                    tensor = Tensor.over(storage, self.program.offsets[root] + value.start, value.spec)
                else:
                    tensor = _shaped(self._bound[root], value)
                self._bound[value] = tensor
            found.append(tensor)
        return found

    def _operands(
        self, step: Step, tensors: Sequence[Tensor], scratch: Allocation | None, context: Context
    ) -> Operands:
        letters = gather_all(step.op, tensors)
        state = None if step.kernel is None or step.kernel.open is None else self._host.state(step, step.kernel)
        return Operands(letters, scratch, lambda: self._host.generator(step), context, state)

    # -- inputs that lie elsewhere -------------------------------------------------------------------------------------

    def borrow(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Read inputs by name where row-major arrays of their form lie, until `give_back`; copy those that cannot."""
        for name, array in arrays.items():
            if name not in self.loans:
                self.loans[name] = self._loan(name)
            loan = self.loans[name]
            if loan is None:
                self._owner.create_blob(name).tensor().assign(array)
            else:
                loan.move(address_of(array))
        if len(arrays) < len(self.loans):
            self.give_back(set(self.loans).difference(arrays))

    def _loan(self, name: str) -> Loan | None:
        value = self.program.inputs.get(name)
        here = self.context.place.is_host  # what is elsewhere is copied, not read where arrays lie
        return None if value is None or not here else loan_of(self.program, name, self._bound[value], self._parts)

    def give_back(self, names: Iterable[str] | None = None) -> None:
        """Read the blobs of some inputs again, by default of all."""
        for name in self.loans if names is None else names:
            loan = self.loans[name]
            if loan is not None:
                loan.move(loan.start)

    # -- running -------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run all steps once; what a device does may not have ended on return.

        Raises:
            TazzaError: names the operator.
        """
        if not self.on_host:
            self._run_there()
        elif self._silent and not self._constants:  # the one segment that most small nets are
            run_parts(self._parts, self._written, self._located)
        else:
            self._run(self._parts)
        self._say_meanings()

    def _say_meanings(self) -> None:
        """Let integers that were written over others stand for what the new ones do."""
        for tensor, meaning in self._meanings:
            tensor.quantize_as(meaning)

    def run_timed(self) -> list[float]:
        """Run all steps once, as `run` does; return the seconds that each took."""
        seconds = [0.0] * len(self.program.steps)
        try:
            self._run([(positions, _timed(seconds, positions, call)) for positions, call in self._parts])
        finally:
            self.context.wait()
        self._say_meanings()
        return seconds

    def _run_there(self) -> None:
        """Run all steps on a device, by graphs where it has recorded some."""
        self._runs += 1
        with self.context:
            if self._runs in RECORDED_IN and (self.recorded is None or not self.recorded.whole):
                self.recorded = record(self.program.steps, self._parts, self.context, self._step)
            self._run(self._parts if self.recorded is None else self.recorded.parts)

    def _run(self, parts: Sequence[Part[int]]) -> None:
        if self._constants:
            self.refresh()
        if self._silent:
            run_parts(parts, self._written, self._located)
        else:
            with np.errstate(all="ignore"):  # Caffe2 lets NaN and infinity pass
                run_parts(parts, self._written, self._located)

    def refresh_each(self) -> Iterator[str]:
        """Refresh all, and yield the names of those of which nobody here needs more than copies, as soon as these are.

        Raises:
            SparedError: the memory of one was given back.
        """
        for name, values in self.program.copied.items():
            self._refresh([self._constants[value] for value in values])
            yield name
        self.refresh()

    def refresh(self) -> None:
        """Copy constants that were written since into the layouts that kernels read.

        Raises:
            SparedError: the memory of one was given back.
        """
        self._refresh(self._constants.values())

    def _refresh(self, constants: Iterable[tuple[Copy, Tensor]]) -> None:
        for copy, source in constants:
            storage = source.storage
            made = copy.made_from
            if made is not None and made[0] is storage and made[1] == storage.version and not storage.escaped:
                continue
            with self._copies.lock:
                storage = source.storage  # another net may have been quicker, or have moved it
                if not copy.is_of(storage) or storage.escaped:
                    if not storage.allocated:
                        raise SparedError(storage.holder)
                    made = storage, storage.version
                    bind_reorder(source, copy.tensor, self.context)()
                    self.context.wait()  # nets on other streams read it as soon as it says that it is made
                    copy.made_from = made

    def _located(self, error: Exception, positions: tuple[int, ...]) -> TazzaError:
        """Return an error of a run with the step, or the recorded ones, in its text."""
        found = error if isinstance(error, TazzaError) else kernel_failure(error)
        first, *others = map(self._name, positions)
        found.add_context(f"in a graph from {first} to {others[-1]}" if others else f"in operator {first}")
        return found

    def _name(self, position: int) -> str:
        definition = self.program.steps[position].op.definition
        return f"{definition.type}({', '.join(definition.input)} -> {', '.join(definition.output)})"


def _timed(seconds: list[float], positions: tuple[int, ...], call: Call) -> Call:
    """Return a call that adds how long it, or each row of it, took."""

    def run() -> None:
        if isinstance(call, NativeCalls):
            for position, row_s in zip(positions, call.run_timed()[1].tolist(), strict=True):
                seconds[position] += row_s
        else:
            start = time.perf_counter()
            call()
            seconds[positions[0]] += time.perf_counter() - start

    return run


def _shaped(tensor: Tensor, value: PlanValue) -> Tensor:
    """Return a tensor with the spec of a value, over its part of a tensor's memory: itself, where that is all."""
    if tensor.spec == value.spec:
        return tensor
    return Tensor.over(tensor.storage, tensor.offset_bytes + value.start, value.spec)
