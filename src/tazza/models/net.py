"""Building a `NetDef`: operators one after the other, blobs named under the current scope, errors at the user's line.

State: `Net.proto` is the net itself and may be edited by anybody; what is known of it (`_Names`) follows its growth.
The names of nets are unique in the process.
"""

from __future__ import annotations

import inspect
import itertools
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Self, overload

from tazza.data_class import dataclass
from tazza.device import scoped_device
from tazza.errors import DuplicateError, NetError, TazzaError
from tazza.graph import backward_pass
from tazza.models.scope import current_scope
from tazza.operator import SCHEMAS, Gradient, find_schema, operator_def
from tazza.operator.argument import with_numbers_of_types
from tazza.operator.nested import rename_blobs
from tazza.proto import DeviceOption, NetDef, OperatorDef
from tazza.runtime.fork import freed_in_child

TAKEN_NAMES: set[str] = set()
"""The names of all nets that were built in the process, those that are gone too."""
_names_lock = freed_in_child(threading.Lock())


class BlobReference(str):
    """The name of a blob that stands as it is: no scope is put in front of it again. `net` is the one that named it.

    >>> BlobReference("s/x") == "s/x"
    True
    """

    net: Net | None

    def __new__(cls, name: str, net: Net | None = None) -> Self:
        """Refer to the blob `name`."""
        made = super().__new__(cls, name)
        made.net = net
        return made

    def __repr__(self) -> str:
        return f"BlobReference({str(self)!r})"


def scoped(name: str) -> str:
    """Return a name with the current scope in front, unless it is a `BlobReference`."""
    return name if isinstance(name, BlobReference) else current_scope() + name


@dataclass(slots=True)
class _Names:
    """The blobs that a NetDef defines, as far as its operators and external inputs were read."""

    ops_read: int = 0
    inputs_read: int = 0
    names: set[str] = field(default_factory=set[str])

    def follow(self, proto: NetDef) -> set[str]:
        """Read what was added since; all anew when something was taken away."""
        if self.ops_read > len(proto.op) or self.inputs_read > len(proto.external_input):
            self.ops_read = self.inputs_read = 0
            self.names.clear()
        for op in proto.op[self.ops_read :]:
            self.names.update(op.output)
        self.names.update(proto.external_input[self.inputs_read :])
        self.ops_read, self.inputs_read = len(proto.op), len(proto.external_input)
        return self.names


