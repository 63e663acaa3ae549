"""The net type `plan`: rewritten, compiled per signature of what it reads, run as a few calls.

Constant state: the definition, the rewritten net, its parts (`_Rewrite`, made anew only when a blob that was taken for
constant turns out to vary). Changing state: the programs, which clones of a net share under a lock; the instances, one
per region and signature, and the loose operators, which belong to one net and its one run at a time.

What can be fetched afterwards: declared outputs, parameters, and blobs that the argument `keep` of the NetDef lists.
The argument `inputs` says which external inputs are data; without it, those that are read as the first input of an
operator are, and so is everything that changes between runs.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tazza.device import CPUContext, Generator
from tazza.errors import NotFoundError, TazzaError
from tazza.graph.transform import PassContext, Rewritten, apply_all
from tazza.nets.base import NetBase, net_type, with_device_of
from tazza.nets.explanation import Explanation
from tazza.nets.plan.compiler import Region, Unplannable, input_spec
from tazza.nets.plan.explanation import explain_net
from tazza.nets.plan.instance import Derived, Instance, StepHost
from tazza.nets.plan.partition import Part, partition, why_loose
from tazza.nets.plan.program import Program, Step
from tazza.nets.plan.search import compile_fastest
from tazza.operator import Array, BlobOwner, Kernel, Operator, find_argument, find_schema
from tazza.operator.choice import takes_epilogue
from tazza.proto import NetDef, OperatorDef
from tazza.runtime.flags import flag
from tazza.runtime.log import logger
from tazza.runtime.threads import thread_count
from tazza.tensor import ROW_MAJOR, Blob, Storage, Tensor, TensorSpec

KEPT_BYTES = flag("plan_kept_mb", 1024, "megabytes of arenas that a planned net keeps for signatures of before")
KEPT = 16
"""Signatures of a region for which a net keeps an arena."""
CHANGES = 3
"""How often a blob that was taken for constant may change before it is taken for data."""


class _Blobs:
    """The blobs of a planned net: its own ones first, those of the workspace for everything that outlives a run."""

    def __init__(self, workspace: BlobOwner, public: frozenset[str], shared: dict[str, Blob]) -> None:
        self._workspace = workspace
        self._public = public
        self._own: dict[str, Blob] = dict(shared)

    @property
    def root(self) -> Path:
        """The folder that relative paths count from."""
        return self._workspace.root

    def adopt(self, other: _Blobs) -> None:
        """Take over the values of the own blobs of another."""
        for name, blob in other._own.items():
            mine = self._own.setdefault(name, blob)
            if mine is not blob and mine.is_empty and not blob.is_empty:
                mine.set(blob.value)

    def get_blob(self, name: str) -> Blob | None:
        """Return a blob, or None."""
        found = self._own.get(name)
        return self._workspace.get_blob(name) if found is None else found

    def create_blob(self, name: str) -> Blob:
        """Return a blob, made empty where it is missing."""
        if name in self._public:
            return self._workspace.create_blob(name)
        return self._own.setdefault(name, Blob(name))


@dataclass(slots=True)
class _Rewrite:
    """A net after the passes, cut into parts; shared by clones."""

    result: Rewritten
    parts: tuple[Part, ...]
    crossing: frozenset[str]
    constants: frozenset[str]
    public: frozenset[str]
    computed: dict[str, Blob] = field(default_factory=dict[str, Blob])
    computed_from: list[tuple[str, Storage, int]] = field(default_factory=list["tuple[str, Storage, int]"])
    programs: dict[Hashable, tuple[Program, Derived]] = field(default_factory=dict[Hashable, "tuple[Program, Derived]"])
    loose: set[str] = field(default_factory=set[str])


class _Shared:
    """What clones of a net have in common; `lock` guards it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.rewrite: _Rewrite | None = None
        self.variable: set[str] = set()
        self.changes: dict[str, int] = {}


