"""Nets as text, for people and for tests of transforms: one line an operator.

    net: lenet
    in: x, W, b
    out: y
    t = Conv(x, W, b; kernel=3, pad=1)
    y = Relu(t) @cuda:0 engine=onednn name=relu1

Values of arguments are Python literals: numbers, quoted text, lists of them. Behind an operator stand its device
(`@cpu`, `@cuda:1`), engine and name, where they are set, and `gradient` for a gradient operator. Blob names are
written as they are, so they cannot hold blanks or any of `,;()=`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import Any

from tazza.device import device_option, place_of
from tazza.errors import FormatError
from tazza.operator import operator_def, stored_fields
from tazza.proto import Argument, DeviceOption, NetDef, OperatorDef
from tazza.tensor import CPUPlace, CUDAPlace

_OPERATOR = re.compile(r"(?:(?P<outputs>[^()]*?)\s*=\s*)?(?P<type>\w+)\s*\((?P<inside>.*)\)(?P<behind>[^)]*)")
_HEADS = ("net", "type", "in", "out")
_BLOB = re.compile(r"[^\s,;()=]+")


def parse_net(*lines: str) -> NetDef:
    """Return the net that the lines describe; one string may hold several lines. `#` begins a comment line.

    >>> net = parse_net("in: x", "out: y", "y = LeakyRelu(x; alpha=0.5)")
    >>> net.op[0].arg[0].f, list(net.external_output)
    (0.5, ['y'])

    Raises:
        FormatError: a line that is none of the language.
    """
    net = NetDef()
    for line in "\n".join(lines).splitlines():
        text = line.strip()
        head, colon, rest = text.partition(":")
        if not text or text.startswith("#"):
            continue
        if colon and head in _HEADS:
            _parse_head(net, head, rest.strip())
        else:
            net.op.append(_parse_operator(text))
    return net


def _parse_head(net: NetDef, head: str, rest: str) -> None:
    if head == "net":
        net.name = rest
    elif head == "type":
        net.type = rest
    else:
        (net.external_input if head == "in" else net.external_output).extend(_names(rest, rest))


def _parse_operator(line: str) -> OperatorDef:
    found = _OPERATOR.fullmatch(line)
    if found is None:
        raise FormatError(f"{line!r} is no operator", hint="write: y = Type(x, w; argument=1)")
    inputs, _, arguments = found["inside"].partition(";")
    op = operator_def(
        found["type"],
        _names(inputs, line),
        _names(found["outputs"] if found["outputs"] is not None else "", line),
        **_arguments(arguments, line),
    )
    for word in found["behind"].split():
        _parse_word(op, word, line)
    return op


def _names(text: str, line: str) -> list[str]:
    names = [name.strip() for name in text.split(",")] if text.strip() else []
    wrong = [name for name in names if _BLOB.fullmatch(name) is None]
    if wrong:
        raise FormatError(f"{wrong[0]!r} in {line!r} is no name of a blob")
    return names


def _arguments(text: str, line: str) -> dict[str, Any]:
    try:
        call = ast.parse(f"f({text.strip()})", mode="eval").body
        if not isinstance(call, ast.Call) or call.args:
            raise ValueError("each needs a name")
        return {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    except (SyntaxError, ValueError) as error:
        raise FormatError(f"the arguments of {line!r} cannot be read: {error}", hint="name=literal, ...") from None


def _parse_word(op: OperatorDef, word: str, line: str) -> None:
    key, equals, value = word.partition("=")
    device = re.fullmatch(r"@(cpu|cuda:(\d+))", word)
    if device is not None:
        place = CPUPlace() if device[2] is None else CUDAPlace(int(device[2]))
        op.device_option.CopyFrom(device_option(place))
    elif equals and key == "engine":
        op.engine = value
    elif equals and key == "name":
        op.name = value
    elif word == "gradient":
        op.is_gradient_op = True
    else:
        raise FormatError(f"{word!r} behind {line!r} means nothing", hint="@cuda:0, engine=..., name=..., gradient")


def print_net(net: NetDef) -> str:
    """Return the lines of a net, as `parse_net` reads them.

    Raises:
        FormatError: the net holds what the text cannot say: an argument that is a message, or a blob name with blanks.
    """
    lines: list[str] = []
    for head, value in (
        ("net", net.name),
        ("type", net.type),
        ("in", _joined(net.external_input)),
        ("out", _joined(net.external_output)),
    ):
        if value:
            lines.append(f"{head}: {value}")
    lines.extend(print_operator(op) for op in net.op)
    return "\n".join(lines)


def print_operator(op: OperatorDef) -> str:
    """Return the line of an operator.

    Raises:
        FormatError: as `print_net`.
    """
    arguments = ", ".join(f"{argument.name}={argument_text(argument)}" for argument in op.arg)
    inside = "; ".join(text for text in (_joined(op.input), arguments) if text)
    if arguments and not op.input:
        inside = f"; {arguments}"
    outputs = f"{_joined(op.output)} = " if op.output else ""
    words = [
        _device_text(op.device_option) if op.HasField("device_option") else "",
        f"engine={op.engine}" if op.engine else "",
        f"name={op.name}" if op.name else "",
        "gradient" if op.is_gradient_op else "",
    ]
    return " ".join([f"{outputs}{op.type}({inside})", *(word for word in words if word)])


def _joined(names: Iterable[str]) -> str:
    listed = list(names)
    wrong = [name for name in listed if _BLOB.fullmatch(name) is None]
    if wrong:
        raise FormatError(f"the text form cannot hold a blob named {wrong[0]!r}")
    return ", ".join(listed)


def _device_text(option: DeviceOption) -> str:
    place = place_of(option)
    return f"@cuda:{place.index}" if place.kind == "cuda" else "@cpu"


def argument_text(argument: Argument) -> str:
    """Return the value of an argument as a Python literal.

    Raises:
        FormatError: it is a tensor or a net, or several values at once.
    """
    fields = stored_fields(argument)
    if len(fields) > 1 or any(field in ("t", "n", "tensors", "nets", "qtensors") for field in fields):
        raise FormatError(f"argument {argument.name!r} is no number, text or list", hint="print the message itself")
    if not fields:
        return "[]"
    value = getattr(argument, fields[0])
    if fields[0] == "s":
        return repr(_text(value))
    if fields[0] == "strings":
        return repr([_text(one) for one in value])
    return repr(list(value)) if fields[0] in ("ints", "floats") else repr(value)


def _text(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value
