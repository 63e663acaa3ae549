"""Reading and writing messages with checks: binary or text, from bytes or files.

Parsing executes nothing and opens no other file. It holds the bytes and the message made from them, whose size is
bounded by a constant times the number of bytes; a file that is too long for a message is refused before it is read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol, TypeVar, cast

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from tazza.errors import FormatError
from tazza.runtime.files import one_line, open_regular, reading, shown, write_bytes_atomically

TEXT_SUFFIXES = frozenset({".pbtxt", ".prototxt", ".txt"})
BYTES_MAX = 2**31 - 1
"""Longest message that the wire format allows, in bytes."""
DEPTH_MAX = 100
"""Messages within messages that readers of the binary form follow; the text form knows no such limit of its own."""

MessageT = TypeVar("MessageT", bound=Message)


class _Required(Protocol):
    """What every message has beside what its type stubs declare."""

    def FindInitializationErrors(self) -> list[str]:
        """Return the paths of the required fields that are missing."""
        ...


def parse(message_type: type[MessageT], data: bytes, source: str) -> MessageT:
    """Parse `data`, the binary form of a message; `source` says in errors where the bytes came from.

    Raises:
        FormatError: the bytes are truncated or something else, a required field is missing, or a string is not UTF-8.

    >>> from tazza.proto import NetDef
    >>> parse(NetDef, bytes([10, 5]) + b"lenet", "an example").name
    'lenet'
    """
    _check_size(message_type, len(data), source)
    try:
        message = message_type.FromString(data)
    except (DecodeError, ValueError, RecursionError) as error:
        raise FormatError(
            f"{source} is no {_name(message_type)}: {len(data)} bytes that do not parse ({one_line(error)})",
            hint="the file may be truncated, of another message type, or text: text has the suffix .pbtxt",
        ) from error
    _check_content(message, f"{source}, {len(data)} bytes,")
    return message


def parse_text(message_type: type[MessageT], text: str, source: str) -> MessageT:
    """Parse `text`, the text form of a message; `source` says in errors where it came from.

    Raises:
        FormatError: the text does not parse (the message gives line and column), a required field is missing, or its
            binary form could not be read, so deep is it nested.

    >>> from tazza.proto import NetDef
    >>> parse_text(NetDef, 'name: "lenet" op { type: "Relu" }', "an example").op[0].type
    'Relu'
    """
    from google.protobuf import text_format

    size = len(text.encode("utf-8", "surrogatepass"))
    message = message_type()
    try:
        text_format.Parse(text, message)
    except (
        text_format.ParseError,
        ValueError,
        RecursionError,
        DeprecationWarning,
    ) as error:  # the last where they raise
        raise FormatError(
            f"{source} is no {_name(message_type)} in text form: {size} bytes that do not parse ({one_line(error)})"
        ) from error
    _check_content(message, f"{source}, {size} bytes,")
    return message


def serialize(message: Message) -> bytes:
    """Return the binary form of `message`; equal messages give equal bytes.

    Raises:
        FormatError: a required field is missing, or the message is too long for the format.
    """
    _check_content(message, "a message that is to be written")
    data = message.SerializeToString(deterministic=True)
    _check_size(type(message), len(data), "a message that is to be written")
    return data


def format_text(message: Message) -> str:
    """Return the text form of `message`, which `parse_text` reads.

    `str(message)` is for people only: that of the protobuf runtime 5.29 does not escape all quotation marks.

    Raises:
        FormatError: as `serialize`.
    """
    from google.protobuf import text_format

    _check_content(message, "a message that is to be written")
    return text_format.MessageToString(message)


def read_message(path: str | os.PathLike[str], message_type: type[MessageT]) -> MessageT:
    """Read a message from a file: text when its suffix is .pbtxt, .prototxt or .txt, else binary.

    Raises:
        FileError: the file is missing, cannot be read, or is no regular file.
        FormatError: as `parse` and `parse_text`.
    """
    source = Path(path)
    data = _read(source, message_type)
    if source.suffix not in TEXT_SUFFIXES:
        return parse(message_type, data, shown(source))
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(
            f"{shown(source)} is no {_name(message_type)} in text form: {len(data)} bytes that are not UTF-8 ({error})",
            hint=f"the suffix {source.suffix} means text; rename the file to .pb if it is binary",
        ) from error
    return parse_text(message_type, text, shown(source))


def write_message(path: str | os.PathLike[str], message: Message) -> None:
    """Write a message to a file: text when its suffix is .pbtxt, .prototxt or .txt, else binary.

    Equal messages give equal files. The file is replaced as a whole or not at all.

    Raises:
        FileError: the file cannot be written; what was there before is untouched.
        FormatError: as `serialize`.
    """
    is_text = Path(path).suffix in TEXT_SUFFIXES
    write_bytes_atomically(path, format_text(message).encode("utf-8") if is_text else serialize(message))


def _name(message_type: type[Message]) -> str:
    return message_type.DESCRIPTOR.full_name


def _read(path: Path, message_type: type[Message]) -> bytes:
    """Return the content of a regular file that is short enough to be a message."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        _check_size(message_type, size, shown(path))
        with reading(path):
            return file.read(size)


def _check_size(message_type: type[Message], size: int, source: str) -> None:
    if size > BYTES_MAX:
        raise FormatError(
            f"{source} is no {_name(message_type)}: {size} bytes, and a message has at most {BYTES_MAX}",
            hint="store large tensors in chunks, as Save does",
        )


def _check_content(message: Message, source: str) -> None:
    """Refuse missing required fields and strings that are not UTF-8, which runtimes let through in different ways."""
    name = _name(type(message))
    if not message.IsInitialized():
        missing = ", ".join(cast(_Required, message).FindInitializationErrors())
        raise FormatError(f"{source} is no {name}: the required fields {missing} are missing")
    broken = next(_broken_parts(message, 0), None)
    if broken is not None:
        raise FormatError(f"{source} is no {name}: {broken}")


def _broken_parts(message: Message, depth: int) -> Iterator[str]:
    """Say what no other reader of the message would take: nesting, and strings that hold bytes.

    The latter are the form in which the fast runtime hands out what is not UTF-8.
    """
    if depth > DEPTH_MAX:
        yield f"its messages are nested more than {DEPTH_MAX} deep"
        return
    for field, value in message.ListFields():
        values = cast("Iterable[object]", [value] if isinstance(value, str | bytes | Message) else value)
        if field.type == FieldDescriptor.TYPE_STRING and any(isinstance(item, bytes) for item in values):
            yield f"the string {field.full_name} is not UTF-8"
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            for item in values:
                yield from _broken_parts(cast(Message, item), depth + 1)
