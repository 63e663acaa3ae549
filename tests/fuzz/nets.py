"""Draws nets: pieces of real ones, recorded operators, operators drawn from their schemas; then most of them mutated.

Weights of pieces get extents that fit where that is simple, small ones; where they do not fit, that is an input too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from tazza.errors import TazzaError
from tazza.graph.inference import infer_net
from tazza.operator import REQUIRED, SCHEMAS, ArgSpec, BlobSpec, OpSchema, Spec, make_argument
from tazza.operator.in_place import Anything, Each, Place
from tazza.proto import NetDef, OperatorDef
from tazza.proto.message import read_message
from tazza.tensor import DataType, TensorSpec
from tazza.testing.value import data_of
from tests import golden
from tests.fuzz import extremes, feeds, net_acts
from tests.fuzz.case import Case
from tests.fuzz.feeds import Feed
from tests.fuzz.net_mutation import mutate

DATA = Path(__file__).parents[1] / "data"
SOURCES = (DATA / "fuzz" / "nets", DATA / "interop")
IMAGE = (1, 4, 13, 12)
LABELS = ("float32", "float32", "float32", "int32", "int64", "float64", "uint8", "bool", "float16", "string")
ACTS = ("load", *net_acts.ACTS)
"""What is done with nets; loading them twice as often as the rest."""
Feeds = dict[str, Feed]


def draw(seed: int) -> Case:
    """Draw a net, what it is fed, and what is done with it."""
    source = Random(f"nets {seed}")
    net, fed = drawn_net(source)
    mutate(source, net, fed, source.choice((0, 1, 1, 1, 2, 2, 3, 5, 9)))
    parts = {"net": net.SerializePartialToString(deterministic=True), "feeds": feeds.stored(fed)}
    return Case("nets", seed, parts, (source.choice(ACTS),))


def drawn_net(source: Random) -> tuple[NetDef, Feeds]:
    """Draw a net that may well be right, and feeds for what it reads."""
    net, fed = NetDef(name=source.choice(("net", "net", "n/1", ""))), Feeds()
    for number in range(source.choice((1, 1, 1, 2, 3, 4))):
        how = source.random()
        ops, more = _piece(source) if how < 0.3 else _recorded(source) if how < 0.65 else _from_schema(source)
        _append(source, net, fed, ops, more, f"{number}")
    made = {name for op in net.op for name in op.output}
    if source.random() < 0.8:
        net.external_input.extend(fed)
    if source.random() < 0.6:
        net.external_output.extend(sorted(made)[:2])
    net.type = source.choice(("", "", "simple", "plan"))
    return net, fed


def _append(source: Random, net: NetDef, fed: Feeds, ops: list[OperatorDef], more: Feeds, tag: str) -> None:
    """Add operators whose blobs get names of their own, but for some inputs: those read what is there already."""
    there = [*fed, *(name for op in net.op for name in op.output)]
    linked = {name: source.choice(there) for name in more if there and source.random() < 0.4}
    for op in ops:
        inputs = [linked.get(name, f"{name}{tag}") for name in op.input]
        outputs = [f"{name}{tag}" for name in op.output]
        op.input[:], op.output[:] = inputs, outputs
        net.op.append(op)
    fed.update((f"{name}{tag}", feed) for name, feed in more.items() if name not in linked)


# -- pieces of real nets -----------------------------------------------------------------------------------------------


@cache
def real_nets() -> tuple[NetDef, ...]:
    """Return the nets of the corpus."""
    paths = [path for folder in SOURCES for path in sorted(folder.rglob("*.pb*"))]
    return tuple(read_message(path, NetDef) for path in paths)


def _piece(source: Random) -> tuple[list[OperatorDef], Feeds]:
    whole = source.choice(real_nets())
    first = source.randrange(len(whole.op))
    ops: list[OperatorDef] = []
    for op in whole.op[first : first + source.randint(1, 6)]:
        copy = OperatorDef()
        copy.CopyFrom(op)
        ops.append(copy)
    return ops, _fitting(source, ops)


def _fitting(source: Random, ops: list[OperatorDef]) -> Feeds:
    """Return feeds with which operators of convolutional nets run; others get what they may refuse."""
    specs: dict[str, Spec] = {}
    fed: Feeds = {}
    for op in ops:
        for argument in op.arg:
            if argument.name == "group":
                argument.i = min(argument.i, 2)
        for position, name in enumerate(op.input):
            if name not in specs:
                feed = Feed("float32", _extents(source, op, position, specs), position > 0)
                fed[name] = feed
                specs[name] = TensorSpec(feed.dims, DataType.FLOAT)
        try:
            (row,) = infer_net(NetDef(op=[op]), specs)
            specs.update((name, spec) for name, spec in zip(op.output, row.outputs, strict=True) if spec is not None)
        except TazzaError:
            pass
    return fed


def _extents(source: Random, op: OperatorDef, position: int, specs: Mapping[str, Spec]) -> tuple[int, ...]:
    first = specs.get(op.input[0])
    dims = first.dims if isinstance(first, TensorSpec) and first.dims is not None and None not in first.dims else IMAGE
    given = {argument.name: argument.i for argument in op.arg}
    channels = dims[1] if len(dims) > 1 and dims[1] is not None else 4
    if position == 0:
        return IMAGE if source.random() < 0.8 else (2, 5)
    if op.type in ("Conv", "ConvTranspose") and position == 1:
        group = max(1, given.get("group", 1))
        kernel = given.get("kernel", 3), given.get("kernel", 3)
        return (4, max(1, channels // group), *kernel) if op.type == "Conv" else (channels, 2, *kernel)
    if op.type == "FC" and position == 1:
        columns = 1
        for extent in dims[1:]:
            columns *= 1 if extent is None else extent
        return (3, columns)
    if op.type == "FC":
        return (3,)
    return (4,) if op.type.startswith("Conv") else (channels,) if position < 5 else (1,)


# -- recorded operators ------------------------------------------------------------------------------------------------


@cache
def _recordings(type: str) -> tuple[golden.Recording, ...]:
    return tuple(golden.recordings(type))


_recorded_types = cache(lambda: tuple(golden.operators()))


def _recorded(source: Random) -> tuple[list[OperatorDef], Feeds]:
    recording = source.choice(_recordings(source.choice(_recorded_types())))
    op = OperatorDef()
    op.CopyFrom(recording.definition)
    parameter = source.random() < 0.5
    fed = {
        name: replace(feeds.of_array(data_of(value)), parameter=parameter and position > 0)
        for position, (name, value) in enumerate(zip(op.input, recording.inputs, strict=True))
    }
    return [op], fed


# -- operators drawn from their schemas --------------------------------------------------------------------------------


@cache
def _types() -> tuple[str, ...]:
    return tuple(sorted(SCHEMAS.keys()))


def _from_schema(source: Random) -> tuple[list[OperatorDef], Feeds]:
    return drawn_operator(source, SCHEMAS[source.choice(_types())])


def drawn_operator(source: Random, schema: OpSchema) -> tuple[list[OperatorDef], Feeds]:
    """Draw an operator of a type, which may well be right, and feeds for its inputs."""
    inputs = _places(source, schema.inputs)
    outputs = _places(source, schema.outputs)
    op = OperatorDef(type=schema.type)
    letters: dict[str, tuple[int, ...]] = {}
    fed: Feeds = {}
    by_letter: dict[str, Feed] = {}
    for number, spec in enumerate(inputs):
        name = f"{spec.name}_{number}"
        feed = by_letter.setdefault(spec.name, _feed(source, spec, by_letter, letters))
        fed[name] = feed
        op.input.append(name)
    for number, spec in enumerate(outputs):
        places = schema.must_in_place.get(spec.name) or schema.in_place.get(spec.name, ())
        read = zip(op.input, inputs, strict=True)
        taken = [name for name, letter in read if any(_names(place, letter.name) for place in places)]
        forced = spec.name in schema.must_in_place or source.random() < 0.2
        op.output.append(taken[0] if taken and forced else f"out{number}")
    for argument in schema.args.values():
        if argument.required or source.random() < 0.3:
            made = drawn_argument(source, argument)
            if made is not None:
                op.arg.append(make_argument(argument.name, made))
    return [op], fed


def _names(place: Place, letter: str) -> bool:
    """Whether what an output may be written over can be a blob of this input letter."""
    return isinstance(place, Anything) or letter == (place.letter if isinstance(place, Each) else place)


def _places(source: Random, declared: tuple[BlobSpec, ...]) -> list[BlobSpec]:
    made: list[BlobSpec] = []
    for spec in declared:
        if spec.optional and source.random() < 0.5:
            break
        made.extend([spec] * (source.randint(1, 3) if spec.variadic else 1))
    return made


def _feed(source: Random, spec: BlobSpec, given: Mapping[str, Feed], letters: dict[str, tuple[int, ...]]) -> Feed:
    if spec.type_name is not None:
        return Feed("text", ())
    parameter = source.random() < 0.3
    if isinstance(spec.dtypes, str):
        dtype = given[spec.dtypes].dtype if spec.dtypes in given else "float32"
    elif spec.dtypes is None:
        dtype = source.choice(LABELS)
    else:
        labels = sorted({spec.dtypes.label} if isinstance(spec.dtypes, DataType) else {d.label for d in spec.dtypes})
        dtype = "float32" if "float32" in labels and source.random() < 0.8 else source.choice(labels)
    if spec.like is not None and spec.like in given:
        return Feed(dtype, given[spec.like].dims, parameter)
    if spec.dims is None:
        same = next(iter(given.values()), None)
        if same is not None and source.random() < 0.6:
            return Feed(dtype, same.dims, parameter)
        return Feed(dtype, tuple(source.choice((1, 2, 3, 5)) for _ in range(source.randrange(5))), parameter)
    dims: list[int] = []
    for token in spec.dims.split():
        if token.isdigit():
            dims.append(int(token))
            continue
        width = source.randrange(4) if token.startswith("*") else 1
        dims.extend(letters.setdefault(token, tuple(source.choice((1, 2, 3, 4, 5)) for _ in range(width))))
    return Feed(dtype, tuple(dims), parameter)


SCALARS: dict[Any, Callable[[Random], Any]] = {
    int: lambda source: source.choice(extremes.SMALL) if source.random() < 0.8 else extremes.integer(source),
    bool: lambda source: source.random() < 0.5,
    float: lambda source: source.uniform(0, 2) if source.random() < 0.7 else extremes.real(source),
    str: extremes.text,
    bytes: lambda source: extremes.text(source).encode(),
}


def drawn_argument(source: Random, spec: ArgSpec) -> Any:
    """Return a value that an argument may well take, or None for a type that is not drawn."""
    if spec.choices is not None and source.random() < 0.9:
        value = source.choice(spec.choices)
        return [value] if str(spec.type).startswith("list") else value
    if spec.default is not REQUIRED and spec.default is not None and source.random() < 0.2 and spec.default != []:
        return spec.default
    for scalar, one in SCALARS.items():
        if spec.type is scalar:
            return one(source)
        if str(spec.type).endswith(f"[{scalar.__name__}]"):
            return [one(source) for _ in range(source.randint(1, 4))]
    return extremes.integer(source) if "int" in str(spec.type) else None
