"""The pages of an LMDB's data file, read without its library and checked before they are believed.

The library trusts what it maps: on a page that is not what it should be it ends the process. So records are read here,
page by page with `pread`, and every number of a page is checked before it is used. What is found is right or a DBError,
whatever the file holds, and however long it is: only pages that are reached are read.

A tree (one of free pages, one of records) is known by its root. Pages are branches, whose nodes are a key and the
number of a child, or leaves, whose nodes are a key and a value, or the number of a run of overflow pages that holds it.
The keys of a child lie between its own key in the branch and the next one, so that a walk that checks this cannot go
round in circles or meet a page twice.

Integers are in the machine's order. Two pages at the start (metas) describe the last two commits; the one of the later
transaction counts. Source: mdb.c of LMDB 0.9 (data version 1), comments on MDB_page, MDB_node, MDB_db and MDB_meta.
"""

from __future__ import annotations

import operator
import os
import struct
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from tazza.data_class import dataclass
from tazza.errors import DBError, FileError
from tazza.runtime.files import open_regular

MAGIC, VERSION = 0xBEEFC0DE, 1
METAS = 2
NO_PAGE = 2**64 - 1
LEVELS_MAX = 32
PAGE_BYTES_MIN, PAGE_BYTES_MAX = 256, 0x8000
MAP_BYTES_MAX = 2**46
"""Most bytes that pages may be numbered for; half of what an address reaches, so that the library can map them."""

BRANCH, LEAF, OVERFLOW, META = 1, 2, 4, 8
BIG, SUB_DB, DUPLICATES = 1, 2, 4
REVERSE_KEY, DUP_SORT, INTEGER_KEY = 0x02, 0x04, 0x08
DUP_FLAGS = DUP_SORT | 0x10 | 0x20 | 0x40

HEADER = struct.Struct("=QHHHH")  # page number, pad, flags, lower, upper
_META = struct.Struct("=IIQQ")  # magic, version, address, bytes of the map; then two trees
TREE = struct.Struct("=IHHQQQQQ")
_LAST = struct.Struct("=QQ")  # last page, transaction
NODE = struct.Struct("=HHHH")  # size of the value or number of the child, low and high; flags; length of the key
NUMBER = struct.Struct("=Q")
_PAGES_AT = 12

Key = Any
"""What keys are compared by: the bytes themselves unless the tree says otherwise."""


@dataclass(frozen=True, slots=True)
class Tree:
    """What the file says of a tree: `pad` is the size of a page in the one of free pages."""

    pad: int
    flags: int
    depth: int
    branch_pages: int
    leaf_pages: int
    overflow_pages: int
    entries: int
    root: int

    @classmethod
    def at(cls, data: bytes, offset: int) -> Tree:
        """Return what stands at an offset."""
        return cls(*TREE.unpack_from(data, offset))

    def order(self) -> Callable[[bytes], Key] | None:
        """Return what makes keys comparable; None where they are as they stand."""
        if self.flags & REVERSE_KEY:
            return lambda key: key[::-1]
        if self.flags & INTEGER_KEY:
            return lambda key: int.from_bytes(key, sys.byteorder)
        return None


@dataclass(frozen=True, slots=True)
class Meta:
    """A commit: its trees, the last page that was ever used, and the number of its transaction."""

    page_bytes: int
    map_bytes: int
    free: Tree
    main: Tree
    last_page: int
    transaction: int


Node = tuple[int, int, int]
"""A value in a leaf: flags, where its bytes (or the number of the page that they start at) are, and how many."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A page of records, with its keys in order."""

    page: bytes
    keys: list[bytes]
    nodes: list[Node]


@dataclass(frozen=True, slots=True)
class Branch:
    """A page of children: that with the number `children[i]` has keys from `keys[i]` to before `keys[i + 1]`."""

    keys: list[Key]
    children: list[int]


