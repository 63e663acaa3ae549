"""Devices that a net asks for: whether they are there, nets that ask for none, and who waits for them."""

from __future__ import annotations

from collections.abc import Iterator

from tazza.device import Context, merge, place_of
from tazza.errors import TazzaError, UnknownOperatorError
from tazza.operator import find_schema, rank_engines, why_unavailable
from tazza.operator.nested import change_nested, nested_nets
from tazza.proto import DeviceOption, NetDef, OperatorDef

FIELDS = ("device_type", "device_id")
"""What names a device in a `DeviceOption`; the seed and the others mean something on each."""
HINT = "tazza.load(..., device='cpu') runs it on the CPU, and so does --device cpu of the commands"


def check_devices(net: NetDef) -> None:
    """Check that some engine is there for the device of each operator, those of nets within included.

    Raises:
        UnavailableError: a kind of device that tazza does not know.
        UnknownOperatorError: no engine computes the operator on its device, or nobody declares it.
    """
    for op, option, where in _placed(net):
        try:
            place = place_of(option)
        except TazzaError as error:
            error.add_context(f"in {where}")
            error.hint = HINT
            raise
        if place.is_host:
            continue
        find_schema(op.type)
        ranking = rank_engines(op.type, place.kind, op.engine)
        if all(why_unavailable(op.type, place.kind, candidate.engine) is not None for candidate in ranking):
            raise UnknownOperatorError(f"{where} is to run on {place}, and nothing computes it there", hint=HINT)


def wait_there(context: Context) -> None:
    """Wait until a device has done what it got on a context, after an interrupt too: until then blobs are its own."""
    with context:
        try:
            context.wait()
        except BaseException as error:
            if not isinstance(error, Exception):
                context.wait()
            raise


def on_cpu(net: NetDef) -> NetDef:
    """Return a net that asks for no device but the CPU, nor do its operators and the nets within; seeds stay."""
    made = NetDef()
    made.CopyFrom(net)
    _forget_devices(made)
    return made


def _placed(net: NetDef) -> Iterator[tuple[OperatorDef, DeviceOption, str]]:
    """Yield the operators that name a device, with what holds for them, and words that tell where they stand."""
    for position, op in enumerate(net.op):
        where = f"operator {position} of net {net.name!r}, {op.type}{f' {op.name!r}' if op.name else ''}"
        where += f" ({', '.join(op.input)} -> {', '.join(op.output)})"
        if net.HasField("device_option") or op.HasField("device_option"):
            yield op, merge(net.device_option, op.device_option), where
        for inner in nested_nets(op):
            yield from ((found, option, f"{place}, in {where}") for found, option, place in _placed(inner))


def _forget_devices(net: NetDef) -> None:
    _clear(net)
    for op in net.op:
        _clear(op)
        change_nested(op, _forget_devices)


def _clear(holder: NetDef | OperatorDef) -> None:
    if holder.HasField("device_option"):
        for field in FIELDS:
            holder.device_option.ClearField(field)
        if not holder.device_option.ListFields():
            holder.ClearField("device_option")
