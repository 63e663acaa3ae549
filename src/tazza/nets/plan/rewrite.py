"""A net as it is planned: which blobs are constant or survive, the operators after all passes, their parts.

A `Rewrite` is made once and shared by clones. What changes in it does so under the lock of who shares it: `cut`, when
an operator turns out to depend on data, the computed constants, and the programs that were compiled.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from weakref import WeakSet

import numpy as np

from tazza.data_class import dataclass
from tazza.graph.roles import comes_with_data, roles_of
from tazza.graph.transform import PassContext, Rewritten, apply_all, order
from tazza.nets.base import with_device_of
from tazza.nets.plan.copies import Copies, Copy
from tazza.nets.plan.partition import Parts, partition, why_loose
from tazza.nets.plan.program import Program
from tazza.operator import BlobOwner, LocalBlobs, Operator, Touched, find_argument, read_first, touched_by, touches
from tazza.operator.choice import takes_epilogue, takes_operator
from tazza.operator.operator import Report
from tazza.proto import NetDef, OperatorDef
from tazza.runtime.cache import Cache
from tazza.tensor import Blob, Storage, Tensor, TensorSpec

KEEP_LEFT = "keep_left"
"""The argument of a net that keeps all blobs which no transform has removed."""
KEPT = 64
"""Signatures for which a net remembers what was compiled."""


def survivors_of(net: NetDef) -> frozenset[str]:
    """Return the blobs whose last value is needed after a run: declared ones or leaves, parameters, kept ones."""
    touched = [touches(op) for op in net.op]
    written = {name for each in touched for name in each.writes}
    read = {name for each in touched for name in each.reads}
    declared = set(net.external_output) & written
    chosen = declared if declared else written - read
    keep = _names(net, "keep")
    return frozenset(chosen | (written & set(read_first(net.op))) | (set() if keep is None else keep & written))


def constants_of(net: NetDef, owner: BlobOwner, variable: Collection[str]) -> frozenset[str]:
    """Return the inputs that are taken for constant.

    They are what the argument `inputs` does not name, or without it what no operator takes for data or indices; what
    the net writes, what somebody has a writable view of, and `variable` are data.
    """
    written = set(touched_by(net).writes)
    data = _names(net, "inputs")
    if data is None:
        data = frozenset(name for name, roles in roles_of(net).items() if comes_with_data(roles))
    found: set[str] = set()
    for name in read_first(net.op):
        blob = owner.get_blob(name)
        if blob is None or name in written or name in data or name in variable:
            continue
        if isinstance(blob.value, Tensor) and blob.value.allocated and not blob.value.storage.escaped:
            found.add(name)
    return frozenset(found)


def _names(net: NetDef, argument: str) -> frozenset[str] | None:
    found = find_argument(net, argument)
    return None if found is None else frozenset(text.decode() for text in found.strings)


_State = tuple[str, Storage, int, Sequence[int | None] | None]
"""A blob with the storage, the version and the dims that it had."""


PROGRAMS: Cache[Hashable, list[Program]] = Cache("programs of a plan", KEPT)
"""What every rewritten net has another of."""


@dataclass(slots=True)
class Rewrite:
    """A net after the passes.

    Attributes:
        result: what the passes made.
        keys: a text for each operator, which stays the same for the same operator in another rewriting of the net.
        constants: inputs, given or computed, that change seldom.
        survivors: blobs whose last value is needed after a run.
        public: blobs of the workspace that the net reads or leaves.
        cut: the parts.
        loose: keys of operators that cannot be compiled, as was found out while running.
        computed: what depends on constants only, by name, and the state of what it was computed from.
        spared: those of them whose memory was given back, since programs have copies of their own.
        relied: constants that have to keep their shapes and types, or the net is rewritten.
        unwatched: those of them from which nothing is computed, so that nobody else looks at them.
        copies: copies of constants in other layouts; who moves what they are made from holds its lock.
        programs: what was compiled, by signature, that nobody asked for the longest first; several where shapes depend
            on values.
        alive: these, and those that were forgotten while instances still run them.
    """

    result: Rewritten
    keys: tuple[str, ...]
    constants: frozenset[str]
    survivors: frozenset[str]
    public: frozenset[str]
    cut: Parts
    loose: set[str] = field(default_factory=set[str])
    computed: dict[str, Blob] = field(default_factory=dict[str, Blob])
    computed_from: list[_State] = field(default_factory=list["_State"])
    spared: set[str] = field(default_factory=set[str])
    relied: Mapping[str, TensorSpec] = field(default_factory=dict[str, TensorSpec])
    unwatched: Mapping[str, TensorSpec] = field(default_factory=dict[str, TensorSpec])
    copies: Copies = field(default_factory=Copies)
    programs: Cache[Hashable, list[Program]] = field(default_factory=lambda: PROGRAMS.another())
    alive: WeakSet[Program] = field(default_factory=WeakSet[Program])

    def compiled(self, key: Hashable) -> Sequence[Program]:
        """Return what was compiled for a signature; an instance that goes on running does not ask."""
        return self.programs.get(key) or ()

    def keep(self, key: Hashable, program: Program) -> None:
        """Remember a program, in place of those of the signature that was not asked for the longest."""
        self.programs.put(key, [*self.compiled(key), program])
        self.alive.add(program)

    def recut(self, key: str) -> None:
        """Let the operator of that key run by itself."""
        self.loose.add(key)
        self.programs.clear()  # those of other regions
        self.cut = _cut(self.result, self.keys, self.survivors, self.constants, self.loose)

    def changed(self, owner: BlobOwner) -> Iterator[str]:
        """Yield the constants that were written, or handed out, since something was computed from them."""
        get = owner.get_blob
        for name, storage, version, dims in self.computed_from:  # asked before every run, of hundreds
            blob = get(name)
            value = None if blob is None else blob.value
            if (
                not isinstance(value, Tensor)
                or value.storage is not storage
                or storage.version != version
                or storage.escaped
                or value.spec.dims != dims
            ):
                yield name

    def stands(self, owner: BlobOwner) -> bool:
        """Whether constants have the shapes that the passes relied on."""
        return all(_has_spec(owner, name, spec) for name, spec in self.relied.items())

    def outdated(self, owner: BlobOwner) -> bool:
        """Whether something changed that it was made from; asked before every run."""
        return next(self.changed(owner), None) is not None or not all(
            _has_spec(owner, *each) for each in self.unwatched.items()
        )

    def compute(self, owner: BlobOwner, report: Report) -> None:
        """Compute what depends on constants only, in memory of its own: somebody may run on the old."""
        prelude = self.result.prelude
        blobs = _Overlay(owner)
        _run(prelude.op, blobs, report)
        with self.copies.lock:
            for name in prelude.external_output:
                old, new = self.computed.setdefault(name, blobs.blobs[name]), blobs.blobs[name]
                if old is not new:
                    old.tensor().share(new.tensor())
            self.spared.clear()
        self.computed_from = [
            (name, blob.value.storage, blob.value.storage.version, blob.value.spec.dims)
            for name in read_first(prelude.op)
            if (blob := owner.get_blob(name)) is not None and isinstance(blob.value, Tensor)
        ]

    # -- memory --------------------------------------------------------------------------------------------------------

    @property
    def read_loosely(self) -> frozenset[str]:
        """What operators read that are not compiled."""
        ops = self.result.net.op
        return frozenset(name for part in self.cut.parts if isinstance(part, int) for name in touches(ops[part]).reads)

    @property
    def spareable(self) -> frozenset[str]:
        """Computed constants that nobody but programs needs: where these read copies, they can be given back."""
        return frozenset(self.computed.keys() - self.survivors - self.read_loosely)

    @property
    def apart(self) -> frozenset[str]:
        """What shall not be moved into forms that round.

        That is what can be given back, what others move or write, and all that is only taken for constant: of a net
        that does not say what its inputs are.
        """
        says = find_argument(self.result.net, "inputs") is not None
        return self.spareable | (self.copies.unsettled if says else self.constants)

    def spare(self, names: Collection[str]) -> list[Blob]:
        """Give back the memory of computed constants of which no program reads more than copies; return their blobs."""
        open_to = self.spareable
        with self.copies.lock:
            return [self.computed[name] for name in names if name in open_to and self._spare(name)]

    def _spare(self, name: str) -> bool:
        value = self.computed[name].tensor()
        storage = value.storage
        if storage.share_count > 1 or storage.escaped or not storage.allocated:
            return False
        if any(name in program.inputs and name not in program.copied for program in self.alive):
            return False  # that one reads the constant itself
        self.spared.add(name)
        for copy in self._copies_of(name):
            copy.made_from = storage, storage.version + 1  # that of the storage without memory
        value.release()
        return True

    def restore(self, names: Collection[str], owner: BlobOwner, report: Report) -> None:
        """Compute what was given back anew, in memory of its own; copies stay as they are, for who reads them now."""
        if not names:
            return
        wanted, ops = set(names), list[OperatorDef]()
        for op in reversed(self.result.prelude.op):
            if wanted.intersection(op.output):
                ops.append(op)
                wanted.update(op.input)
        blobs = _Overlay(owner)
        _run(ops[::-1], blobs, report)
        with self.copies.lock:
            for name in names:
                value, copies = self.computed[name].tensor(), self._copies_of(name)
                value.share(blobs.blobs[name].tensor())
                for copy in copies:
                    copy.made_from = value.storage, value.storage.version
                self.spared.discard(name)

    def _copies_of(self, name: str) -> set[Copy]:
        """Return the copies of what a computed constant holds now, which programs read instead of it."""
        values = [value for program in self.alive for value in program.copied.get(name, ())]
        return self.copies.made_of(self.computed[name].tensor().storage, values)


def _run(ops: Iterable[OperatorDef], blobs: BlobOwner, report: Report) -> None:
    with np.errstate(all="ignore"):
        for op in ops:
            operator = Operator(op, blobs, report=report, label=" (of what depends on constants only)")
            try:
                operator.run()
            finally:
                operator.close()


class _Overlay(LocalBlobs):
    """Blobs of its own over those of a workspace."""

    def __init__(self, below: BlobOwner) -> None:
        super().__init__(below.root, parent=below)

    def create_blob(self, name: str) -> Blob:
        """Return a blob of its own, made empty where it is missing."""
        return self.blobs.setdefault(name, Blob(name))


def _has_spec(owner: BlobOwner, name: str, spec: TensorSpec) -> bool:
    blob = owner.get_blob(name)
    value = None if blob is None else blob.value
    return isinstance(value, Tensor) and value.spec.dims == spec.dims and value.dtype is spec.dtype


def written_together(touched: Touched, owner: BlobOwner) -> frozenset[frozenset[str]]:
    """Return the names that stand for one memory, or for one blob, where a net that touches them writes one."""
    written = set(touched.writes)
    found: defaultdict[int, set[str]] = defaultdict(set)
    for name in touched.named:
        blob = owner.get_blob(name)
        if blob is not None:
            found[id(blob.value.storage if isinstance(blob.value, Tensor) else blob)].add(name)
    return frozenset(frozenset(group) for group in found.values() if len(group) > 1 and group & written)


def _with_devices(definition: NetDef) -> NetDef:
    """Return a copy of a net each operator of which says itself where it runs."""
    net = NetDef()
    net.CopyFrom(definition)
    for op in net.op:
        op.CopyFrom(with_device_of(definition, op))
    return net


def rewrite_apart(definition: NetDef) -> Rewrite:
    """Let each operator of a net run by itself, on blobs of the workspace, since names that share are no values."""
    net = _with_devices(definition)
    survivors = survivors_of(net)
    result = apply_all(net, PassContext(keep=survivors), without=order())
    keys = _keys(list(result.net.op))
    everything = frozenset(touched_by(definition).named)
    return Rewrite(result, keys, frozenset(), survivors, everything, _cut(result, keys, survivors, (), keys), set(keys))


def passes_over(
    definition: NetDef, owner: BlobOwner, variable: Collection[str] = ()
) -> tuple[NetDef, PassContext, frozenset[str], frozenset[str]]:
    """Return the net that passes are applied to, what they may take for granted, constants, and survivors.

    Arguments are those of `rewrite_net`.
    """
    net = _with_devices(definition)
    constants, survivors = constants_of(net, owner, variable), survivors_of(net)
    lying: dict[str, TensorSpec] = {}
    for name in constants:
        blob = owner.get_blob(name)
        if blob is not None and isinstance(blob.value, Tensor):
            lying[name] = TensorSpec(blob.value.spec.dims, blob.value.dtype, quantization=blob.value.quantization)
    return net, PassContext(constants, survivors, lying, takes_epilogue, takes_operator), constants, survivors


def rewrite_net(definition: NetDef, owner: BlobOwner, variable: Collection[str]) -> Rewrite:
    """Apply all passes to a net and cut it into parts.

    Args:
        definition: the net.
        owner: has the blobs that it reads.
        variable: inputs that are data, whatever they look like.
    """
    net, context, constants, survivors = passes_over(definition, owner, variable)
    result = apply_all(net, context)
    if find_argument(net, KEEP_LEFT) is not None:
        survivors |= frozenset(touched_by(definition).writes).difference(result.gone)
    computed = frozenset(result.prelude.external_output) if result.prelude.op else frozenset[str]()
    public = (survivors | frozenset(read_first(definition.op))) - computed
    keys = _keys(list(result.net.op))
    cut = _cut(result, keys, survivors, constants | computed, ())
    specs = {name: context.specs[name] for name in sorted(result.relied & context.specs.keys())}
    relied = {name: spec for name, spec in specs.items() if isinstance(spec, TensorSpec)}
    unwatched = {name: relied[name] for name in relied.keys() - set(read_first(result.prelude.op))}
    return Rewrite(result, keys, constants | computed, survivors, public, cut, relied=relied, unwatched=unwatched)


def _keys(ops: Collection[OperatorDef]) -> tuple[str, ...]:
    """Return type and outputs of each operator, and a number where several have both in common."""
    seen: Counter[str] = Counter()
    keys: list[str] = []
    for op in ops:
        text = f"{op.type} {' '.join(op.output)}"
        keys.append(f"{text} {seen[text]}")
        seen[text] += 1
    return tuple(keys)


def _cut(
    result: Rewritten,
    keys: tuple[str, ...],
    survivors: frozenset[str],
    constants: Collection[str],
    loose: Collection[str],
) -> Parts:
    return partition(
        list(result.net.op),
        survivors=survivors,
        constants=constants,
        loose=lambda position, op: keys[position] in loose or why_loose(op) is not None,
        origins=result.origins,
        keys=keys,
    )