@net_type("plan", help="compiled: fused, laid out, memory-planned for the signature of what it reads")
class PlanNet(NetBase, StepHost):
    """Runs compiled programs, and between them the operators that cannot be compiled."""

    _shared: _Shared
    _strict: bool

    def __init__(
        self, definition: NetDef, workspace: BlobOwner, *, strict: bool = False, shared: _Shared | None = None
    ) -> None:
        """As every net; see `clone` for `shared`."""
        self._shared = _Shared() if shared is None else shared
        self._strict = strict
        self._made_for: _Rewrite | None = None
        self._generators: dict[str, Generator] = {}
        self._stateful: dict[str, Operator] = {}
        self._instances: OrderedDict[Hashable, Instance] = OrderedDict()
        self._last: dict[int, Instance] = {}
        self._loose: dict[int, Operator] = {}
        super().__init__(definition, workspace, strict=strict)

    def clone(self, workspace: BlobOwner) -> PlanNet:
        """Return the same net on other blobs: it shares programs and constants, and has arenas of its own.

        Both may run at the same time.
        """
        return PlanNet(self.definition, workspace, strict=self._strict, shared=self._shared)

    # -- making --------------------------------------------------------------------------------------------------------

    def _create(self, strict: bool) -> None:
        ignored: dict[str, None] = {}
        for position, op in enumerate(self.definition.op):
            try:
                schema = find_schema(op.type)
                schema.view(op, strict=strict)
            except TazzaError as error:
                error.add_context(f"in operator {position} ({op.type}) of net {self.name!r}")
                raise
            ignored.update(dict.fromkeys(f"{op.type}.{name}" for name in schema.unknown_arguments(op)))
        if ignored:
            logger.warning("net %r: arguments without effect, unknown to the schema: %s", self.name, ", ".join(ignored))
        for name in self._read_first():
            if self.workspace.get_blob(name) is None:
                raise NotFoundError(
                    f"input blob {name!r} of net {self.name!r} does not exist",
                    hint="feed it, or run the net that makes it first",
                )
        self._rewrite()

    def _read_first(self) -> tuple[str, ...]:
        written: set[str] = set()
        found: dict[str, None] = {}
        for op in self.definition.op:
            found.update(dict.fromkeys(name for name in op.input if name not in written))
            written.update(op.output)
        return tuple(found)

    def _names(self, argument: str) -> frozenset[str] | None:
        found = find_argument(self.definition, argument)
        return None if found is None else frozenset(text.decode() for text in found.strings)

    def _survivors(self) -> frozenset[str]:
        """Return the blobs whose last value is needed after a run."""
        written = {name for op in self.definition.op for name in op.output}
        read = {name for op in self.definition.op for name in op.input}
        declared = set(self.definition.external_output) & written
        keep = self._names("keep")
        chosen = declared if declared else written - read
        return frozenset(chosen | (written & set(self._read_first())) | (set() if keep is None else keep & written))

    def _constants(self) -> frozenset[str]:
        """Return the inputs that are taken for constant."""
        written = {name for op in self.definition.op for name in op.output}
        data = self._names("inputs")
        if data is None:
            data = frozenset(op.input[0] for op in self.definition.op if op.input)
        found: set[str] = set()
        for name in self._read_first():
            blob = self.workspace.get_blob(name)
            if name in written or name in data or name in self._shared.variable or blob is None:
                continue
            if isinstance(blob.value, Tensor) and blob.value.allocated and not blob.value.storage.escaped:
                found.add(name)
        return frozenset(found)

    def _rewrite(self) -> _Rewrite:
        """Apply all passes and cut the net into parts; a clone takes what the first one made."""
        with self._shared.lock:
            if self._shared.rewrite is None:
                self._shared.rewrite = self._rewritten(set())
            self._adopt(self._shared.rewrite)
            return self._shared.rewrite

    def _rewritten(self, loose: set[str]) -> _Rewrite:
        net = NetDef()
        net.CopyFrom(self.definition)
        for op in net.op:
            op.CopyFrom(with_device_of(self.definition, op))
        constants, survivors = self._constants(), self._survivors()
        specs = {
            name: blob.value.spec
            for name in self._read_first()
            if (blob := self.workspace.get_blob(name)) is not None and isinstance(blob.value, Tensor)
            if blob.value.allocated
        }
        known = {name: TensorSpec(spec.dims, spec.dtype) for name, spec in specs.items() if name in constants}
        context = PassContext(constants=constants, keep=survivors, specs=known, takes_epilogue=takes_epilogue)
        result = apply_all(net, context)
        computed = frozenset(result.prelude.external_output) if result.prelude.op else frozenset[str]()
        kept = constants | computed
        found = partition(
            list(result.net.op),
            survivors=survivors,
            constants=kept,
            loose=lambda _, op: _key(op) in loose or why_loose(op) is not None,
            origins=result.origins,
        )
        public = survivors | frozenset(self._read_first())
        return _Rewrite(result, found.parts, found.crossing, kept, public - computed, loose=loose)

    def _adopt(self, rewrite: _Rewrite) -> None:
        self._close_loose()
        self._made_for = rewrite
        self._instances.clear()
        self._last.clear()
        self._compute(rewrite)
        self._blobs = _Blobs(self.workspace, rewrite.public, rewrite.computed)
        for name in rewrite.crossing:
            self._blobs.create_blob(name)
        for part in rewrite.parts:
            if isinstance(part, int):
                self._loose[part] = Operator(
                    rewrite.result.net.op[part],
                    self._blobs,
                    strict=self._strict,
                    report=self._report_once,
                    label=f" (of net {self.name!r})",
                )
        self.operators = list(self._loose.values())

    def _compute(self, rewrite: _Rewrite) -> None:
        """Compute what depends on constants only; again when one of them was written since."""
        prelude = rewrite.result.prelude
        if not prelude.op or (all(self._unchanged(entry) for entry in rewrite.computed_from) and rewrite.computed):
            return
        kept = frozenset(prelude.external_output)
        owner = _Blobs(self.workspace, frozenset(), rewrite.computed)
        with np.errstate(all="ignore"):
            for op in prelude.op:
                operator = Operator(op, owner, report=self._report_once)
                operator.run()
                operator.close()
        for name in kept:
            blob = owner.get_blob(name)
            assert blob is not None, "the prelude makes it"
            rewrite.computed[name] = blob
        rewrite.computed_from = [
            (name, blob.value.storage, blob.value.storage.version)
            for name in dict.fromkeys(name for op in prelude.op for name in op.input)
            if name not in kept and (blob := self.workspace.get_blob(name)) is not None
            if isinstance(blob.value, Tensor)
        ]

    def _unchanged(self, entry: tuple[str, Storage, int]) -> bool:
        name, storage, version = entry
        blob = self.workspace.get_blob(name)
        value = None if blob is None else blob.value
        if not isinstance(value, Tensor) or value.storage is not storage:
            return False
        return storage.version == version and not storage.escaped

    # -- running -------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        rewrite = self._made_for
        if rewrite is None or rewrite is not self._shared.rewrite:
            rewrite = self._rewrite()
        if rewrite.computed_from and not all(map(self._unchanged, rewrite.computed_from)):
            rewrite = self._recompute(rewrite)
        self._run_parts(rewrite, frozenset())

    def _run_parts(self, rewrite: _Rewrite, done: frozenset[int]) -> None:
        """Run all parts but those whose operators, by position, are done."""
        for number, part in enumerate(rewrite.parts):
            if done and done.issuperset(_positions(part)):
                continue
            try:
                if isinstance(part, int):
                    with np.errstate(all="ignore"):  # Caffe2 lets NaN and infinity pass
                        self._loose[part].run()
                else:
                    self._ready(number, part).run()
            except Unplannable as found:
                assert isinstance(part, Region), "only regions are compiled"
                ran = done.union(*map(_positions, rewrite.parts[:number]))
                self._run_parts(self._loosen(rewrite, part, found.position), ran)
                return
            except TazzaError as error:
                error.add_context(f"in net {self.name!r}; blobs are valid, parameters may be partly updated")
                raise

    def _recompute(self, rewrite: _Rewrite) -> _Rewrite:
        """Compute the prelude anew, or, when its inputs change again and again, take them for data."""
        with self._shared.lock:
            changed = [entry[0] for entry in rewrite.computed_from if not self._unchanged(entry)]
            for name in changed:
                self._shared.changes[name] = self._shared.changes.get(name, 0) + 1
            varying = {name for name in changed if self._shared.changes[name] >= CHANGES}
            if varying:
                self._shared.variable |= varying
                self._shared.rewrite = None
                return self._rewrite()
            self._compute(rewrite)
            return rewrite

    def _loosen(self, rewrite: _Rewrite, region: Region, position: int) -> _Rewrite:
        """Let an operator whose shapes cannot be known ahead run by itself from now on."""
        with self._shared.lock:
            self._shared.rewrite = self._rewritten(rewrite.loose | {_key(region.ops[position])})
            before = self._blobs
            made = self._rewrite()
            self._blobs.adopt(before)  # what ran already is not run again
            return made

    def _ready(self, number: int, region: Region) -> Instance:
        """Return the bound instance for what the region's inputs are now."""
        last = self._last.get(number)
        if last is not None and not last.stale():
            return last
        if last is not None and last.outdated():
            self._forget_values(last)
            return self._ready(number, region)
        specs = {name: self._input_spec(name) for name in region.inputs}
        movable = frozenset(name for name in region.inputs if self._movable(region, name))
        signature = tuple((name, (spec.dims, spec.dtype) if name in movable else spec) for name, spec in specs.items())
        key: Hashable = number, thread_count(), signature
        instance = self._instances.get(key)
        if instance is None:
            instance = self._instances[key] = self._instance(key, region, specs, movable)
        self._instances.move_to_end(key)
        self._evict()
        if instance.stale():
            instance.bind()
        self._last[number] = instance
        return instance

    def _input_spec(self, name: str) -> TensorSpec:
        blob = self._blobs.get_blob(name)
        return input_spec(name, None if blob is None else blob.value)

    def _movable(self, region: Region, name: str) -> bool:
        """Whether a blob may be kept in the layout of its kernels: a weight that nobody outside has a view of."""
        blob = self._blobs.get_blob(name)
        assert blob is not None, "_input_spec looked for it"
        return (name in region.constants or name in region.outputs) and not blob.tensor().storage.escaped

    def _instance(
        self, key: Hashable, region: Region, specs: dict[str, TensorSpec], movable: frozenset[str]
    ) -> Instance:
        rewrite = self._made_for
        assert rewrite is not None, "made with the net"
        reads: dict[str, Tensor] = {}

        def read(name: str) -> Array | None:
            if name not in region.constants:
                return None
            blob = self._blobs.get_blob(name)
            assert blob is not None, "constants are there"
            reads[name] = blob.tensor()
            return reads[name].plain()

        with self._shared.lock:
            found = rewrite.programs.get(key)
            if found is None:
                # What another program stores in its own way already stays there.
                free = frozenset(name for name in movable if specs[name].layout == ROW_MAJOR)
                program = compile_fastest(region, specs, free, CPUContext(), read)
                found = rewrite.programs[key] = program, Derived()
            return Instance(*found, self._blobs, self, CPUContext(), tuple(reads))

    def _forget_values(self, instance: Instance) -> None:
        """Compile anew after a constant that shapes depend on was written; one that changes often is data."""
        with self._shared.lock:
            for name in instance.values_read:
                self._shared.changes[name] = self._shared.changes.get(name, 0) + 1
                if self._shared.changes[name] >= CHANGES:
                    self._shared.variable.add(name)
            self._shared.rewrite = None
        self._rewrite()

    def _evict(self) -> None:
        """Forget the arenas that were not used for longest."""
        limit = KEPT_BYTES.value << 20
        while len(self._instances) > 1:
            total = sum(instance.nbytes for instance in self._instances.values())
            if total <= limit and len(self._instances) <= KEPT:
                return
            self._instances.popitem(last=False)

    # -- what steps need -----------------------------------------------------------------------------------------------

    def generator(self, step: Step) -> Generator:
        """Return the generator of a step's operator: one for the life of the net, as every operator has."""
        found = self._generators.get(step.key)
        if found is None:
            option = step.op.definition.device_option
            seed = option.random_seed if option.HasField("random_seed") else None
            found = self._generators[step.key] = Generator(seed)
        return found

    def state(self, step: Step, kernel: Kernel) -> Any:
        """Return what a kernel keeps in the workspace for a step."""
        if step.key not in self._stateful:
            self._stateful[step.key] = Operator(step.op.definition, self._blobs, report=self._report_once)
        return self._stateful[step.key].state(kernel)

    # -- looking at it -------------------------------------------------------------------------------------------------

    def explain(self, *, times: bool = False) -> Explanation:
        """Return the plan: a row for each step that runs, complete after a first run.

        Args:
            times: run every program once more and say how long each step takes.
        """
        rewrite = self._made_for
        assert rewrite is not None, "made with the net"
        return explain_net(rewrite.result, rewrite.parts, self._last, self._loose, times=times)

    def why_missing(self, name: str) -> str | None:
        """Return into what a blob of the definition went."""
        rewrite = self._made_for
        if rewrite is None or not any(name in op.output for op in self.definition.op):
            return None
        reason = rewrite.result.gone.get(name, "it lives in the plan's memory, which other blobs use after it")
        return (
            f"net {self.name!r} is a plan and keeps no {name!r}: {reason}; name it in external_output or in the "
            f"argument 'keep', or use the net type 'simple'"
        )

    def close(self) -> None:
        """End loose operators and drop arenas; the net cannot run afterwards."""
        super().close()
        self._close_loose()
        self._instances.clear()
        self._last.clear()

    def _close_loose(self) -> None:
        for operator in (*self._loose.values(), *self._stateful.values()):
            operator.close()
        self._loose.clear()
        self._stateful.clear()


def _positions(part: Part) -> tuple[int, ...]:
    """Return the positions of the operators of a part."""
    return (part,) if isinstance(part, int) else part.positions


def _key(op: OperatorDef) -> str:
    """Return what tells an operator of a net from others: its type and what it writes."""
    return f"{op.type} {' '.join(op.output)}"