class DataFile:
    """An open data file, and what every reader of it checks."""

    def __init__(self, path: str, name: str) -> None:
        """Open the file and check both metas.

        Raises:
            DBError: it cannot be opened, or is no LMDB of this machine.
        """
        self.name = name
        try:
            self._file = open_regular(path, "LMDB")
        except FileError as error:
            raise DBError(f"{name}: {error.message}", hint=error.hint) from error
        try:
            self.metas()
        except BaseException:
            self._file.close()
            raise

    def close(self) -> None:
        """Close the file; closing twice is allowed."""
        self._file.close()

    def nbytes(self) -> int:
        """Return the length of the file."""
        return os.fstat(self._file.fileno()).st_size

    def corrupt(self, why: str) -> NoReturn:
        """Refuse the file.

        Raises:
            DBError: always.
        """
        raise DBError(f"{self.name} is corrupt: {why}", hint="copy the file again from where it came")

    def read(self, offset: int, nbytes: int) -> bytes:
        """Return bytes of the file.

        Raises:
            DBError: they are not there.
        """
        parts: list[bytes] = []
        missing = nbytes
        while missing > 0:
            try:
                part = os.pread(self._file.fileno(), missing, offset)
            except (OSError, OverflowError) as error:
                raise DBError(f"{self.name}: cannot read {nbytes} bytes at {offset}: {error}") from error
            if not part:
                self.corrupt(f"{nbytes} bytes are wanted up to byte {offset + missing}, it has {self.nbytes()}")
            parts.append(part)
            offset, missing = offset + len(part), missing - len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def metas(self) -> tuple[Meta, Meta]:
        """Read and check both metas.

        Raises:
            DBError: one of them is not what it should be.
        """
        first = self._meta(0, 0)
        second = self._meta(1, first.page_bytes)
        if first.page_bytes != second.page_bytes:
            self.corrupt(f"its metas have pages of {first.page_bytes} and of {second.page_bytes} bytes")
        if first.transaction == second.transaction != 0:
            self.corrupt(f"both metas are of transaction {first.transaction}")
        return first, second

    def check_length(self) -> None:
        """Check that all pages in use are still there, as far as the file's length tells.

        Raises:
            DBError: the file was cut, or replaced by another one in its place.
        """
        used = max((meta.last_page + 1) * meta.page_bytes for meta in self.metas())
        if self.nbytes() < used:
            self.corrupt(f"{used} bytes are in use, it has {self.nbytes()}")

    def meta_of(self, transaction: int) -> Meta | None:
        """Return the meta of a transaction, or None when later ones have taken its place."""
        found = [meta for meta in self.metas() if meta.transaction == transaction]
        return found[-1] if found else None

    def _meta(self, number: int, offset: int) -> Meta:
        length = HEADER.size + _META.size + 2 * TREE.size + _LAST.size
        data = self.read(offset, length)
        page, _, flags, _, _ = HEADER.unpack_from(data)
        magic, version, _, map_bytes = _META.unpack_from(data, HEADER.size)
        trees = HEADER.size + _META.size
        free, main = Tree.at(data, trees), Tree.at(data, trees + TREE.size)
        last_page, transaction = _LAST.unpack_from(data, trees + 2 * TREE.size)
        if magic != MAGIC or page != number or not flags & META:
            self.corrupt(
                f"page {number} is no meta of this machine (magic {magic:#x}, number {page}, flags {flags:#x})"
            )
        if version != VERSION:
            raise DBError(
                f"{self.name} has data version {version}, and version {VERSION} is read", hint="copy it with mdb_copy"
            )
        size = free.pad
        if size & (size - 1) or not PAGE_BYTES_MIN <= size <= PAGE_BYTES_MAX:
            self.corrupt(f"meta {number} tells of pages of {size} bytes")
        if not METAS - 1 <= last_page < MAP_BYTES_MAX // size or map_bytes > MAP_BYTES_MAX:
            self.corrupt(f"meta {number} tells of {last_page} pages in a map of {map_bytes} bytes")
        if transaction and transaction % METAS != number:
            self.corrupt(f"meta {number} is of transaction {transaction}")
        return Meta(size, map_bytes, free, main, last_page, transaction)


