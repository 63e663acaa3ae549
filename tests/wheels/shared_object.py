"""A shared object without a compiler: functions that all answer the same, for libraries that want a driver to link to.

The file is one segment that holds what the loader of the system reads (a table of symbols, one bucket of a hash table,
names) and six bytes of code for x86-64. Source: System V ABI, chapters 4 and 5.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

BASE = 64 + 3 * 56
"""Bytes of the header, and of three headers of segments."""
_LOAD, _DYNAMIC, _STACK = 1, 2, 0x6474E551
_EXECUTE, _WRITE, _READ = 1, 2, 4
_HASH, _STRTAB, _SYMTAB, _STRSZ, _SYMENT, _SONAME = 4, 5, 6, 10, 11, 14
_GLOBAL_FUNCTION = 1 << 4 | 2


def shared_object(name: str, functions: Sequence[str], answer: int) -> bytes:
    """Return the file of a shared object called `name`, whose functions return `answer`.

    >>> len(shared_object("libnothing.so.1", ["f"], 100)) < 600
    True
    """
    code = struct.pack("<BI", 0xB8, answer) + b"\xc3"  # mov eax, answer; ret
    texts = b"\0" + b"".join(one.encode() + b"\0" for one in (name, *functions))
    places = [texts.index(b"\0" + one.encode() + b"\0") + 1 for one in (name, *functions)]
    count = len(functions) + 1
    chain = [0, *range(2, count), 0] if functions else [0]
    table = struct.pack(f"<{3 + count}I", 1, count, 1 if functions else 0, *chain)
    table += bytes(-len(table) % 8)
    symbols_at = BASE + len(table)
    texts_at = symbols_at + 24 * count
    code_at = texts_at + len(texts)
    symbols = bytes(24) + b"".join(
        struct.pack("<IBBHQQ", place, _GLOBAL_FUNCTION, 0, 1, code_at, len(code)) for place in places[1:]
    )
    body = table + symbols + texts + code
    body += bytes(-(BASE + len(body)) % 8)
    dynamic_at = BASE + len(body)
    entries = [
        (_SONAME, places[0]), (_HASH, BASE), (_STRTAB, texts_at), (_SYMTAB, symbols_at), (_STRSZ, len(texts)),
        (_SYMENT, 24), (0, 0),
    ]  # fmt: skip
    dynamic = b"".join(struct.pack("<QQ", *entry) for entry in entries)
    size = dynamic_at + len(dynamic)
    return _head() + _segments(size, dynamic_at, len(dynamic)) + body + dynamic


def _head() -> bytes:
    kind = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)  # 64 bits, little-endian
    return kind + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 3, 64, 0, 0)


def _segments(size: int, dynamic_at: int, dynamic_bytes: int) -> bytes:
    def segment(kind: int, flags: int, at: int, nbytes: int, alignment: int) -> bytes:
        return struct.pack("<IIQQQQQQ", kind, flags, at, at, at, nbytes, nbytes, alignment)

    return (
        segment(_LOAD, _READ | _WRITE | _EXECUTE, 0, size, 4096)
        + segment(_DYNAMIC, _READ | _WRITE, dynamic_at, dynamic_bytes, 8)
        + segment(_STACK, _READ | _WRITE, 0, 0, 16)
    )
