"""Every message, field and enum against the table of Caffe2's wire format in tests/data/proto_fields.json.

A field is one line there: number, label, type, name, default where it has one, and its option in brackets.
"""

from __future__ import annotations

import ast
import importlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypedDict

import pytest
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

import tazza.proto

TABLE = Path(__file__).parent.parent / "data" / "proto_fields.json"


class File(TypedDict):
    """What the table says of one file; enums and messages go by their full names."""

    package: str
    dependencies: list[str]
    enums: dict[str, dict[str, int]]
    messages: dict[str, list[str]]


FILES: dict[str, File] = json.loads(TABLE.read_text(encoding="utf-8"))


def _descriptor(file: str) -> FileDescriptorProto:
    """Return what the compiler wrote into the module; old runtimes forget reserved names when asked for it."""
    source = (Path(tazza.proto.__path__[0]) / f"{Path(file).stem}_pb2.py").read_text(encoding="utf-8")
    constants = [node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)]
    serialized = next(value for value in constants if isinstance(value, bytes))
    return FileDescriptorProto.FromString(serialized)


def _field_line(field: FieldDescriptorProto) -> str:
    label = FieldDescriptorProto.Label.Name(field.label).removeprefix("LABEL_").lower()
    kind = FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    kind = field.type_name.removeprefix(".") if field.type_name else kind
    default = f" = {field.default_value}" if field.HasField("default_value") else ""
    options = "".join(f" [{option.name}]" for option, value in field.options.ListFields() if value is True)
    return f"{field.number} {label} {kind} {field.name}{default}{options}"


def _message_lines(message: DescriptorProto) -> list[str]:
    numbers = [str(number) for item in message.reserved_range for number in range(item.start, item.end)]
    reserved = [" ".join(["reserved", *numbers, *message.reserved_name])] if numbers else []
    return reserved + [_field_line(field) for field in message.field]


def _messages(prefix: str, messages: Iterable[DescriptorProto]) -> Iterator[tuple[str, DescriptorProto]]:
    for message in messages:
        name = f"{prefix}.{message.name}"
        yield name, message
        yield from _messages(name, message.nested_type)


def _enum_values(enum: EnumDescriptorProto) -> dict[str, int]:
    return {value.name: value.number for value in enum.value}


@pytest.mark.parametrize("file", FILES)
def test_file_is_the_one_of_the_table(file: str) -> None:
    descriptor = _descriptor(file)
    messages = dict(_messages(descriptor.package, descriptor.message_type))
    nested = {f"{name}.{enum.name}": enum for name, message in messages.items() for enum in message.enum_type}
    enums = {f"{descriptor.package}.{enum.name}": enum for enum in descriptor.enum_type} | nested
    assert descriptor.name == file
    assert descriptor.syntax in {"", "proto2"}
    found: File = {
        "package": descriptor.package,
        "dependencies": list(descriptor.dependency),
        "enums": {name: _enum_values(enum) for name, enum in enums.items()},
        "messages": {name: _message_lines(message) for name, message in messages.items()},
    }
    assert found == FILES[file]


def test_table_is_whole() -> None:
    fields = [
        line
        for file in FILES.values()
        for lines in file["messages"].values()
        for line in lines
        if line.split()[0].isdigit()
    ]
    assert (sum(len(file["messages"]) for file in FILES.values()), len(fields)) == (46, 233)
    assert {Path(file).name for file in FILES} == {path.name for path in Path(tazza.proto.__path__[0]).glob("*.proto")}


def test_every_message_and_enum_is_exported() -> None:
    names = [name for file in FILES.values() for name in [*file["messages"], *file["enums"]] if name.count(".") == 1]
    assert len(names) == len({name.split(".")[1] for name in names})
    for name in names:
        exported = getattr(tazza.proto, name.split(".")[1])
        assert exported.DESCRIPTOR.full_name == name


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'NoSuchMessage'"):
        getattr(tazza.proto, "NoSuchMessage")  # noqa: B009 (the type checker would refuse the plain form)


@pytest.mark.parametrize("file", FILES)
def test_old_import_name_gives_the_same_classes(file: str) -> None:
    new = importlib.import_module(f"tazza.proto.{Path(file).stem}_pb2")
    old = importlib.import_module(f"caffe2.proto.{Path(file).stem}_pb2")
    public = [name for name in vars(new) if not name.startswith("_")]
    assert "DESCRIPTOR" in public
    assert [name for name in public if getattr(old, name) is not getattr(new, name)] == []


def test_old_device_names() -> None:
    from caffe2.proto import caffe2_pb2

    names = ["CPU", "CUDA", "MKLDNN", "OPENGL", "OPENCL", "IDEEP", "HIP", "COMPILE_TIME_MAX_DEVICE_TYPES"]
    assert [getattr(caffe2_pb2, name) for name in names] == [0, 1, 2, 3, 4, 5, 6, 10]
    assert caffe2_pb2.DeviceOption(device_type=caffe2_pb2.CUDA).device_type == 1