class Snapshot:
    """The pages of one commit."""

    def __init__(self, file: DataFile, meta: Meta) -> None:
        self.file = file
        self.meta = meta

    def page(self, number: int) -> tuple[bytes, int]:
        """Return a page of a tree and its flags.

        Raises:
            DBError: there is none of this number.
        """
        self._check_number(number, 1)
        size = self.meta.page_bytes
        page = self.file.read(number * size, size)
        stored, _, flags, _, _ = HEADER.unpack_from(page)
        if stored != number:
            self.file.corrupt(f"page {number} has the number {stored}")
        return page, flags

    def offsets(self, page: bytes, number: int) -> tuple[int, ...]:
        """Return where the nodes of a page begin.

        Raises:
            DBError: outside of it, or there are none.
        """
        lower, upper = HEADER.unpack_from(page)[3:]
        count = (lower - HEADER.size) >> 1
        if not HEADER.size <= lower <= upper <= len(page) or count < 1:
            self.file.corrupt(f"page {number} has nodes from {upper} and their list up to {lower}")
        found: tuple[int, ...] = struct.unpack_from(f"={count}H", page, HEADER.size)
        if min(found) < upper or max(found) + NODE.size > len(page):
            self.file.corrupt(f"page {number} has a node outside of its bytes {upper} to {len(page)}")
        return found

    def leaf(self, page: bytes, number: int) -> Leaf:
        """Return the records of a leaf.

        Raises:
            DBError: one reaches beyond its page.
        """
        keys: list[bytes] = []
        nodes: list[Node] = []
        size, unpack, start, taken = len(page), NODE.unpack_from, NODE.size, 0
        for at in self.offsets(page, number):
            low, high, flags, key_bytes = unpack(page, at)
            value, nbytes = at + start + key_bytes, low | high << 16
            end = value + (NUMBER.size if flags & BIG else nbytes)
            if end > size:
                self.file.corrupt(f"a record at byte {at} of page {number} ends beyond it")
            taken += (end - at + 1) & ~1
            keys.append(page[at + start : value])
            nodes.append((flags, value, nbytes))
        self._check_taken(page, number, taken)
        return Leaf(page, keys, nodes)

    def branch(self, page: bytes, number: int, order: Callable[[bytes], Key] | None) -> Branch:
        """Return the children of a branch; the first key says nothing and is None.

        Raises:
            DBError: a key reaches beyond its page.
        """
        keys: list[Key] = []
        children: list[int] = []
        taken = 0
        for at in self.offsets(page, number):
            low, high, flags, key_bytes = NODE.unpack_from(page, at)
            start = at + NODE.size
            if start + key_bytes > len(page):
                self.file.corrupt(f"a key at byte {at} of page {number} ends beyond it")
            key = page[start : start + key_bytes]
            keys.append(key if order is None else order(key))
            children.append(low | high << 16 | flags << 32)
            taken += (NODE.size + key_bytes + 1) & ~1
        self._check_taken(page, number, taken)
        keys[0] = None
        return Branch(keys, children)

    def value(self, leaf: Leaf, index: int) -> bytes:
        """Return the value of a record.

        Raises:
            DBError: its pages are not what they should be, or the key has several values.
        """
        flags, at, nbytes = leaf.nodes[index]
        if not flags & (DUPLICATES | BIG):
            return leaf.page[at : at + nbytes]
        if flags & DUPLICATES:
            raise DBError(
                f"{self.file.name} has several values for the key {leaf.keys[index]!r}",
                hint="copy it into a database with one value for each key",
            )
        first, _ = self.overflow(leaf, index)
        return self.file.read(first * self.meta.page_bytes + HEADER.size, nbytes)

    def overflow(self, leaf: Leaf, index: int) -> tuple[int, int]:
        """Return the first page of a large value, and how many there are.

        Raises:
            DBError: they are something else, or beyond the end.
        """
        (_, at, nbytes), size = leaf.nodes[index], self.meta.page_bytes
        first = NUMBER.unpack_from(leaf.page, at)[0]
        count = (HEADER.size - 1 + nbytes) // size + 1
        self._check_number(first, count)
        if first * size + HEADER.size + nbytes > self.file.nbytes():
            self.file.corrupt(f"a value of {nbytes} bytes from page {first} ends beyond the file")
        head = self.file.read(first * size, HEADER.size)
        stored, _, flags, _, _ = HEADER.unpack(head)
        pages = int.from_bytes(head[_PAGES_AT:], sys.byteorder)
        if stored != first or flags != OVERFLOW or pages != count:
            self.file.corrupt(f"page {first} begins no value of {count} pages (number {stored}, {flags:#x}, {pages})")
        return first, count

    def _check_taken(self, page: bytes, number: int, taken: int) -> None:
        """Check that nodes, each of an even length, fill a page from where they begin to its end."""
        room = len(page) - HEADER.unpack_from(page)[4]
        if taken != room:
            self.file.corrupt(f"the nodes of page {number} have {taken} bytes in the {room} that they lie in")

    def _check_number(self, first: int, count: int) -> None:
        if first < METAS or first + count - 1 > self.meta.last_page:
            self.file.corrupt(f"it refers to page {first}, and has pages {METAS} to {self.meta.last_page}")


@dataclass(frozen=True, slots=True)
class _Level:
    branch: Branch
    index: int
    low: Key
    high: Key

    def bounds(self) -> tuple[Key, Key]:
        """Return what the keys of the child lie between; None for no bound."""
        keys, index = self.branch.keys, self.index
        return keys[index] if index else self.low, keys[index + 1] if index + 1 < len(keys) else self.high