class Net:
    """Builds a NetDef.

    >>> net = Net("example")
    >>> hidden = net.add("Relu", "x", "hidden")
    >>> net.add("Softmax", hidden)
    BlobReference('example/Softmax')
    >>> net.external_inputs
    [BlobReference('x')]
    """

    def __init__(self, name: str, *, strict: bool = True) -> None:
        """Start an empty net.

        Args:
            name: made unique in the process: the second net called `u` is `u_1`, and stays so when the first is gone.
            strict: check every operator against its schema when it is added. Without, anything can be added, and
                what is wrong comes out when the net is created.
        """
        self.strict = strict
        self._proto = NetDef(name=_unique(name))
        self._names = _Names()
        self._next_blob = 0

    @classmethod
    def from_proto(cls, proto: NetDef, *, strict: bool = False, name: str | None = None) -> Net:
        """Start from a copy of `proto`, under its name or another one, made unique."""
        made = cls(proto.name if name is None else name, strict=strict)
        name = made.name
        made.proto.CopyFrom(proto)
        made.proto.name = name
        made._next_blob = made._last_blob() + 1
        return made

    def _last_blob(self) -> int:
        """Return the highest number of a blob that `next_name` named in this net, -1 without one."""
        prefix = f"{self.name}_blob_"
        made = (name.removeprefix(prefix) for op in self._proto.op for name in op.output if name.startswith(prefix))
        return max((int(number) for number in made if number.isdecimal()), default=-1)

    def __repr__(self) -> str:
        return f"Net({self.name!r}, {len(self.proto.op)} operators)"

    def _repr_html_(self) -> str:
        """Return it for a notebook: a row for each operator."""
        from tazza.graph.html import net_html

        return net_html(self.proto, repr(self))

    @property
    def name(self) -> str:
        """The name that it got."""
        return self._proto.name

    @property
    def proto(self) -> NetDef:
        """The net itself, not a copy."""
        return self._proto

    @proto.setter
    def proto(self, proto: NetDef) -> None:
        self._proto = proto
        self._names = _Names()

    @property
    def external_inputs(self) -> list[BlobReference]:
        """Blobs that must be there before the net runs."""
        return [BlobReference(name, self) for name in self._proto.external_input]

    @property
    def external_outputs(self) -> list[BlobReference]:
        """Blobs that were declared as outputs."""
        return [BlobReference(name, self) for name in self._proto.external_output]

    def defines(self, name: str) -> bool:
        """Whether a blob is made by an operator of this net, or is an external input."""
        return name in self._names.follow(self._proto)

    # -- operators ---------------------------------------------------------------------------------------------------

    @overload
    def add(
        self,
        type: str,
        inputs: str | Sequence[str] = ...,
        outputs: str | None = ...,
        *,
        name: str = ...,
        engine: str = ...,
        device: DeviceOption | None = ...,
        **arguments: Any,
    ) -> BlobReference: ...

    @overload
    def add(
        self,
        type: str,
        inputs: str | Sequence[str],
        outputs: list[str] | list[BlobReference] | tuple[str, ...] | int,
        *,
        name: str = ...,
        engine: str = ...,
        device: DeviceOption | None = ...,
        **arguments: Any,
    ) -> tuple[BlobReference, ...]: ...

    def add(
        self,
        type: str,
        inputs: str | Sequence[str] = (),
        outputs: str | Sequence[str] | int | None = None,
        *,
        name: str = "",
        engine: str = "",
        device: DeviceOption | None = None,
        **arguments: Any,
    ) -> BlobReference | tuple[BlobReference, ...]:
        """Add an operator and return its output, or a tuple when `outputs` is a list or a count.

        Args:
            type: the operator type.
            inputs: one name or several. Those that nothing defines become external inputs at once.
            outputs: a name, a list of names, or how many are wanted; a name that is not given is `<net>/<type>`. Names
                that are no `BlobReference` get the current scope in front, here and in `inputs`.
            name: name of the operator.
            engine: engines to prefer, see `OperatorDef.engine`.
            device: where it runs; the one of `device_scope` by default, not merged with it.
            **arguments: of the operator, in the order in which they are stored; None leaves one out.

        Raises:
            UnknownOperatorError, SchemaError, ArgumentError: the operator is not legal; only with `strict`.
        """
        declared = SCHEMAS.get(type)
        stored = arguments if declared is None else with_numbers_of_types(declared.args, arguments)
        definition = operator_def(
            type,
            [scoped(each) for each in ([inputs] if isinstance(inputs, str) else inputs)],
            self._output_names(type, outputs),
            name=name,
            engine=engine,
            device=scoped_device() if device is None else device,
            **stored,
        )
        definition.debug_info = user_line()
        self.append_operators([definition])
        made = tuple(BlobReference(each, self) for each in definition.output)
        return made[0] if outputs is None or isinstance(outputs, str) else made

    def append_operators(self, definitions: Iterable[OperatorDef]) -> None:
        """Append copies of operators as they are, and enter their unknown inputs as external ones.

        Raises:
            TazzaError: as `add`; the operators before stay.
        """
        known = self._names.follow(self._proto)
        for definition in definitions:
            if self.strict:
                self._check(definition)
            self._proto.external_input.extend(name for name in dict.fromkeys(definition.input) if name not in known)
            self._proto.op.append(definition)
            known = self._names.follow(self._proto)

    def _check(self, definition: OperatorDef) -> None:
        try:
            find_schema(definition.type).view(definition, strict=True)
        except TazzaError as error:
            operands = f"{', '.join(definition.input)} -> {', '.join(definition.output)}"
            error.add_context(f"while adding {definition.type}({operands}) to net {self.name!r}")
            if definition.debug_info:
                error.add_context(f"at {definition.debug_info}")
            raise

    def _output_names(self, type: str, outputs: str | Sequence[str] | int | None) -> list[str]:
        if outputs is None:
            return [scoped(self.next_name(type))]
        if isinstance(outputs, str):
            return [scoped(outputs)]
        if isinstance(outputs, int):
            return [scoped(self.next_name(type, position)) for position in range(outputs)]
        return [scoped(each) for each in outputs]

    def next_name(self, prefix: str | None = None, position: int | None = None) -> str:
        """Return a name for a blob that this net does not define yet, without the scope.

        With a prefix it is `<net>/<prefix>`, then `<net>/<prefix>_2` ...; with a position `:position` follows.
        Without, it is `<net>_blob_<n>`, where n counts the calls.
        """
        if prefix is None:
            self._next_blob += 1
            return f"{self.name}_blob_{self._next_blob - 1}"
        suffix = "" if position is None else f":{position}"
        base = f"{self.name}/{prefix}"
        tries = (f"{base}{'' if count == 1 else f'_{count}'}{suffix}" for count in itertools.count(1))
        return next(name for name in tries if not self.defines(scoped(name)))

    # -- inputs and outputs of the net ---------------------------------------------------------------------------------

    def add_external_input(self, name: str) -> BlobReference:
        """Declare a blob that must be there before the net runs; `add` does so by itself.

        Raises:
            DuplicateError: the net defines it already.
        """
        full = scoped(name)
        if self.defines(full):
            raise DuplicateError(
                f"net {self.name!r} defines the blob {full!r} already", hint="declare an input once, first"
            )
        self._proto.external_input.append(full)
        return BlobReference(full, self)

    def add_external_output(self, *names: str) -> None:
        """Declare blobs that the net is run for; names are taken as they are. Twice is once.

        Raises:
            NetError: the net does not define one.
        """
        for name in names:
            if not self.defines(name):
                raise NetError(
                    f"net {self.name!r} does not define the blob {name!r}, so that it cannot be an output",
                    hint="pass what `add` returned: names under a scope have its prefix",
                )
            if name not in self._proto.external_output:
                self._proto.external_output.append(name)

    # -- whole nets ----------------------------------------------------------------------------------------------------

    def add_gradients(self, losses: Sequence[str] | Mapping[str, Gradient]) -> dict[str, Gradient]:
        """Append the gradient operators, and return the gradient of each blob that has one.

        Args:
            losses: exact names of blobs to differentiate, or a map to their given gradients (None: ones).

        Raises:
            GradientError: see `backward_pass`.
            NetError: the net does not define a loss; only with `strict`.
        """
        missing = [name for name in losses if not self.defines(name)]
        if self.strict and missing:
            raise NetError(
                f"net {self.name!r} does not define the loss {missing[0]!r}",
                hint="pass what `add` returned: names under a scope have its prefix",
            )
        targets = losses if isinstance(losses, Mapping) else list(losses)
        emitted, gradients = backward_pass(self._proto.op, targets, scope=current_scope())
        self.append_operators(emitted)
        return gradients

    def clone(self, name: str, *, rename: Mapping[str, str] | None = None) -> Net:
        """Return a copy under another name, with some blobs renamed."""
        made = Net(name, strict=self.strict)
        full = made.name
        made.proto.CopyFrom(self._proto)
        made.proto.name = full
        for names in (made.proto.external_input, made.proto.external_output):
            _rename(names, rename)
        for op in made.proto.op:
            rename_blobs(op, {} if rename is None else rename)
        return made

    def extend(self, proto: NetDef) -> None:
        """Append the operators of another net and all its outputs; its inputs as far as nothing here makes them."""
        known = self._names.follow(self._proto)
        self._proto.external_input.extend(name for name in dict.fromkeys(proto.external_input) if name not in known)
        self._proto.external_output.extend(name for name in proto.external_output if name not in self.external_outputs)
        self._proto.op.extend(proto.op)

    def append(self, other: Net | NetDef) -> None:
        """Append the operators of another net, and its inputs and outputs as far as they are still such."""
        proto = other.proto if isinstance(other, Net) else other
        known = self._names.follow(self._proto)
        self._proto.external_input.extend(name for name in dict.fromkeys(proto.external_input) if name not in known)
        self.append_operators(proto.op)
        self.add_external_output(*proto.external_output)

    def export(self) -> NetDef:
        """Return a copy without what only helps while building: where each operator was added."""
        return without_debug_info(self._proto)


def without_debug_info(proto: NetDef) -> NetDef:
    """Return a copy of a net whose operators do not say where they were added."""
    made = NetDef()
    made.CopyFrom(proto)
    for op in made.op:
        op.ClearField("debug_info")
    return made


def user_line() -> str:
    """Return `file:line` of the innermost caller outside of tazza; empty when there is none."""
    frame = inspect.currentframe()
    while frame is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == "tazza":
        frame = frame.f_back
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _unique(name: str) -> str:
    with _names_lock:
        tries = (name if count == 0 else f"{name}_{count}" for count in itertools.count())
        found = next(each for each in tries if each not in TAKEN_NAMES)
        TAKEN_NAMES.add(found)
        return found


def _rename(names: Any, table: Mapping[str, str] | None) -> None:
    if table is not None:
        for position, name in enumerate(names):
            names[position] = table.get(name, name)
