"""Messages to bytes and back."""

from __future__ import annotations

from typing import Any, TypeVar

from google.protobuf.message import Message

from tazza.proto.message import parse

M = TypeVar("M", bound=Message)


def serialize_protobuf_struct(protobuf_struct: Any) -> bytes:
    """Return a message as bytes."""
    return protobuf_struct.SerializeToString()


def deserialize_protobuf_struct(serialized_protobuf: bytes, struct_type: type[M]) -> M:
    """Return the message that bytes hold."""
    return parse(struct_type, serialized_protobuf, f"a serialized {struct_type.DESCRIPTOR.name}")
