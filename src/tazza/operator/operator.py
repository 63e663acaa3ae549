"""One operator of a net: an OperatorDef bound to blobs, that runs.

Constant state: definition, `op` (the checked view), blobs, the engine ranking. Changing state: the launches per
signature (a small LRU over `operator.launches`, which equal operators share), the binding per context, the generator,
the event, host state, the specs that a host kernel's inputs had when they were last checked. An operator runs once at a
time; who runs it owns it.

A run is three steps, so that a net can string the calls of many operators together: `ready(context)` gives the call,
the call is made, `wrote()` counts the outputs as written. Invariant: a binding holds while every tensor that it was
bound to is unchanged: the same Tensor in its blob, the same spec object, the same storage at the same generation
(`Watch.broken` compares identities, which is what makes a run cheap). An operator that gives a blob another shape in
place keeps no binding: each run finds the old shape and leaves the new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

from tazza.device import Context, Event, Generator, current_context, place_of
from tazza.errors import BlobTypeError, NotFoundError, SchemaError, TazzaError, UnknownOperatorError
from tazza.operator.binding import Binding, check_overwritten, same_memory
from tazza.operator.choice import Choice, Chosen, choose_kernel, find_kernel, lacking_hint, why_passed_over
from tazza.operator.engine import FORMAT_ENGINES, asked_engines, rank_engines, telling_engines, why_unavailable
from tazza.operator.kernel import Array, Call, HostCall, Kernel, Operands, kernel_failure, kernel_for, value_key
from tazza.operator.launches import OperatorLaunches
from tazza.operator.letter import TENSOR
from tazza.operator.native_calls import as_one, threads_of
from tazza.operator.observable import Observable
from tazza.operator.owned import OwnedNets
from tazza.operator.owner import BlobOwner, RunnableNet
from tazza.operator.placement import check_places, place_host_work
from tazza.operator.registry import find_schema
from tazza.operator.reorder import refreshed, relayout
from tazza.operator.schema import Spec, gather_all, logical
from tazza.operator.watch import Watch, Watched, watched
from tazza.proto import OperatorDef
from tazza.runtime import fp_exceptions
from tazza.runtime.budget import ThreadBudget
from tazza.runtime.init import require_init
from tazza.runtime.log import logger
from tazza.tensor import ROW_MAJOR, Blob, Opaque, Storage, Tensor, TensorSpec, TypeSpec

CONTEXTS_KEPT = 64
"""Contexts, which are threads mostly, for which it keeps the binding."""

definition_hooks: list[Callable[[OperatorDef], None]] = []
"""Called with every OperatorDef that becomes an operator."""


Report = Callable[[str, str], None]
"""Takes a key and a message that is shown once per key (a net shows it once per net)."""


def _log_report(key: str, message: str) -> None:
    del key
    logger.warning(message)


def _go_on() -> None:
    """No run that could end."""


class Operator(Observable):
    """A runnable operator. Made by nets and workspaces; see `run_op` for one without either."""

    def __init__(
        self,
        definition: OperatorDef,
        workspace: BlobOwner,
        *,
        strict: bool = False,
        report: Report = _log_report,
        label: str = "",
        copy: bool = True,
        check: Callable[[], object] = _go_on,
        batch_invariant: bool = False,
    ) -> None:
        """Check `definition`, find its blobs (inputs must exist, outputs are made), rank engines, open host state.

        Args:
            definition: what to run.
            workspace: whose blobs it works on.
            strict: refuse arguments that the schema does not know, instead of reporting them.
            report: how to tell what people should know once; whoever gives it also tells what is `ignored`.
            label: where it stands, for error messages, such as `(operator 3 of net 'lenet')`.
            copy: keep a copy of the definition, which somebody may change; it may hold all weights of a net.
            check: raises where the run that this operator is part of has to end; nets within it ask.
            batch_invariant: its net wants each image to have the same bits in any batch.

        Raises:
            TazzaError: the definition is not legal, or an input does not exist.
        """
        require_init(definition.type)
        super().__init__()
        self.definition = deepcopy(definition) if copy else definition
        # Made now: errors that say that memory is out must not ask a message, which does not bear to get none.
        self._text, self._made_at = _text_of(self.definition), self.definition.debug_info
        self.workspace = workspace
        self.event = Event()
        self.label = label
        self.choices: tuple[Choice, ...] = ()
        self.ignored: tuple[str, ...] = ()
        self.strict = strict
        self.report = report
        self.check = check
        self.drawn_from: Generator | None = None
        self._launches = OperatorLaunches()
        self._checked: list[Any] | None = None
        self._bindings: dict[Context, Binding] = {}
        self.width = 0
        """Threads that it ran on last, 0 for a host kernel: that may wait rather than compute."""
        self._host: HostCall | None = None
        self._states: dict[str, Any] = {}
        try:
            self._create(strict, batch_invariant)
        except TazzaError as error:
            raise self.located(error) from error.__cause__
        for hook in definition_hooks:
            hook(self.definition)

    def __repr__(self) -> str:
        return self._text

    # -- making --------------------------------------------------------------------------------------------------------

    def _create(self, strict: bool, batch_invariant: bool) -> None:
        self.schema = find_schema(self.definition.type)
        self.op = self.schema.view(self.definition, strict=strict, batch_invariant=batch_invariant)
        self.ignored = tuple(self.schema.reported_arguments(self.definition))
        if self.ignored and self.report is _log_report:
            logger.warning("%r: %s", self, ignored_text(self.ignored))
        self.place = place_of(self.definition.device_option)
        self.ranking = rank_engines(self.op.type, self.place.kind, self.definition.engine)
        self.inputs = tuple(self._input_blob(name) for name in self.definition.input)
        self._read = {id(blob) for blob in self.inputs}
        self.outputs = tuple(self._blobs_written())
        self.blobs = gather_all(self.op, (*self.inputs, *self.outputs))
        self.open()

    def _blobs_written(self) -> Iterator[Blob]:
        """Yield the blobs of outputs; where several have one name the last is what it stands for, as in Caffe2."""
        names = self.definition.output
        for position, name in enumerate(names):
            yield Blob(name) if name in names[position + 1 :] else self.workspace.create_blob(name)

    def _input_blob(self, name: str) -> Blob:
        found = self.workspace.get_blob(name)
        if found is None:
            raise NotFoundError(
                f"input blob {name!r} does not exist", hint="feed it, or run the operator that makes it first"
            )
        return found

    def open(self) -> None:
        """Make what outlives a run: host state, and blobs that the first engine keeps in the workspace."""
        passed: list[Choice] = []
        for candidate in self.ranking:
            reason = why_unavailable(self.op.type, self.place.kind, candidate.engine)
            passed.append(Choice(candidate.engine, candidate.wanted, reason))
            if reason is None:
                break
        else:
            hint = lacking_hint(self.op.type, self.place.kind, passed)
            kind = self.place.kind
            if self.place.is_host and all(kernel_for(self.op.type, kind, one.engine) is None for one in passed):
                hint = f"no engine has one; write a function on arrays under @kernel of the schema of {self.op.type}"
            raise UnknownOperatorError(f"{self.op.type} has no kernel on {self.place}", hint=hint)
        first = self._kernel(passed[-1].engine)
        self.state(first)
        if first.host is not None and self._host is None:
            self._remember(passed)
            self._host = first.host(self)

    def close(self) -> None:
        """End host state and forget launches and bindings; `open` makes them anew."""
        if self._host is not None and self._host.close is not None:
            self._host.close()
        self._host = None
        self._launches.clear()
        self._states.clear()
        self.forget()

    def _kernel(self, engine: str) -> Kernel:
        return find_kernel(self.op.type, self.place.kind, engine)

    def state(self, kernel: Kernel) -> Any:
        """Return what the kernel keeps in the workspace for this operator, made on first use."""
        if kernel.open is None:
            return None
        if kernel.engine not in self._states:
            self._states[kernel.engine] = kernel.open(self)
        return self._states[kernel.engine]

    @property
    def is_host(self) -> bool:
        """Whether its kernel works on blobs and the workspace."""
        return self._host is not None

    @property
    def owned(self) -> OwnedNets | None:
        """Where its kernel has the nets that it runs, where it runs some."""
        return None if self._host is None else self._host.nets

    @property
    def nets(self) -> tuple[RunnableNet, ...]:
        """The nets that its kernel runs, those that are there now."""
        return tuple(self.owned or ())

    def cancel(self) -> None:
        """Ask a host kernel that waits for something to give up, where it can; called by another thread."""
        if self._host is not None and self._host.cancel is not None:
            self._host.cancel()

    def generator(self) -> Generator:
        """Return this operator's random generator, seeded by its device option on first use."""
        if self.drawn_from is None:
            option = self.definition.device_option
            self.drawn_from = Generator(option.random_seed if option.HasField("random_seed") else None)
        return self.drawn_from

    # -- running -------------------------------------------------------------------------------------------------------

    def run(self, context: Context | None = None, budget: ThreadBudget | None = None) -> None:
        """Run once, in the calling thread.

        Args:
            context: this thread's on the operator's place by default.
            budget: where to take the threads from that it runs on, when it shares them with others.

        Raises:
            TazzaError: with the operator, its blobs and where it was made. An exception of a function of the user
                that a host kernel calls keeps its type.
        """
        if self._observers:
            self.start_all()
        try:
            call = fp_exceptions.guarded(self.ready(context))
            if budget is None:
                call()
            else:
                self._call_within(budget, call)
        except TazzaError as error:
            raise self.located(error) from error.__cause__
        except Exception as error:
            if self._host is not None and self._host.calls_others:
                error.add_note(f"in operator {self!r}{self.label}")
                raise
            raise self.located(error) from error
        finally:
            self.wrote()
            if self._observers:
                self.stop_all()

    def _call_within(self, budget: ThreadBudget, call: Call) -> None:
        count = min(self.width, budget.total)
        budget.take(count)
        try:
            call()
        finally:
            budget.give(count)

    def run_async(self, context: Context | None = None) -> Event:
        """Run once and return the event of this run, which holds the error if any.

        It is final on return where the context has no stream.

        Raises:
            TazzaError: the run of before has not ended.
        """
        context = current_context(self.place) if context is None else context
        self.event.reset()
        try:
            if context.stream is None:
                self.run(context)
            else:
                context.stream.enqueue(self.run)
        except BaseException as error:
            self.event.finish(error)
            if not isinstance(error, Exception):
                raise
        else:
            context.record(self.event)
        return self.event

    def ready(self, context: Context | None = None) -> Call:
        """Return the call that runs this operator on `context`; prepared and bound anew only where something changed.

        Raises:
            TazzaError: the inputs do not fit, or no engine takes them.
        """
        if self._host is not None:
            self._check_host_inputs()
            if not self.place.is_host:
                place_host_work(self.op, self.inputs, self.outputs, self.place)
            return self._host.call
        context = current_context(self.place) if context is None else context
        binding = self._bindings.get(context)
        if binding is None or binding.watch.broken():
            binding = self._prepare(context)
        return binding.call

    def lasting(self, context: Context) -> Binding | None:
        """Return what the last run on `context` was bound to, where a run is nothing but its call; None elsewhere.

        That is: nobody observes or asks for exceptions of arithmetic, no shape depends on values or data, and the
        kernel works on tensors of the context's place.
        """
        if self._observers or self._host is not None or self.place != context.place or self.schema.dynamic:
            return None
        found = self._bindings.get(context)
        return None if found is None or found.watch.values or fp_exceptions.asked() else found

    def forget(self) -> None:
        """Hold no tensors and no memory between runs any more, until the next one; what was prepared stays."""
        self._bindings.clear()
        self.note_change()

    def written(self) -> list[Storage]:
        """Return the storages of the outputs."""
        return [blob.value.storage for blob in self.outputs if isinstance(blob.value, Tensor)]

    def wrote(self) -> None:
        """Count the outputs as written, also after a run that failed half-way."""
        for blob in self.outputs:
            value = blob.value
            if isinstance(value, Tensor):
                value.storage.version += 1

    def _check_host_inputs(self) -> None:
        """Check the inputs, unless they are of the kinds and specs that passed last time."""
        values = [blob.value for blob in self.inputs]
        found = [value.spec if isinstance(value, Tensor) else type(value) for value in values]
        if found == self._checked:
            return
        self.schema.check_inputs(self.op, [blob.spec for blob in self.inputs])
        self._checked = found

    def _prepare(self, context: Context) -> Binding:
        """Infer, choose the engine, size the outputs and bind."""
        self._bindings.pop(context, None)
        inputs = [
            self._input_spec(letter, blob) for letter, blob in zip(self.op.input_letters, self.inputs, strict=True)
        ]
        check_places(self.op, inputs, self.place)
        inferred = self.schema.infer_specs(self.op, [logical(spec) for spec in inputs], self._value)
        outputs = tuple(
            self._settled_output(letter, spec)
            for letter, spec in zip(self.op.output_letters, inferred.specs, strict=True)
        )
        outputs = self._with_wishes(outputs)
        reads = sorted(inferred.reads)
        values = tuple(value_key(value) for value in map(self._value, reads) if value is not None)
        key = context.key, self.op.batch_invariant, tuple(inputs), outputs, values
        ranking = telling_engines(self.ranking)
        chosen = self._launches.get(
            key, self.op, ranking, lambda: choose_kernel(self.op, ranking, context, inputs, outputs)
        )
        if chosen.choices is not self.choices:
            self._remember(chosen.choices)
        reshaped = self._reshaped(outputs)
        if self._settle_overwritten(context, chosen, reshaped):
            return self._prepare(context)
        before = {id(blob): same_memory(blob.tensor()) for blob, _ in reshaped}
        self._size_outputs(outputs, chosen)
        binding = self._bind(context, chosen, reads, before)
        self.width = threads_of(binding.call)
        if not reshaped:
            if len(self._bindings) >= CONTEXTS_KEPT:
                self._bindings.pop(next(iter(self._bindings)))
            self._bindings[context] = binding
        return binding

    def _with_wishes(self, specs: tuple[Spec, ...]) -> tuple[Spec, ...]:
        """Wish for each output that overwrites an input of its shape the layout of that input."""
        return tuple(
            replace(spec, layout=blob.value.layout)
            if id(blob) in self._read
            and isinstance(spec, TensorSpec)
            and isinstance(blob.value, Tensor)
            and spec.dims == blob.value.spec.dims
            else spec
            for spec, blob in zip(specs, self.outputs, strict=True)
        )

    def _reshaped(self, specs: Sequence[Spec]) -> list[tuple[Blob, str]]:
        """Return the blobs that get another shape or quantization in place, with the letters of these outputs.

        Raises:
            ShapeError: one would get another number of elements, or another dtype.
        """
        found: list[tuple[Blob, str]] = []
        for letter, blob, spec in zip(self.op.output_letters, self.outputs, specs, strict=True):
            dynamic = self.schema.outputs_by_letter[letter].dynamic
            if id(blob) not in self._read or isinstance(spec, TypeSpec) or dynamic:
                continue
            now = blob.tensor().spec
            check_overwritten(letter, blob.name, now, spec)
            if now.dims != spec.dims or now.quantization != spec.quantization:
                found.append((blob, letter))
        return found

    def _settle_overwritten(self, context: Context, chosen: Chosen, reshaped: Sequence[tuple[Blob, str]]) -> bool:
        """Bring what is overwritten into the layout that the launch writes; tell whether anything changed.

        What gets another shape has to be row-major.
        """
        pairs = [
            (blob.value, chosen.output_layout(letter))
            for letter, blob in zip(self.op.output_letters, self.outputs, strict=True)
            if id(blob) in self._read and isinstance(blob.value, Tensor)
        ]
        # A kernel on arrays writes through strides; one with layouts of its own has to name them.
        wrong = [
            (tensor, layout)
            for tensor, layout in pairs
            if tensor.layout != layout and (isinstance(tensor.layout, Opaque) or chosen.layouts)
        ]
        if any(tensor.storage.escaped for tensor, _ in wrong):  # a view that was handed out stays a view
            wrong = [(tensor, ROW_MAJOR) for tensor, _ in pairs if isinstance(tensor.layout, Opaque)]
        for blob, letter in reshaped:
            if chosen.output_layout(letter) != ROW_MAJOR:
                raise SchemaError(f"{self.op.type} does not write {blob.name!r} in place row-major in its new shape")
            if blob.tensor().layout != ROW_MAJOR:
                wrong.append((blob.tensor(), ROW_MAJOR))
        for tensor, layout in wrong:
            relayout(tensor, layout, context)
        return bool(wrong)

    def _input_spec(self, letter: str, blob: Blob) -> Spec:
        value = blob.value
        if value is None:
            raise BlobTypeError(f"blob {blob.name!r} has no value", hint=blob.remedy)
        if not isinstance(value, Tensor):
            spec = blob.spec
            if spec is not None and not self.schema.inputs_by_letter[letter].only_tensors:
                return spec
            raise BlobTypeError(f"blob {blob.name!r} holds a {blob.type_name}, {self.op.type} needs a Tensor")
        if not value.allocated and value.size > 0:
            raise BlobTypeError(
                f"blob {blob.name!r} is a tensor without data", hint="run the operator that makes it first"
            )
        return value.spec

    def _settled_output(self, letter: str, spec: Spec | None) -> Spec:
        dynamic = self.schema.outputs_by_letter[letter].dynamic
        if not dynamic and (spec is None or (isinstance(spec, TensorSpec) and not spec.shape_known)):
            raise SchemaError(f"{self.op.type}: inference gave {spec} for {letter} although every input is known")
        return TypeSpec(TENSOR) if spec is None else spec

    def _value(self, letter: str) -> Array | None:
        value = self.inputs[self.op.input_letters.index(letter)].value
        return value.plain() if isinstance(value, Tensor) else None

    def _remember(self, choices: Sequence[Choice]) -> None:
        self.choices = choices if isinstance(choices, tuple) else tuple(choices)
        for word in asked_engines(self.definition.engine):
            reasons = why_passed_over(word, choices)
            if reasons and word not in FORMAT_ENGINES:
                told = f"{self.op.type} asks for engine {word!r}, which is passed over ({reasons}); "
                hint = f"{choices[-1].engine!r} runs instead. Drop the name from OperatorDef.engine to silence this."
                self.report(f"engine {word}", told + hint)

    def _size_outputs(self, specs: Sequence[Spec], chosen: Chosen) -> None:
        _, places = self.schema.infer_places(self.op, self.place)
        for letter, blob, spec, place in zip(self.op.output_letters, self.outputs, specs, places, strict=True):
            if isinstance(spec, TypeSpec) and spec.type_name != TENSOR:
                continue
            if not isinstance(blob.value, Tensor):
                blob.reset()
            tensor = blob.tensor()
            if isinstance(spec, TypeSpec) or self.schema.outputs_by_letter[letter].dynamic:
                continue
            if id(blob) not in self._read:
                layout = chosen.output_layout(letter)
                if isinstance(layout, Opaque) and tensor.storage.escaped:
                    blob.reset()  # whoever has a view keeps what it shows
                    tensor = blob.tensor()
                tensor.resize_to(TensorSpec(spec.shape, spec.dtype, place, layout, spec.quantization))
                continue
            tensor.resize_to(replace(tensor.spec, dims=spec.shape, quantization=spec.quantization))

    def _bind(self, context: Context, chosen: Chosen, reads: Sequence[str], before: Mapping[int, Tensor]) -> Binding:
        """Bind to what the blobs hold now; `before`: what those that get another shape in place are as inputs."""
        reorders: list[Call] = []
        operands: list[Tensor | Blob] = []
        for letter, blob in zip(self.op.input_letters, self.inputs, strict=True):
            value = before.get(id(blob), blob.value)
            operands.append(
                self._operand(context, chosen, letter, value, reorders) if isinstance(value, Tensor) else blob
            )
        outputs = [blob.value if isinstance(blob.value, Tensor) else blob for blob in self.outputs]
        letters = gather_all(self.op, (*operands, *outputs))
        launch = chosen.launch
        scratch = context.scratch(launch.scratch_bytes) if launch.scratch_bytes else None
        call = launch.bind(Operands(letters, scratch, self.generator, context, self.state(chosen.kernel)))
        tensors = [self.inputs[self.op.input_letters.index(letter)].tensor() for letter in reads]
        values = [(tensor, tensor.storage.version, value_key(tensor.plain())) for tensor in tensors]
        return Binding(as_one((*reorders, call)), Watch(self._watched(), values, None), scratch)

    def _operand(self, context: Context, chosen: Chosen, letter: str, tensor: Tensor, reorders: list[Call]) -> Tensor:
        """Return what the kernel gets for an input; one that lies otherwise is reordered after each write."""
        layout = chosen.input_layout(letter, tensor.spec)
        if layout == tensor.layout:
            return tensor
        refresh = refreshed(tensor, layout, context)
        reorders.append(refresh)
        return refresh.target

    def _watched(self) -> list[Watched]:
        sized_by_kernel = {
            id(blob)
            for letter, blob in zip(self.op.output_letters, self.outputs, strict=True)
            if self.schema.outputs_by_letter[letter].dynamic and id(blob) not in self._read
        }
        blobs = dict.fromkeys((*self.inputs, *self.outputs))
        return [
            watched(blob, formed=id(blob) not in sized_by_kernel) for blob in blobs if isinstance(blob.value, Tensor)
        ]

    def located(self, error: Exception) -> TazzaError:
        """Return an error of a run with the operator in its text; one that is none of tazza's becomes one."""
        if not isinstance(error, TazzaError):
            error = kernel_failure(error)
        where = f"in operator {self!r}{self.label}"
        if where not in error.where:  # an operator within may have been named before
            error.add_context(where)
            if self._made_at:
                error.add_context(f"made at {self._made_at}")
        return error


def ignored_text(reported: Iterable[str]) -> str:
    """Return a line about arguments that have no effect, as schemas report them; empty when there are none."""
    names = dict.fromkeys(reported)
    return f"arguments without effect: {', '.join(names)}" if names else ""


def _text_of(definition: OperatorDef) -> str:
    name = f" {definition.name!r}" if definition.name else ""
    return f"{definition.type}{name}({', '.join(definition.input)} -> {', '.join(definition.output)})"
