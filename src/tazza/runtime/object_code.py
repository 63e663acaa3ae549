"""Linking of compiled objects: a relocatable ELF file of ours becomes executable memory, without LLVM.

    address = load_object(code, "tazza_0123", {"GOMP_parallel": 140245098123264})

LLVM's own linker comes with all of LLVM: 49 MB of memory, and longer to import than most kernels take to be loaded and
run. What the cache holds needs little of it: a few sections, a handful of relocations. An object becomes one anonymous
mapping: its sections, then for each outside symbol that is not reached by a full address an entry of 16 bytes, which is
a jump (`call` reaches 2 GiB, libc may be farther) and the address that it jumps to (loads reach this one as in a global
offset table). The mapping is written first, and then made executable and read-only; it stays as long as the process.

Whatever is not known to be linked right is refused with `UnsupportedObject` before anything of it could run.

Source: System V ABI, AMD64 supplement 1.0, chapter 4 (object files, relocations).
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import platform
import re
import struct
import sys
from collections.abc import Iterator, Mapping

from tazza.data_class import dataclass
from tazza.errors import TazzaError
from tazza.runtime.cache import remembered

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_ELF64 = b"\x7fELF\x02\x01\x01"  # 64 bits, little endian, version 1
_RELOCATABLE, _X86_64 = 1, 62

_NULL, _PROGBITS, _SYMTAB, _STRTAB, _RELA, _NOTE = 0, 1, 2, 3, 4, 7
_UNWIND, _ADDRSIG = 0x70000001, 0x6FFF4C03
_UNLOADED_TYPES = {_NULL, _PROGBITS, _SYMTAB, _STRTAB, _RELA, _NOTE, _ADDRSIG}
_WRITE, _ALLOC, _EXECUTE, _MERGE, _STRINGS, _LARGE = 1, 2, 4, 0x10, 0x20, 0x10000000
_KNOWN_FLAGS = _WRITE | _ALLOC | _EXECUTE | _MERGE | _STRINGS | _LARGE
_WRITTEN_ONCE = re.compile(r"\.l?data\.rel\.ro(\..*)?")
"""Sections that are only written by the linker; nothing else can be, once the mapping is read-only."""

_UNDEFINED = 0
_NOTYPE, _OBJECT, _FUNC, _SECTION_SYMBOL = 0, 1, 2, 3

_R_64, _R_PC32, _R_PLT32, _R_GOTPCREL, _R_32S, _R_PC64 = 1, 2, 4, 9, 11, 24
_R_GOTPCRELX, _R_REX_GOTPCRELX = 41, 42
_THROUGH_TABLE = {_R_GOTPCREL, _R_GOTPCRELX, _R_REX_GOTPCRELX}
_RELATIVE = {_R_PC32, _R_PLT32, _R_PC64} | _THROUGH_TABLE
_FULL = {_R_64, _R_PC64}
_KNOWN_RELOCATIONS = {_R_32S} | _RELATIVE | _FULL

_ENTRY = struct.Struct("<6sxxQ")
_JUMP = b"\xff\x25\x02\x00\x00\x00"  # jmp *2(%rip): to the address in the second half of the entry
_ADDRESS_IN_ENTRY = 8
_FAILED = ctypes.c_void_p(-1).value


class UnsupportedObject(TazzaError):
    """An object that is damaged, or needs what this linker does not do; LLVM's own may take it."""


_OFFSETS = "_GLOBAL_OFFSET_TABLE_"
"""A symbol that linkers make themselves."""


def unavailable() -> str | None:
    """Return why no object can be linked in this process, or None."""
    if sys.platform == "linux" and platform.machine() == "x86_64" and sys.maxsize > 1 << 32:
        return None
    return f"objects are linked on 64-bit Linux for x86-64, this is {sys.platform} on {platform.machine()}"


