"""Arguments of operators: their declaration in a schema, and typed reading from an `OperatorDef`.

An argument is stored in exactly one field, chosen by its type (`i`, `f`, `s`, `ints` ...). Reading another field than
the declared one is refused, as Caffe2 does: `scale=2` is an int and does not set a float argument.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import UnionType
from typing import Any, cast, get_args

import numpy as np
import numpy.typing as npt

from tazza.data_class import dataclass
from tazza.errors import ArgumentError, DTypeError
from tazza.operator.declaring import declaring
from tazza.proto import Argument, NetDef, OperatorDef, TensorProto
from tazza.runtime.cache import remembered
from tazza.tensor import DataType

REQUIRED: Any = object()
"""Default of an argument that must be given."""


BUILDER_ARGUMENTS = frozenset(
    {"order", "use_cudnn", "cudnn_exhaustive_search", "ws_nbytes_limit", "enable_tensor_core", "float16_compute"}
    | {"exhaustive_search"}
    | {"freeze_bias", "use_grad_hack"}
)
"""Arguments that Caffe2's builders put on operators, whether these read them or not: part of the format.

Those of the first row are on every operator, that of the second on all kinds of convolution, the others on some of
attention.
"""


@dataclass(frozen=True, slots=True)
class Field:
    """How one Python type is stored: the field of `Argument`, and the conversion of its value."""

    field: str
    label: str
    repeated: bool
    convert: Callable[[Any], Any]


def _text(value: bytes) -> str:
    return value.decode("utf-8", errors="surrogateescape")


def _as_list(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda values: [convert(value) for value in values]


def _as_stored(value: Any) -> Any:
    return value


FIELDS: dict[Any, Field] = {
    int: Field("i", "int", False, int),
    bool: Field("i", "bool", False, bool),
    float: Field("f", "float", False, float),
    str: Field("s", "text", False, _text),
    bytes: Field("s", "bytes", False, bytes),
    NetDef: Field("n", "net", False, lambda net: net),
    TensorProto: Field("t", "tensor", False, lambda tensor: tensor),
    list[int]: Field("ints", "ints", True, _as_list(int)),
    list[bool]: Field("ints", "bools", True, _as_list(bool)),
    list[float]: Field("floats", "floats", True, _as_list(float)),
    list[str]: Field("strings", "texts", True, _as_list(_text)),
    list[bytes]: Field("strings", "texts", True, _as_list(bytes)),
    list[NetDef]: Field("nets", "nets", True, list),
    Sequence[float]: Field("floats", "floats", True, _as_stored),
    Sequence[int]: Field("ints", "ints", True, _as_stored),
    Sequence[bytes]: Field("strings", "texts", True, _as_stored),
}


def _members(type: Any) -> tuple[Any, ...]:
    return get_args(type) if isinstance(type, UnionType) else (type,)


@remembered("fields of the types of arguments", entries=64)
def _fields(type: Any) -> list[Field]:
    return [FIELDS[member] for member in _members(type)]


def _hint(wanted: set[str], stored: set[str]) -> str | None:
    """Return how a number is made one of the other kind.

    >>> _hint({"ints"}, {"floats"})
    '2 is an int and 2.0 a float: of two ints a // b is an int, and a / b is none'
    """
    if wanted & {"i", "ints"} and stored & {"f", "floats"}:
        return "2 is an int and 2.0 a float: of two ints a // b is an int, and a / b is none"
    if wanted & {"i", "f"}:
        return "2 is an int and 2.0 a float: write the one that is wanted"
    return None


@dataclass(frozen=True, slots=True)
class ArgSpec:
    """Declaration of one argument: name, Python type, default (REQUIRED when it must be given), range and meaning."""

    name: str
    type: Any
    default: Any
    minimum: float | None
    maximum: float | None
    choices: tuple[Any, ...] | None
    doc: str

    @property
    def required(self) -> bool:
        """Whether an operator without it is refused."""
        return self.default is REQUIRED

    def takes(self, type: Any) -> bool:
        """Whether a value may be of this type."""
        return type in _members(self.type)

    @property
    def takes_type(self) -> bool:
        """Whether it says an element type by its number, as `dtype`, `key_dtype` and `to` do."""
        return self.type == int | str or (self.type is int and self.name.endswith("dtype"))

    @property
    def holds_nets(self) -> bool:
        """Whether a value may be a net, or a list of nets."""
        return self.takes(NetDef) or self.takes(list[NetDef])

    def read(self, argument: Argument) -> Any:
        """Return the value that `argument` holds.

        Raises:
            ArgumentError: it is stored in another field, or out of range.
        """
        fields = _fields(self.type)
        present = stored_fields(argument)
        if not present and self.takes(NetDef) and not self.required:
            return self.default  # exporters take the net out, and leave its name
        field = next((field for field in fields if present == [field.field] or (field.repeated and not present)), None)
        if field is None:
            wanted = " or ".join(f"{field.label} (field {field.field!r})" for field in fields)
            raise ArgumentError(
                f"argument {self.name!r} wants {wanted}, it is stored as {' and '.join(present) or 'nothing'}",
                hint=_hint({field.field for field in fields}, set(present)),
            )
        value = field.convert(getattr(argument, field.field))
        check_range(self, value)
        return value


def number_of_type(what: DataType | npt.DTypeLike) -> int:
    """Return the number in TensorProto.DataType of an element type, or of what people call it.

    Names of the format go first: its "float" is of 32 bits, that of Python of 64.

    >>> number_of_type("float"), number_of_type("float32"), number_of_type(float)
    (1, 1, 13)

    Raises:
        DTypeError: it is none, or one that the format does not have.
    """
    if isinstance(what, str) and what.upper() in TensorProto.DataType.keys():
        return TensorProto.DataType.Value(what.upper())
    found = DataType.of(what)
    if found.proto is None:
        raise DTypeError(f"{found} has no number in TensorProto.DataType", hint="tensors can be converted by astype()")
    return found.proto


def with_numbers_of_types(specs: Mapping[str, ArgSpec], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of an operator as its format has them: names of element types as numbers.

    What is no name of one stays where the operator takes text too: it tells best what it knows.

    Raises:
        DTypeError: a name that is none, where there are numbers alone.
    """
    named = {name for name, value in arguments.items() if isinstance(value, str)}
    types = {name for name in named & specs.keys() if specs[name].takes_type}
    return {name: _number(specs[name], value) if name in types else value for name, value in arguments.items()}