class Walk:
    """A position in a tree of a snapshot: a record of a leaf, and the branches above it."""

    def __init__(self, snapshot: Snapshot, tree: Tree) -> None:
        """Check what the tree says of itself.

        Raises:
            DBError: it cannot be so, or it holds several values for a key.
        """
        self.snapshot = snapshot
        self.tree = tree
        self.leaf: Leaf | None = None
        self.index = 0
        self.visit: Callable[[int, bytes], object] | None = None
        """Is told number and content of each page that is read."""
        self._order = tree.order()
        self._levels: list[_Level] = []
        if tree.flags & DUP_FLAGS:
            raise DBError(
                f"{snapshot.file.name} may have several values for a key (flags {tree.flags:#x})",
                hint="copy it into a database with one value for each key",
            )
        if (tree.root == NO_PAGE) != (tree.depth == 0) or tree.depth > LEVELS_MAX:
            snapshot.file.corrupt(f"a tree of {tree.depth} levels has the root {tree.root}")

    def first(self) -> bytes | None:
        """Go to the first record and return its key, None if there is none."""
        self._levels = []
        return None if self.tree.depth == 0 else self._descend(self.tree.root, None, None, None)

    def seek(self, key: bytes) -> bytes | None:
        """Go to the first record with this key or a later one, and return its key."""
        self._levels = []
        if self.tree.depth == 0:
            return None
        wanted = key if self._order is None else self._order(key)
        self._descend(self.tree.root, None, None, wanted)
        assert self.leaf is not None, "a leaf was reached"
        keys = self._ordered(self.leaf)
        self.index = _first_from(keys, wanted)
        return self._climb() if self.index == len(keys) else self.leaf.keys[self.index]

    def next(self) -> bytes | None:
        """Go to the record behind the current one and return its key; None beyond the last."""
        if self.leaf is None:
            return None
        self.index += 1
        return self.leaf.keys[self.index] if self.index < len(self.leaf.keys) else self._climb()

    def step(self) -> bytes | None:
        """Do as `next` where that reads nothing; else return None and stay."""
        leaf, index = self.leaf, self.index + 1
        if leaf is None or index >= len(leaf.keys):
            return None
        self.index = index
        return leaf.keys[index]

    def held(self) -> bytes | None:
        """Return the value of the current record if it lies in its leaf, else None."""
        if self.leaf is None:
            return None
        flags, at, nbytes = self.leaf.nodes[self.index]
        return None if flags & (DUPLICATES | BIG) else self.leaf.page[at : at + nbytes]

    def value(self) -> bytes:
        """Return the value of the current record."""
        assert self.leaf is not None, "there is a current record"
        return self.snapshot.value(self.leaf, self.index)

    def leaves(self) -> Iterator[Leaf]:
        """Yield all leaves in order."""
        self.first()
        while self.leaf is not None:
            yield self.leaf
            self._climb()

    def _climb(self) -> bytes | None:
        """Go to the first record of the next leaf."""
        self.leaf = None
        while self._levels:
            level = self._levels.pop()
            if level.index + 1 < len(level.branch.children):
                level = _Level(level.branch, level.index + 1, level.low, level.high)
                self._levels.append(level)
                return self._descend(level.branch.children[level.index], *level.bounds(), None)
        return None

    def _descend(self, number: int, low: Key, high: Key, wanted: Key) -> bytes:
        """Go down to a leaf: to the first one, or to that which would hold `wanted`; return its first key."""
        file = self.snapshot.file
        self.leaf = None
        while True:
            page, flags = self.snapshot.page(number)
            if self.visit is not None:
                self.visit(number, page)
            at_leaf = len(self._levels) + 1 == self.tree.depth
            if flags != (LEAF if at_leaf else BRANCH):
                file.corrupt(f"page {number} on level {len(self._levels) + 1} of {self.tree.depth} is {flags:#x}")
            if at_leaf:
                self.leaf, self.index = self.snapshot.leaf(page, number), 0
                self._check_keys(self._ordered(self.leaf), low, high, number)
                return self.leaf.keys[0]
            branch = self.snapshot.branch(page, number, self._order)
            self._check_keys(branch.keys[1:], low, high, number)
            index = 0 if wanted is None else _first_from(branch.keys[1:], wanted, equal_counts=False)
            level = _Level(branch, index, low, high)
            self._levels.append(level)
            number, (low, high) = branch.children[index], level.bounds()

    def _ordered(self, leaf: Leaf) -> list[Key]:
        return leaf.keys if self._order is None else [self._order(key) for key in leaf.keys]

    def _check_keys(self, keys: list[Key], low: Key, high: Key, number: int) -> None:
        if not keys:
            return
        ascending = all(map(operator.lt, keys, keys[1:]))
        if not ascending or (low is not None and keys[0] < low) or (high is not None and not keys[-1] < high):
            self.snapshot.file.corrupt(f"the keys of page {number} are not in the order of the tree")


def _first_from(keys: list[Key], wanted: Key, *, equal_counts: bool = True) -> int:
    """Return the index of the first key that is at least `wanted`, or above it; the number of keys if none is."""
    return bisect_left(keys, wanted) if equal_counts else bisect_right(keys, wanted)
