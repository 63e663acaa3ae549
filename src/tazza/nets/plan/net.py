"""The net type `plan`: rewritten, compiled per signature of what it reads, run as a few calls.

Constant state: the definition. Changing state: the rewritten net with its programs, which clones share under a lock
(`rewrite.py`); the instances by signature, the loose operators and the generators, which belong to one net and its one
run at a time. What a run began with it ends with: a net is rewritten before a run, never within.

What can be fetched afterwards: declared outputs, parameters, and blobs that the argument `keep` of the NetDef lists.
The argument `inputs` says which external inputs are data; without it, those that are read as the first input of an
operator are, and so is everything that changes again and again.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza.device import Generator, new_context
from tazza.errors import NotFoundError, TazzaError
from tazza.nets.base import PLAN, NetBase, net_type
from tazza.nets.explanation import Explanation, StepWatcher
from tazza.nets.plan.blobs import PlanBlobs
from tazza.nets.plan.compiler import Compilation, Region, Unplannable, input_spec
from tazza.nets.plan.explanation import Running, Times, explain_net, tell, tell_watchers
from tazza.nets.plan.instance import Instance, SparedError, StepHost
from tazza.nets.plan.instances import INSTANCES
from tazza.nets.plan.partition import Part, Parts
from tazza.nets.plan.program import Program, Step
from tazza.nets.plan.queued import LEFT, Queued
from tazza.nets.plan.rewrite import Rewrite, constants_of, rewrite_apart, rewrite_net, written_together
from tazza.nets.plan.search import compile_fastest
from tazza.nets.plan.shared import Shared
from tazza.nets.run import Run
from tazza.operator import (
    Array,
    BlobOwner,
    Kernel,
    Operator,
    find_schema,
    ignored_text,
    read_first,
    touched_by,
    touches,
)
from tazza.operator.kernel import value_key
from tazza.operator.reorder import REORDERING
from tazza.proto import NetDef, OperatorDef
from tazza.runtime.collecting import uncollected
from tazza.runtime.flags import kernel_changes, kernel_flags
from tazza.runtime.heap import give_back
from tazza.runtime.threads import thread_count
from tazza.runtime.waiting import take_waits
from tazza.tensor import ROW_MAJOR, Blob, Tensor, TensorSpec
from tazza.tensor.storage import SHARINGS


@net_type(PLAN, help="compiled: fused, laid out, memory-planned for the signature of what it reads")
class PlanNet(NetBase, StepHost):
    """Runs compiled programs, and between them the operators that cannot be compiled."""

    runs_operators = False
    _shared: Shared
    _strict: bool

    def __init__(
        self,
        definition: NetDef,
        workspace: BlobOwner,
        *,
        strict: bool = False,
        copy: bool = True,
        within: Operator | None = None,
        shared: Shared | None = None,
    ) -> None:
        """As every net; see `clone` for `shared`."""
        self._shared = Shared() if shared is None else shared
        self._strict = strict
        self._adopted: Rewrite | None = None
        self._cut: Parts | None = None
        self._blobs = PlanBlobs(workspace)
        self._given: dict[str, NDArray[Any]] = {}
        self._queued = Queued(definition.name)
        self._generators: dict[str, Generator] = {}
        self._stateful: dict[str, Operator] = {}
        self._instances = INSTANCES.another()
        self._last: dict[Region, Instance] = {}
        self._loose: dict[str, Operator] = {}
        self.public: frozenset[str] = frozenset()
        """The names that stand for blobs of the workspace."""
        self._watchers: tuple[StepWatcher, ...] = ()
        self._cloned_from: PlanNet | None = None
        self._sharings = -1
        self._together: frozenset[frozenset[str]] = frozenset()
        super().__init__(definition, workspace, strict=strict, copy=copy, within=within)

    def clone(self, workspace: BlobOwner) -> PlanNet:
        """Return the same net on other blobs, with arenas of its own; both may run at the same time.

        Programs and constants are shared where both nets see the same constant blobs. Who watches this net is told of
        the clone's runs too.
        """
        constants = constants_of(self.definition, self.workspace, ())
        same = all(workspace.get_blob(name) is self.workspace.get_blob(name) for name in constants)
        made = PlanNet(self.definition, workspace, strict=self._strict, shared=self._shared if same else None)
        made._cloned_from = self
        return made

    # -- making --------------------------------------------------------------------------------------------------------

    def _create(self, strict: bool) -> None:
        ignored: list[str] = []
        for position, op in enumerate(self.definition.op):
            try:
                schema = find_schema(op.type)
                if strict:  # what else is wrong with it comes out when the net is rewritten
                    schema.view(op, strict=True)
            except TazzaError as error:
                error.add_context(f"in operator {position} ({op.type}) of net {self.name!r}")
                raise
            ignored.extend(schema.reported_arguments(op))
        if told := ignored_text(ignored):
            self._report_once(told, told)
        self._touched = touched_by(self.definition)
        for name in read_first(self.definition.op, perhaps_made=True):
            if self.workspace.get_blob(name) is None:
                raise NotFoundError(
                    f"input blob {name!r} of net {self.name!r} does not exist",
                    hint="feed it, or run the net that makes it first",
                )
        self._current()

    def _current(self) -> Rewrite:
        """Return the rewritten net with its constants computed; a clone takes what the first one made."""
        if self._sharings != SHARINGS.times:
            self._look_at_memory()
        rewrite = self._adopted
        if rewrite is not None and rewrite is self._shared.rewrite and rewrite.cut is self._cut:
            if not (rewrite.computed_from or rewrite.unwatched) or not rewrite.outdated(self.workspace):
                return rewrite
        with self._shared.lock:
            found = self._shared.rewrite
            if found is not None and not found.stands(self.workspace):
                found = None
            if found is not None and found.computed_from and (changed := list(found.changed(self.workspace))):
                found = None if self._shared.note_changes(changed) else found
                if found is not None:
                    found.compute(self.workspace, self._report_once)
            if found is None:
                found = (
                    rewrite_apart(self.definition)
                    if self._together
                    else rewrite_net(self.definition, self.workspace, self._shared.variable)
                )
                if found.result.prelude.op:
                    found.compute(self.workspace, self._report_once)
                self._shared.rewrite = found
            self._adopted = found
            self._take_cut(found)
            return found

    def _look_at_memory(self) -> None:
        """Begin anew, apart from clones, where other blobs than before share memory that the net writes."""
        self._sharings, together = SHARINGS.times, written_together(self._touched, self.workspace)
        if together != self._together:
            self._together, self._shared, self._adopted = together, Shared(), None

    def rewrite_anew(self) -> None:
        """Forget how the definition was rewritten, apart from clones, and do it again."""
        self._shared, self._adopted = Shared(), None
        self._current()

    def _take_cut(self, rewrite: Rewrite) -> None:
        """Make what the parts of a net need: blobs between them, and loose operators, which live on where they can."""
        if rewrite.cut is not self._cut:
            self._instances.clear()
            self._last.clear()
        rewrite.restore(rewrite.spared & rewrite.read_loosely, self.workspace, self._report_once)
        moved, self.public = self.public ^ rewrite.public, rewrite.public
        self._blobs.show(rewrite.public, rewrite.computed)
        for name in rewrite.cut.crossing:
            self._blobs.create_blob(name)
        loose: dict[str, Operator] = {}
        for part in rewrite.cut.parts:
            if isinstance(part, int):
                key, definition = rewrite.keys[part], rewrite.result.net.op[part]
                known = self._loose.pop(key, None)
                if known is None or known.definition != definition:
                    loose[key] = self._made(definition)
                elif moved.isdisjoint(touches(definition).named):
                    loose[key] = known
                else:  # its names stand for other blobs now
                    loose[key] = self._made(definition)
                    loose[key].drawn_from = known.drawn_from
                    known.close()
        for operator in self._loose.values():
            operator.close()
        self._loose = loose
        self.operators = list(loose.values())
        self._cut = rewrite.cut

    def _made(self, definition: OperatorDef) -> Operator:
        label = f" (of net {self.name!r})"
        return Operator(
            definition,
            self._blobs,
            strict=self._strict,
            report=self._report_once,
            label=label,
            check=self.check_present,
            batch_invariant=self.batch_invariant,
        )

    # -- running -------------------------------------------------------------------------------------------------------

    def _run(self, run: Run | None) -> None:
        watchers = self._watchers if self._cloned_from is None else self.watchers
        try:
            if not watchers:
                self._run_parts(self._current(), run)
            else:
                self._run_watched(run, watchers)
        except BaseException:
            self._queued.give_up()
            raise
        if self._queued.contexts:
            self._queued.settle()

    def _run_watched(self, run: Run | None, watchers: Sequence[StepWatcher]) -> None:
        times, start_s = Times(), time.perf_counter()
        try:
            self._run_parts(self._current(), run, times)
        finally:
            end_s = time.perf_counter()
            tell(self._running_parts(), times)
            tell_watchers(watchers, self, (start_s, end_s), times.told)

    def run_on(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Run once on row-major arrays in place of some inputs, whose blobs have the same shape and element type.

        Where the net can, it reads them where they lie, and the blobs keep their content; else the blobs get theirs.

        Raises:
            TazzaError: as `run` does.
        """
        self.run_exclusively(lambda: self._observed_on(arrays))

    def _observed_on(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._given = dict(arrays)
        try:
            self._observed(None)
        finally:
            self._given = {}

    def _run_parts(
        self, rewrite: Rewrite, run: Run | None = None, times: Times | None = None, done: frozenset[int] = frozenset()
    ) -> None:
        """Run all parts but those whose operators, by position, are done; `times` takes what each took."""
        assert self._cut is not None, "taken with the rewritten net"
        parts = self._cut.parts
        if self._given and (self._observers or len(parts) != 1 or not isinstance(parts[0], Region)):
            self._copy_given()  # others look at the blobs as well
        for number, part in enumerate(parts):
            if done and done.issuperset(_positions(part)):
                continue
            try:
                self.check(run)
                if self._queued.contexts:
                    whose = part if isinstance(part, Region) else self._loose[rewrite.keys[part]]
                    self._queued.wait(whose.place)
                if isinstance(part, Region):
                    self._run_region(rewrite, part, times)
                else:
                    self._run_loose(rewrite, part, times)
            except Unplannable as found:
                assert isinstance(part, Region), "only regions are compiled"
                if times is not None:
                    tell(self._running_parts(), times)
                with self._shared.lock:
                    rewrite.recut(part.keys[found.position])
                    self._take_cut(rewrite)
                self._run_parts(rewrite, run, times, done.union(*map(_positions, parts[:number])))
                return
            except TazzaError as error:
                error.add_context(f"in net {self.name!r}; {LEFT}")
                raise

    def _run_loose(self, rewrite: Rewrite, position: int, times: Times | None) -> None:
        operator = self._loose[rewrite.keys[position]]
        if times is not None:
            take_waits()  # those of before
        start_s = time.perf_counter()
        try:
            with np.errstate(all="ignore"):  # Caffe2 lets NaN and infinity pass
                operator.run()
        finally:
            if times is not None:
                waited_s = sum(end_s - begin_s for begin_s, end_s in take_waits())
                times.taken[position] = start_s, [time.perf_counter() - start_s - waited_s]

    def _run_region(self, rewrite: Rewrite, region: Region, times: Times | None) -> None:
        last = self._last.get(region)
        instance = last if last is not None and not last.watch.broken() else self._ready(rewrite, region)
        start_s = time.perf_counter() if times is not None else 0.0
        if times is None and not instance.on_host:
            self._queued.add(instance.context)
        try:
            if self._given or instance.loans:
                instance.borrow(self._given)
            seconds = instance.run() if times is None else instance.run_timed()
        except SparedError:
            self._copy_given()
            instance = self._ready(rewrite, region)
            instance.give_back()
            seconds = instance.run() if times is None else instance.run_timed()
        if times is not None and seconds is not None:
            times.taken[region] = start_s, seconds

    def _copy_given(self) -> None:
        for name, array in self._given.items():
            self._blobs.create_blob(name).tensor().assign(array)
        self._given = {}

    def _ready(self, rewrite: Rewrite, region: Region) -> Instance:
        """Return the bound instance for what the region's inputs are now."""
        flags = kernel_changes()
        with self._shared.lock, REORDERING:
            instance = self._found(rewrite, region)
            instance.hold()
            rewrite.restore(instance.lacking(rewrite.spared), self.workspace, self._report_once)
            if instance.unbound():
                instance.bind()
            spared = [blob for name in instance.refresh_each() for blob in rewrite.spare([name])]
            if spared:
                instance.watch.overlook(spared)
                give_back()
            instance.note_values(flags)
            self._last[region] = instance
            self._instances.trim()
            return instance

    def _found(self, rewrite: Rewrite, region: Region) -> Instance:
        """Return the instance for what the region's inputs are now."""
        specs = {name: self._input_spec(rewrite, name) for name in region.inputs}
        movable = frozenset(name for name in region.inputs if self._movable(region, name))
        signature = tuple(
            (name, (spec.dims, spec.dtype, spec.quantization) if name in movable else spec)
            for name, spec in specs.items()
        )
        key: Hashable = region, thread_count(), kernel_flags(), signature, rewrite.copies.restless(self._blobs)
        return self._instance(rewrite, region, key, specs, movable)

    def _input_spec(self, rewrite: Rewrite, name: str) -> TensorSpec:
        if name in rewrite.spared:
            return self._tensor(name).spec
        blob = self._blobs.get_blob(name)
        return input_spec(Blob(name) if blob is None else blob)

    def _movable(self, region: Region, name: str) -> bool:
        """Whether a blob may be kept in the layout of its kernels: a weight that nobody outside has a view of."""
        return (name in region.constants or name in region.outputs) and self._tensor(name).storage.alone

    def _tensor(self, name: str) -> Tensor:
        blob = self._blobs.get_blob(name)
        assert blob is not None, "_input_spec looked for it"
        return blob.tensor()

    def _instance(
        self, rewrite: Rewrite, region: Region, key: Hashable, specs: dict[str, TensorSpec], movable: frozenset[str]
    ) -> Instance:
        """Return an instance for a signature and the values that shapes were inferred from."""
        programs = rewrite.compiled(key)
        known = self._instances.get(key)
        if known is None:
            self._instances.put(key, known := [])
        for instance in known:
            if self._reads_the_same(instance.program):
                return instance
        program = next((one for one in programs if self._reads_the_same(one)), None)
        if program is None:
            if programs:
                self._shared.note_changes(programs[-1].values_read)
            program = self._compiled(rewrite, region, specs, movable)
            rewrite.keep(key, program)
        known.append(Instance(program, rewrite.copies, self._blobs, self, new_context(region.place)))
        return known[-1]

    def _reads_the_same(self, program: Program) -> bool:
        return all(value_key(self._tensor(name).plain()) == value for name, value in program.values_read.items())

    @uncollected
    def _compiled(
        self, rewrite: Rewrite, region: Region, specs: dict[str, TensorSpec], movable: frozenset[str]
    ) -> Program:
        reads: dict[str, bytes] = {}

        def read(name: str) -> Array | None:
            if name not in region.constants:
                return None
            rewrite.restore(rewrite.spared & {name}, self.workspace, self._report_once)
            value = self._tensor(name).plain()
            reads[name] = value_key(value)
            return value

        # What another program stores in its own way already stays there.
        free = frozenset(name for name in movable if specs[name].layout == ROW_MAJOR)
        place = new_context(region.place)
        asked = Compilation(region, specs, free, place, read, rewrite.apart, self.batch_invariant)
        program = compile_fastest(asked)
        program.values_read = reads
        give_back()  # what loading and compiling left, before the arena is allocated
        return program

    # -- what steps need -----------------------------------------------------------------------------------------------

    def generator(self, step: Step) -> Generator:
        """Return the generator of a step's operator: one for the life of the net, as every operator has."""
        found = self._generators.get(step.key)
        if found is None:
            option = step.op.definition.device_option
            seed = option.random_seed if option.HasField("random_seed") else None
            found = self._generators[step.key] = Generator(seed)
        return found

    def generators(self) -> dict[str, Generator]:
        """Return the generators that operators drew from so far, by their keys in the rewritten net."""
        loose = ((key, operator.drawn_from) for key, operator in self._loose.items())
        return {**self._generators, **{key: generator for key, generator in loose if generator is not None}}

    def restore_generator(self, key: str, state: NDArray[np.int32]) -> None:
        """Let the operator with a key of `generators` draw from a state of its generator on."""
        loose = self._loose.get(key)
        if loose is not None:
            loose.generator().restore(state)
        elif key in self._current().keys:
            self._generators.setdefault(key, Generator()).restore(state)

    def state(self, step: Step, kernel: Kernel) -> Any:
        """Return what a kernel keeps in the workspace for a step."""
        if step.key not in self._stateful:
            for name in step.op.definition.input:  # the plan's memory has it, while an operator looks for a blob
                self._blobs.create_blob(name)
            self._stateful[step.key] = self._made(step.op.definition)
        return self._stateful[step.key].state(kernel)

    # -- looking at it -------------------------------------------------------------------------------------------------

    def explain(self, *, times: bool = False) -> Explanation:
        """Return the plan: a row for each step that runs, complete after a first run.

        Args:
            times: run the net once more, with everything that a run does, and say how long each step took.

        Raises:
            NetError: the net is running, or closed.
        """
        took = Times()
        if times:
            self.run_exclusively(lambda: self._run_parts(self._current(), times=took))
        return explain_net(self._running_parts(), took)

    def _running_parts(self) -> Running:
        assert self._adopted is not None, "made with the net"
        assert self._cut is not None, "taken with the rewritten net"
        return Running(self._adopted, self._cut, self._last, self._loose)

    @property
    def watchers(self) -> Sequence[StepWatcher]:
        """Who is told of runs: who watches this net, or the one that it was cloned from."""
        if self._cloned_from is None:
            return self._watchers
        return (*self._watchers, *self._cloned_from.watchers)

    def watch(self, watcher: StepWatcher) -> None:
        """Tell somebody of every run of this net and of its clones; twice is once."""
        if watcher not in self._watchers:
            self._watchers = (*self._watchers, watcher)

    def unwatch(self, watcher: StepWatcher) -> None:
        """Tell somebody no more."""
        self._watchers = tuple(other for other in self._watchers if other is not watcher)

    def why_missing(self, name: str) -> str | None:
        """Return into what a blob of the definition went."""
        rewrite = self._adopted
        if rewrite is None or name not in touched_by(self.definition).writes:
            return None
        reason = rewrite.result.gone.get(name, "it lives in the plan's memory, which other blobs use after it")
        return (
            f"net {self.name!r} is a plan and keeps no {name!r}: {reason}; name it in external_output or in the "
            f"argument 'keep', or use the net type 'simple'"
        )

    def _end(self) -> None:
        super()._end()
        for operator in self._stateful.values():
            operator.close()
        self._instances.clear()
        self._last.clear()


def _positions(part: Part) -> tuple[int, ...]:
    """Return the positions of the operators of a part."""
    return (part,) if isinstance(part, int) else part.positions
