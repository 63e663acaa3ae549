"""Names of the blobs that gradient operators write.

A maker is asked for the gradient of an operator with a mark in the name of each input's gradient, so that those of a
blob that is read twice are told apart, and what a maker writes under such a name on the way to a gradient is known to
be its own: a blob that one maker makes is a `Made`, with all places where its operators name it.

Then each gets its name for good, which is the one that Caffe2 gives, without the mark. Another one, `_<name>_anew_<n>`,
goes to what would overwrite a gradient that is still needed: of another blob that waits for the operator that made it,
or for the caller, or of an output that this maker has yet to read, or one that the caller gave, which it is added to.
And to what an operator would write over a blob that it reads, where its schema does not allow that: behind an operator
in place the gradients of what it writes and of what it overwrote have one name. Caffe2 refuses such a net, and drops
what the caller gave.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import field

from tazza.data_class import dataclass
from tazza.graph.versions import VersionedOps
from tazza.operator import SCHEMAS, find_schema, gradient_name, may_overwrite, operator_def, touches
from tazza.operator.nested import nested_nets, rename_blobs
from tazza.proto import OperatorDef

_MARK = re.compile("\0\\d+\0")


def marked(blob: str, index: int) -> str:
    """Return the name of the gradient of `blob` as input `index`."""
    return f"{gradient_name(blob)}\0{index}\0"


def unmarked(name: str) -> str:
    """Return a name without marks.

    >>> unmarked(f"_{marked('x', 2)}_dims")
    '_x_grad_dims'
    """
    return _MARK.sub("", name)


@dataclass(slots=True, eq=False)
class Made:
    """A blob that one maker makes: its name, where the operators name it, and which of all writes is its last one.

    `home` is the list that the operators are in, `within` are names of what nets within operators make on the way,
    `plain` is the name that it has where nothing else stands in the way.
    """

    name: str
    op: OperatorDef
    places: list[tuple[OperatorDef, bool, int]] = field(default_factory=list[tuple[OperatorDef, bool, int]])
    order: int = 0
    home: list[OperatorDef] = field(default_factory=list[OperatorDef])
    within: set[str] = field(default_factory=set[str])
    plain: str = ""

    def rename(self, name: str) -> None:
        """Give it another name wherever it stands, in nets within the operators as well.

        An operator with nets has one name for what it reads and overwrites: there what was read is copied first. A
        name that such a net uses for something else is passed over.
        """
        while name != self.name and name in self.within:
            name = f"_{name}"
        for op in {id(op): op for op, _, _ in self.places}.values() if name != self.name else ():
            if next(nested_nets(op), None) is None:
                continue
            if self.name in op.input and not any(place is op and not is_output for place, is_output, _ in self.places):
                before = next(index for index, one in enumerate(self.home) if one is op)
                self.home.insert(before, operator_def("Copy", [self.name], [name]))
            rename_blobs(op, {self.name: name})
        self.name = name
        for op, is_output, index in self.places:
            (op.output if is_output else op.input)[index] = name


def _may_lie_there(op: OperatorDef, output: int) -> bool:
    schema = SCHEMAS.get(op.type)
    if schema is None:  # an operator of a registered gradient function, which knows what it may overwrite
        return True
    allowed = may_overwrite(schema.typed_view(op), output)
    return all(position in allowed for position, name in enumerate(op.input) if name == op.output[output])


class Names:
    """Which gradients stand under which name, and who still waits for them."""

    def __init__(self, ssa: VersionedOps) -> None:
        """Nothing has a gradient yet."""
        self._ssa = ssa
        self._blobs: defaultdict[str, set[tuple[str, int]]] = defaultdict(set)
        self._given: defaultdict[tuple[str, int], set[str]] = defaultdict(set)
        self._given_anew = 0
        self._within: set[str] = set()
        self._parts: set[str] = set()

    def hold(self, blob: tuple[str, int], names: Iterable[str]) -> None:
        """Note that gradients of a version of a blob stand under these names."""
        for name in names:
            self._blobs[name].add(blob)

    def give(self, blob: tuple[str, int], names: Iterable[str]) -> None:
        """Note that the caller gave a gradient of a version of a blob under these names, which others are added to."""
        self._given[blob].update(names)
        self.hold(blob, names)

    def release(self, blob: tuple[str, int], names: Iterable[str]) -> None:
        """Note that they are needed no more, since they have been added."""
        for name in names:
            self._blobs[name].discard(blob)

    def settle(
        self, emitted: list[OperatorDef], position: int, owners: Mapping[str, str], given: Container[str]
    ) -> dict[str, Made]:
        """Name what the maker of the operator at `position` makes; returns it by the names that the maker gave.

        `owners` are the blobs whose gradients these are, by the names that the maker gave. Those in `given` are passed
        on as gradients: of several of one blob the sum will rename all but one.
        """
        made: dict[str, Made] = {}
        late: set[str] = set()
        count = 0
        for op in emitted:
            if next(nested_nets(op), None) is not None:
                own = {unmarked(name) for name in op.output} if find_schema(op.type).binds_nets else set[str]()
                self._within.update(name for name in touches(op).writes if name not in owners and name not in own)
            for index, name in enumerate(op.input):
                if name in made:
                    made[name].places.append((op, False, index))
                elif any(unmarked(other) == name for other in made):
                    late.add(name)
            for index, name in enumerate(op.output):
                one = made.setdefault(name, Made(name, op))
                one.op, one.order = op, count
                one.places.append((op, True, index))
                count += 1
        taken: set[str] = set()
        for name, one in made.items():
            plain, owner = unmarked(name), owners.get(name)
            clash = plain in late or (owner is None and plain in taken)
            one.home, one.within, one.plain = emitted, self._within, plain
            one.rename(self.anew(plain) if clash else self.free(plain, position, owner))
            taken.add(plain)
        self._part(emitted, made, given)
        return made

    def _part(self, emitted: Sequence[OperatorDef], made: Mapping[str, Made], given: Container[str]) -> None:
        """Give another name to what an operator would write over a blob that it must not overwrite, or twice."""
        owner = {(id(op), i): name for name, one in made.items() for op, is_output, i in one.places if is_output}
        for op in emitted:
            for index, name in enumerate(op.output):
                own = owner[id(op), index]
                twice = list(op.output).count(name) > 1 and own not in given
                if twice or (name in op.input and not _may_lie_there(op, index)):
                    made[own].rename(self.anew(made[own].name))

    def keep_awaited(self, emitted: list[OperatorDef], position: int, given: Mapping[str, str]) -> None:
        """Copy gradients that nets within emitted operators change, where another blob than that of `given` waits.

        Such an operator does not name them as outputs; `given` are the blobs whose gradients it was given, by name.
        """
        for op in list(emitted) if given else ():
            changed = set(touches(op).writes).difference(op.output) if next(nested_nets(op), None) is not None else ()
            for name in sorted(changed):
                if self._awaited(name, position, given.get(name)):
                    own = self.anew(name)
                    before = next(index for index, one in enumerate(emitted) if one is op)
                    for one in emitted[:before]:
                        rename_blobs(one, {name: own})
                    rename_blobs(op, {name: own})
                    emitted.insert(0, operator_def("Copy", [name], [own]))

    def free(self, name: str, position: int, owner: str | None) -> str:
        """Return a name for a gradient of `owner`: this one where nothing stands there that is needed yet."""
        added = owner is not None and name in self._given.get((owner, self._ssa.ops[position].read.get(owner, -1)), ())
        return self.anew(name) if added or self._awaited(name, position, owner) else name

    def _awaited(self, name: str, position: int, owner: str | None) -> bool:
        """Whether a gradient under this name is that of another blob which an operator before `position` made."""
        return any(
            blob != owner and self._ssa.writers.get((blob, version), -1) < position
            for blob, version in self._blobs.get(name, ())
        )

    def split(self, made: Made, number: int) -> None:
        """Name a gradient as one of several of a blob that are brought together."""
        chosen = f"_{made.plain}_autosplit_{number}"
        made.rename(f"_{made.name}_autosplit_{number}" if chosen in self._parts else chosen)
        self._parts.add(chosen)

    def anew(self, name: str) -> str:
        """Return a name that nobody has, after another one."""
        while True:
            self._given_anew += 1
            chosen = f"_{name}_anew_{self._given_anew - 1}"
            if chosen not in self._within:
                return chosen
