"""Results of operators in files: `op.pb`, `grad_<i>.pb` and `inout.npz` in a zip archive.

Files of Caffe2 hold the arrays as Python objects, which to load would be to run what the file says. Here their
opcodes are read as data: what they build is arrays, scalars, texts, lists and tuples, whatever they name; any other
name is refused.
"""

from __future__ import annotations

import io
import pickletools
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from google.protobuf.message import Message
from numpy.typing import NDArray

from tazza.errors import FormatError
from tazza.proto import DeviceOption, OperatorDef
from tazza.runtime.files import write_bytes_atomically
from tazza.tensor.dtype import numpy_dtype

Array = NDArray[Any]


class Recorded(NamedTuple):
    """A run of an operator."""

    definition: OperatorDef
    inputs: list[Any]
    outputs: list[Any]
    gradient: list[OperatorDef]
    device: DeviceOption


def read(path: str | Path) -> Recorded:
    """Return the run that a file holds.

    Raises:
        FormatError: it is not such a file.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
        values = _entries(parts["inout.npz"])
    except (zipfile.BadZipFile, KeyError, ValueError, IndexError, EOFError) as error:
        raise FormatError(f"{path} holds no run of an operator: {error}") from error
    gradient = [OperatorDef.FromString(parts[f"grad_{i}.pb"]) for i in range(sum(n.startswith("grad_") for n in parts))]
    device = DeviceOption(device_type=int(values["device_type"].item()))  # pyright: ignore[reportArgumentType] -- a number
    return Recorded(
        OperatorDef.FromString(parts["op.pb"]), _listed(values, "in"), _listed(values, "out"), gradient, device
    )


def _listed(values: dict[str, Any], prefix: str) -> list[Any]:
    """Return arrays: those that Caffe2 kept in one entry, or those of an entry each."""
    whole = values.get(f"{prefix}puts")
    if whole is not None:
        return list(whole)
    return [
        values[f"{prefix}{i}"]
        for i in range(sum(name[len(prefix) :].isdigit() for name in values if name.startswith(prefix)))
    ]


def write(path: Path, run: Recorded) -> None:
    """Write a run; each array is an entry of its own, so that no Python object is needed to read it."""
    arrays = {f"in{i}": np.asarray(one) for i, one in enumerate(run.inputs)}
    arrays |= {f"out{i}": np.asarray(one) for i, one in enumerate(run.outputs)}
    texts = {name: one.astype("S") if one.dtype == object else one for name, one in arrays.items()}
    held = io.BytesIO()
    np.savez_compressed(held, allow_pickle=False, device_type=np.asarray(run.device.device_type), **texts)
    messages: list[tuple[str, Message]] = [("op.pb", run.definition)]
    messages += [(f"grad_{i}.pb", one) for i, one in enumerate(run.gradient)]
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        for name, message in messages:
            archive.writestr(name, message.SerializeToString())
        archive.writestr("inout.npz", held.getvalue())
    write_bytes_atomically(path, whole.getvalue())


def _entries(data: bytes) -> dict[str, Any]:
    """Return the arrays of an npz file; one of objects as a list."""
    found: dict[str, Any] = {}
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for name in archive.namelist():
            file = io.BytesIO(archive.read(name))
            version = np.lib.format.read_magic(file)
            shape, _, dtype = (
                np.lib.format.read_array_header_1_0(file)
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0(file)
            )
            if dtype.hasobject:
                found[name.removesuffix(".npy")] = _Objects().read(file.read())
            else:
                found[name.removesuffix(".npy")] = np.frombuffer(file.read(), dtype).reshape(shape)
    return found


# -- arrays of objects -------------------------------------------------------------------------------------------------


@dataclass
class _Made:
    """What a file asks to be called, by name, and with what: known names alone, and none is called."""

    name: str
    arguments: Any = ()
    state: Any = None


class _Name(str):
    """The name of something to call."""


KNOWN = {
    "numpy.core.multiarray _reconstruct",
    "numpy ndarray",
    "numpy dtype",
    "numpy.core.multiarray scalar",
    "numpy float32",
    "_codecs encode",
}
_MARK = object()


@dataclass
class _Objects:
    """The stack on which opcodes put values, and what they keep in `memo`."""

    stack: list[Any] = field(default_factory=list[Any])
    memo: dict[int, Any] = field(default_factory=dict[int, Any])

    def read(self, data: bytes) -> Any:
        """Return what opcodes build, as values of Python and NumPy."""
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name == "STOP":
                return _value(self.stack.pop())
            self._follow(opcode.name, argument)
        raise FormatError("the objects have no end")

    def _follow(self, name: str, argument: Any) -> None:
        act = ACTS.get(name)
        if act is not None:
            act(self)
        elif name in PUSHES:
            self.stack.append(argument)
        elif name == "GLOBAL":
            if argument not in KNOWN:
                raise FormatError(f"the objects name {argument!r}, which is nothing of arrays")
            self.stack.append(_Name(argument))
        elif name in ("BINPUT", "LONG_BINPUT"):
            self.memo[argument] = self.stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            self.stack.append(self.memo[argument])
        elif name != "PROTO":
            raise FormatError(f"the objects need {name}, which arrays do not")

    def since_mark(self) -> list[Any]:
        """Take what was put behind the last mark."""
        place = len(self.stack) - 1 - self.stack[::-1].index(_MARK)
        taken = self.stack[place + 1 :]
        del self.stack[place:]
        return taken

    def last(self, count: int) -> tuple[Any, ...]:
        """Take so many values."""
        taken = tuple(self.stack[len(self.stack) - count :])
        del self.stack[len(self.stack) - count :]
        return taken

    def call(self) -> None:
        """Note a call."""
        name, arguments = self.last(2)
        self.stack.append(_Made(str(name), arguments))

    def build(self) -> None:
        """Note the state of what was made."""
        made, state = self.last(2)
        if isinstance(made, _Made):
            made.state = state
        self.stack.append(made)

    def append(self, values: Sequence[Any]) -> None:
        """Append to the list on top."""
        self.stack[-1].extend(values)

    def set_items(self) -> None:
        """Set keys and values of the mapping on top."""
        values = self.since_mark()
        self.stack[-1].update(zip(values[::2], values[1::2], strict=True))


PUSHES = {
    "BININT",
    "BININT1",
    "BININT2",
    "BINFLOAT",
    "LONG1",
    "BINUNICODE",
    "SHORT_BINUNICODE",
    "STRING",
    "BINSTRING",
    "SHORT_BINSTRING",
    "BINBYTES",
    "SHORT_BINBYTES",
}
"""Opcodes that put what stands behind them."""
ACTS: dict[str, Callable[[_Objects], Any]] = {
    "NONE": lambda own: own.stack.append(None),
    "NEWFALSE": lambda own: own.stack.append(False),
    "NEWTRUE": lambda own: own.stack.append(True),
    "MARK": lambda own: own.stack.append(_MARK),
    "EMPTY_LIST": lambda own: own.stack.append([]),
    "EMPTY_DICT": lambda own: own.stack.append({}),
    "EMPTY_TUPLE": lambda own: own.stack.append(()),
    "TUPLE1": lambda own: own.stack.append(own.last(1)),
    "TUPLE2": lambda own: own.stack.append(own.last(2)),
    "TUPLE3": lambda own: own.stack.append(own.last(3)),
    "TUPLE": lambda own: own.stack.append(tuple(own.since_mark())),
    "APPEND": lambda own: own.append(own.last(1)),
    "APPENDS": lambda own: own.append(own.since_mark()),
    "SETITEMS": _Objects.set_items,
    "REDUCE": _Objects.call,
    "BUILD": _Objects.build,
}


def _value(made: Any) -> Any:
    """Return what was noted as a value."""
    if isinstance(made, (list, tuple)):
        return type(made)(_value(one) for one in made)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] -- of anything
    if isinstance(made, dict):
        return {_value(key): _value(one) for key, one in made.items()}  # pyright: ignore[reportUnknownVariableType] -- of anything
    if isinstance(made, _Name) and made == "numpy float32":
        return np.float32
    if not isinstance(made, _Made):
        return made
    if made.name == "numpy.core.multiarray _reconstruct":
        _, shape, dtype, fortran, data = made.state
        return _array(shape, _dtype(dtype), fortran, data)
    if made.name == "numpy.core.multiarray scalar":
        dtype, data = made.arguments
        return _array((), _dtype(dtype), False, data)[()]
    if made.name == "_codecs encode":
        text, encoding = made.arguments
        return str(text).encode(str(encoding))
    raise FormatError(f"the objects hold {made.name!r}, which is no array")


def _dtype(made: Any) -> np.dtype[Any]:
    if isinstance(made, np.dtype):
        return made  # pyright: ignore[reportUnknownVariableType] -- of anything
    (name, *_), state = made.arguments, made.state
    order = _text(state[1]) if state else "="
    return numpy_dtype(_text(name)).newbyteorder("=" if order == "|" else order)  # pyright: ignore[reportArgumentType] -- a letter


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _array(shape: Any, dtype: np.dtype[Any], fortran: Any, data: Any) -> Array:
    found = _value(data)
    if isinstance(found, list):
        made = np.empty(len(found), dtype=object)  # pyright: ignore[reportUnknownArgumentType] -- of anything
        made[:] = found
        return made.reshape(_value(shape))
    raw = found.encode("latin1") if isinstance(found, str) else found
    made: Array = np.frombuffer(raw, dtype)
    return made.reshape(_value(shape), order="F" if fortran else "C").copy()
