"""Building `OperatorDef` messages from Python values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from google.protobuf.message import Message

from tazza.errors import ArgumentError
from tazza.operator.argument import number_of_type
from tazza.proto import Argument, DeviceOption, NetDef, OperatorDef, TensorProto
from tazza.tensor import DataType


def make_argument(name: str, value: Any) -> Argument:
    """Return the `Argument` that holds `value` in the field its Python type selects.

    int and bool go to `i`, float to `f`, str and bytes to `s`, a TensorProto to `t`, a NetDef to `n`, any other
    message to `s` as its bytes; sequences of one of these to the plural field. NumPy scalars and arrays count as
    their Python values, element types (a DataType, `np.float32`, `float`) as their numbers in the format.

    >>> make_argument("kernel", 5).i, make_argument("dtype", np.int64).i
    (5, 10)

    Raises:
        ArgumentError: a value of another type, or a sequence that mixes ints and floats.
        DTypeError: an element type that the format does not have.
    """
    argument = Argument(name=name)
    if isinstance(value, (np.generic, np.ndarray)):
        value = cast("Any", value).tolist()
    if _set_scalar(argument, value):
        return argument
    if isinstance(value, (DataType, np.dtype, type)):
        argument.i = number_of_type(cast("Any", value))
        return argument
    if _is_list(value):
        _set_sequence(argument, list(value))
        return argument
    raise ArgumentError(
        f"argument {name!r} cannot hold a {_kind(value)}", hint="use numbers, text, messages or lists of them"
    )


def _is_list(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, Mapping)


def _kind(value: Any) -> str:
    return type(value).__name__


def _bytes_of(text: str | bytes) -> bytes:
    """Return text as UTF-8; bytes that a name of a file had and that are none stand as `surrogateescape` has them."""
    if isinstance(text, bytes):
        return text
    try:
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError as error:
        raise ArgumentError(f"text {text!r} is no Unicode text: {error.reason}") from error


def _set_scalar(argument: Argument, value: Any) -> bool:
    if isinstance(value, (bool, int)):
        argument.i = int(value)
    elif isinstance(value, float):
        argument.f = value
    elif isinstance(value, (str, bytes)):
        argument.s = _bytes_of(value)
    elif isinstance(value, TensorProto):
        argument.t.CopyFrom(value)
    elif isinstance(value, NetDef):
        argument.n.CopyFrom(value)
    elif isinstance(value, Message):
        argument.s = value.SerializeToString()
    else:
        return False
    return True


def _set_sequence(argument: Argument, values: Sequence[Any]) -> None:
    values = [value.item() if isinstance(value, np.generic) else value for value in values]
    if all(isinstance(value, (bool, int)) for value in values):
        argument.ints.extend(int(value) for value in values)
    elif all(isinstance(value, float) for value in values):
        argument.floats.extend(values)
    elif all(isinstance(value, (str, bytes)) for value in values):
        argument.strings.extend(map(_bytes_of, values))
    elif all(isinstance(value, TensorProto) for value in values):
        argument.tensors.extend(values)
    elif all(isinstance(value, NetDef) for value in values):
        argument.nets.extend(values)
    else:
        kinds = sorted({type(value).__name__ for value in values})
        raise ArgumentError(
            f"argument {argument.name!r} mixes {', '.join(kinds)}",
            hint="a list holds values of one type: all ints, or all floats",
        )


def operator_def(
    type: str,
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    *,
    name: str = "",
    engine: str = "",
    device: DeviceOption | None = None,
    **arguments: Any,
) -> OperatorDef:
    """Return an `OperatorDef`; arguments whose value is None are left out. Nothing is checked against the schema here.

    >>> operator_def("Relu", ["x"], ["y"]).type
    'Relu'
    """
    definition = OperatorDef(type=type, input=list(inputs), output=list(outputs), name=name)
    if engine:
        definition.engine = engine
    if device is not None:
        definition.device_option.CopyFrom(device)
    definition.arg.extend(make_argument(key, value) for key, value in arguments.items() if value is not None)
    return definition
