"""From operators and the specs of what they read to a `Program`: shapes, engines, layouts, memory.

One pass in execution order resolves names to values, infers shapes, asks engines, and puts a reorder wherever a kernel
reads another layout than the value has. Layouts are settled over the whole region by passes that are repeated with
what the last one found out:

- a blob that outlives the region and is no data (a weight) is *stored* in the layout of its first reader, and so is
  what is updated together with it (momentum); its gradient is wished for in that layout;
- when a kernel cannot work on a stored layout in place, that blob is stored row-major after all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial

from tazza.data_class import dataclass
from tazza.device import Context, place_of
from tazza.errors import BlobTypeError, SchemaError, TazzaError
from tazza.graph.memory import Span, plan_memory
from tazza.nets.plan.program import PlanValue, Program, Step
from tazza.nets.plan.slices import Unsliceable, add_slices, lifetimes, take_places
from tazza.nets.plan.slicing import Slicing, find_slicings
from tazza.operator import Array, Candidate, Chosen, OpView, Role, Spec, choose_kernel, find_schema, rank_engines
from tazza.operator.binding import check_overwritten
from tazza.operator.launches import definition_key
from tazza.operator.placement import check_places
from tazza.operator.reorder import copy_view, reorder_launch
from tazza.operator.schema import Inferred, logical
from tazza.operator.told import told_by
from tazza.proto import OperatorDef
from tazza.tensor import ROW_MAJOR, Blob, DataType, Layout, Opaque, Place, Tensor, TensorSpec
from tazza.tensor.layout import PLACES
from tazza.tensor.residue import comes_back

MOST_CHANGES = 3
"""How often the stored layout of one blob may change before it is left as it is; most regions need two passes."""


Chooser = Callable[[OpView, Sequence[Candidate], Context, Sequence[Spec], Sequence[Spec]], Chosen]
"""Takes an operator, its ranking, a context, specs of inputs and wished specs of outputs; see `choose_kernel`."""


class Unplannable(Exception):
    """The operator at `position` of a region has to run by itself."""

    def __init__(self, position: int, reason: str) -> None:
        """Say which and why."""
        super().__init__(reason)
        self.position = position


@dataclass(frozen=True, eq=False)
class Region:
    """Operators that are compiled together.

    Attributes:
        ops: in execution order.
        inputs: blobs that are read before they are written.
        outputs: blobs whose last value is needed afterwards: declared outputs, parameters, what other parts read.
        constants: inputs that change seldom, if ever (weights), so that copies of them may be kept.
        origins: for each operator what it was made from, for messages.
        keys: those of `Rewrite`, of these operators.
        positions: for each operator where it stands in the net.
    """

    ops: tuple[OperatorDef, ...]
    inputs: tuple[str, ...]
    outputs: frozenset[str]
    constants: frozenset[str]
    origins: tuple[tuple[str, ...], ...]
    keys: tuple[str, ...]
    positions: tuple[int, ...]

    @property
    def place(self) -> Place:
        """Where all of it runs."""
        return place_of(self.ops[0].device_option)


@dataclass(frozen=True, slots=True)
class Compilation:
    """What a region is compiled for.

    Attributes:
        region: what to compile.
        specs: spec of each input, with the layout in which it lies.
        movable: inputs whose stored layout the program may choose.
        context: where it will run.
        read: returns the value of an input where inference needs one; the caller makes it part of the signature.
        apart: inputs that shall not be moved into forms that round: a copy in such a form will do.
        batch_invariant: the net wants each image to have the same bits in any batch.
    """

    region: Region
    specs: Mapping[str, TensorSpec]
    movable: frozenset[str]
    context: Context
    read: Callable[[str], Array | None]
    apart: frozenset[str]
    batch_invariant: bool = False


class _Restart(Exception):
    """Layouts of stored blobs have to change: compile again."""


@dataclass(slots=True)
class _Inference:
    """What does not change from slice to slice and from pass to pass: views of operators, what was inferred and chosen.

    `likes` are what operators have in common that differ by names only: they share what was chosen.
    """

    asked: Compilation
    chooser: Chooser
    views: dict[int, OpView] = field(default_factory=dict[int, OpView])
    likes: dict[int, Hashable] = field(default_factory=dict[int, Hashable])
    inferred: dict[tuple[object, ...], Inferred] = field(default_factory=dict[tuple[object, ...], Inferred])
    chosen: dict[tuple[object, ...], Chosen] = field(default_factory=dict[tuple[object, ...], Chosen])

    def view(self, position: int) -> OpView:
        """Return the view of the operator at a position."""
        found = self.views.get(position)
        if found is None:
            definition = self.asked.region.ops[position]
            view = find_schema(definition.type).view(definition, batch_invariant=self.asked.batch_invariant)
            found = self.views[position] = view
            key = definition_key(definition)
            self.likes[position] = position if key is None else key
        return found

    def infer(
        self, op: OpView, position: int, specs: Sequence[Spec | None], read: Callable[[str], Array | None]
    ) -> Inferred:
        """Return what follows from specs, kept unless it also follows from values."""
        key = (position, *specs)
        found = self.inferred.get(key)
        if found is None:
            found = op.schema.infer_specs(op, specs, read)
            if not found.reads:
                self.inferred[key] = found
        return found

    def choose(self, op: OpView, position: int, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> Chosen:
        """Choose a kernel; what was chosen for one slice, or one layer of a shape, serves all."""
        key = (self.likes[position], *inputs, *outputs)
        found = self.chosen.get(key)
        if found is None:
            context = self.asked.context
            ranking = rank_engines(op.type, context.place.kind, op.definition.engine)
            found = self.chosen[key] = self.chooser(op, ranking, context, inputs, outputs)
        return found


@dataclass(slots=True)
class _State:
    """What one pass builds."""

    asked: Compilation
    inference: _Inference
    stored: dict[str, Layout]
    pinned: set[str]
    written: frozenset[str]
    current: dict[str, PlanValue] = field(default_factory=dict[str, PlanValue])
    copies: dict[tuple[PlanValue, Layout], PlanValue] = field(default_factory=dict[tuple[PlanValue, Layout], PlanValue])
    steps: list[Step] = field(default_factory=list[Step])
    derived: list[PlanValue] = field(default_factory=list[PlanValue])
    wanted: dict[str, Layout] = field(default_factory=dict[str, Layout])
    partners: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])
    wishes: dict[str, str] = field(default_factory=dict[str, str])
    reshaped: dict[str, int] = field(default_factory=dict[str, int])
    loops: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])
    told: dict[PlanValue, Array] = field(default_factory=dict[PlanValue, Array])
    """What host values that are made within the region hold, where it follows from shapes."""


def compile_region(asked: Compilation, choose: Chooser = choose_kernel) -> Program:
    """Compile a region for inputs of some specs; `choose` chooses the kernel of an operator.

    Raises:
        Unplannable: a shape depends on data that is not there before the region runs, or the region leaves a blob
            that it read in another shape.
        TazzaError: an operator does not fit what it reads.
    """
    here = asked.context.place.is_host  # slices are for the caches of the host's processor
    slicings = find_slicings(asked.region.ops, asked.specs, asked.region.outputs, asked.read) if here else ()
    inference = _Inference(asked, choose)
    while True:
        try:
            return _compiled(asked, slicings, inference)
        except Unsliceable as found:
            slicings = tuple(cut for cut in slicings if cut is not found.cut)


def _compiled(asked: Compilation, slicings: Sequence[Slicing], inference: _Inference) -> Program:
    region, specs = asked.region, asked.specs
    written = frozenset(name for op in region.ops for name in op.output)
    stored: dict[str, Layout] = {}
    for name in written & specs.keys():
        _keep_plain(stored, name, specs[name])
    pinned: set[str] = set()
    changes: Counter[str] = Counter()
    while True:
        state = _State(asked, inference, stored, pinned, written)
        state.wishes = _wishes(region)
        for name in region.inputs:
            spec = replace(specs[name], layout=stored.get(name, specs[name].layout))
            state.current[name] = PlanValue(name, spec, blob=name)
        inputs = dict(state.current)
        try:
            _walk(state, slicings)
            outputs = _finish(state, inputs)
        except _Restart:
            continue
        settled = {
            name: layout
            for name, layout in _storage(state, specs).items()
            if name in asked.movable and name not in pinned and stored.get(name, specs[name].layout) != layout
            if changes[name] < MOST_CHANGES
        }
        stored.update(settled)
        if all(name in region.constants and name not in written for name in settled):
            for name, layout in settled.items():
                _store(state, inputs, name, layout)
            return _laid_out(Program(state.steps, inputs, outputs, dict(stored), state.derived, state.loops))
        changes.update(settled.keys())


def _keep_plain(stored: dict[str, Layout], name: str, spec: TensorSpec) -> None:
    """Let a blob that is written lie as it does, but for a form that rounds, where another net may have moved it."""
    stored.pop(name, None)
    if _rounds(spec.layout):
        stored[name] = ROW_MAJOR


def _rounds(layout: Layout) -> bool:
    return isinstance(layout, Opaque) and layout.derived


def _store(state: _State, inputs: dict[str, PlanValue], name: str, layout: Layout) -> None:
    """Let a constant lie as the copy of it that its first reader takes; who reads it as it lay gets a copy of that.

    No other pass has to find out: nothing else depends on how a constant lies.
    """
    former, stored = inputs[name], state.copies[inputs[name], layout]
    used = {value.root for step in state.steps for value in step.inputs}
    stored.blob, stored.source, former.blob = name, None, None
    inputs[name] = stored
    state.derived.remove(stored)
    for value in state.derived:
        if value.source is former:
            value.source = stored
    if former in used:
        former.source = stored
        state.derived.append(former)


def _walk(state: _State, slicings: Sequence[Slicing]) -> None:
    """Add all operators, in slices where some are to run so."""
    cuts = {slicing.first: slicing for slicing in slicings}
    position = 0
    while position < len(state.asked.region.ops):
        cut = cuts.get(position)
        if cut is None:
            _located(state, position)
            position += 1
        else:
            before, reshaped = state.current, dict(state.reshaped)
            state.loops.append(add_slices(state, cut, partial(_located, state)))
            state.reshaped = reshaped  # parts have other shapes than what was there before
            for name in cut.given:
                writer = max(i for i in range(cut.first, cut.last) if name in state.asked.region.ops[i].output)
                _note_shape(state, writer, before.get(name), state.current[name].spec)
            position = cut.last


def _located(state: _State, position: int) -> None:
    """Add the operator at a position; errors say which it is."""
    definition = state.asked.region.ops[position]
    try:
        _add(state, position, definition)
    except TazzaError as error:
        origin = state.asked.region.origins[position]
        made = f", made from {', '.join(origin)}" if len(origin) > 1 else ""
        error.add_context(
            f"in operator {definition.type}({', '.join(definition.input)} -> {', '.join(definition.output)}){made}"
        )
        if definition.debug_info:
            error.add_context(f"made at {definition.debug_info}")
        raise


def _add(state: _State, position: int, definition: OperatorDef) -> None:
    op = state.inference.view(position)
    schema = op.schema
    inputs = [state.current[name] for name in definition.input]
    values = _values(state, definition, op.input_letters)
    check_places(op, [value.spec for value in inputs], state.asked.context.place)
    inferred = state.inference.infer(op, position, [logical(value.spec) for value in inputs], values)
    outputs = _output_specs(state, position, op, inferred)
    inputs = [state.current[name] for name in definition.input]
    if any(spec.dtype is DataType.STRING for spec in (*outputs, *(value.spec for value in inputs))):
        # References to Python's objects: raw memory that others write in turn, as an arena is, cannot hold them.
        raise Unplannable(position, "strings lie in no arena")
    chosen = state.inference.choose(op, position, [value.spec for value in inputs], outputs)
    taken: list[PlanValue] = []
    for letter, value in zip(op.input_letters, inputs, strict=True):
        layout = chosen.input_layout(letter, value.spec)
        if value.blob is not None:
            state.wanted.setdefault(value.blob, layout if _may_stay(state, value.blob, layout) else ROW_MAJOR)
        taken.append(_in_layout(state, value, layout))
    results: list[PlanValue] = []
    for letter, name, spec in zip(op.output_letters, definition.output, outputs, strict=True):
        over = _overwritten(op, name, letter, chosen, list(zip(inputs, taken, strict=True)))
        results.append(_output(state, name, spec, chosen.output_layout(letter), over))
    if not state.asked.context.place.is_host:
        told = told_by(op, [value.spec for value in inputs], outputs)
        state.told.update({state.current[name]: value for name, value in told.items()})
    _note_update(state, definition, results)
    cost = schema.infer_cost(op, [value.spec for value in taken], [value.spec for value in results])
    key = state.asked.region.keys[position]
    state.steps.append(
        Step(
            op,
            chosen.launch,
            chosen.kernel.engine,
            tuple(taken),
            tuple(results),
            chosen.kernel,
            key,
            chosen.choices,
            cost,
        )
    )


def _output_specs(state: _State, position: int, op: OpView, inferred: Inferred) -> list[TensorSpec]:
    """Return the specs of the outputs of an operator, with places and the layouts that are wished for.

    Raises:
        Unplannable: one has no size yet, or is on the host, under a name that something else has there.
    """
    definition, here = op.definition, state.asked.context.place
    places = op.schema.infer_places(op, here)[1]
    outputs: list[TensorSpec] = []
    for letter, name, spec, place in zip(op.output_letters, definition.output, inferred.specs, places, strict=True):
        if not isinstance(spec, TensorSpec) or not spec.shape_known or op.schema.outputs_by_letter[letter].dynamic:
            raise Unplannable(position, f"the size of {name!r} depends on data")
        if name in definition.input:
            _prepare_overwritten(state, letter, name, spec)
        elif place != here and name in state.current:
            raise Unplannable(position, f"{name!r} is made on the host twice")
        _note_shape(state, position, state.current.get(name), spec)
        outputs.append(replace(spec, place=place, layout=_wish(state, definition, name, spec)))
    return outputs


def _prepare_overwritten(state: _State, letter: str, name: str, spec: TensorSpec) -> None:
    """Check that an output may overwrite an input; what gets another shape by that is made row-major before."""
    value = state.current[name]
    check_overwritten(letter, name, value.spec, spec)
    if value.spec.dims != spec.dims:
        if value.blob is not None:
            state.wanted.setdefault(value.blob, ROW_MAJOR)
        state.current[name] = _in_layout(state, value, ROW_MAJOR)


def _note_shape(state: _State, position: int, before: PlanValue | None, spec: TensorSpec) -> None:
    """Remember who gave a name another shape or dtype than it had."""
    if before is not None and (before.spec.dims, before.spec.dtype) != (spec.dims, spec.dtype):
        state.reshaped[before.name] = position


def _values(state: _State, definition: OperatorDef, letters: Sequence[str]) -> Callable[[str], Array | None]:
    def value_of(letter: str) -> Array | None:
        name = definition.input[letters.index(letter)]
        value = state.current[name]
        if value in state.told:
            return state.told[value]
        return state.asked.read(name) if value.blob == name and not _rewritten(state, name) else None

    return value_of


def _rewritten(state: _State, name: str) -> bool:
    return any(name in step.op.definition.output for step in state.steps)


def _wish(state: _State, definition: OperatorDef, name: str, spec: TensorSpec) -> Layout:
    """Return the layout that an output must have (in place) or should have (gradient of a stored weight)."""
    if name in definition.input:
        return state.current[name].spec.layout
    if name in state.stored and state.current[name].spec.dims == spec.dims:
        return state.stored[name]
    partner = state.wishes.get(name)
    if partner is not None and partner in state.stored and state.current[partner].spec.dims == spec.dims:
        return state.stored[partner]
    return ROW_MAJOR


def _may_stay(state: _State, blob: str, layout: Layout) -> bool:
    """Whether a blob may lie in a layout between runs; who writes it has to know where the elements are."""
    if not isinstance(layout, Opaque):
        return True
    if blob in state.written:
        return not layout.derived and PLACES.get(layout.engine) is not None
    return comes_back(layout) and not (layout.derived and blob in state.asked.apart)


def _in_layout(state: _State, value: PlanValue, layout: Layout) -> PlanValue:
    """Return the value in a layout: itself, a copy that exists, or a new one."""
    apart = _rounds(layout) and value.blob is not None and value.blob in state.asked.apart
    if value.spec.layout == layout and not apart:
        return value
    found = state.copies.get((value, layout))
    if found is not None:
        return found
    copy = PlanValue(value.name, replace(value.spec, layout=layout))
    state.copies[value, layout] = copy
    blob = value.blob
    if blob is not None and blob in state.asked.region.constants and blob not in state.written:
        copy.source = value
        state.derived.append(copy)
        return copy
    return _reordered(state, value, copy)


def _reordered(state: _State, value: PlanValue, target: PlanValue) -> PlanValue:
    """Add a step that copies a value to where, and as, another one lies; return that one."""
    launch = reorder_launch(value.spec, target.spec, state.asked.context)
    state.steps.append(Step(copy_view(), launch, "reorder", (value,), (target,), None, value.name))
    return target


def _overwritten(
    op: OpView, name: str, letter: str, chosen: Chosen, pairs: Sequence[tuple[PlanValue, PlanValue]]
) -> PlanValue | None:
    """Return what an output is written over, None where it is not in place, or what is there need not be.

    Of an input that the kernel reads in another layout than it has (`pairs`: as it lies, as it is read) that is what
    lies as the kernel writes; kernels that name no layouts write through what they are given.

    Raises:
        SchemaError: neither does.
    """
    definition = op.definition
    if name not in definition.input:
        return None
    position = list(definition.input).index(name)
    lies, read = pairs[position]
    layout = chosen.output_layout(letter)
    if not chosen.layouts:
        if layout != read.spec.layout and isinstance(read.spec.layout, Opaque):
            if op.schema.inputs_by_letter[op.input_letters[position]].role is Role.SHAPE:
                return None
            raise SchemaError(f"{definition.type} does not write {name!r} in place in {read.spec.layout}")
        return read
    for one in (read, lies):
        if one.spec.layout == layout:
            return one
    raise SchemaError(
        f"{definition.type} writes {name!r} as {layout}, in place of what lies as {lies.spec.layout} "
        f"and is read as {read.spec.layout}"
    )


def _output(state: _State, name: str, spec: TensorSpec, layout: Layout, over: PlanValue | None) -> PlanValue:
    """Enter the value that a step writes under a name, over another one where it is in place."""
    if over is None:
        elsewhere = spec.place != state.asked.context.place  # where no arena is
        value = PlanValue(name, replace(spec, layout=layout), blob=name if elsewhere else None)
    else:
        if over.root.blob != name and name in state.stored and name not in state.pinned:
            state.pinned.add(name)
            _keep_plain(state.stored, name, state.asked.specs[name])
            raise _Restart
        value = PlanValue(name, replace(spec, layout=over.spec.layout), owner=over)
    state.current[name] = value
    return value


def _finish(state: _State, inputs: Mapping[str, PlanValue]) -> dict[str, PlanValue]:
    """Give what is needed afterwards the memory of its blob; what lies elsewhere by then is copied there.

    Raises:
        Unplannable: a blob that is there before and after gets another shape.
    """
    outputs: dict[str, PlanValue] = {}
    for name in sorted(state.asked.region.outputs & state.written):
        value = state.current[name]
        root = value.root
        entry = inputs.get(name)
        whole = replace(value.spec, layout=value.spec.layout.whole)
        if entry is not None and (entry.spec.dims, entry.spec.dtype) != (value.spec.dims, value.spec.dtype):
            raise Unplannable(state.reshaped[name], f"{name!r} is {logical(entry.spec)} before, {value.spec} after")
        if root.blob == name:
            outputs[name] = value
        elif (
            root.blob is None and root.source is None and name not in state.asked.region.inputs and value.spec == whole
        ):
            root.blob = name
            outputs[name] = value
        else:  # the blob was read and is written anew, or its value lies narrow
            assert entry is None or not _rounds(entry.spec.layout), "nothing is written into what a residue belongs to"
            home = PlanValue(name, whole if entry is None else entry.spec, blob=name)
            outputs[name] = _reordered(state, value, home)
    return outputs


def _wishes(region: Region) -> dict[str, str]:
    """Return gradient -> parameter for operators that update a blob in place: what they read should lie alike."""
    partners: dict[str, str] = {}
    for op in region.ops:
        own = [name for name in op.output if name in op.input and name in region.inputs and name in region.outputs]
        if own:
            partners.update({name: own[-1] for name in op.input if name not in own})
    return partners


def _note_update(state: _State, definition: OperatorDef, results: Sequence[PlanValue]) -> None:
    own = tuple(value.name for value in results if value.root.blob == value.name and value.name in definition.input)
    if len(own) > 1:
        state.partners.append(own)


def _storage(state: _State, specs: Mapping[str, TensorSpec]) -> dict[str, Layout]:
    """Return the layout in which each blob should be stored: that of its first reader, together with its partners."""
    layouts = dict(state.wanted)
    for names in state.partners:
        shaped = [name for name in names if specs[name].dims == specs[names[-1]].dims]
        lead = next((layouts[name] for name in reversed(shaped) if layouts.get(name, ROW_MAJOR) != ROW_MAJOR), None)
        if lead is not None:
            layouts.update(dict.fromkeys(shaped, lead))
    return layouts


def _laid_out(program: Program) -> Program:
    """Give every value of the arena, and every launch's scratch memory, its offset."""
    lives = lifetimes(program)
    sizes = {root: root.nbytes for root in lives}
    for step in program.steps:
        for value in (*step.inputs, *step.outputs):
            if value.root in sizes:
                sizes[value.root] = max(sizes[value.root], value.start + value.nbytes)
    scratch = [i for i, step in enumerate(program.steps) if step.launch.scratch_bytes and step.twin is None]
    spans = [Span(sizes[root], *life) for root, life in lives.items()]
    spans += [Span(program.steps[i].launch.scratch_bytes, i, i) for i in scratch]
    program.arena = plan_memory(spans)
    program.offsets = dict(zip(lives, program.arena.offsets, strict=False))
    program.scratch_offsets = dict(zip(scratch, program.arena.offsets[len(lives) :], strict=True))
    take_places(program)
    return program


def input_spec(blob: Blob) -> TensorSpec:
    """Return the spec of the tensor in a blob.

    Raises:
        BlobTypeError: it holds no tensor with data.
    """
    value = blob.value
    if not isinstance(value, Tensor) or (not value.allocated and value.size > 0):
        held = "no value" if value is None else "no tensor with data"
        raise BlobTypeError(f"blob {blob.name!r} has {held}", hint=blob.remedy)
    return value.spec
