"""Mutations of bytes: of any, of messages on the wire, of text."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from tests.fuzz import extremes

INTERESTING = (
    b"\0",
    b"\xff",
    b"\x7f",
    b"\x80",
    b"\0\0\0\0",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\x7f",
    b"\0\0\0\x80",
    b"\xff" * 8,
    b"\xff" * 9 + b"\x01",
    b"\x01\0\0\0",
    b"PK\x03\x04",
)
VARINTS = (0, 1, 5, 127, 128, 2**14, 2**21, 2**28, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**63, 2**64 - 1)
LENGTH_MAX = 1 << 20


def damage(draw: Random, data: bytes, other: bytes) -> bytes:
    """Return `data` after a few changes of its bytes; `other` is of the same kind."""
    made = bytearray(data)
    for _ in range(draw.choice((1, 1, 1, 2, 3, 8))):
        _damage_once(draw, made, other)
    return bytes(made[:LENGTH_MAX])


def _damage_once(draw: Random, made: bytearray, other: bytes) -> None:
    how = draw.randrange(9)
    at = draw.randrange(len(made) + 1)
    to = min(len(made), at + draw.choice((1, 1, 2, 4, 8, 40, 1000)))
    if how == 0 and at < len(made):
        made[at] ^= 1 << draw.randrange(8)
    elif how == 1 and at < len(made):
        made[at] = draw.randrange(256)
    elif how == 2:
        del made[at:]
    elif how == 3:
        del made[at:to]
    elif how == 4:
        made[at:at] = made[at:to]
    elif how == 5:
        start = draw.randrange(len(other) + 1)
        made[at:to] = other[start : start + draw.choice((1, 4, 30, 500))]
    elif how == 6:
        value = draw.choice(INTERESTING)
        made[at : at + len(value)] = value
    elif how == 7:
        made[at:at] = draw.randbytes(draw.choice((1, 2, 8, 50)))
    elif how == 8 and len(made) >= 4:
        at = min(at, len(made) - 4)
        made[at : at + 4] = (draw.choice(extremes.INTS) % 2**32).to_bytes(4, draw.choice(("little", "big")))


# -- messages on the wire ----------------------------------------------------------------------------------------------


def damage_message(draw: Random, data: bytes, other: bytes) -> bytes:
    """Return a message after changes of its fields: doubled, left out, of another type or number, nested."""
    made = data
    for _ in range(draw.choice((1, 1, 2, 4))):
        made = _damage_fields(draw, made, other, 0)
    return made[:LENGTH_MAX]


def _damage_fields(draw: Random, data: bytes, other: bytes, depth: int) -> bytes:
    fields = [*fields_of(data)]
    if not fields:
        return damage(draw, data, other)
    position = draw.randrange(len(fields))
    number, wire, content = fields[position]
    how = draw.randrange(8)
    if how < 3 and wire == 2 and depth < 8:
        fields[position] = (number, wire, _damage_fields(draw, content, other, depth + 1))
    elif how == 3:
        fields.insert(draw.randrange(len(fields)), fields[position])
    elif how == 4:
        del fields[position]
    elif how == 5:
        fields[position] = (draw.choice((number, 1, 2, 5, 8, 9, 15, 16, 2**29 - 1, 0)), draw.randrange(8), content)
    elif how == 6 and wire == 0:
        fields[position] = (number, wire, varint(draw.choice(VARINTS)))
    elif how == 7 and wire == 2:
        fields[position] = (number, wire, _nested(content, number, draw.choice((3, 30, 99, 101, 2000))))
    else:
        fields[position] = (number, wire, damage(draw, content, other))
    return b"".join(written(*field) for field in fields)


def _nested(content: bytes, number: int, depth: int) -> bytes:
    for _ in range(depth):
        content = written(number, 2, content)
        if len(content) > LENGTH_MAX // 4:
            break
    return content


def fields_of(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield number, wire type and content of the fields of a message, until something else comes."""
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _read_varint(data, at)
            content = varint(value)
        elif wire in (1, 5):
            width = 8 if wire == 1 else 4
            content, at = data[at : at + width], at + width
        elif wire == 2:
            length, at = _read_varint(data, at)
            content, at = data[at : at + length], at + length
        else:
            return
        yield number, wire, content


def written(number: int, wire: int, content: bytes) -> bytes:
    """Return a field as it stands on the wire."""
    head = varint(number << 3 | wire)
    return head + varint(len(content)) + content if wire == 2 else head + content


def varint(value: int) -> bytes:
    """Return a number in groups of seven bits, the lowest first."""
    made = bytearray()
    value &= 2**64 - 1
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    made.append(value)
    return bytes(made)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            break
    return value, at


# -- text --------------------------------------------------------------------------------------------------------------

WORDS = (
    b"op {",
    b"}",
    b"{",
    b'"',
    b"'",
    b":",
    b"nan",
    b"inf",
    b"-inf",
    b"-1",
    b"9223372036854775808",
    b"1e999",
    b"[",
    b"]",
    b"#",
    b"\\",
    b"\\xff",
    b"\\0",
    b"<",
    b">",
    b"\n",
    b"true",
    b"arg { n {",
    b"type: 3",
    b"any [a.b/c] {}",
    b"\xff",
    b"\xc3\xbc",
    b"0x",
    b"07",
    b"1.5f",
)


def damage_text(draw: Random, data: bytes, other: bytes) -> bytes:
    """Return a text after changes of bytes, words or lines."""
    for _ in range(draw.choice((1, 1, 2, 4))):
        how = draw.randrange(5)
        if how == 0:
            data = damage(draw, data, other)
            continue
        lines = data.split(b"\n")
        at = draw.randrange(len(lines))
        if how == 1:
            lines[at] = lines[at].replace(draw.choice((b'"', b":", b"{", b"}", b" ")), draw.choice(WORDS), 1)
        elif how == 2:
            words = lines[at].split(b" ")
            words[draw.randrange(len(words))] = draw.choice(WORDS)
            lines[at] = b" ".join(words)
        elif how == 3:
            lines[at:at] = draw.choice(other.split(b"\n")).split(b"\n") * draw.choice((1, 2, 50))
        else:
            depth = draw.choice((2, 50, 99, 101, 3000))
            lines[at:at] = [b"op { arg { n { " * depth + b"} } } " * depth]
        data = b"\n".join(lines)
    return data[:LENGTH_MAX]
