"""Mutations of nets as messages: of operators, names, arguments, devices, declared inputs; and of any field at all."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from tazza.nets.base import NETS
from tazza.operator import ENGINES as ENGINE_REGISTRY
from tazza.operator import SCHEMAS, make_argument
from tazza.operator.engine import FORMAT_ENGINES
from tazza.proto import Argument, NetDef, OperatorDef, TensorProto
from tests.fuzz import extremes
from tests.fuzz.feeds import Feed

Feeds = dict[str, Feed]
NET_TYPES = (*sorted(NETS), "async_simple", "rnn", "nope", "\0")
ENGINES = (*sorted(ENGINE_REGISTRY), *sorted(FORMAT_ENGINES), "native/winograd", "native,nope,", ",", "nope", "\0")
NET_ARGUMENTS = (
    "keep",
    "inputs",
    "constants",
    "batch",
    "precision",
    "passes",
    "without",
    "first",
    "exhaustive_search",
    "slice",
)
DEPTH_MAX = 60


def mutate(draw: Random, net: NetDef, fed: Feeds, times: int) -> None:
    """Change a net, and what it is fed, some times."""
    for _ in range(times):
        draw.choice(MUTATIONS)(draw, net, fed)


def _op(draw: Random, net: NetDef) -> OperatorDef:
    return draw.choice(net.op) if net.op else net.op.add()


def _blobs(net: NetDef, fed: Feeds) -> list[str]:
    return [*dict.fromkeys([*fed, *(name for op in net.op for name in (*op.input, *op.output))]), "x"]


def _name(draw: Random, net: NetDef, fed: Feeds) -> str:
    return draw.choice(_blobs(net, fed)) if draw.random() < 0.8 else extremes.text(draw)


def _swap(draw: Random, net: NetDef, fed: Feeds) -> None:
    ops = list(net.op)
    draw.shuffle(ops)
    copy = NetDef(op=ops)
    del net.op[:]
    net.op.extend(copy.op)


def _duplicate(draw: Random, net: NetDef, fed: Feeds) -> None:
    net.op.add().CopyFrom(_op(draw, net))


def _delete(draw: Random, net: NetDef, fed: Feeds) -> None:
    if net.op:
        del net.op[draw.randrange(len(net.op))]


def _rename(draw: Random, net: NetDef, fed: Feeds) -> None:
    """Another name for one end of an operator: cycles, self-reads, hazards, blobs that nobody makes."""
    op = _op(draw, net)
    names = draw.choice((op.input, op.output))
    if names:
        names[draw.randrange(len(names))] = _name(draw, net, fed)


def _in_place(draw: Random, net: NetDef, fed: Feeds) -> None:
    op = _op(draw, net)
    if op.input and op.output:
        op.output[draw.randrange(len(op.output))] = draw.choice(op.input)


def _arity(draw: Random, net: NetDef, fed: Feeds) -> None:
    op = _op(draw, net)
    names = draw.choice((op.input, op.output))
    if names and draw.random() < 0.5:
        del names[draw.randrange(len(names))]
    else:
        names.extend([_name(draw, net, fed)] * (draw.choice((1, 1, 2, 500)) if draw.random() < 0.2 else 1))


def _argument(draw: Random, net: NetDef, fed: Feeds) -> None:
    """Set an argument that the operator knows, if it has any, to anything."""
    op = _op(draw, net)
    schema = SCHEMAS.get(op.type)
    known = [*schema.args] if schema is not None else []
    present = [argument.name for argument in op.arg]
    name = draw.choice([*known, *present, *present, "kernel"]) if draw.random() < 0.95 else extremes.text(draw)
    if draw.random() < 0.8:
        for position in reversed(range(len(op.arg))):
            if op.arg[position].name == name:
                del op.arg[position]
    spec = schema.args.get(name) if schema is not None else None
    fill_argument(draw, op.arg.add(name=name), str(spec.type) if spec is not None and draw.random() < 0.85 else "")


def fill_argument(draw: Random, argument: Argument, type: str) -> None:
    """Put an extreme value into the field of the type, else into any."""
    several = "list" in type or "Sequence" in type
    if "NetDef" in type:
        nested(draw, argument.nets.add() if several else argument.n)
        return
    fields = [
        name
        for name, words in (("i", "int bool"), ("f", "float"), ("s", "str bytes"))
        if any(w in type for w in words.split())
    ]
    field = (
        draw.choice(fields)
        if fields
        else draw.choice(("i", "f", "s", "ints", "floats", "strings", "n", "t", "nets", "tensors"))
    )
    if fields and several:
        field = {"i": "ints", "f": "floats", "s": "strings"}[field]
    if field == "i":
        argument.i = extremes.integer(draw)
    elif field == "f":
        argument.f = extremes.real(draw)
    elif field == "s":
        argument.s = extremes.text(draw).encode()
    elif field == "ints":
        argument.ints.extend(extremes.several(draw, extremes.integer))
    elif field == "floats":
        argument.floats.extend(extremes.several(draw, extremes.real))
    elif field == "strings":
        argument.strings.extend(text.encode() for text in extremes.several(draw, extremes.text))
    elif field in ("n", "nets"):
        nested(draw, argument.n if field == "n" else argument.nets.add())
    else:
        tensor = argument.t if field == "t" else argument.tensors.add()
        tensor.CopyFrom(TensorProto(dims=[extremes.integer(draw)], float_data=[1.0]))


def nested(draw: Random, net: NetDef) -> None:
    """Make a net of nets in arguments."""
    for depth in range(draw.choice((1, 2, DEPTH_MAX // 2))):
        net.name = f"depth {depth}"
        type, name, several = draw.choice((*_with_nets(), ("Relu", "net", False)))
        op = net.op.add(type=type, input=["x"], output=["y"])
        argument = op.arg.add(name=name)
        net = argument.nets.add() if several else argument.n


@cache
def _with_nets() -> tuple[tuple[str, str, bool], ...]:
    """Return operators with the arguments that hold nets, and whether these hold several."""
    specs = ((type, spec) for type in _types() for spec in SCHEMAS[type].args.values() if spec.holds_nets)
    return tuple((type, spec.name, not spec.takes(NetDef)) for type, spec in specs)


def _drop_argument(draw: Random, net: NetDef, fed: Feeds) -> None:
    op = _op(draw, net)
    if op.arg:
        del op.arg[draw.randrange(len(op.arg))]


def _repeat_argument(draw: Random, net: NetDef, fed: Feeds) -> None:
    op = _op(draw, net)
    if op.arg:
        op.arg.add().CopyFrom(draw.choice(op.arg))


@cache
def _types() -> tuple[str, ...]:
    return tuple(sorted(SCHEMAS.keys()))


def _type(draw: Random, net: NetDef, fed: Feeds) -> None:
    _op(draw, net).type = draw.choice(_types()) if draw.random() < 0.8 else extremes.text(draw)


def _engine(draw: Random, net: NetDef, fed: Feeds) -> None:
    _op(draw, net).engine = draw.choice(ENGINES)


def _device(draw: Random, net: NetDef, fed: Feeds) -> None:
    option = (net if draw.random() < 0.3 else _op(draw, net)).device_option
    option.device_type = draw.choice((0, 1, 2, 3, 6, 10, 99, -1, 2**31 - 1))
    if draw.random() < 0.5:
        option.device_id = draw.choice((0, 1, -1, 2**31 - 1, -(2**31)))
    if draw.random() < 0.3:
        option.random_seed = draw.choice((0, 1, 2**32 - 1))


def _control(draw: Random, net: NetDef, fed: Feeds) -> None:
    _op(draw, net).control_input.append(_name(draw, net, fed))


def _net_type(draw: Random, net: NetDef, fed: Feeds) -> None:
    net.type = draw.choice(NET_TYPES)
    if draw.random() < 0.4:
        net.num_workers = draw.choice((0, 1, 2, -1, 2**31 - 1, -(2**31)))


def _external(draw: Random, net: NetDef, fed: Feeds) -> None:
    names = draw.choice((net.external_input, net.external_output))
    if names and draw.random() < 0.5:
        del names[draw.randrange(len(names))]
    else:
        names.append(_name(draw, net, fed))


def _net_argument(draw: Random, net: NetDef, fed: Feeds) -> None:
    argument = net.arg.add(name=draw.choice(NET_ARGUMENTS))
    if draw.random() < 0.5:
        argument.CopyFrom(make_argument(argument.name, [_name(draw, net, fed) for _ in range(draw.randint(1, 3))]))
    else:
        fill_argument(draw, argument, "")


def _feed(draw: Random, net: NetDef, fed: Feeds) -> None:
    """Feed something else: extents that do not fit, no elements, another type, nothing."""
    if not fed:
        return
    name = draw.choice(list(fed))
    feed = fed[name]
    dims = list(feed.dims)
    how = draw.randrange(6)
    if how == 0:
        del fed[name]
        return
    if how == 1 and dims:
        dims[draw.randrange(len(dims))] = draw.choice((0, 0, 1, 2, 3, 7, 17, 33))
    elif how == 2 and dims:
        del dims[draw.randrange(len(dims))]
    elif how == 3:
        dims.insert(draw.randint(0, len(dims)), draw.choice((0, 1, 2)))
    label = draw.choice(
        ("float32", "float64", "int32", "int64", "uint8", "bool", "float16", "bfloat16", "string", "int8", "text")
    )
    fed[name] = Feed(label if how == 4 else feed.dtype, tuple(dims), not feed.parameter if how == 5 else feed.parameter)


def _any_field(draw: Random, net: NetDef, fed: Feeds) -> None:
    """Set any field of any message inside, or clear it."""
    change_field(draw, _inside(draw, net))


def _inside(draw: Random, message: Message) -> Message:
    """Return a message inside of another one, or that itself."""
    while draw.random() < 0.8:
        found: list[Message] = []
        for field, value in message.ListFields():
            if field.type == FieldDescriptor.TYPE_MESSAGE:
                found.extend([value] if isinstance(value, Message) else value)  # pyright: ignore[reportArgumentType]
        if not found:
            return message
        message = draw.choice(found)
    return message


def change_field(draw: Random, message: Message) -> None:
    """Set, add to or clear one field of a message."""
    field = draw.choice(message.DESCRIPTOR.fields)
    if draw.random() < 0.2:
        message.ClearField(field.name)
        return
    current: Any = getattr(message, field.name)
    repeated = hasattr(current, "append")
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        change_field(draw, current.add() if repeated else current)
        return
    try:
        if repeated:
            current.append(_scalar(draw, field))
        else:
            setattr(message, field.name, _scalar(draw, field))
    except ValueError:
        pass  # out of the field's range: nobody can send that


def _scalar(draw: Random, field: Any) -> Any:
    kinds: dict[int, Callable[[], Any]] = {
        FieldDescriptor.CPPTYPE_FLOAT: lambda: extremes.real(draw),
        FieldDescriptor.CPPTYPE_DOUBLE: lambda: extremes.real(draw),
        FieldDescriptor.CPPTYPE_BOOL: lambda: draw.random() < 0.5,
        FieldDescriptor.CPPTYPE_ENUM: lambda: draw.choice(list(field.enum_type.values)).number,
    }
    if field.type == FieldDescriptor.TYPE_BYTES:
        return extremes.text(draw).encode()
    if field.type == FieldDescriptor.TYPE_STRING:
        return extremes.text(draw)
    return kinds.get(field.cpp_type, lambda: extremes.integer(draw))()


MUTATIONS: tuple[Callable[[Random, NetDef, Feeds], None], ...] = (
    _swap, _duplicate, _delete, _rename, _rename, _in_place, _arity, _argument, _argument, _argument, _argument,
    _drop_argument, _repeat_argument, _type, _engine, _device, _control, _net_type, _external, _net_argument,
    _feed, _feed, _feed, _any_field, _any_field,
)  # fmt: skip