def load_object(data: bytes, function: str, symbols: Mapping[str, int]) -> int:
    """Return the address of a global function of an object, ready to run.

    Args:
        data: the file, made by LLVM for this processor. Its code is trusted, its form is not.
        function: the name of the function.
        symbols: addresses of what the object takes from outside; those of libc and libm are known.

    Raises:
        UnsupportedObject: the file is damaged, has an unknown section flag, type or relocation, refers to an unknown
            symbol or to one too far away, lacks the function, or the system gives no executable memory.
    """
    reason = unavailable()
    if reason is not None:
        raise UnsupportedObject(reason)
    image = _Image(_Object(data), symbols)
    at = image.offset_of(function)
    libc, size = _libc(), -(-len(image.content) // mmap.PAGESIZE) * mmap.PAGESIZE
    base = libc.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    if base == _FAILED:
        raise UnsupportedObject(f"no memory of {size} bytes for code: errno {ctypes.get_errno()}")
    try:
        image.relocate(base)
        ctypes.memmove(base, bytes(image.content), len(image.content))
        if libc.mprotect(base, size, mmap.PROT_READ | mmap.PROT_EXEC) != 0:
            raise UnsupportedObject(f"memory cannot be made executable: errno {ctypes.get_errno()}")
    except BaseException:
        libc.munmap(base, size)
        raise
    return int(base) + at


@functools.cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.mmap.restype = ctypes.c_void_p
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return libc


@functools.cache
def _libraries() -> tuple[ctypes.CDLL, ...]:
    """What the process has loaded, which is libc at least, and libm; some systems have both in one."""
    try:
        return ctypes.CDLL(None), ctypes.CDLL("libm.so.6")
    except OSError:
        return (ctypes.CDLL(None),)


@remembered("addresses of libraries", entries=1024)
def _library_address(name: str) -> int | None:
    for library in _libraries():
        try:
            return ctypes.cast(library[name], ctypes.c_void_p).value
        except AttributeError:
            continue
    return None


def missing_symbols(data: bytes, symbols: Mapping[str, int]) -> list[str]:
    """Return what an object takes from outside that is neither among symbols with an address nor in libc or libm.

    Raises:
        UnsupportedObject: the file is none for this linker.
    """
    source = _Object(data)
    outside = [source.symbol_name(one) for one in source.symbols[1:] if one.section == _UNDEFINED]
    return [name for name in outside if name not in (*symbols, _OFFSETS) and _library_address(name) is None]


@dataclass(frozen=True, slots=True)
class _Section:
    name_at: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_bytes: int


@dataclass(frozen=True, slots=True)
class _Symbol:
    name_at: int
    info: int
    visibility: int
    section: int
    value: int
    size: int

    @property
    def type(self) -> int:
        return self.info & 15

    @property
    def is_local(self) -> bool:
        return self.info >> 4 == 0


@dataclass(frozen=True, slots=True)
class _Relocation:
    section: int
    offset: int
    type: int
    symbol: int
    addend: int


class _Object:
    """The tables of a file; every offset in them is checked before it is used."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.sections, names = self._read_sections()
        self.section_names = names
        tables = [number for number, section in enumerate(self.sections) if section.type == _SYMTAB]
        if len(tables) != 1:
            raise UnsupportedObject(f"the object has {len(tables)} symbol tables instead of 1")
        self._symbol_table = tables[0]
        table = self.sections[tables[0]]
        self._symbol_names = table.link
        self.symbols = [_Symbol(*fields) for fields in _SYMBOL.iter_unpack(self._table(table, _SYMBOL.size))]

    def _read_sections(self) -> tuple[list[_Section], int]:
        if len(self.data) < _HEADER.size:
            raise UnsupportedObject(f"the object has {len(self.data)} bytes, its header has {_HEADER.size}")
        identity, kind, machine, *_, start, _, _, _, _, size, count, names = _HEADER.unpack_from(self.data)
        if not identity.startswith(_ELF64) or kind != _RELOCATABLE or machine != _X86_64:
            raise UnsupportedObject("this is no relocatable ELF object for x86-64")
        if size != _SECTION.size or not 0 < names < count:
            raise UnsupportedObject(f"section headers have {size} bytes, names are in section {names} of {count}")
        headers = self._bytes(start, count * size, "section headers")
        return [_Section(*fields) for fields in _SECTION.iter_unpack(headers)], names

    def _bytes(self, start: int, size: int, what: str) -> bytes:
        if start + size > len(self.data):
            raise UnsupportedObject(f"{what} end at {start + size}, the object has {len(self.data)} bytes")
        return self.data[start : start + size]

    def _table(self, section: _Section, entry_bytes: int) -> bytes:
        if section.entry_bytes != entry_bytes or section.size % entry_bytes != 0:
            raise UnsupportedObject(
                f"a table of {section.size} bytes has entries of {section.entry_bytes} bytes instead of {entry_bytes}"
            )
        return self.content(section)

    def content(self, section: _Section) -> bytes:
        """Return the bytes of a section."""
        return self._bytes(section.offset, section.size, "contents of a section")

    def _text(self, section: int, at: int) -> str:
        if section >= len(self.sections) or self.sections[section].type != _STRTAB:
            raise UnsupportedObject(f"section {section} holds no names")
        strings = self.content(self.sections[section])
        end = strings.find(b"\0", at)
        if end < 0:
            raise UnsupportedObject(f"a name at {at} has no end within {len(strings)} bytes")
        try:
            return strings[at:end].decode("ascii")
        except UnicodeDecodeError:
            raise UnsupportedObject(f"a name is not ASCII: {strings[at:end]!r}") from None

    def section_name(self, section: _Section) -> str:
        """Return the name of a section."""
        return self._text(self.section_names, section.name_at)

    def symbol_name(self, symbol: _Symbol) -> str:
        """Return the name of a symbol."""
        return self._text(self._symbol_names, symbol.name_at)

    def loaded(self) -> list[int]:
        """Return the numbers of the sections that are needed at run time."""
        return [number for number, section in enumerate(self.sections) if self._is_loaded(section)]

    def _is_loaded(self, section: _Section) -> bool:
        if not section.flags & _ALLOC:
            if section.type not in _UNLOADED_TYPES:
                raise UnsupportedObject(f"a section has the unknown type {section.type:#x}")
            return False
        name = self.section_name(section)
        if section.type in (_NOTE, _UNWIND) or name == ".eh_frame":
            return False
        writable = bool(section.flags & _WRITE) and _WRITTEN_ONCE.fullmatch(name) is None
        if section.type != _PROGBITS or section.flags & ~_KNOWN_FLAGS or writable:
            raise UnsupportedObject(f"section {name!r} has the type {section.type:#x} and the flags {section.flags:#x}")
        alignment = section.alignment
        if alignment & (alignment - 1) or alignment > mmap.PAGESIZE:
            raise UnsupportedObject(f"section {name!r} is aligned to {alignment}, a page has {mmap.PAGESIZE} bytes")
        return True

    def relocations(self, loaded: Mapping[int, int]) -> Iterator[_Relocation]:
        """Yield what is to be done to the sections that are loaded."""
        for section in self.sections:
            if section.type != _RELA or section.info not in loaded:
                continue
            if section.link != self._symbol_table:
                raise UnsupportedObject(f"relocations are told with section {section.link}, which has no symbols")
            for offset, info, addend in _RELOCATION.iter_unpack(self._table(section, _RELOCATION.size)):
                yield self._checked(_Relocation(section.info, offset, info & 0xFFFFFFFF, info >> 32, addend))

    def _checked(self, found: _Relocation) -> _Relocation:
        size = self.sections[found.section].size
        if found.type not in _KNOWN_RELOCATIONS:
            raise UnsupportedObject(f"the relocation {found.type} is unknown")
        if found.symbol >= len(self.symbols):
            raise UnsupportedObject(f"a relocation is for symbol {found.symbol} of {len(self.symbols)}")
        if found.offset + (8 if found.type in _FULL else 4) > size:
            raise UnsupportedObject(f"a relocation is at {found.offset} in a section of {size} bytes")
        return found


class _Image:
    """What goes into the mapping; `content` holds it, and is right for one base address once it is relocated."""

    def __init__(self, source: _Object, symbols: Mapping[str, int]) -> None:
        self._source = source
        self._outside = symbols
        self.content = bytearray()
        self._starts: dict[int, int] = {}
        self._place_sections()
        self._relocations = list(source.relocations(self._starts))
        self._entries: dict[int, int] = {}
        self._place_entries()

    def _place_sections(self) -> None:
        total = 0
        for number in self._source.loaded():
            section = self._source.sections[number]
            total += section.size
            if total > len(self._source.data):
                raise UnsupportedObject("sections overlap in the object")
            self._align(max(1, section.alignment))
            self._starts[number] = len(self.content)
            self.content += self._source.content(section)

    def _place_entries(self) -> None:
        self._align(_ENTRY.size)
        for one in self._relocations:
            outside = self._source.symbols[one.symbol].section == _UNDEFINED
            if one.type in _THROUGH_TABLE or (one.type == _R_PLT32 and outside):
                self._entries.setdefault(one.symbol, len(self.content) + _ENTRY.size * len(self._entries))
        self.content += bytes(_ENTRY.size * len(self._entries))

    def _align(self, alignment: int) -> None:
        self.content += bytes(-len(self.content) % alignment)

    def offset_of(self, function: str) -> int:
        """Return where a global function of the object begins."""
        for symbol in self._source.symbols:
            if symbol.type != _FUNC or symbol.is_local or symbol.section not in self._starts:
                continue
            executable = self._source.sections[symbol.section].flags & _EXECUTE
            if executable and self._source.symbol_name(symbol) == function:
                if symbol.value >= self._source.sections[symbol.section].size:
                    raise UnsupportedObject(f"the function {function!r} lies outside of its section")
                return self._starts[symbol.section] + symbol.value
        raise UnsupportedObject(f"the object has no function {function!r}")

    def relocate(self, base: int) -> None:
        """Fill in the addresses for a mapping that begins at `base`."""
        addresses = {number: self._address(number, base) for number in {one.symbol for one in self._relocations}}
        for number, at in self._entries.items():
            _ENTRY.pack_into(self.content, at, _JUMP, addresses[number])
        for one in self._relocations:
            at = self._starts[one.section] + one.offset
            target = addresses[one.symbol]
            if one.type in _THROUGH_TABLE:
                target = base + self._entries[one.symbol] + _ADDRESS_IN_ENTRY
            elif one.symbol in self._entries and one.type == _R_PLT32:
                target = base + self._entries[one.symbol]
            self._write(at, one.type, target + one.addend - (base + at if one.type in _RELATIVE else 0))

    def _write(self, at: int, type: int, value: int) -> None:
        if type in _FULL:
            struct.pack_into("<Q", self.content, at, value % (1 << 64))
        elif -(1 << 31) <= value < 1 << 31:
            struct.pack_into("<i", self.content, at, value)
        else:
            raise UnsupportedObject(f"the relocation {type} wants {value:#x} in 32 bits")

    def _address(self, number: int, base: int) -> int:
        symbol = self._source.symbols[number]
        if symbol.type not in (_NOTYPE, _OBJECT, _FUNC, _SECTION_SYMBOL):
            raise UnsupportedObject(f"a symbol has the unknown type {symbol.type}")
        if symbol.section == _UNDEFINED:
            return self._outside_address(self._source.symbol_name(symbol))
        start = self._starts.get(symbol.section)
        if start is None:
            raise UnsupportedObject(f"a symbol lies in section {symbol.section}, which is not loaded")
        size = self._source.sections[symbol.section].size
        if symbol.value > size:
            raise UnsupportedObject(f"a symbol lies at {symbol.value} in a section of {size} bytes")
        return base + start + symbol.value

    def _outside_address(self, name: str) -> int:
        found = self._outside.get(name)
        if found is None:
            found = _library_address(name)
        if found is None:
            raise UnsupportedObject(f"the symbol {name!r} is unknown", hint="give its address with the symbols")
        return found
