"""One operator of a net: an OperatorDef bound to blobs, that runs.

Constant state: definition, `op` (the checked view), blobs, the engine ranking. Changing state: the launches per signature (a small
LRU), the present binding, the generator, the event, host state. An operator runs once at a time; who runs it owns it.

Invariant: `_call` may be used while every tensor that it was bound to is unchanged: the same Tensor in its blob, the same spec
object, the same storage at the same generation (`_stale` compares identities, which is what makes a run cheap).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tazza.device import Context, Event, Generator, current_context, place_of
from tazza.errors import BlobTypeError, NotFoundError, ShapeError, TazzaError, UnknownOperatorError, UnsupportedError
from tazza.operator.engine import rank_engines, why_unavailable
from tazza.operator.kernel import KERNELS, Array, Call, Kernel, Launch, Operands, Signature, Unsupported, value_key
from tazza.operator.native import native_kernel
from tazza.operator.observable import Observable
from tazza.operator.registry import find_schema
from tazza.operator.schema import Spec, gather
from tazza.proto import OperatorDef
from tazza.runtime.log import logger
from tazza.tensor import Blob, Opaque, Storage, Tensor, TensorSpec, TypeSpec

LAUNCHES_KEPT = 8
"""Signatures of which an operator keeps the launch."""

definition_hooks: list[Callable[[OperatorDef], None]] = []
"""Called with every OperatorDef that becomes an operator."""


class BlobOwner(Protocol):
    """What an operator needs of a workspace."""

    def get_blob(self, name: str) -> Blob | None:
        """Return a blob, or None."""
        ...

    def create_blob(self, name: str) -> Blob:
        """Return a blob, made empty where it is missing."""
        ...


@dataclass(frozen=True, slots=True)
class Choice:
    """What became of one engine when an operator was prepared: taken when `reason` is None."""

    engine: str
    wanted: bool
    reason: str | None


Report = Callable[[str, str], None]
"""Takes a key and a message that is shown once per key (a net shows it once per net)."""


def _log_report(key: str, message: str) -> None:
    del key
    logger.warning(message)


class Operator(Observable):
    """A runnable operator. Made by nets and workspaces; see `run_op` for one without either."""

    def __init__(
        self, definition: OperatorDef, workspace: BlobOwner, *, strict: bool = False, report: Report = _log_report, label: str = ""
    ) -> None:
        """Check `definition`, find its blobs (inputs must exist, outputs are made), rank engines, open host state.

        Args:
            definition: what to run; copied.
            workspace: whose blobs it works on.
            strict: refuse arguments that the schema does not know, instead of reporting them.
            report: how to tell what people should know once.
            label: where it stands, for error messages, such as `#3 of net 'lenet'`.

        Raises:
            TazzaError: the definition is not legal, or an input does not exist.
        """
        super().__init__()
        self.definition = OperatorDef()
        self.definition.CopyFrom(definition)
        self.workspace = workspace
        self.event = Event()
        self.label = label
        self._report = report
        self._generator: Generator | None = None
        self._launches: OrderedDict[tuple[Any, ...], tuple[Kernel, Launch]] = OrderedDict()
        self._bound: list[tuple[Blob, Tensor, TensorSpec, Storage, int]] = []
        self._values: list[tuple[Storage, int]] = []
        self._written: tuple[Storage, ...] = ()
        self._call: Call | None = None
        self._context: Context | None = None
        self._host: tuple[Call, Callable[[], None] | None] | None = None
        self._states: dict[str, Any] = {}
        self.choices: tuple[Choice, ...] = ()
        try:
            self._create(strict)
        except TazzaError as error:
            raise self._located(error) from error.__cause__
        for hook in definition_hooks:
            hook(self.definition)

    def __repr__(self) -> str:
        name = f" {self.definition.name!r}" if self.definition.name else ""
        return f"{self.definition.type}{name}({', '.join(self.definition.input)} -> {', '.join(self.definition.output)})"

    # -- making ------------------------------------------------------------------------------------------------------------

    def _create(self, strict: bool) -> None:
        self.schema = find_schema(self.definition.type)
        self.op = self.schema.view(self.definition, strict=strict)
        for name in self.schema.unknown_arguments(self.definition):
            self._report(f"argument {self.op.type}.{name}", f"{self.op.type} does not know the argument {name!r}; it has no effect")
        self.inputs = tuple(self._input_blob(name) for name in self.definition.input)
        self.outputs = tuple(self.workspace.create_blob(name) for name in self.definition.output)
        self.blobs: dict[str, Any] = {
            **gather(self.schema.inputs, self.op.input_slots, self.inputs),
            **gather(self.schema.outputs, self.op.output_slots, self.outputs),
        }
        self.place = place_of(self.definition.device_option)
        self.ranking = rank_engines(self.op.type, self.place.kind, self.definition.engine)
        self.op.read_values_with(self._value)
        self.open()

    def _input_blob(self, name: str) -> Blob:
        found = self.workspace.get_blob(name)
        if found is None:
            raise NotFoundError(f"input blob {name!r} does not exist", hint="feed it, or run the operator that makes it first")
        return found

    def open(self) -> None:
        """Make what outlives a run: host state, and blobs that the first engine of the ranking keeps in the workspace."""
        kernels = [(c.engine, self._kernel(c.engine)) for c in self.ranking if why_unavailable(self.op.type, self.place.kind, c.engine) is None]
        if not kernels:
            reasons = "; ".join(f"{c.engine}: {why_unavailable(self.op.type, self.place.kind, c.engine)}" for c in self.ranking)
            raise UnknownOperatorError(f"{self.op.type} has no kernel on {self.place}", hint=reasons)
        first = kernels[0][1]
        if first.host is not None and self._host is None:
            self._report_passed_over(first.engine)
            self._host = first.host(self)
            self._call = self._host[0]
        self._state(first)

    def _report_passed_over(self, taken: str) -> None:
        choices: list[Choice] = []
        for candidate in self.ranking:
            if candidate.engine == taken:
                choices.append(Choice(taken, candidate.wanted, None))
                break
            reason = why_unavailable(self.op.type, self.place.kind, candidate.engine)
            choices.append(Choice(candidate.engine, candidate.wanted, reason))
        self._remember(choices)

    def close(self) -> None:
        """End host state and forget launches; the operator may be opened again."""
        if self._host is not None and self._host[1] is not None:
            self._host[1]()
        self._host = None
        self._call = None
        self._bound = []
        self._launches.clear()
        self._states.clear()

    def _kernel(self, engine: str) -> Kernel:
        found = KERNELS.get((self.op.type, self.place.kind, engine))
        if found is None:
            found = native_kernel(self.op.type, engine)
        assert found is not None, "why_unavailable said that there is one"
        return found

    def _state(self, kernel: Kernel) -> Any:
        if kernel.open is None:
            return None
        if kernel.engine not in self._states:
            self._states[kernel.engine] = kernel.open(self)
        return self._states[kernel.engine]

    def generator(self) -> Generator:
        """Return this operator's random generator, seeded by its device option on first use."""
        if self._generator is None:
            option = self.definition.device_option
            self._generator = Generator(option.random_seed if option.HasField("random_seed") else None)
        return self._generator

    # -- running -----------------------------------------------------------------------------------------------------------

    def run(self, context: Context | None = None) -> None:
        """Run once, in the calling thread.

        Raises:
            TazzaError: with the operator, its blobs and where it was made.
        """
        if self._observers:
            self.start_all()
        try:
            if self._host is not None:
                self._host[0]()
            else:
                if self._call is None or self._stale() or (context is not None and context is not self._context):
                    self._prepare(current_context(self.place) if context is None else context)
                assert self._call is not None
                self._call()
                for storage in self._written:
                    storage.version += 1
        except TazzaError as error:
            raise self._located(error) from error.__cause__
        except Exception as error:
            error.add_note(f"in operator {self!r}{self.label}")
            raise
        finally:
            if self._observers:
                self.stop_all()

    def run_async(self, context: Context | None = None) -> Event:
        """Run once and return the event of this run; on the CPU the event is final on return, and holds the error if any."""
        self.event.reset()
        self.event.schedule()
        try:
            self.run(context)
        except Exception as error:
            self.event.finish(error)
        else:
            self.event.finish()
        return self.event

    def _stale(self) -> bool:
        for blob, tensor, spec, storage, generation in self._bound:
            if (
                blob.value is not tensor
                or tensor.spec is not spec
                or tensor.storage is not storage
                or storage.generation != generation
            ):
                return True
        return any(storage.version != version for storage, version in self._values)

    def _prepare(self, context: Context) -> None:
        """Infer, choose the engine, size the outputs and bind; afterwards `_call` is ready."""
        self._call = None
        inputs = [self._input_spec(blob) for blob in self.inputs]
        key = self._signature(inputs).key
        self.op.values_read.clear()
        specs = self.schema.infer_specs(self.op, inputs)
        found = self._launches.get(key)
        if found is None or self.op.values_read:
            kernel, launch = self._choose(context, inputs, specs)
            self._launches[self._signature(inputs).key] = kernel, launch
            if len(self._launches) > LAUNCHES_KEPT:
                self._launches.popitem(last=False)
        else:
            kernel, launch = found
        self._size_outputs(specs)
        self._bind(context, kernel, launch)

    def _signature(self, inputs: Sequence[TensorSpec]) -> Signature:
        values = [self._value(letter) for letter in sorted(self.op.values_read)]
        return Signature(tuple(inputs), tuple(value_key(value) for value in values if value is not None))

    def _input_spec(self, blob: Blob) -> TensorSpec:
        if blob.value is None:
            raise BlobTypeError(f"blob {blob.name!r} has no value", hint="feed it, or run the operator that makes it first")
        if not isinstance(blob.value, Tensor):
            raise BlobTypeError(f"blob {blob.name!r} holds a {blob.type_name}, {self.op.type} needs a Tensor")
        if not blob.value.allocated:
            raise BlobTypeError(f"blob {blob.name!r} is a tensor without data", hint="run the operator that makes it first")
        return blob.value.spec

    def _value(self, letter: str) -> Array | None:
        blob = self.inputs[self.op.input_slots.index(letter)]
        return blob.value.plain() if isinstance(blob.value, Tensor) else None

    def _choose(self, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> tuple[Kernel, Launch]:
        choices: list[Choice] = []
        for candidate in self.ranking:
            reason = why_unavailable(self.op.type, self.place.kind, candidate.engine)
            if reason is None:
                kernel = self._kernel(candidate.engine)
                assert kernel.prepare is not None, "host kernels do not share an operator type with others"
                answer = kernel.prepare(self.op, context, inputs, outputs)
                if not isinstance(answer, Unsupported):
                    choices.append(Choice(candidate.engine, candidate.wanted, None))
                    self._remember(choices)
                    return kernel, answer
                reason = answer.reason
            choices.append(Choice(candidate.engine, candidate.wanted, reason))
        reasons = "; ".join(f"{choice.engine}: {choice.reason}" for choice in choices)
        raise UnsupportedError(f"no engine takes {self.op.type} with {', '.join(map(str, inputs))}", hint=reasons)

    def _remember(self, choices: list[Choice]) -> None:
        self.choices = tuple(choices)
        for choice in choices:
            if choice.wanted and choice.reason is not None:
                self._report(
                    f"engine {choice.engine}",
                    f"{self.op.type} asks for engine {choice.engine!r}, which is passed over ({choice.reason}); "
                    f"{choices[-1].engine!r} runs instead. Drop the name from OperatorDef.engine to silence this.",
                )

    def _size_outputs(self, specs: Sequence[Spec]) -> None:
        sources = {id(blob): name for blob, name in zip(self.inputs, self.definition.input, strict=True)}
        for letter, blob, spec in zip(self.op.output_slots, self.outputs, specs, strict=True):
            if isinstance(spec, TypeSpec) or self.schema.blob_out(letter).dynamic:
                if not isinstance(spec, TypeSpec) and not isinstance(blob.value, Tensor):
                    blob.reset()
                continue
            if id(blob) in sources and isinstance(blob.value, Tensor) and tuple(blob.value.shape) != spec.shape:
                raise ShapeError(
                    f"{letter} = {blob.name!r} is written in place, so it must keep the shape {tuple(blob.value.shape)}; it would become {spec.shape}",
                    hint="give the output a name of its own",
                )
            if not isinstance(blob.value, Tensor):
                blob.reset()
            blob.tensor().resize(spec.shape, spec.dtype, spec.layout)

    def _bind(self, context: Context, kernel: Kernel, launch: Launch) -> None:
        refresh: list[Callable[[], None]] = []
        operands: list[Tensor] = []
        for blob in self.inputs:
            tensor = blob.tensor()
            if isinstance(tensor.layout, Opaque) and not kernel.takes_opaque:
                plain = Tensor.from_numpy(tensor.plain())
                refresh.append(lambda tensor=tensor, plain=plain: plain.assign(tensor.plain()))
                tensor = plain
            operands.append(tensor)
        outputs = [blob.tensor() for blob in self.outputs]
        letters = {
            **gather(self.schema.inputs, self.op.input_slots, operands),
            **gather(self.schema.outputs, self.op.output_slots, outputs),
        }
        scratch = context.scratch(launch.scratch_bytes) if launch.scratch_bytes else None
        call = launch.bind(Operands(letters, scratch, self.generator, self._state(kernel)))
        self._call = call if not refresh else _chained(refresh, call)
        self._context = context
        dynamic = {id(self.blobs[spec.name]) for spec in self.schema.outputs if spec.dynamic}
        watched = [blob for blob in (*self.inputs, *self.outputs) if id(blob) not in dynamic]
        self._bound = [(b, t, t.spec, t.storage, t.storage.generation) for b in watched for t in (b.tensor(),)]
        self._written = tuple(tensor.storage for tensor in outputs)
        reads = [self.inputs[self.op.input_slots.index(letter)].tensor().storage for letter in self.op.values_read]
        self._values = [(storage, storage.version) for storage in reads]

    def _located(self, error: TazzaError) -> TazzaError:
        line = f"in operator {self!r}{self.label}"
        if not error.where or not any(text.startswith("in operator") for text in error.where):
            error.add_context(line)
            if self.definition.debug_info:
                error.add_context(f"made at {self.definition.debug_info}")
        return error


def _chained(first: list[Callable[[], None]], call: Call) -> Call:
    def run() -> None:
        for step in first:
            step()
        call()

    return run


class LocalBlobs:
    """The least workspace: a dict of blobs, for one operator at a time."""

    def __init__(self) -> None:
        """Start without blobs."""
        self.blobs: dict[str, Blob] = {}

    def get_blob(self, name: str) -> Blob | None:
        """Return a blob, or None."""
        return self.blobs.get(name)

    def create_blob(self, name: str) -> Blob:
        """Return a blob, made empty where it is missing."""
        return self.blobs.setdefault(name, Blob(name))
