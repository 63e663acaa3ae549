"""Which operators of a net must wait for which: the one place where hazards between them are found.

Operator j depends on an earlier operator i where one of them writes a blob that the other one reads or writes, itself
or in a net within it (`operator.touches`):

    read after write    i writes b, j reads it
    write after read    i reads b, j writes it
    write after write   both write it

or where j names an output of i among its control inputs. Hazards go by memory: blobs over one storage (views, and one
that shares another's data) count as one, those that share now, since that is not known of blobs before they are made;
who keeps what follows from it looks again when `SHARINGS` has changed.

A *chain* is a run of operators between which nobody needs to synchronise: each waits for the one before it alone, and
is the only one that waits for that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeAlias

from tazza.data_class import dataclass
from tazza.operator import Operator, touches
from tazza.tensor import Blob, Tensor

Sharing: TypeAlias = frozenset[frozenset[Hashable]]
"""Groups of blobs over one storage, by what tells them apart in an `Access`."""


@dataclass(frozen=True, slots=True)
class Access:
    """What an operator reads and writes; blobs by any key that tells them apart."""

    reads: tuple[Hashable, ...]
    writes: tuple[Hashable, ...]


@dataclass(frozen=True, slots=True)
class Dependencies:
    """For each operator, by position, whom it waits for and who waits for it; both in ascending order.

    What follows from other edges is left out: where k waits for j and j for i, k is not listed as waiting for i.
    """

    parents: tuple[tuple[int, ...], ...]
    children: tuple[tuple[int, ...], ...]


def accesses_of(operators: Sequence[Operator], shared: Sharing | None = None) -> list[Access]:
    """Return the blobs that operators read and write, those over one storage as one.

    `shared` is the answer of `shared_memory` for what they touch, where somebody has asked for it already.

    What holds no tensor (a reader, a mutex, a counter) changes when it is read: it counts as written.
    """
    shared = shared_memory(touched_blobs(operators)) if shared is None else shared
    together = {key: group for group in shared for key in group}
    return [_access(operator, together) for operator in operators]


def touched_blobs(operators: Iterable[Operator]) -> list[Blob]:
    """Return the blobs that operators touch, those that are there."""
    named = ((operator, name) for operator in operators for name in touches(operator.op).named)
    blobs = (operator.workspace.get_blob(name) for operator, name in named)
    return list({id(blob): blob for blob in blobs if blob is not None}.values())


def shared_memory(blobs: Iterable[Blob]) -> Sharing:
    """Return those of some blobs, by what tells them apart in an `Access`, that lie over one storage with others."""
    found: defaultdict[int, set[Hashable]] = defaultdict(set)
    for blob in blobs:
        if isinstance(blob.value, Tensor):
            found[id(blob.value.storage)].add(id(blob))
    return frozenset(frozenset(group) for group in found.values() if len(group) > 1)


def _access(operator: Operator, together: Mapping[Hashable, Hashable]) -> Access:
    declared = operator.schema.inputs_by_letter
    touched = touches(operator.op)
    changed = [
        name
        for letter, name, blob in zip(
            operator.op.input_letters, operator.definition.input, operator.inputs, strict=True
        )
        if not declared[letter].only_tensors and declared[letter].type_name != "*" and not blob.is_tensor
    ]
    reads = (_key(operator, name) for name in (*touched.reads, *touched.after))
    writes = (_key(operator, name) for name in (*touched.writes, *changed))
    return Access(tuple(together.get(key, key) for key in reads), tuple(together.get(key, key) for key in writes))


def _key(operator: Operator, name: str) -> Hashable:
    """Return what tells a blob from others; one that is yet to be made goes by its name."""
    blob = operator.workspace.get_blob(name)
    return name if blob is None else id(blob)


def dependencies(accesses: Iterable[Access]) -> Dependencies:
    """Return who waits for whom among operators in execution order.

    >>> ops = [Access(("x",), ("y",)), Access(("y",), ("z",)), Access(("y",), ("y",))]
    >>> dependencies(ops).parents
    ((), (0,), (1,))
    """
    writer: dict[Hashable, int] = {}
    readers: defaultdict[Hashable, list[int]] = defaultdict(list)
    before: list[int] = []  # bit i of before[j]: j comes after i
    parents: list[tuple[int, ...]] = []
    for position, access in enumerate(accesses):
        found = {writer[name] for name in access.reads if name in writer}
        for name in access.writes:
            found.update(readers[name])
            if name in writer:
                found.add(writer[name])
        kept: list[int] = []
        reached = 0
        for parent in sorted(found, reverse=True):  # a later one may reach an earlier one, never the other way round
            if not reached >> parent & 1:
                kept.append(parent)
                reached |= before[parent] | 1 << parent
        before.append(reached)
        parents.append(tuple(reversed(kept)))
        for name in access.writes:
            writer[name] = position
            readers[name].clear()
        for name in access.reads:
            if name not in access.writes:
                readers[name].append(position)
    return Dependencies(tuple(parents), _turned(parents))


def chains(found: Dependencies, kinds: Sequence[Hashable]) -> list[tuple[int, ...]]:
    """Return the operators in chains, in the order of their first ones; all of a chain are of one kind (a place, say).

    >>> ops = [Access((), ("a",)), Access(("a",), ("b",)), Access(("b",), ("c",)), Access(("b",), ("d",))]
    >>> chains(dependencies(ops), ["cpu"] * 4)
    [(0, 1), (2,), (3,)]
    """
    made: list[list[int]] = []
    chain_of: dict[int, list[int]] = {}
    for position, parents in enumerate(found.parents):
        joins = (
            len(parents) == 1
            and found.children[parents[0]] == (position,)
            and kinds[parents[0]] == kinds[position]
            and kinds[position] is not None
        )
        if joins:
            chain = chain_of[parents[0]]
        else:
            chain = list[int]()
            made.append(chain)
        chain.append(position)
        chain_of[position] = chain
    return [tuple(chain) for chain in made]


def _turned(parents: Sequence[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    children = [list[int]() for _ in parents]
    for position, found in enumerate(parents):
        for parent in found:
            children[parent].append(position)
    return tuple(tuple(each) for each in children)