def _number(spec: ArgSpec, name: str) -> int | str:
    try:
        return number_of_type(name)
    except DTypeError:
        if spec.takes(str):
            return name
        raise


def arg(
    name: str,
    type: Any,
    default: Any = REQUIRED,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    choices: tuple[Any, ...] | None = None,
    doc: str = "",
) -> ArgSpec:
    """Declare an argument; without `default` it is required, with None it is optional and read as None.

    `type` is int, bool, float, str, bytes, NetDef, TensorProto, or a list of one but the last, such as `list[int]`
    or `list[NetDef]`. `Sequence[float]` (int, bytes) gives what is stored, uncopied, for arguments that may hold
    millions. A union such as `float | int` takes any of its members; the value is of the type that was stored.

    >>> arg("alpha", float, 0.25, doc="slope for X < 0").default
    0.25
    """
    with declaring():
        if not all(member in FIELDS for member in _members(type)):
            raise ArgumentError(
                f"argument {name!r} cannot be declared as {type}",
                hint="int, bool, float, str, bytes, NetDef or a list of one, or TensorProto",
            )
    if isinstance(default, float):
        default = float(np.float32(default))  # what reading it from a message would give
    return ArgSpec(name, type, default, _rounded(type, minimum), _rounded(type, maximum), choices, doc)


def _rounded(type: Any, bound: float | None) -> float | None:
    return bound if bound is None or type not in (float, list[float]) else float(np.float32(bound))


def check_range(spec: ArgSpec, value: Any) -> None:
    """Check a value, or each of a list.

    Raises:
        ArgumentError: one is out of range.
    """
    if spec.choices is None and spec.minimum is None and spec.maximum is None:
        return
    for item in cast("list[Any]", value) if isinstance(value, list) else [value]:
        if spec.choices is not None and item not in spec.choices:
            raise ArgumentError(f"argument {spec.name!r} = {item!r} is not one of {', '.join(map(repr, spec.choices))}")
        if spec.minimum is not None and not item >= spec.minimum:
            raise ArgumentError(f"argument {spec.name!r} = {item} is below its minimum {spec.minimum}")
        if spec.maximum is not None and not item <= spec.maximum:
            raise ArgumentError(f"argument {spec.name!r} = {item} is above its maximum {spec.maximum}")


def takes_value(spec: ArgSpec, value: Any) -> bool:
    """Whether a value is of a type that an argument is declared to have; an empty list is of any list.

    >>> takes_value(arg("axes", list[int], []), [1, 2]), takes_value(arg("alpha", float, 0.5), "0.5")
    (True, False)
    """
    return any(_is_a(value, member) for member in _members(spec.type))


def _is_a(value: Any, type: Any) -> bool:
    inner = get_args(type)
    if not inner:
        return isinstance(value, type)
    return isinstance(value, list | tuple) and all(isinstance(one, inner) for one in cast("list[Any]", value))


def stored_fields(argument: Argument) -> list[str]:
    """Return the names of the fields in which `argument` holds something."""
    return [field.name for field, _ in argument.ListFields() if field.name not in ("name", "doc")]


def given_arguments(definition: OperatorDef) -> dict[str, Argument]:
    """Return an operator's arguments.

    Raises:
        ArgumentError: two of one name say different things, which Caffe2 refuses too.
    """
    found: dict[str, Argument] = {}
    for argument in definition.arg:
        former = found.setdefault(argument.name, argument)
        if former is not argument and former != argument:
            message = f"{definition.type}: two arguments {argument.name!r} say different things"
            raise ArgumentError(message, hint="one of them is to go")
    return found


def find_argument(definition: OperatorDef | NetDef, name: str) -> Argument | None:
    """Return the argument called `name`, or None; of several with that name the first one."""
    return next((argument for argument in definition.arg if argument.name == name), None)
