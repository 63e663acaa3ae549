"""The check of a whole LMDB before use: each page that is in use once, whatever the length of the file.

For reading it is a courtesy, since pages are checked again as they are read: a damaged database is refused when it is
opened, and not in the middle of an epoch. For writing it is a must, since the library changes what it trusts: pages
must not lie in two places, nodes must not overlap, and free pages must be free.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tazza.db.lmdb_pages import (
    BIG,
    DUPLICATES,
    HEADER,
    INTEGER_KEY,
    LEAF,
    METAS,
    NODE,
    NUMBER,
    SUB_DB,
    TREE,
    Leaf,
    Snapshot,
    Tree,
    Walk,
)


def check_for_reading(snapshot: Snapshot) -> None:
    """Check the tree of records.

    Raises:
        DBError: a page of it is not what it should be, or its counts are wrong.
    """
    for _ in _checked_leaves(Walk(snapshot, snapshot.meta.main), None):
        pass


def check_for_writing(snapshot: Snapshot) -> None:
    """Check everything that the library trusts when it writes.

    Raises:
        DBError: a page is not what it should be, is in two places, or a count is wrong.
    """
    used, meta = _Used(snapshot), snapshot.meta
    for leaf in _checked_leaves(Walk(snapshot, meta.main), used):
        for flags, at, nbytes in leaf.nodes:
            if flags & SUB_DB:
                _check_inner(snapshot, leaf.page[at : at + nbytes], used)
    free = Walk(snapshot, replace(meta.free, flags=INTEGER_KEY))
    for leaf in _checked_leaves(free, used):
        for index, key in enumerate(leaf.keys):
            used.add_free(key, snapshot.value(leaf, index))
    used.check()


class _Used:
    """The pages that were met: where each run begins, and how many it has."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._starts, self._counts = array("Q"), array("Q")

    def add(self, first: int, count: int) -> None:
        """Note a run of pages."""
        self._starts.append(first)
        self._counts.append(count)

    def add_page(self, number: int, page: bytes) -> None:
        """Note a page of a tree, and check that its nodes lie side by side."""
        self.add(number, 1)
        is_leaf = HEADER.unpack_from(page)[2] & LEAF
        end = 0
        for at in sorted(self._snapshot.offsets(page, number)):
            low, high, flags, key_bytes = NODE.unpack_from(page, at)
            value = (NUMBER.size if flags & BIG else low | high << 16) if is_leaf else 0
            if at < end or at % 2:
                self._snapshot.file.corrupt(f"a node at byte {at} of page {number} overlaps the one before it")
            end = at + NODE.size + key_bytes + value
            end += end % 2
        if end > len(page):
            self._snapshot.file.corrupt(f"a node of page {number} ends beyond it")

    def add_free(self, key: bytes, listed: bytes) -> None:
        """Note the pages that a transaction has freed: their number, then each, the last one first."""
        file, meta = self._snapshot.file, self._snapshot.meta
        numbers = np.frombuffer(listed[: len(listed) // 8 * 8], "=u8")
        if len(key) != 8 or len(listed) % 8 or len(numbers) == 0 or numbers[0] != len(numbers) - 1:
            file.corrupt(f"a list of free pages has {len(listed)} bytes under a key of {len(key)}")
        pages = numbers[1:]
        if not 1 <= int.from_bytes(key, "little") <= meta.transaction or not np.all(pages[1:] < pages[:-1]):
            file.corrupt("a list of free pages is of no transaction before this one, or not in order")
        self._starts.frombytes(pages.tobytes())
        self._counts.frombytes(np.ones_like(pages).tobytes())

    def check(self) -> None:
        """Check that no page was met twice, and that each is one that there is."""
        starts, counts = np.frombuffer(self._starts, np.int64), np.frombuffer(self._counts, np.int64)
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], starts[order] + counts[order]
        twice = np.flatnonzero(starts[1:] < ends[:-1])
        if len(twice):
            self._snapshot.file.corrupt(f"page {starts[twice[0] + 1]} is used twice")
        last, there = self._snapshot.meta.last_page, self._snapshot.file.nbytes() // self._snapshot.meta.page_bytes
        beyond = int(np.sum(ends[ends > there] - np.maximum(starts[ends > there], there)))
        if last + 1 - there > beyond:  # those that are free and were never written may lack
            self._snapshot.file.corrupt(f"it tells of {last + 1} pages, {there} are there and {beyond} more are known")
        if len(starts) and (starts[0] < METAS or max(starts[-1], ends[-1] - 1) > last):
            self._snapshot.file.corrupt(f"it uses pages {starts[0]} to {ends[-1]}, and has pages {METAS} to {last}")


def _checked_leaves(walk: Walk, used: _Used | None) -> Iterator[Leaf]:
    """Yield the leaves of a tree, and check its large values and in the end its counts."""
    snapshot, tree = walk.snapshot, walk.tree
    pages = leaves = overflow = entries = 0

    def visit(number: int, page: bytes) -> None:
        nonlocal pages
        pages += 1
        if used is not None:
            used.add_page(number, page)

    walk.visit = visit
    for leaf in walk.leaves():
        leaves += 1
        entries += len(leaf.keys)
        overflow += _check_values(snapshot, leaf, used)
        yield leaf
    found = (pages - leaves, leaves, overflow, entries)
    told = (tree.branch_pages, tree.leaf_pages, tree.overflow_pages, tree.entries)
    if found != told:
        snapshot.file.corrupt(f"a tree has {found} branches, leaves, overflow pages and records, and tells of {told}")


def _check_values(snapshot: Snapshot, leaf: Leaf, used: _Used | None) -> int:
    """Check the values of a leaf that are not in it, and return how many pages they take."""
    total = 0
    for index, (flags, _, _) in enumerate(leaf.nodes):
        if not flags:
            continue
        if flags & DUPLICATES or flags == BIG | SUB_DB:
            snapshot.value(leaf, index)
            snapshot.file.corrupt(f"the record {leaf.keys[index]!r} has the flags {flags:#x}")
        if flags & BIG:
            first, count = snapshot.overflow(leaf, index)
            total += count
            if used is not None:
                used.add(first, count)
    return total


def _check_inner(snapshot: Snapshot, told: bytes, used: _Used) -> None:
    """Check a tree that is a record of the main one, as a database with a name is."""
    if len(told) != TREE.size:
        snapshot.file.corrupt(f"a database with a name is told of in {len(told)} bytes, not {TREE.size}")
    for _ in _checked_leaves(Walk(snapshot, Tree.at(told, 0)), used):
        pass
