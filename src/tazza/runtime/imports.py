"""Functions that a loaded library takes from others: which it calls, and how to let it call others.

The dynamic linker has written their addresses into a table of the library; a library that binds everything when it is
loaded has that table read-only after that. Only entries that hold the address that is expected are changed.

Source: System V ABI, chapter 5 (dynamic linking); AMD64 supplement 1.0, section 4.4 and 5.2; `link_map` of glibc, to
which a handle of `dlopen` points.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_STRTAB, _SYMTAB, _RELA, _RELASZ, _JMPREL, _PLTRELSZ = 5, 6, 7, 8, 23, 2
_DIRECT, _GLOB_DAT, _JUMP_SLOT = 1, 6, 7
_POINTERS = (_STRTAB, _SYMTAB, _RELA, _JMPREL)
_RELA_BYTES, _SYMBOL_BYTES = 24, 24
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


def imports_of(handle: int) -> Iterator[Import]:
    """Yield what a library of this process imports; `handle` is that of `dlopen`, as `ctypes.CDLL` has it."""
    base, _, dynamic = (ctypes.c_uint64 * 3).from_address(handle)
    # glibc has made addresses of the offsets in a section that it may write to, and left the others.
    found = {tag: value + base if tag in _POINTERS and value < base else value for tag, value in _pairs(dynamic)}
    for start, size in ((_RELA, _RELASZ), (_JMPREL, _PLTRELSZ)):
        if start not in found or size not in found:
            continue
        for at in range(found[start], found[start] + found[size], _RELA_BYTES):
            offset, info, _ = (ctypes.c_uint64 * 3).from_address(at)
            if info & 0xFFFFFFFF not in (_DIRECT, _GLOB_DAT, _JUMP_SLOT):
                continue
            symbol = ctypes.c_uint32.from_address(found[_SYMTAB] + (info >> 32) * _SYMBOL_BYTES).value
            yield Import(ctypes.string_at(found[_STRTAB] + symbol).decode(errors="replace"), base + offset)


def redirect(handle: int, changes: Mapping[str, tuple[int, int]]) -> bool:
    """Let a library call other functions: name -> (address that it has, address that it gets); all entries, or none.

    Returns whether they were changed: not where one holds another address than it should.

    Raises:
        OSError: the system does not let the table be written; it is as it was.
    """
    entries = [entry for entry in imports_of(handle) if entry.name in changes]
    if any(entry.address != changes[entry.name][0] for entry in entries):
        return False
    done: list[Import] = []
    try:
        for entry in entries:
            _write(entry.at, changes[entry.name][1])
            done.append(entry)
    except OSError:
        for entry in done:
            _write(entry.at, changes[entry.name][0])
        raise
    return True


def _pairs(dynamic: int) -> Iterator[tuple[int, int]]:
    tag = 1
    while tag:
        tag, value = (ctypes.c_uint64 * 2).from_address(dynamic)
        yield tag, value
        dynamic += 16


def _write(at: int, value: int) -> None:
    page, former = at & -mmap.PAGESIZE, _protection(at)
    if not former & mmap.PROT_WRITE:
        _protect(page, former | mmap.PROT_WRITE)
    ctypes.c_uint64.from_address(at).value = value  # aligned: whoever calls at this moment reads the old or the new one
    if not former & mmap.PROT_WRITE:
        _protect(page, former)


def _protection(at: int) -> int:
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            span, rights = line.split()[:2]
            first, end = (int(part, 16) for part in span.split("-"))
            if first <= at < end:
                return sum(bit for letter, bit in _PROT.items() if letter in rights)
    raise OSError(f"address {at:#x} is not mapped")


def _protect(page: int, rights: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(mmap.PAGESIZE), rights) != 0:
        raise OSError(ctypes.get_errno(), f"the table of imports at {page:#x} cannot be written")
