"""Functions that a loaded library takes from others: which it calls, and how to let it call others.

The dynamic linker has written their addresses into a table of the library; a library that binds everything when it is
loaded has that table read-only after that. Either every entry of the wanted names holds the address that is expected,
and all are changed, or none is.

Source: System V ABI, chapter 5 (dynamic linking); AMD64 supplement 1.0, section 4.4 and 5.2; `link_map` of glibc, to
which a handle of `dlopen` points.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tazza.data_class import dataclass

_STRTAB, _STRSZ, _SYMTAB, _RELA, _RELASZ, _JMPREL, _PLTRELSZ = 5, 10, 6, 7, 8, 23, 2
_DIRECT, _GLOB_DAT, _JUMP_SLOT = 1, 6, 7
_POINTERS = (_STRTAB, _SYMTAB, _RELA, _JMPREL)
_RELA_BYTES, _SYMBOL_BYTES = 24, 24
_SECTION = 3  # of a symbol, in words of 16 bits: 0 for those of other libraries
_PROT = {"r": mmap.PROT_READ, "w": mmap.PROT_WRITE, "x": mmap.PROT_EXEC}


@dataclass(frozen=True, slots=True)
class Import:
    """One entry of the table: the name of the function, and where its address is kept."""

    name: str
    at: int

    @property
    def address(self) -> int:
        """What is called now."""
        return ctypes.c_uint64.from_address(self.at).value


def imports_of(handle: int, *beginnings: str) -> Iterator[Import]:
    """Yield what a library of this process imports; `handle` is that of `dlopen`, as `ctypes.CDLL` has it.

    `beginnings`: only functions whose names begin with one of these; of all without them.
    """
    base, _, dynamic = (ctypes.c_uint64 * 3).from_address(handle)
    # glibc has made addresses of the offsets in a section that it may write to, and left the others.
    found = {tag: value + base if tag in _POINTERS and value < base else value for tag, value in _pairs(dynamic)}
    for start, size in ((_RELA, _RELASZ), (_JMPREL, _PLTRELSZ)):
        if start not in found or size not in found:
            continue
        # At once: a large library has 100,000 entries, nearly all of other kinds, or for symbols of its own.
        words = _array(found[start], np.uint64, found[size] // _RELA_BYTES, 3)
        words = words[np.isin(words[:, 1] & 0xFFFFFFFF, (_DIRECT, _GLOB_DAT, _JUMP_SLOT))]
        indices = words[:, 1] >> 32
        symbols = _array(found[_SYMTAB], np.uint16, int(indices.max(initial=0)) + 1, _SYMBOL_BYTES // 2)[indices]
        outside = symbols[:, _SECTION] == 0
        places = symbols[outside, 0] + (symbols[outside, 1].astype(np.uint64) << 16)
        wanted = _begin(_array(found[_STRTAB], np.uint8, found[_STRSZ], 1)[:, 0], places, beginnings or ("",))
        for place, offset in zip(places[wanted].tolist(), words[outside, 0][wanted].tolist(), strict=True):
            yield Import(ctypes.string_at(found[_STRTAB] + place).decode(errors="replace"), base + offset)


def _begin(
    strings: npt.NDArray[np.uint8], places: npt.NDArray[np.uint64], beginnings: Sequence[str]
) -> npt.NDArray[np.bool_]:
    """Return for each place in a table of strings whether what is there begins with one of the given texts."""
    found = np.zeros(len(places), bool)
    for beginning in beginnings:
        letters = np.frombuffer(beginning.encode(), np.uint8)
        there = np.minimum(places[:, None] + np.arange(len(letters), dtype=np.uint64), len(strings) - 1)
        found |= (strings[there] == letters).all(axis=1)
    return found


def _array(address: int, kind: type[np.unsignedinteger[Any]], rows: int, width: int) -> npt.NDArray[Any]:
    content = (ctypes.c_uint8 * (rows * width * np.dtype(kind).itemsize)).from_address(address)
    return np.ctypeslib.as_array(content).view(kind).reshape(rows, width)


def redirect(imports: Iterable[Import], changes: Mapping[str, tuple[int, int]]) -> bool:
    """Let the library of these imports call other functions; all entries that are named are changed, or none.

    Args:
        imports: what `imports_of` yields, or some of it.
        changes: name -> (address that it has, address that it gets).

    Returns whether they were changed: not where one holds another address than it should.

    Raises:
        OSError: the system does not let the table be written; it is as it was.
    """
    entries = [entry for entry in imports if entry.name in changes]
    if any(entry.address != changes[entry.name][0] for entry in entries):
        return False
    pages = sorted({entry.at & -mmap.PAGESIZE for entry in entries})
    locked = [
        (page, rights) for page, rights in zip(pages, _rights(pages), strict=True) if not rights & mmap.PROT_WRITE
    ]
    opened: list[tuple[int, int]] = []
    try:
        for page, rights in locked:
            _protect(page, rights | mmap.PROT_WRITE)
            opened.append((page, rights))
        for entry in entries:  # aligned: whoever calls at this moment reads the old address or the new one
            ctypes.c_uint64.from_address(entry.at).value = changes[entry.name][1]
    finally:
        for page, rights in opened:
            _protect(page, rights)
    return True


def _pairs(dynamic: int) -> Iterator[tuple[int, int]]:
    tag = 1
    while tag:
        tag, value = (ctypes.c_uint64 * 2).from_address(dynamic)
        yield tag, value
        dynamic += 16


def _rights(pages: Sequence[int]) -> list[int]:
    """Return what may be done with pages, in the order given."""
    spans: list[tuple[int, int, str]] = []
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            span, rights, _ = line.split(None, 2)
            first, end = span.split("-")
            spans.append((int(first, 16), int(end, 16), rights))
    found = (next(rights for first, end, rights in spans if first <= page < end) for page in pages)
    return [sum(bit for letter, bit in _PROT.items() if letter in rights) for rights in found]


def _protect(page: int, rights: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(mmap.PAGESIZE), rights) != 0:
        raise OSError(ctypes.get_errno(), f"the table of imports at {page:#x} cannot be written")
